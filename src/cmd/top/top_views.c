/* top_views.c - the views of a run on a terminal: ranks, verdicts, ledger, nodes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/top/top_screen_private.h"
#include "core/clean.h"
#include "core/time.h"
#include "show/ledger_view.h"
#include "show/style.h"
#include "show/verdict_view.h"
#include "wire/names.h"

/* ---- ranks ---- */

struct top_order {
    struct live_run *live;
    enum top_sort sort;
};

/* Over the steps that are kept, without the newest, which may be incomplete. */
static int64_t top_rank_excess(struct live_run *live, const struct live_rank *rank)
{
    int64_t sum = 0, excess, count = 0;

    for (uint64_t i = 1; i < 16; i++) {
        const struct live_step *step = live_run_step(live, i);

        if (step && live_run_excess(rank, step, &excess)) {
            sum += excess;
            count++;
        }
    }
    return count ? sum / count : 0;
}

static int top_order_compare(const void *a, const void *b, void *arg)
{
    const struct top_order *order = arg;
    const struct live_rank *left = order->live->rank[*(const uint32_t *)a];
    const struct live_rank *right = order->live->rank[*(const uint32_t *)b];
    int result = 0;

    if (order->sort == TOP_BY_EXCESS) {
        result = (left->excess_ns < right->excess_ns) - (left->excess_ns > right->excess_ns);
    } else if (order->sort == TOP_BY_NODE) {
        result = strcmp(order->live->node[left->node].name, order->live->node[right->node].name);
    }
    return result ? result : (left->rank > right->rank) - (left->rank < right->rank);
}

bool top_rank_matches(const struct live_run *live, const struct live_rank *rank, const char *text)
{
    char number[16];

    snprintf(number, sizeof(number), "%" PRIu32, rank->rank);
    return !text[0] || strcmp(number, text) == 0 || strstr(live->node[rank->node].name, text);
}

static void top_order_ranks(struct top_screen *screen, struct live_run *live)
{
    struct top_order order = { live, screen->sort };

    screen->shown = 0;
    if (!ARRAY_FIT(screen->order, screen->order_room, live->ranks))
        return;
    for (uint32_t i = 0; i < live->ranks; i++) {
        if (!top_rank_matches(live, live->rank[i], screen->filter))
            continue;
        screen->order[screen->shown++] = i;
        if (screen->sort == TOP_BY_EXCESS) /* once, not at each comparison */
            live->rank[i]->excess_ns = top_rank_excess(live, live->rank[i]);
    }
    qsort_r(screen->order, screen->shown, sizeof(screen->order[0]), top_order_compare, &order);
}

/* A bar per step: half of the median beyond it is the highest. */
static void top_put_rank_bars(struct top_screen *screen, struct live_run *live,
                              const struct live_rank *rank, int row, int column)
{
    int width = MIN(COLS - column, LIVE_STEPS);

    for (int i = 0; i < width; i++) {
        const struct live_step *step = live_run_step(live, (uint64_t)i);
        int64_t excess = 0;
        bool known = step && live_run_excess(rank, step, &excess);
        double share =
            known && step->median_ns > 0 ? 2 * (double)MAX(excess, 0) / (double)step->median_ns : 0;
        attr_t as = share >= 0.5 ? PAIR(PAIR_BAD) | A_BOLD : PAIR(PAIR_BAR);

        attron(as);
        top_put_level(screen, row, column + width - 1 - i, known ? share : -1);
        attroff(as);
    }
}

static void top_put_rank(struct top_screen *screen, struct live_run *live,
                         const struct live_rank *rank, int row)
{
    const struct live_cell *cell = NULL;
    const struct live_step *step = live_run_step(live, 1);
    char own[32] = "-", excess[32] = "-", what[24];
    int64_t mean = top_rank_excess(live, rank);

    if (step && rank->cell[(step->step - 1) % LIVE_STEPS].step == step->step)
        cell = &rank->cell[(step->step - 1) % LIVE_STEPS];
    if (cell)
        show_seconds((double)cell->own_ns / 1e9, own);
    if (cell && mean > 0)
        show_seconds((double)mean / 1e9, excess);
    if (rank->ended)
        snprintf(what, sizeof(what), "ended");
    else
        snprintf(what, sizeof(what), "%c %s", rank->state ? rank->state : '?',
                 rank->state ? name_of_phase(rank->phase) : "");
    top_put(row, 0, "%6" PRIu32 " %-10.10s %8" PRIu64 " %-11.11s %9s %9s ", rank->rank,
            live->node[rank->node].name, rank->step, what, own, excess);
    top_put_rank_bars(screen, live, rank, row, 60);
}

void top_put_ranks(struct top_screen *screen, struct live_run *live, int row)
{
    attron(A_BOLD);
    top_put(row, 0, "  RANK NODE           STEP NOW               OWN    EXCESS  LAST STEPS");
    attroff(A_BOLD);
    top_order_ranks(screen, live);
    for (size_t i = screen->first[TOP_RANKS];
         i < screen->shown && row + 1 + (int)(i - screen->first[TOP_RANKS]) < LINES - 1; i++) {
        int at = row + 1 + (int)(i - screen->first[TOP_RANKS]);

        top_put_rank(screen, live, live->rank[screen->order[i]], at);
        if (i == screen->chosen[TOP_RANKS])
            mvchgat(at, 0, MIN(COLS, 59), A_REVERSE, 0, NULL);
    }
    if (!screen->shown)
        top_put(row + 1, 0,
                live->ranks ? "no rank or node matches '%s'" : "no rank was observed yet%s",
                live->ranks ? screen->filter : "");
}

/* ---- verdicts, ledger, nodes ---- */

void top_put_verdicts(struct top_screen *screen, struct live_run *live, int row)
{
    attron(A_BOLD);
    top_put(row++, 0, "STATE  GPU-SECONDS  VERDICT");
    attroff(A_BOLD);
    if (live->verdicts > 1)
        qsort(live->verdict, live->verdicts, sizeof(live->verdict[0]), verdict_by_importance);
    live_run_verdicts_moved(live);
    screen->shown = live->verdicts;
    if (!live->verdicts)
        top_put(row, 0, "no verdicts");
    for (size_t i = screen->first[TOP_VERDICTS];
         i < live->verdicts && row + (int)(i - screen->first[TOP_VERDICTS]) < LINES - 1; i++) {
        const struct verdict *verdict = &live->verdict[i];
        bool over = verdict->until_real_ns != 0;
        int at = row + (int)(i - screen->first[TOP_VERDICTS]);
        char sentence[320];

        attron(over ? PAIR(PAIR_OVER) : PAIR(PAIR_BAD) | A_BOLD);
        top_put(at, 0, "%-5s %12.1f  %s", over ? "over" : "OPEN", verdict->gpu_seconds,
                verdict_sentence(verdict, sentence, sizeof(sentence)));
        attroff(over ? PAIR(PAIR_OVER) : PAIR(PAIR_BAD) | A_BOLD);
        if (i == screen->chosen[TOP_VERDICTS])
            mvchgat(at, 0, -1, A_REVERSE, 0, NULL);
    }
}

char *top_verdict_lines(const struct verdict *verdict)
{
    const struct show_style plain = { .width = 100 };
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    if (!file)
        return NULL;
    verdict_text(verdict, &plain, file);
    fclose(file);
    return text;
}

/* How many bytes of a line fit: whole words, if there are any. */
static int top_fit(const char *line, int length, int width)
{
    int at = width;

    if (length <= width)
        return length;
    while (at > 0 && line[at] != ' ')
        at--;
    return at > 0 ? at : width;
}

/* Lines are wrapped between words, and what follows of one stands further in. */
void top_put_detail(struct top_screen *screen, int row)
{
    const char *line = screen->lines;
    size_t count = 0, room = (size_t)MAX(LINES - 1 - row, 1);

    while (line && *line) {
        int length = (int)strcspn(line, "\n"), first = (int)strspn(line, " "), indent = 0, at = 0;

        do { /* an empty line is one, too */
            int fits = top_fit(line + at, length - at, MAX(COLS - 1 - indent, 8));

            if (count >= screen->scroll && count < screen->scroll + room)
                top_put(row + (int)(count - screen->scroll), indent, "%.*s", fits, line + at);
            count++;
            indent = first + 2;
            at += fits + (line[at + fits] == ' ');
        } while (at < length);
        line += length + (line[length] == '\n');
    }
    screen->scroll =
        MIN(screen->scroll, count > room ? count - room : 0); /* a wider terminal needs fewer */
    screen->shown = count;
    screen->rows = room;
    if (count > room)
        top_put(LINES - 1, MAX(COLS - 12, 0), "%3.0f %% shown ",
                100.0 * (double)MIN(screen->scroll + room, count) / (double)count);
}

void top_put_ledger(struct top_screen *screen, const struct live_run *live, int row)
{
    double total = live->has_ledger ? ledger_total(&live->ledger) : 0;

    screen->shown = 0;
    if (total <= 0) {
        top_put(row, 0, "no ledger yet");
        return;
    }
    top_put(row++, 0, "%.1f GPU-seconds, %" PRIu64 " steps, %" PRIu64 " of them not replayed%s",
            total, live->ledger.steps, live->ledger.unfit_steps,
            live->ledger.host_view ? "; host view" : "");
    for (unsigned i = 0; i < LEDGER_BUCKETS && row < LINES - 1; i++) {
        double share = live->ledger.gpu_seconds[i] / total;
        int width = MAX(COLS - 40, 0), used = (int)(share * width + 0.5);

        if (live->ledger.gpu_seconds[i] <= 0 && i != LEDGER_UNATTRIBUTED)
            continue;
        top_put(row, 0, "  %-15s %12.1f %6.1f %%", ledger_bucket_name(i),
                live->ledger.gpu_seconds[i], 100 * share);
        attron(i == LEDGER_PRODUCTIVE ? PAIR(PAIR_GOOD) : PAIR(PAIR_BAR));
        for (int k = 0; k < used; k++)
            mvaddstr(row, 39 + k, screen->utf8 ? "\u2588" : "#");
        attroff(i == LEDGER_PRODUCTIVE ? PAIR(PAIR_GOOD) : PAIR(PAIR_BAR));
        row++;
    }
}

static unsigned top_node_verdicts(const struct live_run *live, const char *name)
{
    unsigned count = 0;

    for (size_t i = 0; i < live->verdicts; i++) {
        const struct verdict *verdict = &live->verdict[i];

        for (uint32_t k = 0; k < MIN(verdict->node_count, (uint32_t)VERDICT_NODES); k++)
            count += !verdict->until_real_ns && strcmp(verdict->node[k], name) == 0;
    }
    return count;
}

void top_put_nodes(struct top_screen *screen, const struct live_run *live, int row, int64_t now_ns)
{
    screen->shown = live->nodes;
    attron(A_BOLD);
    top_put(row, 0, "NODE              RANKS  VERDICTS  FINDINGS  HEARD  NEWEST FINDING");
    attroff(A_BOLD);
    for (size_t i = screen->first[TOP_NODES];
         i < live->nodes && row + 1 + (int)(i - screen->first[TOP_NODES]) < LINES - 1; i++) {
        const struct live_node *node = &live->node[i];
        int at = row + 1 + (int)(i - screen->first[TOP_NODES]);
        char heard[24] = "-";

        if (node->newest_real_ns)
            snprintf(heard, sizeof(heard), "%" PRId64 " s",
                     MAX(now_ns - node->newest_real_ns, INT64_C(0)) / NS_PER_S);
        top_put(at, 0, "%-16.16s %6" PRIu32 " %9u %9" PRIu32 " %6s  %s", node->name, node->ranks,
                top_node_verdicts(live, node->name), node->findings, heard, node->finding);
        if (i == screen->chosen[TOP_NODES])
            mvchgat(at, 0, -1, A_REVERSE, 0, NULL);
    }
}
