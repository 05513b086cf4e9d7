/* hub_pull.h - a model from a hub into the model cache: what `radish pull` does.
 *
 * Caller keeps: the strings in the options. Threads: one at a time; several processes may pull at
 * once, the same model too. */
#ifndef HUB_PULL_H
#define HUB_PULL_H

#include "format/model_cache.h"
#include "hub_select.h"

/* What is going on, told whenever it changes or bytes come. */
struct hub_progress {
    const char *path;            /* of the file under way; NULL before the first */
    size_t file_idx, n_files;    /* of those that had to be fetched */
    uint64_t bytes, bytes_total; /* of these files, what an earlier run left included */
    uint64_t bytes_fetched;      /* by this run */
    double bytes_per_second;     /* lately; 0 = not known yet */
};

struct hub_options {
    struct model_name name;
    const char *endpoint; /* without '/' at its end */
    const char *token;    /* NULL = none */
    const char *ca_path;  /* NULL = the system's */
    const char *cache;    /* the model cache's folder */
    struct hub_patterns includes, excludes;
    uint32_t n_retries, stall_seconds;
    bool (*is_cancelled)(void *user);
    void (*on_progress)(void *user, const struct hub_progress *progress);
    void (*on_note)(void *user, const char *text);
    void *user;
};

struct hub_result {
    char *path;    /* the model's folder */
    char *choices; /* after E_INVALID or E_NOT_FOUND: the GGUF models there are, or NULL */
    char commit[HUB_DIGEST_MAX];
    size_t n_files;         /* wanted */
    uint64_t bytes;         /* of these */
    uint64_t bytes_fetched; /* over the network */
};

/* E_ABORTED when cancelled: the next call goes on from there. hub_result_deinit() is due in every
 * case. */
enum radish_status hub_pull(const struct hub_options *options, struct hub_result *result_out,
                            struct radish_error *err) RADISH_CHECK_RESULT;
void hub_result_deinit(struct hub_result *result);

/* Whether text is a repository's name as hubs have it: NAME or ORG/NAME of letters, digits, '-',
 * '_' and '.', each at most 96 long, none beginning or ending in '-' or '.'. */
bool hub_repo_is_valid(const char *repo);

#endif
