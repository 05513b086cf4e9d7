/* mslpp.c - the command: translates a .metal file for the CPU, or puts kernels into one C file.
 *
 *   mslpp --translate IN.ii OUT.cpp      IN.ii from `clang -E` (cmake/msl.cmake has the options)
 *   mslpp --flatten OUT FILE.metal...    one text, every local include once, in its place
 *   mslpp --embed OUT.c TEXT [METALLIB]  defines what kernel/metal/metal_source.h declares
 *
 * Errors go to standard error, one a line, "file:line: text"; the exit status is 1. An output is
 * written only when all went well. */
#include "msl_pass.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum radish_status read_file(const char *path, struct buf *out, struct radish_error *err) {
    FILE *f = fopen(path, "rb");
    if (!f) return error_set(err, RADISH_E_IO, "%s: cannot be opened", path);
    char part[1 << 16];
    size_t n;
    while ((n = fread(part, 1, sizeof part, f)) > 0) buf_append(out, part, n);
    bool is_ok = !ferror(f);
    fclose(f);
    if (out->failed) return error_nomem(err);
    return is_ok ? RADISH_OK : error_set(err, RADISH_E_IO, "%s: cannot be read", path);
}

static enum radish_status write_file(const char *path, const struct buf *text,
                                     struct radish_error *err) {
    if (text->failed) return error_nomem(err);
    FILE *f = fopen(path, "wb");
    if (!f) return error_set(err, RADISH_E_IO, "%s: cannot be written", path);
    bool is_ok = fwrite(text->data ? text->data : "", 1, text->len, f) == text->len;
    is_ok &= fclose(f) == 0;
    return is_ok ? RADISH_OK : error_set(err, RADISH_E_IO, "%s: cannot be written", path);
}

static enum radish_status translate(const char *in, const char *out, struct radish_error *err) {
    struct buf source, cpp, errors;
    buf_init(&source, 0);
    buf_init(&cpp, 0);
    buf_init(&errors, 0);
    enum radish_status status = read_file(in, &source, err);
    if (status == RADISH_OK)
        status = msl_translate(source.data ? source.data : "", source.len, &cpp, &errors, err);
    if (errors.data) fputs(errors.data, stderr);
    if (status == RADISH_OK) status = write_file(out, &cpp, err);
    buf_deinit(&source);
    buf_deinit(&cpp);
    buf_deinit(&errors);
    return status;
}

static enum radish_status flatten(const char *out, char **files, int n, struct radish_error *err) {
    struct msl_flat flat;
    msl_flat_init(&flat);
    enum radish_status status = RADISH_OK;
    for (int i = 0; status == RADISH_OK && i < n; i++) status = msl_flat_add(&flat, files[i], err);
    if (status == RADISH_OK) status = write_file(out, &flat.text, err);
    msl_flat_deinit(&flat);
    return status;
}

static void write_bytes(struct buf *c, const struct buf *bytes, bool is_signed) {
    for (size_t i = 0; i < bytes->len; i++) {
        int value = is_signed ? (signed char)bytes->data[i] : (unsigned char)bytes->data[i];
        buf_printf(c, "%d,%s", value, i % 24 == 23 ? "\n" : "");
    }
    buf_append_str(c, "0};\n");
}

static enum radish_status embed(const char *out, const char *text_path, const char *library_path,
                                struct radish_error *err) {
    struct buf text, library, c;
    buf_init(&text, 0);
    buf_init(&library, 0);
    buf_init(&c, 0);
    enum radish_status status = read_file(text_path, &text, err);
    if (status == RADISH_OK && library_path) status = read_file(library_path, &library, err);
    buf_append_str(&c, "/* Generated from the kernels. */\n#include \"metal/metal_source.h\"\n\n"
                       "const char metal_source[] = {\n");
    write_bytes(&c, &text, /*is_signed=*/true);
    buf_printf(&c, "const size_t metal_library_bytes = %zu;\n", library.len);
    buf_append_str(&c, "const unsigned char metal_library[] = {\n");
    write_bytes(&c, &library, /*is_signed=*/false);
    if (status == RADISH_OK) status = write_file(out, &c, err);
    buf_deinit(&text);
    buf_deinit(&library);
    buf_deinit(&c);
    return status;
}

int main(int argc, char **argv) {
    struct radish_error err = {0};
    enum radish_status status = RADISH_E_INVALID;
    snprintf(
        err.msg, sizeof err.msg,
        "usage: mslpp --translate IN OUT | --flatten OUT FILE... | --embed OUT TEXT [METALLIB]");
    if (argc == 4 && strcmp(argv[1], "--translate") == 0)
        status = translate(argv[2], argv[3], &err);
    else if (argc >= 4 && strcmp(argv[1], "--flatten") == 0)
        status = flatten(argv[2], argv + 3, argc - 3, &err);
    else if ((argc == 4 || argc == 5) && strcmp(argv[1], "--embed") == 0)
        status = embed(argv[2], argv[3], argc == 5 ? argv[4] : NULL, &err);
    if (status != RADISH_OK) fprintf(stderr, "mslpp: %s\n", err.msg);
    return status == RADISH_OK ? 0 : 1;
}
