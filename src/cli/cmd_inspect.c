/* cmd_inspect.c - radish inspect: what is in a model file, and any tensor as plain float32.
 *
 * It reads files, not models: an architecture or tokenizer that the engine does not know can still
 * be looked at, which is when one wants to look. Metadata comes first, then one line per tensor
 * (name, type, shape, bytes), then sums. Long arrays (a vocabulary) are shown by their length and
 * first elements; strings are cut, with control characters replaced, since a file can hold any
 * bytes and they go to a terminal. */
#include "base/file_map.h"
#include "base/utf8.h"
#include "command.h"
#include "format/model_cache.h"
#include "format/model_file.h"
#include "tensor/dtype.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 160, SHOWN_ELEMS = 6, PIECE_ELEMS = 65536 };

/* ---- metadata ---- */

static void show_text(struct buf *out, const char *text, uint64_t len) {
    size_t shown = len < SHOWN_BYTES ? (size_t)len : SHOWN_BYTES;
    buf_append_char(out, '"');
    for (size_t i = 0; i < shown;) {
        uint32_t c;
        size_t n = utf8_decode(text + i, shown - i, &c);
        if (c == '\n')
            buf_append_str(out, "\\n");
        else if (c < 32 || (c >= 127 && c < 160))
            buf_printf(out, "\\u%04x", c);
        else
            buf_append_utf8(out, c);
        i += n;
    }
    buf_append_char(out, '"');
    if (shown < len) buf_printf(out, " ... (%llu bytes)", (unsigned long long)len);
}

static void show_array(struct buf *out, const struct gguf_value *value) {
    uint64_t n = value->array.n;
    buf_append_char(out, '[');
    for (uint64_t i = 0; i < n && i < SHOWN_ELEMS; i++) {
        if (i) buf_append_str(out, ", ");
        if (value->array.elem_type == GGUF_STR)
            show_text(out, value->array.strs[i].data, value->array.strs[i].len);
        else if (value->array.elem_type == GGUF_BOOL)
            buf_append_str(out, gguf_array_i64(value, i) ? "true" : "false");
        else if (gguf_is_int(value->array.elem_type))
            buf_printf(out, "%lld", (long long)gguf_array_i64(value, i));
        else
            buf_printf(out, "%.9g", gguf_array_f64(value, i));
    }
    if (n > SHOWN_ELEMS)
        buf_printf(out, ", ...] (%llu elements)", (unsigned long long)n);
    else
        buf_append_char(out, ']');
}

static void show_gguf_value(struct buf *out, const struct gguf_value *value) {
    switch (value->type) {
    case GGUF_STR: show_text(out, value->s.data, value->s.len); break;
    case GGUF_ARRAY: show_array(out, value); break;
    case GGUF_BOOL: buf_append_str(out, value->u ? "true" : "false"); break;
    case GGUF_F32:
    case GGUF_F64: buf_printf(out, "%.9g", value->f); break;
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64: buf_printf(out, "%lld", (long long)value->i); break;
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64: buf_printf(out, "%llu", (unsigned long long)value->u); break;
    }
}

static void show_gguf(struct buf *out, const struct gguf *gguf) {
    buf_printf(out, "gguf version %u\n", gguf_version(gguf));
    for (size_t i = 0; i < gguf_n_values(gguf); i++) {
        const char *key = gguf_key(gguf, i);
        buf_append_str(out, "  ");
        show_text(out, key, strlen(key));
        buf_append_str(out, " = ");
        show_gguf_value(out, gguf_value(gguf, i));
        buf_append_char(out, '\n');
    }
}

static void show_json(struct buf *out, const char *file_name, yyjson_val *root) {
    size_t idx, max;
    yyjson_val *key, *val;
    if (!root) return;
    buf_printf(out, "%s\n", file_name);
    yyjson_obj_foreach(root, idx, max, key, val) {
        size_t len = 0;
        char *json = yyjson_val_write(val, 0, &len);
        buf_printf(out, "  \"%s\" = ", yyjson_get_str(key));
        if (json && len > SHOWN_BYTES)
            buf_printf(out, "%s with %zu members (%zu bytes)",
                       yyjson_is_arr(val)   ? "array"
                       : yyjson_is_obj(val) ? "object"
                                            : "text",
                       yyjson_get_len(val), len);
        else
            buf_append_str(out, json ? json : "?");
        buf_append_char(out, '\n');
        free(json);
    }
}

/* ---- tensors ---- */

static uint64_t count_elems(const struct model_tensor *tensor) {
    uint64_t n = 1;
    for (uint32_t d = 0; d < tensor->n_dims; d++) n *= tensor->shape[d];
    return n;
}

static void show_tensors(struct buf *out, const struct model_file *file) {
    uint64_t n_params = 0, n_bytes = 0;
    size_t n = model_file_n_tensors(file);
    buf_append_str(out, "tensors (name, type, shape, bytes)\n");
    for (size_t i = 0; i < n; i++) {
        const struct model_tensor *tensor = model_file_tensor(file, i);
        buf_append_str(out, "  ");
        buf_printf(out, "%-48s %-5s [", tensor->name, dtype_name(tensor->dtype));
        for (uint32_t d = 0; d < tensor->n_dims; d++)
            buf_printf(out, d ? ", %llu" : "%llu", (unsigned long long)tensor->shape[d]);
        buf_printf(out, "] %llu\n", (unsigned long long)tensor->n_bytes);
        n_params += count_elems(tensor);
        n_bytes += tensor->n_bytes;
    }
    buf_printf(out, "%zu tensors, %.1f million elements, %.1f MB\n", n, (double)n_params / 1e6,
               (double)n_bytes / 1e6);
}

static int show_file(const struct model_file *file) {
    struct buf out;
    buf_init(&out, 0);
    buf_printf(&out, "%s\n", model_file_path(file));
    if (model_file_gguf(file)) show_gguf(&out, model_file_gguf(file));
    show_json(&out, "config.json", model_file_config(file));
    show_json(&out, "generation_config.json", model_file_generation_config(file));
    show_json(&out, "tokenizer_config.json", model_file_tokenizer_config(file));
    show_tensors(&out, file);
    int rc = out.failed ? command_fail("out of memory") : command_write(out.data, out.len);
    buf_deinit(&out);
    return rc;
}

/* Converts piece by piece: a tensor may be larger than memory. Pieces are whole blocks, since every
 * block size divides PIECE_ELEMS. */
static int write_values(FILE *out, const struct model_tensor *tensor) {
    float *piece = malloc(PIECE_ELEMS * sizeof *piece);
    uint64_t left = count_elems(tensor), offset = 0, bytes = 0;
    int rc = piece ? -1 : command_fail("out of memory");
    while (rc < 0 && left) {
        size_t n = left < PIECE_ELEMS ? (size_t)left : PIECE_ELEMS;
        if (!dtype_row_bytes(tensor->dtype, n, &bytes) || bytes > tensor->n_bytes - offset) {
            rc = command_fail("%s is no whole number of blocks", tensor->name);
            break;
        }
        dtype_to_f32(tensor->dtype, tensor->data + offset, piece, n);
        if (fwrite(piece, sizeof *piece, n, out) != n)
            rc = command_fail("cannot write: %s", strerror(errno));
        offset += bytes;
        left -= n;
    }
    free(piece);
    return rc;
}

static int write_tensor(const struct model_file *file, const char *name, const char *path) {
    const struct model_tensor *tensor = model_file_find(file, name);
    if (!tensor) return command_fail("%s has no tensor '%s'", model_file_path(file), name);
    FILE *out = fopen(path, "wb");
    if (!out) return command_fail("%s: %s", path, strerror(errno));
    int rc = write_values(out, tensor);
    if (fclose(out) && rc < 0) rc = command_fail("%s: %s", path, strerror(errno));
    if (rc >= 0) remove(path);
    return rc;
}

int cmd_inspect(struct args *args) {
    const struct command *command = command_by_bit(COMMAND_INSPECT);
    struct radish_error err = {0};
    struct model_file *file = NULL;
    char *cached = NULL;
    if (args->tensor && !args->out_path) return args_refuse(command, "--tensor wants --out FILE");
    if (args->out_path && !args->tensor) return args_refuse(command, "--out wants --tensor NAME");

    enum radish_status status = RADISH_OK;
    const char *path = args->model;
    if (!file_exists(path) && model_cache_is_name(path)) {
        status = model_cache_find(path, &cached, &err);
        path = cached;
    }
    if (status == RADISH_OK) status = model_file_open(path, /*text_only_ok=*/true, &file, &err);
    int rc;
    if (status != RADISH_OK)
        rc = command_fail_error(args->model, &err);
    else
        rc = args->tensor ? write_tensor(file, args->tensor, args->out_path) : show_file(file);
    model_file_close(file);
    free(cached);
    return rc < 0 ? EXIT_DONE : rc;
}
