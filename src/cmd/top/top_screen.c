/* top_screen.c - the screen around the views: the head of the run, its tabs, help and keys.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/top/top_screen.h"

#include <ctype.h>
#include <inttypes.h>
#include <langinfo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/top/top_screen_private.h"
#include "core/clean.h"
#include "core/time.h"
#include "show/ledger_view.h"
#include "show/style.h"
#include "show/verdict_view.h"
#include "wire/names.h"

#define LEAST_COLUMNS 40
#define LEAST_ROWS 8
#define HEAD_ROWS 6
#define STALE_NS (5 * NS_PER_S)

static const char *const views[TOP_VIEWS] = { "Ranks", "Verdicts", "Ledger", "Nodes" };
static const char *const sorts[TOP_SORTS] = { "rank", "excess", "node" };

void top_screen_init(struct top_screen *screen)
{
    const char *none = getenv("NO_COLOR");

    *screen = (struct top_screen){ .utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0 };
    screen->colour = has_colors() && !(none && none[0]);
    if (!screen->colour)
        return;
    start_color();
    use_default_colors();
    init_pair(PAIR_BAD, COLOR_RED, -1);
    init_pair(PAIR_OVER, COLOR_YELLOW, -1);
    init_pair(PAIR_GOOD, COLOR_GREEN, -1);
    init_pair(PAIR_BAR, COLOR_CYAN, -1);
}

void top_screen_fini(struct top_screen *screen)
{
    free(screen->order);
    free(screen->lines);
    *screen = (struct top_screen){ 0 };
}

/* ---- pieces ---- */

void top_put(int row, int column, const char *format, ...)
{
    char raw[512], clean[512];
    va_list args;

    va_start(args, format);
    vsnprintf(raw, sizeof(raw), format, args);
    va_end(args);
    if (column >= COLS || row >= LINES)
        return;
    mvaddnstr(row, column, show_clean(raw, clean, sizeof(clean)), COLS - column);
    if (strlen(clean) > (size_t)(COLS - column))
        mvaddstr(row, COLS - 1, ">");
}

void top_put_level(const struct top_screen *screen, int row, int column, double level)
{
    static const char *const blocks[] = { "\u2581", "\u2582", "\u2583", "\u2584",
                                          "\u2585", "\u2586", "\u2587", "\u2588" };
    static const char *const ascii[] = { "_", ".", ":", "-", "=", "+", "*", "#" };
    int at = (int)(level * 8);

    if (column >= COLS)
        return;
    if (level < 0 || isnan(level))
        mvaddstr(row, column, " ");
    else
        mvaddstr(row, column, (screen->utf8 ? blocks : ascii)[MIN(MAX(at, 0), 7)]);
}

static double top_step_value(const struct live_step *step, bool loss)
{
    if (!step)
        return NAN;
    return loss ? step->loss : (double)step->duration_ns / 1e9;
}

/* The newest steps from the right edge on, scaled between their least and their most. */
static void top_put_spark(struct top_screen *screen, struct live_run *live, int row, int column,
                          bool loss)
{
    int width = MIN(COLS - column, LIVE_STEPS);
    double least = INFINITY, most = -INFINITY;

    for (int i = 0; i < width; i++) {
        double value = top_step_value(live_run_step(live, (uint64_t)i), loss);

        least = isfinite(value) ? MIN(least, value) : least;
        most = isfinite(value) ? MAX(most, value) : most;
    }
    if (!loss)
        least = MIN(least, 0.5 * most); /* small differences of step times stay small */
    attron(PAIR(PAIR_BAR));
    for (int i = 0; i < width; i++) {
        double value = top_step_value(live_run_step(live, (uint64_t)i), loss);

        top_put_level(screen, row, column + width - 1 - i,
                      isfinite(value) ? (most > least ? (value - least) / (most - least) : 0) : -1);
    }
    attroff(PAIR(PAIR_BAR));
}

/* ---- the head ---- */

static double top_pace(struct live_run *live)
{
    const struct live_step *newest = live_run_step(live, 0), *old = NULL;
    uint64_t back = 0;

    for (uint64_t i = 1; i < 32; i++) {
        const struct live_step *step = live_run_step(live, i);

        if (!step)
            break;
        old = step;
        back = i;
    }
    if (!newest || !old || newest->begin_real_ns <= old->begin_real_ns)
        return NAN;
    return (double)(back * live->stride) * 1e9 /
           (double)(newest->begin_real_ns - old->begin_real_ns);
}

static const char *top_state(const struct top_screen *screen, const struct live_run *live)
{
    if (live->ended)
        return live->stopped ? "stopped" : live->status ? "failed" : "ended";
    if (live->last)
        return "ended";
    return screen->alive ? "running" : "no writer";
}

static bool top_stands_still(const struct live_run *live)
{
    for (size_t i = 0; i < live->verdicts; i++) {
        const struct verdict *verdict = &live->verdict[i];

        if (!verdict->until_real_ns &&
            (verdict->kind == VERDICT_HANG || verdict->kind == VERDICT_DESYNC))
            return true;
    }
    return false;
}

static void top_put_title(struct top_screen *screen, struct live_run *live)
{
    uint32_t wanted = MAX(live->ranks_wanted, (uint32_t)live->ranks);
    double pace = top_pace(live);
    char more[160] = "";

    if (live->newest)
        snprintf(more, sizeof(more), "  step %" PRIu64, live->newest - 1);
    if (!live->ended && top_stands_still(live))
        snprintf(more + strlen(more), sizeof(more) - strlen(more), "  no progress");
    else if (!isnan(pace))
        snprintf(more + strlen(more), sizeof(more) - strlen(more), "  %.2f steps/s", pace);
    if (live->attempts > 1)
        snprintf(more + strlen(more), sizeof(more) - strlen(more), "  restarts %" PRIu32,
                 live->attempts - 1);
    attron(A_BOLD);
    top_put(0, 0, "%s  %s  %zu of %" PRIu32 " rank%s on %zu node%s%s", live->dir.run,
            top_state(screen, live), live->ranks, wanted, wanted == 1 ? "" : "s", live->nodes,
            live->nodes == 1 ? "" : "s", more);
    attroff(A_BOLD);
}

static void top_put_ledger_bar(struct top_screen *screen, const struct live_run *live, int row)
{
    double total = live->has_ledger ? ledger_total(&live->ledger) : 0;
    int column = 30, width = COLS - column - 1, used = 0;

    if (total <= 0 || !live->ledger.steps) {
        top_put(row, 0, "goodput not known yet");
        return;
    }
    top_put(row, 0, "goodput %5.1f %% ettr %5.1f %%", 100 * ledger_goodput(&live->ledger),
            100 * ledger_ettr(&live->ledger));
    used = (int)(width * ledger_goodput(&live->ledger) + 0.5);
    mvaddstr(row, column - 1, "[");
    for (int i = 0; i < width - 1; i++) {
        attr_t as = i < used ? PAIR(PAIR_GOOD) | A_BOLD : PAIR(PAIR_BAD);

        attron(as);
        mvaddstr(row, column + i, i < used ? "|" : ".");
        attroff(as);
    }
    mvaddstr(row, column + width - 1, "]");
}

static const struct verdict *top_worst(const struct live_run *live)
{
    const struct verdict *worst = NULL;

    for (size_t i = 0; i < live->verdicts; i++) {
        if (!live->verdict[i].until_real_ns &&
            (!worst || verdict_by_importance(&live->verdict[i], worst) < 0))
            worst = &live->verdict[i];
    }
    return worst;
}

/* No verdict is open, and all ranks are observed.  A run that ended badly, or of which nobody knows how it ended, is not
 * called sound.
 */
static void top_put_sound(struct top_screen *screen, const struct live_run *live, int row)
{
    bool failed = live->ended && live->status && !live->stopped;
    bool unknown = !live->ended && !live->last && !screen->alive;
    attr_t as = PAIR(failed || unknown ? PAIR_OVER : PAIR_GOOD);

    attron(as);
    if (failed)
        top_put(row, 0, "no open verdict explains its end with status %" PRId32 ": lockstep why %s",
                live->status, live->dir.run);
    else if (unknown)
        top_put(row, 0, "cannot tell: no process writes its log, and no end was recorded");
    else if (!live->ended && !live->last)
        top_put(row, 0, "no fault found so far");
    else if (live->verdicts)
        top_put(row, 0, "it ended, and every verdict is closed");
    else
        top_put(row, 0, "it ended, and no fault was found");
    attroff(as);
}

static void top_put_health(struct top_screen *screen, const struct live_run *live, int row,
                           int64_t now_ns)
{
    const struct verdict *worst = top_worst(live);
    int64_t silent_ns = now_ns - live->newest_real_ns;
    char sentence[320];

    if (screen->trouble || (screen->alive && live->newest_real_ns && silent_ns > STALE_NS)) {
        attron(PAIR(PAIR_BAD) | A_BOLD);
        if (screen->trouble)
            top_put(row, 0, "%s", screen->trouble);
        else
            top_put(row, 0, "no answer from the controller for %" PRId64 " s",
                    silent_ns / NS_PER_S);
        attroff(PAIR(PAIR_BAD) | A_BOLD);
    } else if (worst) {
        attron(PAIR(PAIR_BAD) | A_BOLD);
        top_put(row, 0, "%s", verdict_sentence(worst, sentence, sizeof(sentence)));
        attroff(PAIR(PAIR_BAD) | A_BOLD);
    } else if (!live->newest) {
        top_put(row, 0, "cannot tell: no step was observed yet");
    } else if (live->ranks < live->ranks_wanted) {
        attron(PAIR(PAIR_OVER));
        top_put(row, 0, "no fault found; %" PRIu32 " ranks are not observed",
                live->ranks_wanted - (uint32_t)live->ranks);
        attroff(PAIR(PAIR_OVER));
    } else {
        top_put_sound(screen, live, row);
    }
}

static void top_put_tabs(const struct top_screen *screen, const struct live_run *live, int row)
{
    int column = 0;
    size_t open = 0;

    for (size_t i = 0; i < live->verdicts; i++)
        open += live->verdict[i].until_real_ns == 0;
    for (int i = 0; i < TOP_VIEWS; i++) {
        char text[32];

        if (i == TOP_VERDICTS)
            snprintf(text, sizeof(text), " %s %zu/%zu ", views[i], open, live->verdicts);
        else
            snprintf(text, sizeof(text), " %s ", views[i]);
        if (i == (int)screen->view)
            attron(A_REVERSE);
        top_put(row, column, "%s", text);
        attroff(A_REVERSE);
        column += (int)strlen(text) + 1;
    }
    if (screen->view == TOP_RANKS)
        top_put(row, column, "sort: %s%s%s", sorts[screen->sort],
                screen->filter[0] ? "  filter: " : "", screen->filter);
    if (screen->paused)
        top_put(row, MAX(COLS - 7, 0), "paused");
}

static void top_put_head(struct top_screen *screen, struct live_run *live, int64_t now_ns)
{
    const struct live_step *newest = live_run_step(live, 1);
    char text[32] = "-";

    top_put_title(screen, live);
    if (newest)
        show_seconds((double)newest->duration_ns / 1e9, text);
    top_put(1, 0, "step %10s", text);
    top_put_spark(screen, live, 1, 17, false);
    if (newest && !isnan(newest->loss))
        top_put(2, 0, "loss %10.4g", newest->loss);
    else
        top_put(2, 0, "loss          -");
    top_put_spark(screen, live, 2, 17, true);
    top_put_ledger_bar(screen, live, 3);
    top_put_health(screen, live, 4, now_ns);
    top_put_tabs(screen, live, 5);
}

/* ---- help and keys ---- */

static void top_put_help(int row)
{
    static const char *const lines[] = {
        "F1 h ?     this help",
        "Tab 1-4    next view, a view: ranks, verdicts, ledger, nodes",
        "arrows     choose a line; PgUp PgDn Home End scroll",
        "Enter      the whole text of the chosen verdict, arrows scroll it; again: back",
        "F3 /       search a rank or a node",
        "F4 \\       filter ranks by number or node; empty: all",
        "F6 < >     sort ranks by rank, excess or node",
        "Z          pause",
        "F10 q      quit",
        "",
        "OWN: the rank's own work in the last complete step, without waiting for others.",
        "EXCESS: what that is beyond the median of all ranks, mean of the last steps.",
        "A full bar is half of the median or more.",
    };

    for (size_t i = 0; i < COUNT(lines) && row < LINES - 1; i++)
        top_put(row++, 0, "%s", lines[i]);
}

static void top_put_keys(const struct top_screen *screen)
{
    static const char *const keys[][2] = { { "F1", "Help" },   { "Tab", "View" },
                                           { "F3", "Search" }, { "F4", "Filter" },
                                           { "F6", "Sort" },   { "Z", "Pause" },
                                           { "F10", "Quit" } };
    int column = 0;

    if (screen->input != TOP_INPUT_NONE) {
        top_put(LINES - 1, 0, "%s: %s_", screen->input == TOP_INPUT_SEARCH ? "Search" : "Filter",
                screen->text);
        return;
    }
    for (size_t i = 0; i < COUNT(keys); i++) {
        top_put(LINES - 1, column, "%s", keys[i][0]);
        column += (int)strlen(keys[i][0]);
        attron(A_REVERSE);
        top_put(LINES - 1, column, "%-6s", keys[i][1]);
        attroff(A_REVERSE);
        column += 7;
    }
}

/* ---- the whole ---- */

/* The chosen line is one that there is, and is on the screen. */
static void top_keep_chosen(struct top_screen *screen, size_t rows)
{
    size_t *chosen = &screen->chosen[screen->view], *first = &screen->first[screen->view];

    screen->rows = rows ? rows : 1;
    if (screen->shown && *chosen >= screen->shown)
        *chosen = screen->shown - 1;
    if (*chosen < *first)
        *first = *chosen;
    if (*chosen >= *first + screen->rows)
        *first = *chosen - screen->rows + 1;
}

static void top_put_view(struct top_screen *screen, struct live_run *live, int64_t now_ns)
{
    switch (screen->view) {
    case TOP_RANKS:
        top_put_ranks(screen, live, HEAD_ROWS);
        break;
    case TOP_VERDICTS:
        top_put_verdicts(screen, live, HEAD_ROWS);
        break;
    case TOP_LEDGER:
        top_put_ledger(screen, live, HEAD_ROWS);
        break;
    default:
        top_put_nodes(screen, live, HEAD_ROWS, now_ns);
        break;
    }
}

void top_screen_draw(struct top_screen *screen, struct live_run *live, int64_t now_real_ns)
{
    erase();
    if (COLS < LEAST_COLUMNS || LINES < LEAST_ROWS) {
        top_put(0, 0, "%s", live->dir.run);
        top_put(1, 0, "terminal too small: %d x %d needed", LEAST_COLUMNS, LEAST_ROWS);
        refresh();
        return;
    }
    if (!screen->detail)
        top_keep_chosen(screen, (size_t)(LINES - HEAD_ROWS - 2));
    top_put_head(screen, live, now_real_ns);
    top_put_keys(screen);
    if (screen->help)
        top_put_help(HEAD_ROWS);
    else if (screen->detail)
        top_put_detail(screen, HEAD_ROWS);
    else
        top_put_view(screen, live, now_real_ns);
    refresh();
}

/* ---- keys ---- */

static void top_search(struct top_screen *screen, const struct live_run *live)
{
    for (size_t i = 0; i < screen->shown && screen->view == TOP_RANKS; i++) {
        if (top_rank_matches(live, live->rank[screen->order[i]], screen->text)) {
            screen->chosen[TOP_RANKS] = i;
            return;
        }
    }
    for (size_t i = 0; i < live->nodes && screen->view == TOP_NODES; i++) {
        if (strstr(live->node[i].name, screen->text)) {
            screen->chosen[TOP_NODES] = i;
            return;
        }
    }
}

static void top_type(struct top_screen *screen, const struct live_run *live, int key)
{
    size_t length = strlen(screen->text);

    if (key == 27 || key == '\n' || key == '\r' || key == KEY_ENTER) {
        if (screen->input == TOP_INPUT_FILTER && key != 27)
            memcpy(screen->filter, screen->text, sizeof(screen->filter));
        screen->input = TOP_INPUT_NONE;
        return;
    }
    if ((key == KEY_BACKSPACE || key == 127 || key == 8) && length)
        screen->text[length - 1] = '\0';
    else if (key < 128 && isprint(key) && length + 1 < sizeof(screen->text))
        screen->text[length] = (char)key, screen->text[length + 1] = '\0';
    if (screen->input == TOP_INPUT_SEARCH && screen->text[0])
        top_search(screen, live);
}

static void top_move(struct top_screen *screen, int key)
{
    size_t *chosen = &screen->chosen[screen->view], page = screen->rows ? screen->rows : 1;
    size_t last = screen->shown ? screen->shown - 1 : 0;

    if (screen->detail) { /* its lines scroll */
        chosen = &screen->scroll;
        last = screen->shown > page ? screen->shown - page : 0;
    }
    switch (key) {
    case KEY_UP:
        *chosen -= *chosen > 0;
        break;
    case KEY_DOWN:
        *chosen += *chosen < last;
        break;
    case KEY_PPAGE:
        *chosen = *chosen > page ? *chosen - page : 0;
        break;
    case KEY_NPAGE:
        *chosen = MIN(*chosen + page, last);
        break;
    case KEY_HOME:
        *chosen = 0;
        break;
    case KEY_END:
        *chosen = last;
        break;
    default:
        break;
    }
}

static void top_choose_view(struct top_screen *screen, int view)
{
    screen->view = (enum top_view)((view + TOP_VIEWS) % TOP_VIEWS);
    screen->detail = screen->help = false;
}

static void top_toggle_detail(struct top_screen *screen, const struct live_run *live)
{
    free(screen->lines);
    screen->lines = NULL;
    screen->scroll = 0;
    screen->detail = !screen->detail && screen->view == TOP_VERDICTS &&
                     screen->chosen[TOP_VERDICTS] < live->verdicts;
    if (screen->detail)
        screen->lines = top_verdict_lines(&live->verdict[screen->chosen[TOP_VERDICTS]]);
}

static void top_begin_input(struct top_screen *screen, enum top_input input)
{
    screen->input = input;
    screen->text[0] = '\0';
}

bool top_screen_key(struct top_screen *screen, const struct live_run *live, int key)
{
    if (screen->input != TOP_INPUT_NONE) {
        top_type(screen, live, key);
        return true;
    }
    if (key == 'q' || key == KEY_F(10))
        return false;
    if (key == 'h' || key == '?' || key == KEY_F(1))
        screen->help = !screen->help;
    else if (key == '\t' || key == KEY_RIGHT)
        top_choose_view(screen, (int)screen->view + 1);
    else if (key == KEY_BTAB || key == KEY_LEFT)
        top_choose_view(screen, (int)screen->view - 1);
    else if (key >= '1' && key < '1' + TOP_VIEWS)
        top_choose_view(screen, key - '1');
    else if (key == '\n' || key == '\r' || key == KEY_ENTER)
        top_toggle_detail(screen, live);
    else if (key == KEY_F(3) || key == '/')
        top_begin_input(screen, TOP_INPUT_SEARCH);
    else if (key == KEY_F(4) || key == '\\')
        top_begin_input(screen, TOP_INPUT_FILTER);
    else if (key == KEY_F(6) || key == '>' || key == '.')
        screen->sort = (enum top_sort)((screen->sort + 1) % TOP_SORTS);
    else if (key == '<' || key == ',')
        screen->sort = (enum top_sort)((screen->sort + TOP_SORTS - 1) % TOP_SORTS);
    else if (key == 'Z')
        screen->paused = !screen->paused;
    else
        top_move(screen, key);
    return true;
}
