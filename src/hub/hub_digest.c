/* hub_digest.c - SHA-256, and git's way to name content, over libcrypto.
 *
 * git hashes "blob SIZE\0" before the content, so the size must be known first; it is, from the
 * listing. libcrypto is there for TLS anyway, uses the processor's instructions for both sums
 * (1.5 GB/s and more, so hashing never slows a download), and is no code of ours. */
#include "hub_digest.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>

bool hub_digest_init(struct hub_digest *digest, enum hub_hash hash, uint64_t bytes) {
    char head[40];
    digest->context = EVP_MD_CTX_new();
    if (!digest->context) return false;
    const EVP_MD *kind = hash == HUB_HASH_SHA256 ? EVP_sha256() : EVP_sha1();
    if (EVP_DigestInit_ex(digest->context, kind, NULL) != 1) return false;
    if (hash == HUB_HASH_SHA256) return true;
    const int n = snprintf(head, sizeof head, "blob %" PRIu64, bytes);
    return hub_digest_add(digest, head, (size_t)n + 1);
}

void hub_digest_deinit(struct hub_digest *digest) {
    EVP_MD_CTX_free(digest->context);
    digest->context = NULL;
}

bool hub_digest_add(struct hub_digest *digest, const void *bytes, size_t n) {
    return digest->context && EVP_DigestUpdate(digest->context, bytes, n) == 1;
}

bool hub_digest_end(struct hub_digest *digest, char hex_out[HUB_DIGEST_MAX]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    hex_out[0] = '\0';
    if (!digest->context || EVP_DigestFinal_ex(digest->context, sum, &n) != 1 ||
        2 * n >= HUB_DIGEST_MAX)
        return false;
    for (unsigned i = 0; i < n; i++) {
        hex_out[2 * i] = digits[sum[i] >> 4];
        hex_out[2 * i + 1] = digits[sum[i] & 15];
    }
    hex_out[2 * n] = '\0';
    return true;
}
