/* top_screen.h - the screen of `lockstep top`: what is shown, and how it reacts to keys.
 *
 * Uses ncurses; the caller has called initscr().  Works from 40 x 8 characters on; below that it asks for a larger
 * terminal.  Without colours it uses bold and reverse, and outside UTF-8 only ASCII.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_TOP_TOP_SCREEN_H
#define LOCKSTEP_CMD_TOP_TOP_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/report/live_run.h"

enum top_view {
    TOP_RANKS,
    TOP_VERDICTS,
    TOP_LEDGER,
    TOP_NODES,
    TOP_VIEWS
};

enum top_sort {
    TOP_BY_RANK,
    TOP_BY_EXCESS,
    TOP_BY_NODE,
    TOP_SORTS
};

enum top_input {
    TOP_INPUT_NONE,
    TOP_INPUT_SEARCH,
    TOP_INPUT_FILTER
};

struct top_screen {
    bool colour, utf8, help, paused, detail; /* detail: the chosen verdict, whole */
    enum top_view view;
    enum top_sort sort;
    enum top_input input;
    char text[48], filter[48]; /* text: being typed */
    size_t first[TOP_VIEWS], chosen[TOP_VIEWS], rows, shown;
    size_t scroll;   /* lines of the chosen verdict above the screen */
    uint32_t *order; /* of ranks, after filter and sort */
    size_t order_room;
    char *lines;         /* of the chosen verdict */
    const char *trouble; /* what keeps the view from being up to date; NULL: nothing */
    bool alive;          /* somebody writes the log */
};

void top_screen_init(struct top_screen *screen);
void top_screen_fini(struct top_screen *screen);
void top_screen_draw(struct top_screen *screen, struct live_run *live, int64_t now_real_ns);
/* False: quit. */
bool top_screen_key(struct top_screen *screen, const struct live_run *live, int key);

#endif
