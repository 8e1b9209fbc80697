/* sender.h - sends a spool to the site's controller.
 *
 * Reads the spool as it grows and sends new frames in order, one body at a time; the next body follows when the
 * controller has acknowledged that the previous one is on disk.  The only other state is the position up to which
 * the spool was sent: after a kill of either side the controller is asked for the last number it has, and sending
 * resumes there.  If the controller does not respond, the sender retries with growing, randomized pauses.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_SEND_SENDER_H
#define LOCKSTEP_AGENT_SEND_SENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "base/net/client.h"
#include "core/err.h"

struct sender;

struct sender_settings {
    struct loop *loop;
    struct client *client;  /* shared by all senders of a process */
    const char *run;        /* its name */
    const char *node;       /* of a node's own spool: its name; NULL: the spool is the run's */
    const char *spool;      /* the file; it need not be there yet */
    const char *token_file; /* of the run or node; it need not be there yet */
    /* Instead of a file: the caller's, "" until it is known; NULL: none. */
    const struct token *token;
};

int sender_create(const struct sender_settings *settings, struct sender **ret); /* -ENOMEM */
void sender_destroy(struct sender *sender); /* NULL is fine; before its client is closed */

/* All frames that are in the spool now are on the controller's disk, and it was seen to say so. */
bool sender_is_done(struct sender *sender);
bool sender_is_in_trouble(const struct sender *sender); /* the last call failed */
bool sender_is_refused(const struct sender *sender);    /* ... because the token is not valid */
/* Tries at once, however long it was to wait. */
void sender_hurry(struct sender *sender);
/* The spool was rewritten: it is read from its start. */
void sender_restart(struct sender *sender);
/* Up to which number of that boot the controller has everything. */
uint64_t sender_acknowledged(const struct sender *sender, uint64_t boot);

/* The number of the first frame, in the order of the spool, that the controller may not have; 0: not known. */
uint64_t sender_passed(const struct sender *sender);

/* Since boot: the controller was there after that, and could not write the facts down; 0: it did not say so. */
int64_t sender_heard(const struct sender *sender);

/* The newest frame that was ever sent, in an earlier life of the process, too (sent.h): with those before it it may be
 * with the controller.  False: none was.
 */
bool sender_sent(const struct sender *sender, uint64_t *number);

struct sender_counts {
    uint64_t bodies, bytes, frames, steps; /* that the controller took; steps: of single ranks */
    uint64_t failures;                     /* bodies that were not taken */
    uint64_t refused;                      /* frames that the controller would not have */
    uint64_t wire_bytes;                   /* of all senders of the client (client.h) */
    uint64_t spool_bytes, backlog_bytes;   /* now; backlog: that the controller does not have */
};
void sender_counts(const struct sender *sender, struct sender_counts *ret);

#endif
