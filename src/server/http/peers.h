/* peers.h - how long a client may take to send its request, and to take its answer.
 *
 *   connected --head complete--> receiving a body --complete--> computing --answer--> sending
 *      ^  deadline                  deadline, moves               none               deadline
 *      +---------------------------- idle until the next request <---------------------+
 *
 * Owns: one thread, a row for each connection. Caller keeps: the sockets; each is open from
 * peers_add() to peers_remove(). Threads: the HTTP threads; rows of different connections at the
 * same time. Past its deadline a socket is shut down: whoever reads or writes it sees its end. So
 * is one that owes bytes and whose peer has closed, within a second. */
#ifndef SERVER_PEERS_H
#define SERVER_PEERS_H

#include "radish.h"

struct peers;
struct peer;

/* A body, or an answer, may take a second more for so many bytes. */
enum { PEERS_BYTES_PER_SECOND = 16384 };

/* patience_seconds: for a head, a body and an answer each. idle_seconds: between two requests. */
enum radish_status peers_open(uint32_t patience_seconds, uint32_t idle_seconds,
                              struct peers **peers_out,
                              struct radish_error *err) RADISH_CHECK_RESULT;
void peers_close(struct peers *peers); /* NULL is fine; no row may be left */

/* A new connection, from which a head is awaited. NULL when out of memory: then it has no
 * deadline, and the functions below take NULL. */
struct peer *peers_add(struct peers *peers, int fd);
void peers_remove(struct peers *peers, struct peer *peer); /* before fd is closed */

void peer_await_body(struct peers *peers, struct peer *peer);
void peer_note_body(struct peer *peer, size_t n_bytes); /* so much more has come */
void peer_await_nothing(struct peer *peer);
void peer_await_reading(struct peers *peers, struct peer *peer, uint64_t n_bytes);
void peer_await_next(struct peers *peers, struct peer *peer);

#endif
