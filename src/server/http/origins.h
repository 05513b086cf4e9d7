/* origins.h - which web pages may use the server, and under which names it may be asked.
 *
 * Owns: copies of the origins allowed by flag. Threads: any; constant after init.
 * Terms: an origin is what a browser writes into Origin, "scheme://host[:port]"; an authority is
 * "host[:port]", as in Host. */
#ifndef SERVER_ORIGINS_H
#define SERVER_ORIGINS_H

#include "radish.h"

struct origins {
    char **allowed; /* [n] as given, without "*" */
    size_t n;
    bool allows_all;  /* "*" was given */
    bool is_guarded;  /* there is no key: a browser's word decides */
    bool is_loopback; /* only this machine connects: the name it asks for must be ours */
    char *host;       /* that the server was told to listen on */
};

/* What a browser says about where a request comes from; each may be NULL. */
struct origin_claim {
    const char *host;       /* Host */
    const char *origin;     /* Origin */
    const char *fetch_site; /* Sec-Fetch-Site */
    const char *fetch_mode; /* Sec-Fetch-Mode */
};

/* E_INVALID (--cors-origin) for what is neither "*" nor an origin. */
enum radish_status origins_init(struct origins *origins, const char *const *values, size_t n,
                                const char *host, struct radish_error *err) RADISH_CHECK_RESULT;
void origins_deinit(struct origins *origins);

/* Some origin is allowed: answers carry the headers of CORS. */
bool origins_has_any(const struct origins *origins);

/* By flag. */
bool origins_allow(const struct origins *origins, const char *origin);

enum origin_verdict {
    ORIGIN_FINE,
    ORIGIN_FOREIGN_PAGE, /* a page of another origin asks, and there is no key to stop it */
    ORIGIN_FOREIGN_NAME  /* a name that is not ours leads here: DNS rebinding */
};

/* is_open: the route needs no key and changes nothing, so that a link may lead to it. */
enum origin_verdict origins_judge(const struct origins *origins, const struct origin_claim *claim,
                                  bool is_open);

#endif
