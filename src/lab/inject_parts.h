/* inject_parts.h - what the injector's files share: the threads it acts on, and its ways to act. */
#ifndef LOCKSTEP_LAB_INJECT_PARTS_H
#define LOCKSTEP_LAB_INJECT_PARTS_H

#include <stdint.h>
#include <sys/types.h>

#include "core/err.h"

#define INJECT_THREADS 256
#define INJECT_HOGS 64

struct inject_target { /* the host threads of one node's ranks */
    pid_t tid[INJECT_THREADS];
    uint32_t count;
    double share; /* of one CPU that they shall get in all */
    double
        hogs; /* how many busy processes shall share their CPU; a half: one that is so half of the time */
    char *how; /* what was done, in words */
    size_t how_room;
};

/* Each makes its fault on these threads, makes it harder or milder as share and hogs now say, or
 * takes back all that it made.  *state is its own.
 */
struct inject_way {
    int (*make)(const struct inject_target *target, void **state, struct err *err);
    int (*tune)(void *state, const struct inject_target *target, struct err *err);
    void (*undo)(void *state, const struct inject_target *target);
};
extern const struct inject_way inject_quota;
extern const struct inject_way inject_neighbours;

#endif
