/* hub_store.h - the model's folder in the cache while it is being filled: the lock, the stage where
 * files wait until all are whole, and the record of what was fetched.
 *
 *   CACHE/.pull/ORG--NAME.lock        held by whoever pulls this model
 *   CACHE/.pull/ORG--NAME/KEY.part    a file in transfer; KEY is made of its path and its digest
 *   CACHE/.pull/ORG--NAME/KEY         a whole, checked file that waits for the others
 *   CACHE/ORG/NAME/...                the model, as MODEL names it
 *   CACHE/ORG/NAME/.radish.json       where it came from: repository, revision, commit, digests
 *
 * Threads: one at a time; processes: one, by the lock. */
#ifndef HUB_STORE_H
#define HUB_STORE_H

#include "format/model_cache.h"
#include "hub_listing.h"

struct hub_store {
    char *folder; /* the model's */
    char *stage;
    int lock_fd;
    struct hub_listing record; /* what .radish.json says is in the folder; commit "" = nothing */
    uint64_t *record_mtimes;   /* [record.n] nanoseconds */
};

/* Makes the folders, takes the lock (on_wait is called once when another process has it; waits
 * until it is free, or cancelled: E_ABORTED) and reads the record. deinit is due in every case. */
enum radish_status hub_store_open(const char *cache, const struct model_name *name,
                                  bool (*is_cancelled)(void *user), void (*on_wait)(void *user),
                                  void *user, struct hub_store *store_out,
                                  struct radish_error *err) RADISH_CHECK_RESULT;
void hub_store_deinit(struct hub_store *store);

/* Paths of a file: in the model's folder; waiting in the stage; in transfer. NULL when out of
 * memory; caller frees with free(). */
char *hub_store_final_path(const struct hub_store *store, const struct hub_file *file);
char *hub_store_whole_path(const struct hub_store *store, const struct hub_file *file);
char *hub_store_part_path(const struct hub_store *store, const struct hub_file *file);

/* Whether the model's folder has this very content: by the record where size and time of change
 * still agree with it, else by reading the file. */
bool hub_store_has(const struct hub_store *store, const struct hub_file *file,
                   bool (*is_cancelled)(void *user), void *user);

/* Bytes that the stage has of a file, whole or in part. */
uint64_t hub_store_staged_bytes(const struct hub_store *store, const struct hub_file *file);

/* Bytes that may still be written where the store lies; UINT64_MAX when the system does not say. */
uint64_t hub_store_free_bytes(const struct hub_store *store);

/* All wanted files are in the folder or whole in the stage: moves them, removes files of the old
 * record that the repository no longer has, writes the record, and clears the stage. */
enum radish_status hub_store_publish(struct hub_store *store, const struct model_name *name,
                                     const struct hub_listing *listing, const bool *wanted,
                                     struct radish_error *err) RADISH_CHECK_RESULT;

#endif
