/* watch.h - agents and controller: started beside the ranks, and again when they die.
 *
 * No rank depends on them, so their deaths cost nothing but facts; we never give up on them, only
 * wait longer each time.
 */
#ifndef LOCKSTEP_ACT_WATCH_H
#define LOCKSTEP_ACT_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "act/keeper.h"
#include "act/layout.h"
#include "act/output.h"

#define WATCH_TOKEN UINT32_C(0x80000000) /* their tokens begin here; below are ranks */

struct watch;

/* `directory`: the run's.  One agent a node and one controller, none of them started yet. */
int watch_create(const struct layout *layout, const char *directory, struct watch **ret);
void watch_destroy(struct watch *watch); /* NULL is fine */

size_t watch_count(const struct watch *watch);
/* Fills watch_count() commands; the first of them will be the keeper's number `first`. */
void watch_commands(struct watch *watch, uint32_t first, struct keeper_command *ret);

/* Starts those whose time has come. */
void watch_start(struct watch *watch, struct keeper *keeper, struct output *output, int64_t now_ns);
int64_t watch_due_ns(const struct watch *watch); /* when to call that next; INT64_MAX: need not */
void watch_exited(struct watch *watch, uint32_t token, int status, struct output *output,
                  int64_t now_ns);
/* The run is over: one that is dead just now is started once more, so that it can finish its work;
 * after that nobody is started again.
 */
void watch_finish(struct watch *watch, struct keeper *keeper, struct output *output);

#endif
