/* server_fake_engine.c - include/radish.h with scripted answers.
 *
 * The server knows the engine only through radish.h, so its tests need no weights: they link this
 * instead, and gain what a real engine cannot give, a hand on time. A request can be held in the
 * queue for ever, fail at a chosen token, or produce faster than any socket takes. One thread makes
 * one token per choice and step, as the real engine does, and calls back without its lock. */
#include "server_fake_engine.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/status.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fake_control fake;

static pthread_mutex_t namespace_lock = PTHREAD_MUTEX_INITIALIZER;
static char namespace_key[RADISH_NAMESPACE_MAX];
static size_t namespace_len;

enum { REQUESTS_MAX = 4096, IDLE_US = 200 };

struct radish_model {
    struct radish_model_info info, untalkative, broken;
};

struct fake_choice {
    uint32_t n_tokens;
    struct buf text; /* not told yet */
    bool is_done;
};

struct fake_request {
    uint64_t id;
    struct radish_request request; /* its pointers are not used after submit, but prompt is ours */
    int32_t *prompt;
    char stop[RADISH_STOP_BYTES_MAX + 1];
    int32_t named[RADISH_LOGPROB_IDS_MAX];
    uint64_t slots;
    bool is_aborted;
    bool is_told_prompt;
    uint32_t n_running;
    struct fake_choice choices[RADISH_CHOICES_MAX];
};

struct radish_engine {
    pthread_mutex_t lock;
    pthread_t thread;
    bool is_closing;
    uint64_t next_id;
    uint64_t slots_used;
    uint32_t n_requests;
    struct fake_request *requests[REQUESTS_MAX];
};

void fake_reset(void) {
    fake.step_us = fake.submits_left = fake.error_after = fake.n_aborts = fake.output_bytes = 0;
    fake.is_decoding_held = fake.is_cache_off = fake.is_stopped = fake.has_priorities = false;
    fake.priority = 0;
    fake.has_no_template = fake.has_broken_template = false;
    fake.is_held = fake.is_queue_full = fake.fails_at_once = fake.has_bad_logprobs = false;
}

size_t fake_namespace(char out[RADISH_NAMESPACE_MAX]) {
    pthread_mutex_lock(&namespace_lock);
    size_t len = namespace_len;
    memcpy(out, namespace_key, len);
    pthread_mutex_unlock(&namespace_lock);
    return len;
}

static void keep_namespace(const struct radish_request *request) {
    pthread_mutex_lock(&namespace_lock);
    namespace_len = request->namespace_len;
    if (namespace_len) memcpy(namespace_key, request->namespace_key, namespace_len);
    pthread_mutex_unlock(&namespace_lock);
    fake.priority = request->priority;
}

/* ---- model */

enum radish_status radish_model_open(const char *path, const struct radish_model_options *options,
                                     struct radish_model **model_out, struct radish_error *err) {
    (void)options;
    *model_out = mem_zalloc(1, sizeof **model_out);
    if (!*model_out) return error_nomem(err);
    (*model_out)->info = (struct radish_model_info){.path = path,
                                                    .name = "fake",
                                                    .format = "fake",
                                                    .architecture = "fake",
                                                    .context_trained = FAKE_CONTEXT,
                                                    .n_vocab = 258,
                                                    .n_tokens = 258,
                                                    .token_bytes_max = 4,
                                                    .has_chat_template = true,
                                                    .chat_template_error = ""};
    (*model_out)->untalkative = (*model_out)->info;
    (*model_out)->untalkative.has_chat_template = false;
    (*model_out)->broken = (*model_out)->untalkative;
    (*model_out)->broken.chat_template_error = "template: line 3: it does not compile";
    return RADISH_OK;
}

void radish_model_close(struct radish_model *model) {
    free(model);
}

/* Control characters are written as the letter 64 further, as some vocabularies do. */
const char *radish_token_name(const struct radish_model *model, int32_t id, size_t *len_out) {
    bool is_control = id >= 0 && id < 32;
    return radish_token_bytes(model, is_control ? id + 64 : id, len_out);
}

const struct radish_model_info *radish_model_info(const struct radish_model *model) {
    if (fake.has_no_template) return &model->untalkative;
    return fake.has_broken_template ? &model->broken : &model->info;
}

void radish_sampling_init(struct radish_sampling *sampling) {
    *sampling = (struct radish_sampling){
        .temperature = 1, .top_k = -1, .top_p = 1, .repetition_penalty = 1};
}

void radish_model_sampling(const struct radish_model *model, struct radish_sampling *sampling) {
    (void)model;
    radish_sampling_init(sampling);
}

enum radish_status radish_tokenize(const struct radish_model *model, const char *text, size_t len,
                                   unsigned flags, int32_t **ids_out, size_t *n_out,
                                   struct radish_error *err) {
    (void)model;
    size_t n = 0;
    *ids_out = mem_alloc(len + 1, sizeof **ids_out);
    if (!*ids_out) return error_nomem(err);
    if (flags & RADISH_TOKENIZE_SPECIAL) (*ids_out)[n++] = FAKE_BOS;
    for (size_t i = 0; i < len; i++) (*ids_out)[n++] = (unsigned char)text[i];
    *n_out = n;
    return RADISH_OK;
}

#define BYTES_4(n)  (char)(n), (char)((n) + 1), (char)((n) + 2), (char)((n) + 3)
#define BYTES_16(n) BYTES_4(n), BYTES_4((n) + 4), BYTES_4((n) + 8), BYTES_4((n) + 12)
#define BYTES_64(n) BYTES_16(n), BYTES_16((n) + 16), BYTES_16((n) + 32), BYTES_16((n) + 48)

const char *radish_token_bytes(const struct radish_model *model, int32_t id, size_t *len_out) {
    static const char bytes[256] = {BYTES_64(0), BYTES_64(64), BYTES_64(128), BYTES_64(192)};
    (void)model;
    *len_out = 0;
    if (id < 0 || id > FAKE_EOS) return NULL;
    *len_out = id == FAKE_BOS ? 3 : id == FAKE_EOS ? 4 : 1;
    return id == FAKE_BOS ? "<s>" : id == FAKE_EOS ? "</s>" : &bytes[id];
}

enum radish_status radish_detokenize(const struct radish_model *model, const int32_t *ids, size_t n,
                                     unsigned flags, char **text_out, size_t *len_out,
                                     struct radish_error *err) {
    struct buf text;
    buf_init(&text, 0);
    while (fake.is_decoding_held) usleep(IDLE_US);
    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        const char *bytes = radish_token_bytes(model, ids[i], &len);
        if (ids[i] < 256 || !(flags & RADISH_DETOKENIZE_SKIP)) buf_append(&text, bytes, len);
    }
    *text_out = buf_take(&text, len_out);
    return *text_out ? RADISH_OK : error_nomem(err);
}

/* A content that holds RAISE makes the template raise, one with TWICE is written twice. */
enum radish_status radish_render(const struct radish_model *model, const char *json,
                                 size_t json_len, bool adapt,
                                 const struct radish_render_options *options, char **text_out,
                                 size_t *len_out, struct radish_error *err) {
    (void)model;
    (void)adapt;
    (void)options;
    yyjson_doc *doc = NULL;
    yyjson_val *message, *part, *root;
    size_t idx, max, part_idx, part_max;
    struct buf text;
    RADISH_TRY(json_parse(json, json_len, JSON_DEPTH_MAX, &doc, err));
    root = yyjson_doc_get_root(doc);
    buf_init(&text, 0);
    yyjson_arr_foreach(json_get(root, "messages"), idx, max, message) {
        yyjson_val *content = json_get(message, "content");
        buf_printf(&text, "%s:", yyjson_get_str(json_get(message, "role")));
        yyjson_arr_foreach(content, part_idx, part_max, part)
            buf_append_str(&text, yyjson_get_str(json_get(part, "text")));
        if (yyjson_is_str(content)) buf_append_str(&text, yyjson_get_str(content));
        if (yyjson_is_str(content) && strstr(yyjson_get_str(content), "TWICE"))
            buf_append_str(&text, yyjson_get_str(content));
        buf_append_char(&text, '\n');
    }
    if (json_get(root, "tools")) buf_append_str(&text, "tools\n");
    if (yyjson_get_bool(json_get(root, "add_generation_prompt")))
        buf_append_str(&text, "assistant:");
    yyjson_doc_free(doc);
    *text_out = buf_take(&text, len_out);
    if (!*text_out) return error_nomem(err);
    if (!strstr(*text_out, "RAISE")) return RADISH_OK;
    free(*text_out);
    *text_out = NULL;
    return error_set(err, RADISH_E_TEMPLATE, "the template raised: RAISE was said");
}

/* ---- engine */

/* The id of output token k of a choice. */
static int32_t output_id(const struct fake_request *r, uint32_t choice_idx, uint32_t k) {
    size_t first = r->prompt[0] == FAKE_BOS && r->request.n_prompt > 1;
    size_t n = r->request.n_prompt - first;
    uint64_t seed = r->request.sampling.has_seed ? r->request.sampling.seed % n : 0;
    return r->prompt[first + (k + choice_idx + seed) % n];
}

enum { LISTED_MAX = RADISH_TOP_LOGPROBS_MAX + RADISH_LOGPROB_IDS_MAX };

static void fill_token(const struct fake_request *r, int32_t id, struct radish_token *token,
                       struct radish_logprob tops[LISTED_MAX]) {
    bool is_bad = fake.has_bad_logprobs;
    *token = (struct radish_token){.id = id};
    if (!r->request.logprobs) return;
    token->logprob = is_bad ? -INFINITY : -0.5f;
    token->has_logprob = true;
    token->n_top = r->request.n_top_logprobs;
    token->top = tops;
    for (uint32_t i = 0; i < token->n_top; i++)
        tops[i] = (struct radish_logprob){.id = (id + (int32_t)i) % 256,
                                          .logprob = is_bad ? NAN : -0.5f - (float)i};
    struct radish_logprob *named = tops + token->n_top;
    token->n_named = r->request.n_logprob_ids;
    token->named = named;
    for (uint32_t i = 0; i < token->n_named; i++)
        named[i] = (struct radish_logprob){.id = r->named[i],
                                           .logprob = is_bad ? -INFINITY : -(float)r->named[i]};
}

static struct radish_usage usage_of(const struct fake_request *r, uint32_t choice_idx) {
    return (struct radish_usage){.prompt_tokens = (uint32_t)r->request.n_prompt,
                                 .cached_tokens = (uint32_t)r->request.n_prompt / 2,
                                 .output_tokens = r->choices[choice_idx].n_tokens};
}

/* Tells an event; with the last finish of a request the request is unlinked first. */
static void tell(struct radish_engine *e, struct fake_request *r, struct radish_event *event) {
    struct fake_choice *choice = &r->choices[event->choice_idx];
    event->request = r->id;
    event->usage = usage_of(r, event->choice_idx);
    event->matched_token = event->matched_token ? event->matched_token : -1;
    if (event->finish) {
        choice->is_done = true;
        r->n_running--;
    }
    if (!r->n_running) {
        pthread_mutex_lock(&e->lock);
        for (uint32_t i = 0; i < e->n_requests; i++)
            if (e->requests[i] == r) e->requests[i] = e->requests[--e->n_requests];
        e->slots_used -= r->slots;
        pthread_mutex_unlock(&e->lock);
    }
    r->request.on_event(r->request.user, event);
}

static void free_request(struct fake_request *r) {
    for (uint32_t i = 0; i < RADISH_CHOICES_MAX; i++) buf_deinit(&r->choices[i].text);
    free(r->prompt);
    free(r);
}

/* The prompt's logprobs, before the first output. */
static void add_prompt(struct fake_request *r, struct radish_event *event,
                       struct radish_token *tokens) {
    static struct radish_logprob tops[FAKE_CONTEXT + 1][LISTED_MAX];
    uint32_t first = r->request.prompt_logprobs_from;
    if (r->is_told_prompt || !r->request.prompt_logprobs || first == r->request.n_prompt) return;
    for (size_t i = first; i < r->request.n_prompt; i++)
        fill_token(r, r->prompt[i], &tokens[i], tops[i]);
    tokens[first] = (struct radish_token){.id = r->prompt[first]};
    event->prompt_tokens = tokens + first;
    event->n_prompt_tokens = (uint32_t)r->request.n_prompt - first;
    r->is_told_prompt = true;
}

static enum radish_finish finish_of(const struct fake_request *r, const struct fake_choice *choice,
                                    int32_t id) {
    if (id == FAKE_EOS && !r->request.ignore_eos) return RADISH_FINISH_STOP;
    uint32_t max = r->request.has_max_new_tokens ? r->request.max_new_tokens
                                                 : FAKE_CONTEXT - (uint32_t)r->request.n_prompt;
    return choice->n_tokens >= max ? RADISH_FINISH_LENGTH : RADISH_FINISH_NONE;
}

/* One token of one choice. With a stop string all text is held back until the end, which a real
 * engine does only as far as it must. */
static void step_choice(struct radish_engine *e, struct fake_request *r, uint32_t choice_idx) {
    static struct radish_token prompt_tokens[FAKE_CONTEXT + 1];
    struct fake_choice *choice = &r->choices[choice_idx];
    struct radish_logprob tops[LISTED_MAX];
    struct radish_token token;
    struct radish_event event = {.choice_idx = choice_idx, .tokens = &token};
    bool is_empty = r->request.has_max_new_tokens && !r->request.max_new_tokens;
    add_prompt(r, &event, prompt_tokens);
    if (!is_empty) {
        int32_t id = output_id(r, choice_idx, choice->n_tokens++);
        fill_token(r, id, &token, tops);
        event.n_tokens = 1;
        uint32_t n_bytes = fake.output_bytes ? fake.output_bytes : 1;
        for (uint32_t i = 0; i < n_bytes && id < 256; i++)
            buf_append_char(&choice->text, (char)(id < 128 ? id : '?'));
        event.finish = finish_of(r, choice, id);
        event.matched_token = id == FAKE_EOS ? id : 0;
    } else {
        event.finish = RADISH_FINISH_LENGTH;
    }
    const char *text = choice->text.data ? choice->text.data : "";
    const char *stop = *r->stop ? strstr(text, r->stop) : NULL;
    if (stop) {
        choice->text.len = (size_t)(stop - text);
        event.finish = RADISH_FINISH_STOP;
        event.matched_stop = r->stop;
    }
    if (fake.error_after && choice->n_tokens >= fake.error_after) {
        event.finish = RADISH_FINISH_ERROR;
        event.status = RADISH_E_DEVICE;
    }
    bool is_shown = !*r->stop || event.finish;
    event.text = is_shown ? text : "";
    event.text_len = is_shown ? choice->text.len : 0;
    tell(e, r, &event);
    if (is_shown) buf_clear(&choice->text);
}

static void end_choices(struct radish_engine *e, struct fake_request *r, enum radish_finish finish,
                        enum radish_status status) {
    for (uint32_t i = 0; i < r->request.n; i++) {
        struct radish_event event = {.choice_idx = i, .finish = finish, .status = status};
        if (!r->choices[i].is_done) tell(e, r, &event);
    }
}

static void step_request(struct radish_engine *e, struct fake_request *r, bool is_aborted) {
    if (is_aborted) {
        fake.n_aborts++;
        end_choices(e, r, RADISH_FINISH_ABORT, RADISH_E_ABORTED);
    } else if (fake.fails_at_once) {
        end_choices(e, r, RADISH_FINISH_ERROR, RADISH_E_DEVICE);
    } else if (!fake.is_held) {
        for (uint32_t i = 0; i < r->request.n; i++)
            if (!r->choices[i].is_done) step_choice(e, r, i);
    }
}

static void *run(void *arg) {
    struct radish_engine *e = arg;
    static struct fake_request *batch[REQUESTS_MAX];
    static bool aborted[REQUESTS_MAX];
    for (;;) {
        pthread_mutex_lock(&e->lock);
        uint32_t n = e->n_requests;
        bool is_over = e->is_closing && !n;
        for (uint32_t i = 0; i < n; i++) {
            batch[i] = e->requests[i];
            aborted[i] = batch[i]->is_aborted || e->is_closing;
        }
        pthread_mutex_unlock(&e->lock);
        if (is_over) return NULL;
        for (uint32_t i = 0; i < n; i++) {
            step_request(e, batch[i], aborted[i]);
            if (!batch[i]->n_running) free_request(batch[i]);
        }
        uint32_t pause_us = fake.step_us;
        if (!pause_us && (!n || fake.is_held)) pause_us = IDLE_US;
        if (pause_us) usleep(pause_us);
    }
}

enum radish_status radish_engine_open(struct radish_model *model,
                                      const struct radish_engine_options *options,
                                      struct radish_engine **engine_out, struct radish_error *err) {
    (void)model;
    (void)options;
    struct radish_engine *e = *engine_out = mem_zalloc(1, sizeof *e);
    if (!e) return error_nomem(err);
    pthread_mutex_init(&e->lock, NULL);
    pthread_create(&e->thread, NULL, run, e);
    return RADISH_OK;
}

void radish_engine_close(struct radish_engine *e) {
    pthread_mutex_lock(&e->lock);
    e->is_closing = true;
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

enum radish_status radish_engine_submit(struct radish_engine *e,
                                        const struct radish_request *request, uint64_t *request_out,
                                        struct radish_error *err) {
    *request_out = 0;
    if (fake.is_queue_full) return RADISH_AGAIN;
    if (fake.submits_left == 1) return RADISH_AGAIN;
    if (fake.submits_left) fake.submits_left--;
    struct fake_request *r = mem_zalloc(1, sizeof *r);
    int32_t *prompt = mem_alloc(request->n_prompt, sizeof *prompt);
    if (!r || !prompt) {
        free(r);
        free(prompt);
        return error_nomem(err);
    }
    keep_namespace(request);
    r->request = *request;
    r->prompt = memcpy(prompt, request->prompt, request->n_prompt * sizeof *prompt);
    r->n_running = r->request.n = request->n ? request->n : 1;
    if (request->n_stop) strcpy(r->stop, request->stop[0]);
    for (uint32_t i = 0; i < request->n_logprob_ids; i++) r->named[i] = request->logprob_ids[i];
    r->slots = request->n_prompt;
    pthread_mutex_lock(&e->lock);
    bool is_full = e->n_requests == REQUESTS_MAX || e->is_closing;
    if (!is_full) {
        r->id = *request_out = ++e->next_id;
        e->requests[e->n_requests++] = r;
        e->slots_used += r->slots;
    }
    pthread_mutex_unlock(&e->lock);
    if (is_full) free_request(r);
    return is_full ? RADISH_AGAIN : RADISH_OK;
}

void radish_engine_abort(struct radish_engine *e, uint64_t request) {
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < e->n_requests; i++)
        if (e->requests[i]->id == request) e->requests[i]->is_aborted = true;
    pthread_mutex_unlock(&e->lock);
}

void radish_engine_info(struct radish_engine *e, struct radish_engine_info *info_out) {
    pthread_mutex_lock(&e->lock);
    *info_out = (struct radish_engine_info){.context_tokens = FAKE_CONTEXT,
                                            .requests_running_max = 256,
                                            .requests_queued_max = 1024,
                                            .kv_slots_total = FAKE_SLOTS,
                                            .kv_slots_free = FAKE_SLOTS - e->slots_used,
                                            .requests_running = fake.is_held ? 0 : e->n_requests,
                                            .requests_queued = fake.is_held ? e->n_requests : 0,
                                            .has_priorities = fake.has_priorities,
                                            .kernels = ""};
    pthread_mutex_unlock(&e->lock);
}

enum radish_status radish_engine_flush(struct radish_engine *e, double timeout_seconds,
                                       struct radish_error *err) {
    (void)timeout_seconds;
    pthread_mutex_lock(&e->lock);
    uint32_t n = e->n_requests;
    pthread_mutex_unlock(&e->lock);
    if (!n) return RADISH_OK;
    return error_set(err, RADISH_AGAIN,
                     "the cache is not flushed because there are pending requests: 0 queued, %u "
                     "running",
                     n);
}

/* "abc" with "d" behind it, and two nodes that the list does not hold. */
enum radish_status radish_engine_tree(struct radish_engine *e, struct radish_tree_node *nodes_out,
                                      uint32_t n_nodes_max, struct radish_tree *tree_out,
                                      struct radish_error *err) {
    (void)e;
    *tree_out = (struct radish_tree){.is_enabled = !fake.is_cache_off};
    if (fake.is_stopped) return error_set(err, RADISH_AGAIN, "the engine is stopping");
    if (fake.is_cache_off || n_nodes_max < 2) return RADISH_OK;
    tree_out->n_nodes_total = 4;
    tree_out->n_tokens_total = 9;
    tree_out->n_nodes = 2;
    nodes_out[0] = (struct radish_tree_node){.key = {1, 2},
                                             .parent = RADISH_TREE_TOP,
                                             .namespace_id = 3,
                                             .n_tokens = 3,
                                             .n_tokens_path = 3,
                                             .n_tokens_below = 6,
                                             .n_nodes_below = 3,
                                             .n_pins = 1,
                                             .n_hits = 4,
                                             .age = 5,
                                             .n_tokens_known = 3,
                                             .tokens = {'a', 'b', 'c'}};
    nodes_out[1] = (struct radish_tree_node){.key = {5, 6},
                                             .namespace_id = 3,
                                             .n_tokens = 4,
                                             .n_tokens_path = 7,
                                             .age = 7,
                                             .n_tokens_known = 1,
                                             .tokens = {'d'}};
    return RADISH_OK;
}

enum radish_status radish_engine_metrics(struct radish_engine *e, const char *model_name,
                                         char **text_out, size_t *len_out,
                                         struct radish_error *err) {
    struct buf text;
    (void)e;
    buf_init(&text, 0);
    buf_printf(&text, "fake_metric{model_name=\"%s\"} 1\n", model_name);
    *text_out = buf_take(&text, len_out);
    return *text_out ? RADISH_OK : error_nomem(err);
}

/* Fixed numbers: one prefix, "abc", and one miss, "d" behind it. */
enum radish_status radish_engine_radix_report(struct radish_engine *e,
                                              struct radish_radix_report *report_out,
                                              struct radish_error *err) {
    (void)e;
    *report_out = (struct radish_radix_report){.is_enabled = !fake.is_cache_off,
                                               .eviction_policy = "lru",
                                               .schedule_policy = "lpm",
                                               .page_tokens = 1,
                                               .tokens_total = FAKE_SLOTS,
                                               .tokens_free = FAKE_SLOTS - 8,
                                               .tokens_evictable = 5,
                                               .tokens_pinned = 2,
                                               .tokens_private = 1,
                                               .n_nodes = 3,
                                               .n_namespaces = 1,
                                               .n_prefixes = 1,
                                               .prefixes = {{3, 4, 1, 2, {'a', 'b', 'c'}}},
                                               .n_misses = 1};
    report_out->misses[0] = (struct radish_miss_record){.request = 9,
                                                        .age_seconds = 1.5,
                                                        .n_prompt = 6,
                                                        .n_cached = 3,
                                                        .miss = RADISH_MISS_EVICTED,
                                                        .n_tokens = 4,
                                                        .tokens = {'a', 'b', 'c', 'd'}};
    return fake.is_stopped ? error_set(err, RADISH_AGAIN, "the engine is stopping") : RADISH_OK;
}
