/* radix_check() is real: each thing that it promises is broken once, and it notices. What would
 * give one user's KV to another aborts at once, in release builds too. */
#include "test.h"

#include "cache/radix_int.h"
#include "cache_tree.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* A tree with everything in it:
 *   root 0 -- U [1 2] -- A [3 4] (pinned by ref)        other namespace: D [1 2] unpinned
 *                     -- B [5 6 7] unpinned
 *           -- C [9] unpinned, and a free node */
struct fixture {
    struct tree t;
    struct radix_ref ref;
    uint32_t a, b, c, d, u;
};

static uint32_t find_node(const struct radix *r, uint32_t namespace_id, int32_t first) {
    for (uint32_t id = 1; id <= r->n_nodes_touched; id++) {
        const struct radix_node *node = &r->nodes[id];
        if (node->kind == RADIX_KIND_EDGE && node->namespace_id == namespace_id &&
            r->tokens[node->first_page * r->page_slots] == first)
            return id;
    }
    return 0;
}

static void open_fixture(struct fixture *f, enum radix_policy policy) {
    tree_open(&f->t, 600, 1, policy);
    tree_add(&f->t, 0, TOKENS(77));
    radix_evict(f->t.radix, 1);
    f->ref = tree_put(&f->t, 0, 0, TOKENS(1, 2, 3, 4));
    tree_add(&f->t, 8, TOKENS(1, 2));
    tree_add(&f->t, 0, TOKENS(1, 2, 5, 6, 7));
    tree_add(&f->t, 0, TOKENS(9));
    tree_add(&f->t, 4, TOKENS(78, 79));
    struct radix_ref ref = tree_match(&f->t, 4, TOKENS(78));
    tree_leave(&f->t, &ref);
    radix_evict(f->t.radix, 0);
    const struct radix *r = f->t.radix;
    f->a = find_node(r, 0, 3);
    f->b = find_node(r, 0, 5);
    f->c = find_node(r, 0, 9);
    f->d = find_node(r, 8, 1);
    f->u = find_node(r, 0, 1);
    assert_true(f->a && f->b && f->c && f->d && f->u);
    assert_true(radix_check(r));
}

static void close_fixture(struct fixture *f) {
    tree_leave(&f->t, &f->ref);
    tree_close(&f->t);
}

/* Sees the place changed, and restored. */
#define BREAK(place, value)                                                                        \
    do {                                                                                           \
        __typeof__(place) kept_ = (place);                                                         \
        (place) = (__typeof__(place))(value);                                                      \
        assert_true((place) != kept_);                                                             \
        if (radix_check(r)) fail_msg("line %d: %s = %s is not seen", __LINE__, #place, #value);    \
        (place) = kept_;                                                                           \
        assert_true(radix_check(r));                                                               \
    } while (0)

static void test_check_sees_pages_that_are_not_in_one_node_once(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, RADIX_POLICY_LRU);
    struct radix *r = f.t.radix;
    struct radix_node *b = &r->nodes[f.b];
    uint32_t page = b->first_page;

    BREAK(r->next[page], 0);
    BREAK(r->next[page], r->nodes[f.a].first_page);
    BREAK(r->prev[page], 0);
    BREAK(r->prev[r->next[page]], RADIX_PAGE_HEAD);
    BREAK(r->prev[500], RADIX_PAGE_HEAD); /* in the tree, but in no node */
    BREAK(b->first_page, r->nodes[f.c].first_page);
    BREAK(b->first_page, 0);
    BREAK(b->first_page, 5000);
    BREAK(b->last_page, page);
    BREAK(b->n_pages, 2);
    BREAK(b->n_pages, 4);
    BREAK(r->next[b->last_page], r->nodes[f.c].first_page);
    uint32_t slots[1] = {page}; /* free in the pool */
    kv_pool_give(f.t.pool, slots, 1);
    assert_false(radix_check(r));
    assert_int_equal(kv_pool_take(f.t.pool, 1, page, slots), RADISH_OK);
    assert_int_equal(slots[0], page);
    close_fixture(&f);
}

static void test_check_sees_wrong_sums(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, RADIX_POLICY_LRU);
    struct radix *r = f.t.radix;

    BREAK(r->n_tokens_pinned, r->n_tokens_pinned + 1);
    BREAK(r->n_tokens_evictable, r->n_tokens_evictable - 1);
    BREAK(r->n_nodes, r->n_nodes + 1);
    BREAK(r->n_namespaces, r->n_namespaces + 1);
    BREAK(r->n_refs, r->n_refs + 1);
    BREAK(r->nodes[f.u].n_children, 3);
    BREAK(r->nodes[f.b].n_children, 1);
    BREAK(r->nodes[f.b].n_tokens_path, 4);
    BREAK(r->n_nodes_touched, r->n_nodes_max + 1);
    close_fixture(&f);
}

static void test_check_sees_wrong_pins(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, RADIX_POLICY_LRU);
    struct radix *r = f.t.radix;

    BREAK(r->nodes[f.a].n_pins, 2); /* more than its parent */
    BREAK(r->nodes[f.u].n_pins, 0);
    BREAK(r->nodes[f.u].n_pins, 2); /* more than the root has refs */
    BREAK(r->nodes[f.b].n_pins, 1);
    BREAK(r->nodes[r->nodes[f.u].parent].n_pins, 0);
    close_fixture(&f);
}

static void test_check_sees_a_node_in_the_wrong_place(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, RADIX_POLICY_LRU);
    struct radix *r = f.t.radix;

    BREAK(r->nodes[f.a].parent, f.c);
    BREAK(r->nodes[f.a].parent, 0);
    BREAK(r->nodes[f.a].parent, 100000);
    BREAK(r->nodes[f.a].namespace_id, 8);
    BREAK(r->nodes[r->nodes[f.d].parent].namespace_id, 9);
    BREAK(r->nodes[f.c].kind, RADIX_KIND_FREE);
    BREAK(r->nodes[f.b].n_hits, 5); /* more than its parent */
    BREAK(r->nodes[f.a].priority, 5);
    BREAK(r->nodes[f.u].created, 1000);
    BREAK(r->nodes[f.c].used, r->clock + 1);
    BREAK(r->nodes[f.c].n_gone, RADIX_GONE_MAX + 1);
    close_fixture(&f);
}

static void test_check_sees_a_child_that_is_not_found(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, RADIX_POLICY_LRU);
    struct radix *r = f.t.radix;
    uint32_t cell = 0;
    while (r->cells[cell].node != f.b) cell++;

    BREAK(r->cells[cell].node, 0);
    BREAK(r->cells[cell].node, f.a);
    BREAK(r->cells[cell].hash, r->cells[cell].hash + 1);
    BREAK(r->tokens[r->nodes[f.b].first_page], 3); /* as its sibling A begins */
    BREAK(r->tokens[r->nodes[f.b].first_page], 55);
    BREAK(r->node_free, f.c);
    close_fixture(&f);
}

static void test_check_sees_a_wrong_list(void **state) {
    (void)state;
    static const enum radix_policy policies[] = {RADIX_POLICY_LRU, RADIX_POLICY_SLRU,
                                                 RADIX_POLICY_MRU};
    for (int i = 0; i < 3; i++) {
        struct fixture f;
        open_fixture(&f, policies[i]);
        struct radix *r = f.t.radix;
        struct radix_list *list = &r->lists[0];
        uint32_t second = r->nodes[list->head].order_next;

        BREAK(list->head, second);
        BREAK(list->tail, list->head);
        BREAK(r->nodes[list->head].order_next, 0);
        BREAK(r->nodes[list->head].order_next, r->nodes[second].order_next);
        BREAK(r->nodes[second].order_prev, 0);
        BREAK(r->nodes[list->tail].order_next, list->head); /* a ring */
        BREAK(r->nodes[f.b].is_ordered, false);
        BREAK(r->nodes[f.b].list, 1);
        BREAK(r->nodes[f.a].is_ordered, true);
        BREAK(r->n_ordered, r->n_ordered + 1);
        BREAK(r->nodes[list->head].used, r->nodes[second].used + 1);
        close_fixture(&f);
    }
}

static void test_check_sees_a_parent_that_goes_before_its_child(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, RADIX_POLICY_LRU);
    struct radix *r = f.t.radix;
    uint32_t lower = find_node(r, 4, 79), upper = r->nodes[lower].parent;
    assert_int_equal(r->lists[0].tail, upper);
    uint32_t before = r->nodes[lower].order_prev, between = r->nodes[lower].order_next;
    assert_true(before && r->nodes[upper].used > r->nodes[lower].used);

    /* lower ... upper becomes ... upper lower, all links whole */
    r->nodes[before].order_next = between;
    r->nodes[between].order_prev = before;
    r->nodes[upper].order_next = lower;
    r->nodes[lower].order_prev = upper;
    r->nodes[lower].order_next = 0;
    r->lists[0].tail = lower;
    if (between == upper) r->nodes[upper].order_prev = before;
    uint64_t used = r->nodes[lower].used;
    r->nodes[lower].used = r->nodes[upper].used;
    assert_false(radix_check(r));

    r->nodes[lower].used = used;
    r->nodes[lower].order_prev = before;
    r->nodes[lower].order_next = between;
    r->nodes[before].order_next = lower;
    r->nodes[between].order_prev = lower;
    r->nodes[upper].order_next = 0;
    r->lists[0].tail = upper;
    assert_true(radix_check(r));
    close_fixture(&f);
}

static void test_check_sees_a_wrong_heap(void **state) {
    (void)state;
    static const enum radix_policy policies[] = {RADIX_POLICY_LFU, RADIX_POLICY_FIFO,
                                                 RADIX_POLICY_FILO, RADIX_POLICY_PRIORITY};
    for (int i = 0; i < 4; i++) {
        struct fixture f;
        open_fixture(&f, policies[i]);
        struct radix *r = f.t.radix;
        assert_true(r->n_ordered >= 3);

        BREAK(r->heap[0], r->heap[1]);
        BREAK(r->heap[1], 0);
        BREAK(r->heap[1], f.a);
        BREAK(r->nodes[r->heap[1]].order_prev, 0);
        BREAK(r->n_ordered, r->n_ordered - 1);
        BREAK(r->nodes[r->heap[2]].is_ordered, false);
        uint32_t first = r->heap[0];
        r->heap[0] = r->heap[1];
        r->heap[1] = first;
        r->nodes[r->heap[0]].order_prev = 0;
        r->nodes[first].order_prev = 1;
        assert_false(radix_check(r));
        r->heap[1] = r->heap[0];
        r->heap[0] = first;
        r->nodes[first].order_prev = 0;
        r->nodes[r->heap[1]].order_prev = 1;
        assert_true(radix_check(r));
        close_fixture(&f);
    }
}

/* A cell whose hash is that of another key must not lead to its node: tokens and parent are
 * compared. */
static void test_a_collision_of_hashes_finds_nothing(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, RADIX_POLICY_LRU);
    struct radix *r = f.t.radix;
    tree_add(&f.t, 0, TOKENS(9, 3, 1)); /* below C as A is below U: [3 ... */
    uint32_t below_c = 0, cell = 0;
    for (uint32_t id = 1; id <= r->n_nodes_touched; id++)
        if (r->nodes[id].kind == RADIX_KIND_EDGE && r->nodes[id].parent == f.c) below_c = id;
    struct radix_tokens tokens = {.head = (const int32_t[]){1, 2, 3, 4}, .n_head = 4};
    assert_int_equal(radix_table_find(r, f.u, &tokens, 2), f.a);
    while (r->cells[cell].node != f.a) cell++;

    r->cells[cell].node = below_c; /* the same tokens, another parent */
    assert_int_equal(radix_table_find(r, f.u, &tokens, 2), 0);
    assert_int_equal(tree_peek(&f.t, 0, TOKENS(1, 2, 3, 4)), 2);
    r->cells[cell].node = f.b; /* the same parent, other tokens */
    assert_int_equal(radix_table_find(r, f.u, &tokens, 2), 0);
    r->cells[cell].node = r->nodes[f.u].parent; /* a root */
    assert_int_equal(radix_table_find(r, f.u, &tokens, 2), 0);

    r->cells[cell].node = f.a;
    assert_true(radix_check(r));
    uint32_t root = r->nodes[f.d].parent;
    cell = 0;
    while (r->cells[cell].node != root) cell++;
    r->cells[cell].node = r->nodes[f.u].parent; /* another namespace's root */
    assert_int_equal(radix_table_find_root(r, 8), 0);
    r->cells[cell].node = f.a;
    assert_int_equal(radix_table_find_root(r, 8), 0);
    r->cells[cell].node = root;
    close_fixture(&f);
}

/* ---- what aborts ---- */

static void assert_aborts(void (*fn)(struct fixture *f)) {
    struct fixture f;
    open_fixture(&f, RADIX_POLICY_LRU);
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        fclose(stderr);
        signal(SIGABRT, SIG_DFL);
        fn(&f);
        _exit(0);
    }
    int result = 0;
    assert_int_equal(waitpid(pid, &result, 0), pid);
    assert_true(WIFSIGNALED(result) && WTERMSIG(result) == SIGABRT);
    close_fixture(&f);
}

static void append_slot(struct fixture *f, int32_t token, uint32_t slot) {
    int32_t tokens[5] = {1, 2, 3, 4, token};
    uint32_t slots[5] = {0, 0, 0, 0, slot};
    struct radix_tokens all = {.head = tokens, .n_head = 5};
    radix_append(f->t.radix, &all, 5, &f->ref, slots);
}

static void append_padding(struct fixture *f) {
    append_slot(f, 5, 0);
}

static void append_foreign(struct fixture *f) {
    append_slot(f, 5, 100000);
}

static void append_free(struct fixture *f) {
    append_slot(f, 5, 500);
}

static void append_slot_of_another_node(struct fixture *f) {
    append_slot(f, 5, f->t.radix->nodes[f->d].first_page);
}

static void give_back_the_trees_own_slot_as_duplicate(struct fixture *f) {
    struct radix_ref ref = tree_match(&f->t, 0, TOKENS(0));
    uint32_t slots[1] = {f->t.radix->nodes[f->c].first_page};
    struct radix_tokens all = {.head = (const int32_t[]){9}, .n_head = 1};
    radix_append(f->t.radix, &all, 1, &ref, slots);
}

static void append_torn_page(struct fixture *f) {
    (void)f;
    struct tree t;
    tree_open(&t, 600, 4, RADIX_POLICY_LRU);
    struct radix_ref ref = tree_match(&t, 0, TOKENS(0));
    uint32_t slots[8];
    if (kv_pool_take(t.pool, 8, 0, slots) != RADISH_OK) _exit(0);
    slots[2] = slots[6];
    struct radix_tokens all = {.head = (const int32_t[]){1, 2, 3, 4}, .n_head = 4};
    radix_append(t.radix, &all, 4, &ref, slots);
}

static void unpin_twice(struct fixture *f) {
    struct radix_ref copy = f->ref;
    radix_unpin(f->t.radix, &f->ref);
    radix_unpin(f->t.radix, &copy);
}

static void unpin_nothing(struct fixture *f) {
    struct radix_ref none = {.node = RADIX_REF_NONE};
    radix_unpin(f->t.radix, &none);
}

static void append_with_an_old_ref(struct fixture *f) {
    struct radix_ref old = f->ref;
    tree_grow(&f->t, &f->ref, TOKENS(1, 2, 3, 4, 5));
    struct radix_tokens all = {.head = (const int32_t[]){1, 2, 3, 4, 6}, .n_head = 5};
    uint32_t slots[5] = {0};
    if (kv_pool_take(f->t.pool, 1, 0, slots + 4) == RADISH_OK)
        radix_append(f->t.radix, &all, 5, &old, slots);
}

static void pin_more_than_agreed(struct fixture *f) {
    for (uint32_t i = 0; i < 16; i++) tree_match(&f->t, 0, TOKENS(1));
}

static void destroy_under_a_ref(struct fixture *f) {
    radix_destroy(f->t.radix);
}

static void test_what_would_mix_up_owners_aborts(void **state) {
    (void)state;
    assert_aborts(append_padding);
    assert_aborts(append_foreign);
    assert_aborts(append_free);
    assert_aborts(append_slot_of_another_node);
    assert_aborts(give_back_the_trees_own_slot_as_duplicate);
    assert_aborts(append_torn_page);
    assert_aborts(unpin_twice);
    assert_aborts(unpin_nothing);
    assert_aborts(append_with_an_old_ref);
    assert_aborts(pin_more_than_agreed);
    assert_aborts(destroy_under_a_ref);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_sees_pages_that_are_not_in_one_node_once),
        cmocka_unit_test(test_check_sees_wrong_sums),
        cmocka_unit_test(test_check_sees_wrong_pins),
        cmocka_unit_test(test_check_sees_a_node_in_the_wrong_place),
        cmocka_unit_test(test_check_sees_a_child_that_is_not_found),
        cmocka_unit_test(test_check_sees_a_wrong_list),
        cmocka_unit_test(test_check_sees_a_parent_that_goes_before_its_child),
        cmocka_unit_test(test_check_sees_a_wrong_heap),
        cmocka_unit_test(test_a_collision_of_hashes_finds_nothing),
        cmocka_unit_test(test_what_would_mix_up_owners_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
