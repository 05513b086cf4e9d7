/* tls.h - certificate and key, read and checked before they are used.
 *
 * Owns: both texts. Threads: one. */
#ifndef SERVER_TLS_H
#define SERVER_TLS_H

#include "radish.h"

struct tls_files {
    char *certificate; /* PEM: the server's, then those in between; NULL: no TLS */
    char *key;         /* PEM */
};

/* E_INVALID or E_IO with one line that names the flag: a file that cannot be read, holds no
 * certificate or key, an encrypted key, a key of another certificate, only one of the two files.
 * Both paths NULL: no TLS. */
enum radish_status tls_files_read(const char *certificate_path, const char *key_path,
                                  struct tls_files *files_out,
                                  struct radish_error *err) RADISH_CHECK_RESULT;
void tls_files_deinit(struct tls_files *files); /* overwrites the key */

/* For GnuTLS: TLS 1.3 and 1.2 only. Static. */
const char *tls_priorities(void);

#endif
