/* daemons.h - agents, controller and the child that waits for orders: started beside the ranks, and again when they die.
 *
 * No rank depends on them, so their deaths cost nothing but facts; we never give up on them, only
 * wait longer each time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_DAEMONS_H
#define LOCKSTEP_ACT_DAEMONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "act/keeper/keeper.h"
#include "act/output/output.h"
#include "base/layout.h"

#define DAEMONS_TOKEN UINT32_C(0x80000000) /* their tokens begin here; below are ranks */

struct daemons;

struct daemons_lead {
    const char *state, *run, *listen, *host; /* texts that stay */
};

/* `directory`: the run's.  One agent a node, one controller and one child that waits for orders, none of them started yet; `remote`: in
 * place of the controller one that sends to the site's.
 */
struct daemons_wanted {
    bool remote; /* facts go to a site's controller; else there is one here */
    bool alert;  /* alerts are passed on */
    /* A controller for all launchers of the job beside that, which daemons_move() starts; NULL: never. */
    const struct daemons_lead *lead;
};
int daemons_create(const struct layout *layout, const char *directory, struct daemons_wanted wanted,
                   struct daemons **ret);
void daemons_destroy(struct daemons *daemons); /* NULL is fine */

size_t daemons_count(const struct daemons *daemons);
/* Fills daemons_count() commands; the first of them will be the keeper's number `first`. */
void daemons_commands(struct daemons *daemons, uint32_t first, struct keeper_command *ret);

/* Starts those whose time has come. */
void daemons_start(struct daemons *daemons, struct keeper *keeper, struct output *output,
                   int64_t now_ns);
int64_t daemons_due_ns(
    const struct daemons *daemons); /* when to call that next; INT64_MAX: need not */
void daemons_exited(struct daemons *daemons, uint32_t token, int status, struct output *output,
                    int64_t now_ns);
/* Where the controller is now; `leads`: here.  All are started again, as they learn it then. */
void daemons_move(struct daemons *daemons, struct keeper *keeper, const char *url, bool leads);
/* Prints what the sender has logged since the last call: the person at the terminal learns at once that the site's
 * controller cannot be reached, and why.
 */
void daemons_relay(struct daemons *daemons, struct output *output);
bool daemons_relayed(const struct daemons *daemons); /* whether there was anything to print */
void daemons_relay_skip(
    struct daemons *daemons); /* what it has logged so far is no news any more */
/* The run is over: one that is dead just now is started once more, so that it can finish its work;
 * after that none is started again, except by the next.
 */
void daemons_finish(struct daemons *daemons, struct keeper *keeper, struct output *output);
/* Starts those of the level again that a signal killed in the middle of their last work.  False: there are none. */
bool daemons_finish_again(struct daemons *daemons, enum tree_level level, struct keeper *keeper,
                          struct output *output);

#endif
