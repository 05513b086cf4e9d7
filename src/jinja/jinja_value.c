/* jinja_value.c - making values: texts, lists, dicts, undefined, and all of them from JSON.
 *
 * Texts and lists point into what is there already (the JSON document, the template, another list)
 * wherever they can; a slice is a new header on old memory. Growing a text piece by piece, which
 * templates love to do in loops, would still be quadratic, so the newest concatenation keeps free
 * room behind itself: adding to exactly that text writes into the room and moves nothing. Older
 * values that share its beginning keep their own length and never see the new bytes.
 *
 * Dicts keep the order of insertion in an array; past a few entries an open-addressing index of
 * positions is put beside it. Equal numbers are equal keys (1, 1.0 and true), as in Python. */
#include "jinja_value.h"

#include "base/rng.h"
#include "jinja_number.h"
#include "jinja_run.h"

#include <math.h>
#include <string.h>

enum { INDEX_FROM_ENTRIES = 9, TAIL_BYTES_MIN = 256 };

struct jinja_value jinja_str_static(const char *s) {
    return jinja_str(s, strlen(s));
}

/* ---- undefined */

struct jinja_value jinja_undefined_name(const char *name, size_t len) {
    return (struct jinja_value){
        .kind = JINJA_UNDEFINED, .flag = JINJA_WHY_NAME, .len = (uint32_t)len, .as.s = name};
}

struct jinja_value jinja_undefined_param(const struct jinja_value *name) {
    struct jinja_value v = jinja_undefined_name(name->as.s, name->len);
    v.flag = JINJA_WHY_PARAM;
    return v;
}

struct jinja_value jinja_undefined_hint(const char *hint) {
    return (struct jinja_value){.kind = JINJA_UNDEFINED,
                                .flag = JINJA_WHY_HINT,
                                .len = (uint32_t)strlen(hint),
                                .as.s = hint};
}

struct jinja_value jinja_undefined_attribute(const struct jinja_value *obj,
                                             const struct jinja_value *name) {
    struct jinja_value v = {.kind = JINJA_UNDEFINED, .flag = JINJA_WHY_ELEMENT, .of = obj->kind};
    v.as.s = "";
    if (name->kind == JINJA_STR) {
        v.flag = JINJA_WHY_ATTRIBUTE;
        v.len = name->len;
        v.as.s = name->as.s;
    } else if (name->kind == JINJA_INT) {
        /* The element's number travels in place of a name. */
        v.len = 1;
        v.as.i = name->as.i;
    }
    return v;
}

bool jinja_fail_undefined(struct jinja_run *run, const struct jinja_value *undefined) {
    int len = undefined->len > 120 ? 120 : (int)undefined->len;
    bool is_none = undefined->of == JINJA_NONE;
    const char *name = undefined->as.s;
    const char *type = is_none ? "None" : jinja_type_name(undefined->of);
    const char *object = is_none ? "" : " object";
    switch (undefined->flag) {
    case JINJA_WHY_NAME: return jinja_fail(run, "'%.*s' is undefined", len, name);
    case JINJA_WHY_PARAM: return jinja_fail(run, "parameter '%.*s' was not provided", len, name);
    case JINJA_WHY_ATTRIBUTE:
        return jinja_fail(run, "'%s%s' has no attribute '%.*s'", type, object, len, name);
    case JINJA_WHY_ELEMENT:
        if (!undefined->len) return jinja_fail(run, "%s%s has no such element", type, object);
        return jinja_fail(run, "%s%s has no element %lld", type, object,
                          (long long)undefined->as.i);
    case JINJA_WHY_UNSAFE:
        return jinja_fail(run, "access to attribute '%.*s' of '%s' object is unsafe.", len, name,
                          type);
    default: return jinja_fail(run, "%.*s", len, name);
    }
}

/* ---- texts */

static bool has_length(struct jinja_run *run, size_t len) {
    return len < UINT32_MAX || jinja_fail_limit(run, "memory");
}

bool jinja_str_copy(struct jinja_run *run, const char *s, size_t len, struct jinja_value *out) {
    char *copy = has_length(run, len) ? jinja_alloc(run, len + !len, 1) : NULL;
    if (!copy || !jinja_charge_bytes(run, len)) return false;
    if (len) memcpy(copy, s, len);
    *out = jinja_str(copy, len);
    return true;
}

bool jinja_str_take(struct jinja_run *run, struct buf *b, struct jinja_value *out) {
    bool is_ok = b->failed ? jinja_fail_limit(run, "memory")
                           : jinja_str_copy(run, b->data ? b->data : "", b->len, out);
    buf_deinit(b);
    return is_ok;
}

bool jinja_concat(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                  struct jinja_value *out) {
    size_t a_len = a->len, b_len = b->len, len = a_len + b_len;
    if (!b_len || !a_len) {
        *out = a_len ? *a : *b;
        return true;
    }
    if (!has_length(run, len) || !jinja_charge_bytes(run, b_len)) return false;
    if (a->as.s + a_len == run->tail_end && b_len <= run->tail_room_bytes) {
        memcpy(run->tail_end, b->as.s, b_len);
        run->tail_end += b_len;
        run->tail_room_bytes -= b_len;
        *out = jinja_str(a->as.s, len);
        return true;
    }
    size_t room = len < TAIL_BYTES_MIN ? len : len * 2;
    char *s = jinja_charge_bytes(run, a_len) ? jinja_alloc(run, room, 1) : NULL;
    if (!s) return false;
    memcpy(s, a->as.s, a_len);
    memcpy(s + a_len, b->as.s, b_len);
    run->tail_end = s + len;
    run->tail_room_bytes = room - len;
    *out = jinja_str(s, len);
    return true;
}

/* ---- lists */

bool jinja_list_make(struct jinja_run *run, enum jinja_kind kind, const struct jinja_value *items,
                     size_t n, struct jinja_value *out) {
    struct jinja_list *list = jinja_alloc(run, 1, sizeof(*list));
    if (!list) return false;
    *list = (struct jinja_list){items, n};
    *out = (struct jinja_value){.kind = (uint8_t)kind, .as.list = list};
    return true;
}

bool jinja_pair(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                struct jinja_value *out) {
    struct jinja_value *items = jinja_alloc(run, 2, sizeof(*items));
    if (!items) return false;
    items[0] = *a;
    items[1] = *b;
    return jinja_list_make(run, JINJA_TUPLE, items, 2, out);
}

bool jinja_iter_make(struct jinja_run *run, const struct jinja_list *list, const char *type,
                     struct jinja_value *out) {
    struct jinja_list_iter *iter = jinja_alloc(run, 1, sizeof(*iter));
    if (!iter) return false;
    *iter = (struct jinja_list_iter){*list, 0, type};
    *out = (struct jinja_value){.kind = JINJA_ITER, .as.iter = iter};
    return true;
}

bool jinja_vec_push(struct jinja_run *run, struct jinja_vec *vec, const struct jinja_value *v) {
    if (vec->n == vec->capacity) {
        size_t capacity = vec->capacity ? vec->capacity * 2 : 8;
        struct jinja_value *items = jinja_alloc(run, capacity, sizeof(*items));
        if (!items) return false;
        if (vec->n) memcpy(items, vec->items, vec->n * sizeof(*items));
        vec->items = items;
        vec->capacity = capacity;
    }
    vec->items[vec->n++] = *v;
    return jinja_charge(run, 1);
}

/* ---- dicts */

static uint64_t hash_bytes(const char *s, size_t len) {
    uint64_t h = 0x9E3779B97F4A7C15u ^ len, word;
    for (; len >= 8; s += 8, len -= 8) {
        memcpy(&word, s, 8);
        h = rng_mix(h ^ word) + 0x9E3779B97F4A7C15u;
    }
    word = 0;
    if (len) memcpy(&word, s, len);
    return rng_mix(h ^ word);
}

/* Numbers that are equal hash equally: through the integer where there is one. */
static uint64_t hash_number(const struct jinja_value *v) {
    if (v->kind == JINJA_FLOAT && !(fabs(v->as.f) < 0x1p100 && v->as.f == trunc(v->as.f))) {
        uint64_t bits;
        memcpy(&bits, &v->as.f, sizeof(bits));
        return rng_mix(bits);
    }
    jinja_wide wide = v->kind == JINJA_FLOAT ? (jinja_wide)v->as.f : jinja_wide_of(v);
    return rng_mix((uint64_t)wide ^ rng_mix((uint64_t)(wide >> 64) + 1));
}

static bool hash_value(struct jinja_run *run, const struct jinja_value *v, uint64_t *hash_out) {
    switch (v->kind) {
    case JINJA_STR: *hash_out = hash_bytes(v->as.s, v->len); return true;
    case JINJA_BOOL:
    case JINJA_INT:
    case JINJA_BIG:
    case JINJA_FLOAT: *hash_out = hash_number(v); return true;
    case JINJA_LIST:
    case JINJA_DICT: return jinja_fail(run, "unhashable type: '%s'", jinja_type_name(v->kind));
    case JINJA_TUPLE: break;
    default: *hash_out = rng_mix(v->kind + 1u); return true;
    }
    uint64_t hash = 1, item;
    if (!jinja_enter(run)) return false;
    bool is_ok = jinja_charge(run, v->as.list->n);
    for (size_t i = 0; is_ok && i < v->as.list->n; i++) {
        is_ok = hash_value(run, &v->as.list->items[i], &item);
        if (is_ok) hash = rng_mix(hash ^ item) + 1;
    }
    jinja_leave(run);
    *hash_out = hash;
    return is_ok;
}

struct jinja_dict *jinja_dict_make(struct jinja_run *run, size_t capacity) {
    struct jinja_dict *dict = jinja_alloc(run, 1, sizeof(*dict));
    struct jinja_entry *entries = NULL;
    if (capacity > UINT32_MAX / 4)
        jinja_fail_limit(run, "memory");
    else if (dict && capacity)
        entries = jinja_alloc(run, capacity, sizeof(*entries));
    if (!dict || (capacity && !entries)) return NULL;
    *dict = (struct jinja_dict){.entries = entries, .capacity = (uint32_t)capacity};
    return dict;
}

static void put_in_index(struct jinja_dict *dict, uint64_t hash, uint32_t entry_idx) {
    uint32_t at = (uint32_t)hash & dict->index_mask;
    while (dict->index[at]) at = (at + 1) & dict->index_mask;
    dict->index[at] = entry_idx + 1;
}

/* An index of at least twice the entries' capacity. */
static bool build_index(struct jinja_run *run, struct jinja_dict *dict) {
    uint32_t size = 32;
    while (size < dict->capacity * 2) size *= 2;
    dict->index = jinja_alloc(run, size, sizeof(*dict->index));
    if (!dict->index) return false;
    memset(dict->index, 0, size * sizeof(*dict->index));
    dict->index_mask = size - 1;
    for (uint32_t i = 0; i < dict->n; i++) {
        uint64_t hash;
        if (!hash_value(run, &dict->entries[i].key, &hash)) return false;
        put_in_index(dict, hash, i);
    }
    return true;
}

static bool grow_dict(struct jinja_run *run, struct jinja_dict *dict) {
    uint32_t capacity = dict->capacity ? dict->capacity * 2 : 4;
    struct jinja_entry *entries = jinja_alloc(run, capacity, sizeof(*entries));
    if (!entries) return false;
    if (dict->n) memcpy(entries, dict->entries, dict->n * sizeof(*entries));
    dict->entries = entries;
    dict->capacity = capacity;
    return !dict->index || build_index(run, dict);
}

/* *found_out: the entry's number, or UINT32_MAX. */
static bool find_entry(struct jinja_run *run, const struct jinja_dict *dict,
                       const struct jinja_value *key, uint64_t hash, uint32_t *found_out) {
    *found_out = UINT32_MAX;
    uint32_t at = (uint32_t)hash & dict->index_mask;
    for (uint32_t i = 0; dict->index ? dict->index[at] != 0 : i < dict->n; i++) {
        uint32_t entry_idx = dict->index ? dict->index[at] - 1 : i;
        const struct jinja_value *other = &dict->entries[entry_idx].key;
        bool is_equal = false;
        if (key->kind == JINJA_STR && other->kind == JINJA_STR)
            is_equal = jinja_is_str(other, key->as.s, key->len);
        else if (!jinja_equal(run, key, other, &is_equal))
            return false;
        if (is_equal) {
            *found_out = entry_idx;
            return true;
        }
        at = (at + 1) & dict->index_mask;
    }
    return true;
}

bool jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict,
                     const struct jinja_value *key, const struct jinja_value **found_out) {
    uint64_t hash = 0;
    uint32_t entry_idx;
    *found_out = NULL;
    /* The hash is also what finds keys that cannot be hashed. */
    if ((dict->index || key->kind != JINJA_STR) && !hash_value(run, key, &hash)) return false;
    if (!find_entry(run, dict, key, hash, &entry_idx)) return false;
    if (entry_idx != UINT32_MAX) *found_out = &dict->entries[entry_idx].value;
    return true;
}

const struct jinja_value *jinja_dict_find_str(const struct jinja_dict *dict, const char *key,
                                              size_t len) {
    if (!dict->index) {
        for (uint32_t i = 0; i < dict->n; i++)
            if (jinja_is_str(&dict->entries[i].key, key, len)) return &dict->entries[i].value;
        return NULL;
    }
    uint32_t at = (uint32_t)hash_bytes(key, len) & dict->index_mask;
    for (; dict->index[at]; at = (at + 1) & dict->index_mask) {
        const struct jinja_entry *entry = &dict->entries[dict->index[at] - 1];
        if (jinja_is_str(&entry->key, key, len)) return &entry->value;
    }
    return NULL;
}

bool jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, const struct jinja_value *key,
                    const struct jinja_value *value) {
    uint64_t hash;
    uint32_t entry_idx;
    if (!jinja_charge(run, 1) || !hash_value(run, key, &hash) ||
        !find_entry(run, dict, key, hash, &entry_idx))
        return false;
    if (entry_idx != UINT32_MAX) {
        dict->entries[entry_idx].value = *value;
        return true;
    }
    if (dict->n == dict->capacity && !grow_dict(run, dict)) return false;
    dict->entries[dict->n] = (struct jinja_entry){*key, *value};
    if (dict->index) put_in_index(dict, hash, dict->n);
    dict->n++;
    return dict->index || dict->n < INDEX_FROM_ENTRIES || build_index(run, dict);
}

/* ---- from JSON */

static bool list_from_json(struct jinja_run *run, yyjson_val *json, struct jinja_value *out) {
    size_t n = yyjson_arr_size(json), idx, max;
    struct jinja_value *items = n ? jinja_alloc(run, n, sizeof(*items)) : NULL;
    yyjson_val *child;
    if (n && !items) return false;
    yyjson_arr_foreach(json, idx, max, child) {
        if (!jinja_from_json(run, child, &items[idx])) return false;
    }
    return jinja_list_make(run, JINJA_LIST, items, n, out);
}

static bool dict_from_json(struct jinja_run *run, yyjson_val *json, struct jinja_value *out) {
    struct jinja_dict *dict = jinja_dict_make(run, yyjson_obj_size(json));
    size_t idx, max;
    yyjson_val *key, *child;
    if (!dict) return false;
    yyjson_obj_foreach(json, idx, max, key, child) {
        struct jinja_value k = jinja_str(yyjson_get_str(key), yyjson_get_len(key)), v;
        if (!jinja_from_json(run, child, &v) || !jinja_dict_set(run, dict, &k, &v)) return false;
    }
    *out = (struct jinja_value){.kind = JINJA_DICT, .as.dict = dict};
    return true;
}

bool jinja_from_json(struct jinja_run *run, yyjson_val *json, struct jinja_value *out) {
    switch (yyjson_get_type(json)) {
    case YYJSON_TYPE_BOOL: *out = jinja_bool(yyjson_get_bool(json)); return true;
    case YYJSON_TYPE_STR:
        if (!has_length(run, yyjson_get_len(json))) return false;
        *out = jinja_str(yyjson_get_str(json), yyjson_get_len(json));
        return true;
    case YYJSON_TYPE_NUM:
        if (yyjson_is_real(json))
            *out = jinja_float(yyjson_get_real(json));
        else if (yyjson_is_uint(json))
            return jinja_from_wide(run, yyjson_get_uint(json), out);
        else
            *out = jinja_int(yyjson_get_sint(json));
        return true;
    case YYJSON_TYPE_ARR:
    case YYJSON_TYPE_OBJ: break;
    default: *out = jinja_none(); return true;
    }
    if (!jinja_enter(run)) return false;
    bool is_ok =
        yyjson_is_arr(json) ? list_from_json(run, json, out) : dict_from_json(run, json, out);
    jinja_leave(run);
    return is_ok;
}
