/* top_screen_private.h - shared by the files that draw: what text and levels look like, and the views.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_TOP_TOP_SCREEN_PRIVATE_H
#define LOCKSTEP_CMD_TOP_TOP_SCREEN_PRIVATE_H

/* Its functions, not its macros, some of which have names such as `move`. */
#define NCURSES_NOMACROS
#include <curses.h>

#include "cmd/top/top_screen.h"

#define PAIR(which) (screen->colour ? (attr_t)COLOR_PAIR(which) : (attr_t)A_NORMAL)

enum top_pair {
    PAIR_BAD = 1,
    PAIR_OVER,
    PAIR_GOOD,
    PAIR_BAR
};

/* Foreign text is cleaned, and cut to the line; a mark says so: "step 44" must not become "step 4". */
void top_put(int row, int column, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Eight levels; `level` from 0 to 1, negative: not known. */
void top_put_level(const struct top_screen *screen, int row, int column, double level);

/* top_views.c: each from this row to the one above the keys; sets how many lines there are to choose from. */
void top_put_ranks(struct top_screen *screen, struct live_run *live, int row);
void top_put_verdicts(struct top_screen *screen, struct live_run *live, int row);
void top_put_detail(struct top_screen *screen, int row); /* the chosen verdict, whole */
void top_put_ledger(struct top_screen *screen, const struct live_run *live, int row);
void top_put_nodes(struct top_screen *screen, const struct live_run *live, int row, int64_t now_ns);

/* Whether its number or its node is that; with an empty text all are. */
bool top_rank_matches(const struct live_run *live, const struct live_rank *rank, const char *text);
/* The whole text of a verdict, as `lockstep why` prints it.  NULL: no memory. */
char *top_verdict_lines(const struct verdict *verdict);

#endif
