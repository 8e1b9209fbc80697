/* log_keep.c - bounds what is kept of a file.
 *
 * A log may repeat a line a million times, and which of them matters is decided later: mostly the first, sometimes the last.
 * Those of different ranks are not alike, because each says something about its rank.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "read/log/log_file.h"

#define KEPT_RANKS 8192 /* events that are kept for their ranks alone */
#define KEPT_OF_RANK 4

struct keep_row {
    size_t came, half;
    struct log_event *last; /* a ring of `half` */
};

struct log_keep {
    struct keep_row *row; /* by pattern */
    size_t rows;
    struct map of_rank; /* pattern and rank → how many were kept */
    size_t kept_of_ranks, first_event;
};

int log_keep_create(uint32_t rows, struct log_keep **ret)
{
    struct log_keep *keep = calloc(1, sizeof(*keep));

    if (!keep)
        return -ENOMEM;
    keep->rows = rows + LOG_KEEP_OTHERS;
    keep->row = calloc(keep->rows, sizeof(*keep->row));
    if (!keep->row) {
        log_keep_destroy(keep);
        return -ENOMEM;
    }
    *ret = keep;
    return 0;
}

static void log_rings_free(struct log_keep *keep)
{
    for (size_t i = 0; keep->row && i < keep->rows; i++) {
        free(keep->row[i].last);
        keep->row[i] = (struct keep_row){ 0 };
    }
    map_fini(&keep->of_rank);
    keep->of_rank = (struct map){ 0 };
    keep->kept_of_ranks = 0;
}

void log_keep_destroy(struct log_keep *keep)
{
    if (!keep)
        return;
    log_rings_free(keep);
    free(keep->row);
    free(keep);
}

static int log_event_add(struct log_reader *reader, const struct log_event *event)
{
    struct logs *logs = &reader->logs;

    if (budget_grow(reader->budget, &logs->event, &reader->event_room, logs->events,
                    sizeof(*logs->event)) < 0)
        return -ENOMEM;
    logs->event[logs->events++] = *event;
    return 0;
}

/* One of the first of its rank? */
static bool log_is_news_of_rank(struct log_keep *keep, uint32_t pattern,
                                const struct log_event *event)
{
    uint64_t *count;

    if (event->rank == LOG_EVENT_NO_RANK || keep->kept_of_ranks >= KEPT_RANKS)
        return false;
    count = map_put(&keep->of_rank, hash64_u64(pattern, event->rank), 0);
    if (!count || *count >= KEPT_OF_RANK)
        return false;
    (*count)++;
    keep->kept_of_ranks++;
    return true;
}

int log_keep_event(struct log_keep *keep, struct log_reader *reader, uint32_t pattern,
                   const struct log_event *event, size_t half)
{
    struct keep_row *row = &keep->row[pattern];
    bool news = log_is_news_of_rank(keep, pattern, event);

    if (!keep->first_event)
        keep->first_event = reader->logs.events + 1;
    if (event->kind >= LOG_EVENT_IDENTITY && event->kind < LOG_EVENT_COMPLETED)
        return log_event_add(reader, event);
    if (news || row->came < half) {
        row->came += row->came < half;
        return log_event_add(reader, event);
    }
    if (!row->last) {
        row->last = calloc(half, sizeof(*row->last));
        row->half = half;
    }
    if (!row->last)
        return -ENOMEM;
    row->last[row->came++ % half] = *event;
    return 0;
}

static int log_by_line(const void *left, const void *right)
{
    const struct log_event *a = left, *b = right;

    return (a->line > b->line) - (a->line < b->line);
}

int log_keep_end(struct log_keep *keep, struct log_reader *reader)
{
    size_t first = keep->first_event ? keep->first_event - 1 : reader->logs.events;
    int result = 0;

    for (size_t i = 0; i < keep->rows; i++) {
        struct keep_row *row = &keep->row[i];
        size_t from = MAX(row->came, 2 * row->half) - row->half;

        for (size_t k = from; row->last && k < row->came && result == 0; k++)
            result = log_event_add(reader, &row->last[k % row->half]);
    }
    log_rings_free(keep);
    keep->first_event = 0;
    if (reader->logs.events > first)
        qsort(reader->logs.event + first, reader->logs.events - first, sizeof(*reader->logs.event),
              log_by_line);
    return result;
}
