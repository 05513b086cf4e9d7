/* watcher.h - tells at once when the peer of a socket goes away (FIN or RST), also while nobody
 * reads or writes the socket.
 *
 * Owns: one thread and one epoll (kqueue) descriptor. Caller keeps: the sockets. Threads: any may
 * add and remove; on_gone runs on the watcher's thread. Lock order: the watcher's lock is held
 * while on_gone runs, so callers add and remove with no lock of their own held that on_gone takes.
 */
#ifndef SERVER_WATCHER_H
#define SERVER_WATCHER_H

#include "radish.h"

struct watcher;

typedef void (*watcher_gone_fn)(void *user);

enum radish_status watcher_open(uint32_t n_sockets_max, watcher_gone_fn on_gone,
                                struct watcher **watcher_out,
                                struct radish_error *err) RADISH_CHECK_RESULT;
void watcher_close(struct watcher *w); /* NULL is fine */

/* Watches fd; on_gone(user) runs at most once. A half-closed peer (it shut down its sending side)
 * counts as gone. Returns the ticket for watcher_remove(), or 0 when the socket cannot be watched
 * (logged); then the peer's end is noticed at the next write. */
uint64_t watcher_add(struct watcher *w, int fd, void *user);

/* Stops watching; before fd is closed. After the return on_gone does not run for this ticket, and
 * is not running. Ticket 0 is fine. */
void watcher_remove(struct watcher *w, uint64_t ticket, int fd);

#endif
