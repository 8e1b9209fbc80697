/* index_catchup.h - brings the index up to date before a question is answered, a little at a time.
 *
 * What was logged before somebody asks is in the answer.  The index may be far behind the log, and reading on takes
 * the only thread: so it reads a bounded number of frames in a turn of the loop, and facts are taken between two turns.
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
void catchup_drop(struct site *site, struct catchup *catchup); /* nobody waits for it any more */

#endif
