/* sched_order.c - who is next in the queue.
 *
 * The problem: serving first whoever has most of the prompt in the tree saves work (the prefix is
 * used before it is evicted, and nearly free requests do not stand behind dear ones), but a stream
 * of warm requests could then keep a cold one waiting for ever. The idea: one number per sequence,
 * smallest first, in which being cold counts as having come later, by a bounded time:
 *
 *   lpm:   key = arrived_ns + AGEING * uncached tokens * measured ns per prefill token
 *
 * So with a key of its own of at most arrived + AGEING * n_prompt * ns, a request is only overtaken
 * by those that arrive within this window, AGEING times its own cold prefill time (field: 2,000
 * tokens at 1 ms: 8 s), and by no later one, ever. Its wait is at most the time to drain what was
 * ahead of it when it came, plus the time to serve those of the window.
 *
 *   fcfs         key = arrived_ns
 *   lof          key = most max_new_tokens first
 *   random       key = a random number, drawn once
 *   hrrn         key = cost / (wait + cost), cost = uncached tokens * ns per prefill token: the
 *                wait counts relative to the cost, so this one ages by itself
 *   dfs-weight   key = place in a walk of the tree that takes the child with the most waiting
 *                sequences below it first, so that neighbours in the tree run together
 *
 * In lof, random and dfs-weight somebody could be last for ever, and in hrrn whoever costs 10,000
 * times as much waits 10,000 times as long. So their keys only count within a
 * window of arrivals, WINDOW_NS long, and earlier windows go first: nobody is overtaken by those
 * who come in a later one. Why not by waiting time: of a thousand requests that came at once, all
 * wait, and would lose the order that they were to be served in.
 *
 * In front of all of them come, by arrival, those that go on where they were (retracted ones and
 * choices with a sibling's first token), and with priorities the higher priority comes first of
 * all. Equal keys: first pushed first.
 *
 * Looking a prefix up costs its length. A fill looks up at most SCHED_PEEKS_MAX sequences and
 * PEEK_TOKENS tokens, round after round over the queue; older answers are hints, wrong ones cost
 * order, not correctness. dfs-weight orders the first SCHED_PEEKS_MAX of the queue, the rest waits
 * as it came. Without a tree lpm and dfs-weight are fcfs.
 *
 * The queue is a list: static keys are sorted when something new disturbs them, the others in every
 * fill that could admit somebody. Merge sort, in place: O(n log n), O(n) when nothing moved. */
#include "sched/sched_int.h"

#include "base/rng.h"

#include <math.h>

#define AGEING      4.0
#define PEEK_TOKENS (64u << 10)
#define WINDOW_NS   8000000000u /* AGEING times the prefill of 2,000 tokens at 1 ms */

static enum sched_policy policy_of(const struct sched *s) {
    enum sched_policy policy = s->options.policy;
    bool needs_tree = policy == SCHED_POLICY_LPM || policy == SCHED_POLICY_DFS_WEIGHT;
    return needs_tree && s->options.kv.is_tree_off ? SCHED_POLICY_FCFS : policy;
}

static bool precedes(const struct sched *s, const struct sched_seq *a, const struct sched_seq *b) {
    if (a->is_background != b->is_background) return b->is_background;
    if (s->options.has_priorities && a->priority != b->priority) return a->priority > b->priority;
    if (a->is_front != b->is_front) return a->is_front;
    if (!a->is_front && a->order_window != b->order_window)
        return a->order_window < b->order_window;
    uint64_t key_a = a->is_front ? a->arrived_ns : a->order_key;
    uint64_t key_b = a->is_front ? b->arrived_ns : b->order_key;
    return key_a != key_b ? key_a < key_b : a->push_idx < b->push_idx;
}

/* Before anything is known of its prefix; seq is the queue's tail. */
void order_init(struct sched *s, struct sched_seq *seq) {
    seq->n_peeked = 0;
    seq->peek_round = 0;
    enum sched_policy policy = policy_of(s);
    bool is_bounded = policy == SCHED_POLICY_FCFS || policy == SCHED_POLICY_LPM;
    seq->order_window = is_bounded ? 0 : seq->arrived_ns / WINDOW_NS;
    switch (policy) {
    case SCHED_POLICY_LOF: seq->order_key = UINT32_MAX - seq->max_new_tokens; break;
    case SCHED_POLICY_RANDOM: seq->order_key = rng_u64(s->options.seed, seq->push_idx); break;
    default: seq->order_key = seq->arrived_ns; break;
    }
    if (seq->prev && precedes(s, seq, seq->prev)) s->is_queue_sorted = false;
}

static void peek_some(struct sched *s) {
    uint32_t n_seqs = 0, n_tokens = 0;
    for (struct sched_seq *seq = s->queue.head; seq; seq = seq->next) {
        if (seq->peek_round == s->peek_round || seq->is_front || seq->is_cache_off) continue;
        if (n_seqs >= SCHED_PEEKS_MAX || n_tokens >= PEEK_TOKENS) return;
        struct radix_tokens tokens = seq_tokens(seq);
        enum radix_miss miss;
        seq->n_peeked = kv_cache_peek(s->kv, seq->namespace_id, &tokens, seq_share_max(seq), &miss);
        seq->peek_round = s->peek_round;
        n_seqs++;
        n_tokens += seq->n_peeked;
    }
    s->peek_round++;
}

static double cost_ns(const struct sched *s, const struct sched_seq *seq) {
    return (double)(seq_n_known(seq) - seq->n_peeked) * pace_token_ns(&s->pace);
}

static uint64_t hrrn_key(const struct sched *s, const struct sched_seq *seq) {
    double wait = s->now_ns > seq->arrived_ns ? (double)(s->now_ns - seq->arrived_ns) : 0;
    double cost = cost_ns(s, seq) + 1;
    return (uint64_t)ldexp(cost / (wait + cost), 52);
}

/* ---- dfs-weight
 * -----------------------------------------------------------------------------------------------
 */

/* The way to a sequence's place in the tree: its namespace, then the tokens of what is cached. */
static uint32_t n_levels(const struct sched_seq *seq) {
    return seq->n_peeked + 1;
}

static int64_t level_at(const struct sched_seq *seq, uint32_t level) {
    return level ? seq->prompt[level - 1] : (int64_t)seq->namespace_id;
}

static uint32_t common_levels(const struct sched_seq *a, const struct sched_seq *b, uint32_t from) {
    uint32_t n = n_levels(a) < n_levels(b) ? n_levels(a) : n_levels(b), i = from;
    while (i < n && level_at(a, i) == level_at(b, i)) i++;
    return i;
}

/* By way; whoever ends on the way comes after those who go on. */
static bool is_left_of(const struct sched_seq *a, const struct sched_seq *b) {
    uint32_t i = common_levels(a, b, 0);
    if (i == n_levels(a) || i == n_levels(b)) return n_levels(a) > n_levels(b);
    return level_at(a, i) < level_at(b, i);
}

static void merge(struct sched_seq **from, uint32_t lo, uint32_t mid, uint32_t hi,
                  struct sched_seq **to) {
    for (uint32_t i = lo, a = lo, b = mid; i < hi; i++)
        to[i] = a < mid && (b >= hi || !is_left_of(from[b], from[a])) ? from[a++] : from[b++];
}

static struct sched_seq **sort_by_way(struct sched *s, uint32_t n) {
    struct sched_seq **from = s->ordered, **to = s->scratch;
    for (uint32_t width = 1; width < n; width *= 2) {
        for (uint32_t lo = 0; lo < n; lo += 2 * width) {
            uint32_t mid = lo + width < n ? lo + width : n;
            merge(from, lo, mid, mid + width < n ? mid + width : n, to);
        }
        struct sched_seq **swap = from;
        from = to;
        to = swap;
    }
    return from;
}

/* Where the group that starts at seqs[lo], equal in this level, ends. */
static uint32_t group_end(struct sched_seq *const *seqs, uint32_t lo, uint32_t hi, uint32_t level) {
    uint32_t end = lo + 1;
    while (end < hi && n_levels(seqs[end]) > level &&
           level_at(seqs[end], level) == level_at(seqs[lo], level))
        end++;
    return end;
}

/* Numbers seqs[lo..hi), which share all levels before `level`: the largest group first, and last
 * whoever ends here. Recursion is at most as deep as the range is long. */
static uint64_t number_range(struct sched_seq **seqs, uint32_t lo, uint32_t hi, uint32_t level,
                             uint64_t key) {
    if (hi - lo > 1) level = common_levels(seqs[lo], seqs[hi - 1], level);
    uint32_t n_on = lo; /* [lo, n_on) go on */
    while (n_on < hi && n_levels(seqs[n_on]) > level) n_on++;
    if (hi - lo == 1) n_on = lo;
    for (uint32_t weight = n_on - lo; weight; weight--)
        for (uint32_t i = lo, end; i < n_on; i = end) {
            end = group_end(seqs, i, n_on, level);
            if (end - i == weight) key = number_range(seqs, i, end, level + 1, key);
        }
    for (uint32_t i = n_on; i < hi; i++) seqs[i]->order_key = key++;
    return key;
}

static void number_by_tree(struct sched *s) {
    uint32_t n = 0;
    for (struct sched_seq *seq = s->queue.head; seq; seq = seq->next) {
        if (seq->is_front) continue;
        if (n < SCHED_PEEKS_MAX)
            s->ordered[n++] = seq;
        else
            seq->order_key = UINT64_MAX / 2 + seq->arrived_ns;
    }
    if (n) number_range(sort_by_way(s, n), 0, n, 0, 0);
}

/* ---- the queue
 * -----------------------------------------------------------------------------------------------
 */

static bool is_sorted(const struct sched *s) {
    for (const struct sched_seq *seq = s->queue.head; seq && seq->next; seq = seq->next)
        if (precedes(s, seq->next, seq)) return false;
    return true;
}

/* Takes at most n from *rest. */
static struct sched_seq *cut(struct sched_seq **rest, uint32_t n) {
    struct sched_seq *head = *rest, *last = head;
    while (last && --n) last = last->next;
    *rest = last ? last->next : NULL;
    if (last) last->next = NULL;
    return head;
}

static void sort(struct sched *s) {
    struct seq_list *queue = &s->queue;
    uint32_t n = queue->n;
    for (uint32_t width = 1; width < n; width *= 2) {
        struct sched_seq *rest = queue->head;
        *queue = (struct seq_list){0};
        while (rest) {
            struct sched_seq *a = cut(&rest, width), *b = cut(&rest, width);
            while (a || b) {
                struct sched_seq **from = !a || (b && precedes(s, b, a)) ? &b : &a, *seq = *from;
                *from = seq->next;
                seq_append(queue, seq);
            }
        }
    }
}

void order_queue(struct sched *s) {
    bool is_full = s->running.n >= s->options.kv.n_rows;
    if (!s->queue.n || (is_full && !s->options.has_priorities)) return;
    enum sched_policy policy = policy_of(s);
    bool is_static =
        policy == SCHED_POLICY_FCFS || policy == SCHED_POLICY_LOF || policy == SCHED_POLICY_RANDOM;
    if (is_static && s->is_queue_sorted) return;
    if (!is_static && !s->options.kv.is_tree_off) peek_some(s);
    if (policy == SCHED_POLICY_DFS_WEIGHT) number_by_tree(s);
    for (struct sched_seq *seq = s->queue.head; seq; seq = seq->next) {
        if (policy == SCHED_POLICY_LPM)
            seq->order_key = seq->arrived_ns + (uint64_t)(AGEING * cost_ns(s, seq));
        if (policy == SCHED_POLICY_HRRN) seq->order_key = hrrn_key(s, seq);
    }
    if (!is_sorted(s)) sort(s);
    s->is_queue_sorted = true;
}
