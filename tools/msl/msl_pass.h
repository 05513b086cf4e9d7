/* msl_pass.h - the pre-pass: from preprocessed Metal source to C++ for the headers of
 * tests/metal/shim. Tokens are moved, none is interpreted. Threads: any. */
#ifndef MSL_PASS_H
#define MSL_PASS_H

#include "base/buf.h"

/* Translates source[0..len), the output of `clang -E`, and appends the C++ to cpp_out. What the
 * source may not have in radish (DESIGN: rules of the kernels) goes to errors_out, a line each,
 * "file:line: text". E_FORMAT: errors_out has at least one; E_NOMEM, E_LIMIT: err says so. */
enum radish_status msl_translate(const char *source, size_t len, struct buf *cpp_out,
                                 struct buf *errors_out,
                                 struct radish_error *err) RADISH_CHECK_RESULT;

/* Appends the file at `path` with the local includes ("x.h") that it or they have in its place,
 * each file once; files_seen[0..*n_seen) are those already in the text, over several calls. A line
 * marker says where each part begins. E_IO, E_LIMIT, E_NOMEM. */
#define MSL_FLAT_FILES_MAX 256u
struct msl_flat {
    char *seen[MSL_FLAT_FILES_MAX];
    size_t n_seen;
    struct buf text;
};
void msl_flat_init(struct msl_flat *flat);
void msl_flat_deinit(struct msl_flat *flat);
enum radish_status msl_flat_add(struct msl_flat *flat, const char *path,
                                struct radish_error *err) RADISH_CHECK_RESULT;

#endif
