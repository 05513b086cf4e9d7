/* hub_digest.h - the digest of a file's content, fed piece by piece. Threads: one at a time. */
#ifndef HUB_DIGEST_H
#define HUB_DIGEST_H

#include "hub_listing.h"

struct hub_digest {
    void *context; /* EVP_MD_CTX, or NULL after a failure */
};

/* Begins the digest of a file of so many bytes. False when libcrypto refuses (out of memory, or
 * SHA-1 forbidden); hub_digest_deinit() is due in every case. */
bool hub_digest_init(struct hub_digest *digest, enum hub_hash hash, uint64_t bytes);
void hub_digest_deinit(struct hub_digest *digest);

bool hub_digest_add(struct hub_digest *digest, const void *bytes, size_t n);

/* Lower-case hex; ends the digest. */
bool hub_digest_end(struct hub_digest *digest, char hex_out[HUB_DIGEST_MAX]);

#endif
