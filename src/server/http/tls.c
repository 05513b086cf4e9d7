/* tls.c - the files behind --ssl-certfile and --ssl-keyfile.
 *
 * The HTTP library takes both as text and says, if anything is wrong with them, only that it cannot
 * start. Five things go wrong in practice: a wrong path, files the wrong way round, a key that a
 * passphrase protects, a key of last year's certificate, a certificate that is over. Each is
 * looked for here and told in one line that names the flag. The looking is libcrypto's, which the
 * program uses anyway; the library itself (GnuTLS) then reads the same bytes.
 *
 * Keys with a passphrase are refused, not asked for: a server starts without anybody at a keyboard,
 * and a passphrase beside the key protects nothing. */
#include "tls.h"

#include "base/file_map.h"
#include "base/log.h"
#include "base/status.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 20 };

static const char certificate_flag[] = "--ssl-certfile", key_flag[] = "--ssl-keyfile";

/* libcrypto asks for the passphrase of an encrypted key: there is none. */
static int refuse_passphrase(char *to, int bytes_max, int is_writing, void *user) {
    (void)to;
    (void)bytes_max;
    (void)is_writing;
    *(bool *)user = true;
    return -1;
}

static enum radish_status read_text(const char *flag, const char *path, char **text_out,
                                    struct radish_error *err) {
    size_t len = 0;
    struct radish_error why = {0};
    enum radish_status status = file_read(path, FILE_BYTES_MAX, text_out, &len, &why);
    if (status) return error_set_field(err, status, flag, "%s: %s", flag, why.msg);
    if (strlen(*text_out) == len) return RADISH_OK;
    return error_set_field(err, RADISH_E_INVALID, flag, "%s %s is not a PEM file", flag, path);
}

/* NULL when the text holds none; *has_passphrase_out: because it is encrypted. */
static EVP_PKEY *parse_key(const char *text, bool *has_passphrase_out) {
    BIO *bio = BIO_new_mem_buf(text, (int)strlen(text));
    *has_passphrase_out = false;
    EVP_PKEY *key =
        bio ? PEM_read_bio_PrivateKey(bio, NULL, refuse_passphrase, has_passphrase_out) : NULL;
    BIO_free(bio);
    return key;
}

static X509 *parse_certificate(const char *text) {
    bool is_asked = false;
    BIO *bio = BIO_new_mem_buf(text, (int)strlen(text));
    X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, refuse_passphrase, &is_asked) : NULL;
    BIO_free(bio);
    return certificate;
}

static enum radish_status check_pair(const struct tls_files *files, const char *certificate_path,
                                     const char *key_path, struct radish_error *err) {
    bool has_passphrase = false;
    enum radish_status status = RADISH_OK;
    X509 *certificate = parse_certificate(files->certificate);
    EVP_PKEY *key = parse_key(files->key, &has_passphrase);
    if (!certificate)
        status = error_set_field(err, RADISH_E_INVALID, certificate_flag,
                                 "%s %s holds no certificate in PEM (-----BEGIN CERTIFICATE-----)",
                                 certificate_flag, certificate_path);
    else if (has_passphrase)
        status = error_set_field(err, RADISH_E_INVALID, key_flag,
                                 "%s %s is protected by a passphrase: give one without (openssl "
                                 "pkey -in KEY -out NEW)",
                                 key_flag, key_path);
    else if (!key)
        status = error_set_field(err, RADISH_E_INVALID, key_flag,
                                 "%s %s holds no private key in PEM (-----BEGIN PRIVATE KEY-----)",
                                 key_flag, key_path);
    else if (X509_check_private_key(certificate, key) != 1)
        status = error_set_field(err, RADISH_E_INVALID, key_flag,
                                 "%s %s does not belong to the certificate in %s", key_flag,
                                 key_path, certificate_path);
    else if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
        log_warn("server", "the certificate in %s is no longer valid: clients will refuse it",
                 certificate_path);
    X509_free(certificate);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return status;
}

enum radish_status tls_files_read(const char *certificate_path, const char *key_path,
                                  struct tls_files *files_out, struct radish_error *err) {
    memset(files_out, 0, sizeof *files_out);
    if (!certificate_path && !key_path) return RADISH_OK;
    if (!certificate_path || !key_path) {
        const char *missing = certificate_path ? key_flag : certificate_flag;
        return error_set_field(err, RADISH_E_INVALID, missing, "%s is missing: TLS needs %s and %s",
                               missing, certificate_flag, key_flag);
    }
    enum radish_status status =
        read_text(certificate_flag, certificate_path, &files_out->certificate, err);
    if (!status) status = read_text(key_flag, key_path, &files_out->key, err);
    if (!status) status = check_pair(files_out, certificate_path, key_path, err);
    if (status) tls_files_deinit(files_out);
    return status;
}

void tls_files_deinit(struct tls_files *files) {
    if (files->key) OPENSSL_cleanse(files->key, strlen(files->key));
    free(files->certificate);
    free(files->key);
    memset(files, 0, sizeof *files);
}

const char *tls_priorities(void) {
    return "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:%SERVER_PRECEDENCE";
}
