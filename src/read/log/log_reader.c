/* log_reader.c - from bytes to events.
 *
 * Text is searched for anchors of patterns as a whole (matcher.h): lines are cut out only around what was found, and one by
 * one only while a traceback or a launcher's table is being read.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/log/log_reader.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "read/log/log_file.h"

bool log_is_text(const void *head, size_t bytes)
{
    const char *text = head;
    size_t looked = MIN(bytes, (size_t)8192), odd = 0;

    if (log_is_utf16(head, bytes))
        return true;
    for (size_t i = 0; i < looked; i++) {
        if (text[i] == '\0')
            return false;
        odd += (unsigned char)text[i] < ' ' && !strchr("\n\r\t\033\b\f", text[i]);
    }
    return odd * 20 <= looked;
}

static struct logrank *log_rank_of(struct log_reader *reader, uint32_t rank)
{
    struct logs *logs = &reader->logs;

    for (size_t i = 0; i < logs->ranks; i++) {
        if (logs->rank[i].rank == rank)
            return &logs->rank[i];
    }
    if (budget_grow(reader->budget, &logs->rank, &reader->rank_room, logs->ranks,
                    sizeof(*logs->rank)) < 0)
        return NULL;
    logs->rank[logs->ranks] = (struct logrank){ .rank = rank };
    return &logs->rank[logs->ranks++];
}

int log_reader_saw_rank(struct log_reader *reader, uint32_t rank)
{
    return log_rank_of(reader, rank) ? 0 : -ENOMEM;
}

void log_reader_saw_local(struct log_reader *reader, uint32_t log)
{
    reader->locals |= reader->local && reader->local_log != log;
    reader->local_log = log;
    reader->local = true;
}

static int reader_begin(struct log_reader *reader, const struct log_source *source)
{
    int result = 0;

    if (!reader->engine)
        result = log_engine_create(&reader->engine);
    if (result < 0)
        return result;
    log_file_begin(reader->engine, reader, source);
    return 0;
}

static int reader_end(struct log_reader *reader, int result)
{
    int ended = log_file_end(reader->engine);

    return result == 0 ? ended : result;
}

int log_reader_stream(struct log_reader *reader, const struct log_source *source,
                      struct stream *stream, struct err *err)
{
    int result = reader_begin(reader, source);
    ssize_t got = 1;

    while (result == 0 && got > 0) {
        size_t room;
        char *into = log_file_room(reader->engine, &room);

        got = stream_read(stream, into, room, err);
        if (got > 0)
            result = log_file_came(reader->engine, (size_t)got);
    }
    if (reader->engine)
        result = reader_end(reader, result);
    if (result == -ENOMEM)
        return err_nomem(err);
    return result < 0 ? result : (int)MIN(got, 0);
}

/* ---- the end ---- */

int log_reader_ranks(struct log_reader *reader, const char *const *path,
                     const struct name_rank *rank, size_t count)
{
    char name[sizeof(reader->logs.event[0].file)] = "";
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        struct logrank *own = NULL;

        if (rank[i].rank == NAME_NO_RANK || rank[i].local)
            continue;
        own = log_rank_of(reader, rank[i].rank);
        if (!own)
            return -ENOMEM;
        own->own_file = true;
    }
    for (size_t i = 0; i < reader->logs.events; i++) {
        struct log_event *event = &reader->logs.event[i];

        for (size_t looked = 0; looked < count && strcmp(name, event->file) != 0; looked++) {
            at = *name ? (at + 1) % count : 0;
            log_file_name(path[at], name, sizeof(name));
        }
        if (event->by_name && count && strcmp(name, event->file) == 0) {
            event->rank = rank[at].rank;
            event->local = rank[at].local;
        }
    }
    return 0;
}

static int log_by_rank(const void *left, const void *right)
{
    const struct logrank *a = left, *b = right;

    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* Does the job have more than one node, as far as its logs show? */
static bool log_has_nodes(const struct logs *logs)
{
    const char *first = "";

    for (size_t i = 0; i < logs->events; i++) {
        const struct log_event *event = &logs->event[i];

        if (event->kind == LOG_EVENT_NODES && event->value > 1)
            return true;
        if (!event->node[0] || event->kind >= LOG_EVENT_XID)
            continue;
        if (*first && strcmp(first, event->node) != 0)
            return true;
        first = event->node;
    }
    return false;
}

/* Ranks that count on their node are ranks of the job only where there is one node. */
static void log_settle_local_ranks(struct logs *logs, bool locals)
{
    bool nodes = locals || log_has_nodes(logs);

    for (size_t i = 0; i < logs->events; i++) {
        struct log_event *event = &logs->event[i];

        if (event->local && nodes)
            event->rank = LOG_EVENT_NO_RANK;
    }
}

/* The strongest event of a rank's end counts: its own error before what it saw of others. */
static int log_find_ends(struct log_reader *reader)
{
    for (size_t i = 0; i < reader->logs.events; i++) {
        const struct log_event *event = &reader->logs.event[i];
        struct logrank *rank;

        if (event->rank == LOG_EVENT_NO_RANK || event->kind > LOG_EVENT_TIMEOUT || event->notified)
            continue;
        rank = log_rank_of(reader, event->rank);
        if (!rank)
            return -ENOMEM;
        if (!rank->ended || event->kind < rank->ended ||
            (event->kind == LOG_EVENT_TIMEOUT && rank->ended == LOG_EVENT_LOST_PEER))
            rank->ended = event->kind == LOG_EVENT_LOST_PEER && rank->ended == LOG_EVENT_TIMEOUT
                              ? rank->ended
                              : event->kind;
    }
    return 0;
}

int log_reader_take(struct log_reader *reader, struct logs *ret)
{
    int result;

    log_settle_local_ranks(&reader->logs, reader->locals);
    result = log_find_ends(reader);
    if (result < 0)
        return result;
    if (reader->logs.ranks)
        qsort(reader->logs.rank, reader->logs.ranks, sizeof(*reader->logs.rank), log_by_rank);
    *ret = reader->logs;
    reader->logs = (struct logs){ 0 };
    reader->local = reader->locals = false;
    return 0;
}

void log_reader_truncated(struct log_reader *reader, size_t events)
{
    struct log_event *shortened;

    reader->logs.events = events;
    shortened = reallocarray(reader->logs.event, MAX(events, 1u), sizeof(*shortened));
    if (!shortened)
        return;
    budget_give(reader->budget, (reader->event_room - MAX(events, 1u)) * sizeof(*shortened));
    reader->logs.event = shortened;
    reader->event_room = MAX(events, 1u);
}

void log_reader_fini(struct log_reader *reader)
{
    logs_fini(&reader->logs);
    log_engine_destroy(reader->engine);
    *reader = (struct log_reader){ 0 };
}
