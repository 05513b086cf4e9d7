/* cpu_matmul.c - cuts matrix products into parts: output rows (panels) times token rows, never
 * along the inputs; and lets products that read the same rows share the work before and behind
 * them.
 *
 * First the activations are prepared (cpu_activations.h), row by row, once for the whole call. Then
 * the parts: a block of token rows that fits a private cache, times some panels. Inside a part the
 * variant keeps one panel in the first-level cache while the token rows pass by. Neither cut
 * changes a bit, so both follow the number of threads and the sizes freely. Small calls are
 * prepared and computed by the caller alone: waking others costs more than it brings.
 *
 * Parts become smaller towards the end, each an equal share of what is left, a few shares for every
 * thread: whoever is slower, or has lost its CPU for a while, takes fewer, and all end within the
 * time of the smallest part. (Equal parts cost the half of one on average; with 64 panels, tiles of
 * three and two threads, parts of 9 made one of them do 36.) One thread has one part.
 *
 * A worker that begins a part would wait for its first panels. So the last panels of a part are
 * given to the kernel by themselves, and with them the address of the part that nobody has begun
 * at that moment: the kernel asks for it while the tokens pass by.
 *
 * A group (Q, K, V; gate, up) is two parallel sections where its parts one after another are up to
 * seven:
 *
 *   1. row by row: norm, then what the weights need of the row, while it is in the nearest cache.
 *      Weights may need different things (Q4_K beside Q6_K); each is prepared once.
 *   2. the panels of all products, part by part. With an activation a part computes the same panels
 *      of gate and up, a few at a time, and multiplies them before they leave the second-level
 *      cache: the pass over two arrays as wide as the feed-forward part is gone.
 *
 * The same row kernels run as in the separate operations, on a row or a range of columns, so the
 * bits are the same. The other way, weights of a group laid out as one matrix at load, saves no
 * more here, and would tie weights of a model to each other. */
#include "base/invariant.h"
#include "cpu_activations.h"
#include "device_cpu.h"

enum {
    /* Activations of a part take so much of the second-level cache: weights pass by, so they are
     * read from further away once a part. */
    PART_EIGHTHS = 3,
    PART_BYTES_MIN = 96 * 1024,
    PART_BYTES_MAX = 1024 * 1024,
    PART_BYTES_USUAL = 192 * 1024, /* where the cache is not known */
    PARTS_PER_THREAD = 4,          /* shares of what is left */
    PREPARE_ROWS_MAX = 8,          /* rows an item of the preparation */
    PREPARE_PARTS_PER_THREAD = 2,
    TILE_ROWS_STEP = 24,             /* a multiple of the token rows of the widest register tiles */
    AMX_ROWS = 32,                   /* tokens of a block of tiles, for bf16; of two for int8 */
    PANELS_STEP = 4,                 /* panels of the widest register tiles */
    I8_PANELS_STEP = 3,              /* of those for int8 activations */
    GATED_BYTES = 64 * 1024,         /* gate and up of a part at a time, both */
    SERIAL_PREPARE_ELEMS = 8 * 1024, /* some microseconds: norm and quantising */
    SERIAL_MULTIPLY_OPS = 64 * 1024
};

struct product_run {
    struct matmul_part part; /* template of its parts */
    matmul_fn fn;
};

struct matmul_run {
    const float *x; /* [n_rows, x_stride] */
    uint32_t n_rows, n_in, x_stride;
    struct product_run products[MATMUL_GROUP_MAX];
    uint32_t n_products;
    struct act_rows needs[MATMUL_GROUP_MAX]; /* distinct */
    uint32_t n_needs;
    uint32_t rows_per_item; /* of the preparation */
    bool has_scratch;       /* whether any needs any */
    bool is_tiled;          /* whether any is in tiles of rows */
    uint32_t rows_per_part, n_row_parts, n_items;
    uint32_t widest;             /* panels of the widest register tile */
    const struct pool *pool;     /* that runs the parts; NULL: the caller does */
    const uint32_t *part_starts; /* panels, of the products one behind the other; and their end */

    /* Before and behind the products of a group. */
    int32_t norm; /* enum matmul_norm */
    kernel_fn norm_fn;
    struct rmsnorm_args rms;
    struct layernorm_args layer;
    bool is_gated; /* products of a part run side by side, then their activation */
    uint32_t gated_panels;
    kernel_fn act_fn;
    bool is_silu_mul;
    const struct matmul_group_args *group;
};

size_t cpu_matmul_scratch_bytes(uint32_t rows_max, uint32_t width_max) {
    return activations_bytes_max(rows_max, width_max);
}

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static uint32_t divide_up(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

static void add_product(struct matmul_run *run, const struct matmul_product *p, bool accumulate) {
    RADISH_INVARIANT(p->w->matmul, "%u x %u: made without is_multiplied", p->w->n_out, p->w->n_in);
    RADISH_ASSERT(p->w->n_in == run->n_in);
    run->products[run->n_products++] = (struct product_run){.fn = (matmul_fn)p->w->matmul->fn,
                                                            .part = {.w = p->w,
                                                                     .y = p->y,
                                                                     .bias = p->bias,
                                                                     .y_stride = p->y_stride,
                                                                     .n_rows = run->n_rows,
                                                                     .n_panels = p->w->n_panels,
                                                                     .accumulate = accumulate}};
}

/* ---- rows, before the products ---- */

/* Gives every product its activations, those that need the same the same; false: they do not fit
 * into the scratch together. */
static bool place_rows(const struct cpu_device *d, struct matmul_run *run) {
    size_t used = 0;
    for (uint32_t i = 0; i < run->n_products; i++) {
        struct matmul_part *part = &run->products[i].part;
        uint32_t n = 0;
        while (n < run->n_needs && !activations_serve(run->needs[n].w, part->w)) n++;
        if (n == run->n_needs) {
            const size_t bytes = activations_bytes(part->w, run->n_rows);
            if (bytes > d->activation_bytes - used) return false;
            activations_place(part->w, run->n_rows, d->scratch + used, &run->needs[run->n_needs++]);
            if (run->needs[run->n_needs - 1].n_tiled) run->is_tiled = true;
            used += bytes;
        }
        part->a = activations_of(&run->needs[n], run->x, run->x_stride);
    }
    run->has_scratch = used > 0;
    return true;
}

static void prepare_rows(void *user, uint32_t item, uint32_t worker) {
    (void)worker;
    const struct matmul_run *run = user;
    const uint32_t first = item * run->rows_per_item;
    const uint32_t end = first + smaller(run->n_rows - first, run->rows_per_item);
    for (uint32_t row = first; row < end; row++) {
        if (run->norm == MATMUL_NORM_RMS) ((rmsnorm_fn)run->norm_fn)(&run->rms, row, row + 1);
        if (run->norm == MATMUL_NORM_LAYER) ((layernorm_fn)run->norm_fn)(&run->layer, row, row + 1);
        for (uint32_t n = 0; n < run->n_needs; n++)
            activations_prepare(&run->needs[n], row, run->x + (size_t)row * run->x_stride);
    }
}

static void prepare(struct cpu_device *d, struct matmul_run *run) {
    if (run->norm == MATMUL_NORM_NONE && !run->has_scratch) return;
    const uint32_t n_wanted = PREPARE_PARTS_PER_THREAD * pool_n_threads(d->base.pool);
    run->rows_per_item = smaller(divide_up(run->n_rows, n_wanted), PREPARE_ROWS_MAX);
    if (run->is_tiled) run->rows_per_item = ACT_TILE_ROWS;
    const uint32_t n_items = divide_up(run->n_rows, run->rows_per_item);
    if ((size_t)run->n_rows * run->n_in > SERIAL_PREPARE_ELEMS)
        pool_run(d->base.pool, n_items, prepare_rows, run);
    else
        for (uint32_t item = 0; item < n_items; item++) prepare_rows(run, item, 0);
}

/* ---- parts of products ---- */

/* The activation of the columns that the panels of a part have filled. */
static void activate(const struct matmul_run *run, const struct matmul_part *part) {
    const uint32_t first = part->panel_first * PANEL_ROWS, stride = part->y_stride;
    const uint32_t width = smaller(part->n_panels * PANEL_ROWS, part->w->n_out - first);
    float *y = run->products[0].part.y + first;
    const float *up = run->n_products > 1 ? run->products[1].part.y + first : NULL;
    const uint32_t end = part->row_first + part->n_rows;
    if (run->is_silu_mul) {
        const struct silu_mul_args args = {y, up, y, run->n_rows, width, stride, stride};
        ((silu_mul_fn)run->act_fn)(&args, part->row_first, end);
    } else {
        const struct activate_args args = {.x = y,
                                           .up = up,
                                           .out = y,
                                           .n_rows = run->n_rows,
                                           .width = width,
                                           .in_stride = stride,
                                           .out_stride = stride,
                                           .kind = run->group->activation};
        ((activate_fn)run->act_fn)(&args, part->row_first, end);
    }
}

/* Where item `item` begins: its product, and its panel in that. */
static const struct product_run *find_item(const struct matmul_run *run, uint32_t item,
                                           uint32_t *panel_out) {
    const struct product_run *product = run->products;
    uint32_t panel = run->part_starts[item / run->n_row_parts];
    while (panel >= product->part.n_panels) panel -= product++->part.n_panels;
    *panel_out = panel;
    return product;
}

static void expect(struct matmul_part *part, const struct weight *w, uint32_t panel,
                   uint32_t n_panels) {
    part->next = w->data + panel * w->panel_bytes;
    part->next_bytes = n_panels * w->panel_bytes;
}

/* After item `item`: the one that nobody has begun yet. Its panels may be those of this one. */
static void expect_next_item(const struct matmul_run *run, uint32_t item,
                             struct matmul_part *part) {
    const uint32_t next = run->pool ? pool_next_item(run->pool) : run->n_items;
    if (next >= run->n_items || next / run->n_row_parts == item / run->n_row_parts) return;
    uint32_t panel;
    const struct product_run *product = find_item(run, next, &panel);
    if (run->is_gated) product = &run->products[run->n_products - 1];
    expect(part, product->part.w, panel, run->widest);
}

static void multiply_gated(const struct matmul_run *run, struct matmul_part range, uint32_t item) {
    const uint32_t end = range.panel_first + range.n_panels, last = run->n_products - 1;
    for (uint32_t panel = range.panel_first; panel < end; panel += run->gated_panels) {
        struct matmul_part part = range;
        for (uint32_t i = run->n_products; i-- > 0;) {
            part = run->products[i].part;
            part.row_first = range.row_first;
            part.n_rows = range.n_rows;
            part.panel_first = panel;
            part.n_panels = smaller(end - panel, run->gated_panels);
            if (i > 0)
                expect(&part, run->products[i - 1].part.w, panel, part.n_panels);
            else if (end - panel > part.n_panels)
                expect(&part, run->products[last].part.w, panel + part.n_panels, run->widest);
            else
                expect_next_item(run, item, &part);
            run->products[i].fn(&part);
        }
        activate(run, &part);
    }
}

static void multiply_part(void *user, uint32_t item, uint32_t worker) {
    (void)worker;
    const struct matmul_run *run = user;
    const uint32_t *start = run->part_starts + item / run->n_row_parts;
    uint32_t panel;
    const struct product_run *product = find_item(run, item, &panel);
    struct matmul_part part = product->part;
    part.row_first = item % run->n_row_parts * run->rows_per_part;
    part.panel_first = panel;
    part.n_rows = smaller(part.n_rows - part.row_first, run->rows_per_part);
    part.n_panels = start[1] - start[0];
    if (run->is_gated) {
        multiply_gated(run, part, item);
        return;
    }
    if (part.n_panels > run->widest) {
        struct matmul_part head = part;
        head.n_panels -= run->widest;
        part.panel_first += head.n_panels;
        part.n_panels = run->widest;
        expect(&head, part.w, part.panel_first, part.n_panels);
        product->fn(&head);
    }
    expect_next_item(run, item, &part);
    product->fn(&part);
}

static uint32_t find_part_bytes(const struct cpu_device *d) {
    const uint64_t bytes = d->base.l2_bytes / 8 * PART_EIGHTHS;
    if (!bytes) return PART_BYTES_USUAL;
    if (bytes < PART_BYTES_MIN) return PART_BYTES_MIN;
    return bytes > PART_BYTES_MAX ? PART_BYTES_MAX : (uint32_t)bytes;
}

/* Cuts the panels of the first n_cut products, in whole steps; returns how many parts there are. */
static uint32_t cut_panels(struct cpu_device *d, const struct matmul_run *run, uint32_t n_cut,
                           uint32_t n_panels) {
    const uint32_t n_threads = pool_n_threads(d->base.pool);
    const uint32_t n_wanted =
        n_threads == 1 ? 1 : divide_up(PARTS_PER_THREAD * n_threads, run->n_row_parts);
    const uint32_t most = divide_up(n_panels, n_wanted);
    const uint32_t step = most >= run->widest ? run->widest : most >= 2 ? 2 : 1;
    uint32_t n_parts = 0, start = 0, end = 0;
    for (uint32_t i = 0; i < n_cut; i++) {
        end += run->products[i].part.n_panels;
        while (start < end) {
            /* The table has room for the rest of this product in equal parts, and for the others.
             */
            const uint32_t n_left = CPU_PARTS_MAX - n_parts - (n_cut - 1 - i);
            const uint32_t share = divide_up(n_panels - start, n_wanted);
            const uint32_t least = divide_up(end - start, n_left);
            const uint32_t n = divide_up(share > least ? share : least, step) * step;
            RADISH_ASSERT(n_parts < CPU_PARTS_MAX);
            d->part_starts[n_parts++] = start;
            start += smaller(n, end - start);
        }
    }
    d->part_starts[n_parts] = end;
    return n_parts;
}

/* Sizes of parts. */
static void cut(struct cpu_device *d, struct matmul_run *run) {
    uint32_t elem_bytes = 2, tile_rows = TILE_ROWS_STEP, n_panels = 0;
    const uint32_t n_cut = run->is_gated ? 1 : run->n_products;
    for (uint32_t i = 0; i < run->n_products; i++) {
        const struct activations *a = &run->products[i].part.a;
        if (!a->blocks && !a->halves) elem_bytes = sizeof(float);
        if (a->halves || a->tiles) tile_rows = AMX_ROWS;
        run->widest = a->blocks ? I8_PANELS_STEP : PANELS_STEP;
        if (i < n_cut) n_panels += run->products[i].part.n_panels;
    }
    const uint32_t rows = find_part_bytes(d) / (run->n_in * elem_bytes) / tile_rows * tile_rows;
    run->rows_per_part = rows ? rows : tile_rows;
    run->n_row_parts = divide_up(run->n_rows, run->rows_per_part);
    run->part_starts = d->part_starts;
    const uint32_t width_bytes = run->n_products * PANEL_ROWS * (uint32_t)sizeof(float);
    const uint32_t n_gated = GATED_BYTES / width_bytes / smaller(run->n_rows, run->rows_per_part);
    run->gated_panels = n_gated < run->widest ? run->widest : n_gated / run->widest * run->widest;
    run->n_items = cut_panels(d, run, n_cut, n_panels) * run->n_row_parts;
}

static void multiply(struct cpu_device *d, struct matmul_run *run) {
    uint64_t ops = 0;
    cut(d, run);
    for (uint32_t i = 0; i < run->n_products; i++)
        ops += (uint64_t)run->n_rows * run->products[i].part.w->n_out * run->n_in;
    run->pool = ops >= SERIAL_MULTIPLY_OPS ? d->base.pool : NULL;
    if (run->pool)
        pool_run(d->base.pool, run->n_items, multiply_part, run);
    else
        for (uint32_t item = 0; item < run->n_items; item++) multiply_part(run, item, 0);
}

/* ---- the operations ---- */

void cpu_matmul(struct cpu_device *d, const struct matmul_args *a) {
    struct matmul_run run = {
        .x = a->x, .n_rows = a->n_rows, .n_in = a->w->n_in, .x_stride = a->x_stride};
    const struct matmul_product product = {a->w, a->bias, a->y, a->y_stride};
    add_product(&run, &product, a->accumulate);
    RADISH_INVARIANT(place_rows(d, &run), "%u rows of %u do not fit into %zu bytes", a->n_rows,
                     run.n_in, d->activation_bytes);
    prepare(d, &run);
    multiply(d, &run);
}

static void add_norm(struct cpu_device *d, struct matmul_run *run,
                     const struct matmul_group_args *a) {
    const struct kernel_shape shape = {.n_in = a->n_in};
    run->norm = a->norm;
    if (a->norm == MATMUL_NORM_RMS) {
        run->norm_fn = cpu_choose(d, KERNEL_OP_RMSNORM, &shape)->fn;
        run->rms = (struct rmsnorm_args){.x = a->norm_x,
                                         .w = a->norm_w,
                                         .y = a->x,
                                         .n_rows = a->n_rows,
                                         .width = a->n_in,
                                         .x_stride = a->norm_x_stride,
                                         .y_stride = a->x_stride,
                                         .eps = a->norm_eps};
    } else if (a->norm == MATMUL_NORM_LAYER) {
        run->norm_fn = cpu_choose(d, KERNEL_OP_LAYERNORM, &shape)->fn;
        run->layer = (struct layernorm_args){.x = a->norm_x,
                                             .w = a->norm_w,
                                             .bias = a->norm_bias,
                                             .y = a->x,
                                             .n_rows = a->n_rows,
                                             .width = a->n_in,
                                             .x_stride = a->norm_x_stride,
                                             .y_stride = a->x_stride,
                                             .eps = a->norm_eps};
    }
}

static void add_activation(struct cpu_device *d, struct matmul_run *run,
                           const struct matmul_group_args *a) {
    if (!a->is_activated) return;
    const struct kernel_shape shape = {.n_in = a->n_out};
    run->is_gated = true;
    run->is_silu_mul = a->n_products > 1 && a->activation == ACTIVATION_SILU;
    run->act_fn =
        cpu_choose(d, run->is_silu_mul ? KERNEL_OP_SILU_MUL : KERNEL_OP_ACTIVATE, &shape)->fn;
}

void any_f32_matmul_group__ref_fused(struct cpu_device *d, const struct matmul_group_args *a) {
    struct matmul_run run = {
        .x = a->x, .n_rows = a->n_rows, .n_in = a->n_in, .x_stride = a->x_stride, .group = a};
    for (uint32_t i = 0; i < a->n_products; i++)
        add_product(&run, &a->products[i], /*accumulate=*/false);
    /* Weights of several formats beside rows as wide as the widest of the model: rare, and the
     * parts fit. */
    if (!place_rows(d, &run)) {
        device_matmul_parts(&d->base.device, a);
        return;
    }
    add_norm(d, &run, a);
    add_activation(d, &run, a);
    prepare(d, &run);
    multiply(d, &run);
}

void any_f32_matmul_group__ref_unfused(struct cpu_device *d, const struct matmul_group_args *a) {
    device_matmul_parts(&d->base.device, a);
}
