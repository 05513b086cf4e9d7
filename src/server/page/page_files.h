/* page_files.h - the files of the page, as they were when the program was built. The table is
 * made by tools/embed_page.py. Owns: nothing; all is constant. Threads: any. */
#ifndef SERVER_PAGE_FILES_H
#define SERVER_PAGE_FILES_H

#include <stddef.h>

struct page_file {
    const char *path; /* of the URL */
    const char *content_type;
    const unsigned char *data; /* [len] */
    size_t len;
    const unsigned char *gzip; /* [gzip_len] the same, compressed */
    size_t gzip_len;
    const char *etag, *gzip_etag; /* with their quotes */
};

extern const struct page_file page_files[];
extern const size_t n_page_files;

#endif
