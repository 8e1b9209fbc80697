/* index_catchup.h - updates the index before a request is answered, in small steps.
 *
 * A response contains everything that was logged before the request.  The index may be far behind the log, and there
 * is only one thread: so each turn of the loop reads a limited number of frames, and facts are accepted between two
 * turns.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_SITE_INDEX_CATCHUP_H
#define LOCKSTEP_CONTROL_SITE_INDEX_CATCHUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CATCHUP_TURN_FRAMES 1000 /* of all questions together, in one turn of the loop */

struct site;

/* One question; its owner keeps it until `done` was called or it is dropped. */
struct catchup {
    const char *run;         /* whose rows are asked for; "": those of all runs */
    void (*done)(void *arg); /* later, from the loop: the question can be answered */
    void *arg;
    /* Private: */
    struct catchup *next;
    size_t at;        /* the run that is read, of all */
    size_t frames;    /* read of it */
    int64_t spent_ns; /* on all of them */
};

/* True: the index has all, and the question can be answered now.  Else it waits for its turn. */
bool catchup_ask(struct site *site, struct catchup *catchup);
void catchup_drop(struct site *site, struct catchup *catchup); /* its request is gone */

#endif
