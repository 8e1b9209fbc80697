/* log_file.c - lines of one log, from a buffer that is filled again and again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/log/log_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/date.h"
#include "core/hash.h"
#include "read/log/log_nan.h"
#include "read/log/log_tail.h"
#include "read/log/log_watch.h"

#define BUFFER ((size_t)64 << 10)
#define KEPT 16          /* of the first, and of the last events of one meaning */
#define KEPT_TIMED 2048  /* where their times matter: older ones may come before those that do */
#define ORDINARY_LINES 2 /* behind a lost connection: it was made again */
#define NCCL_LINES 40    /* behind a warning of NCCL */
#define NCCL_ENOUGH 2    /* lines of its process that inform of something else */
#define TABLE_LINES 12   /* between two rows of a launcher's table */
#define FOLLOWS 60       /* percent: a follow-on error that shows a failure, and no clean-up */
#define RAISED 60        /* percent: any exception with a traceback, at least */
#define GENERIC 75       /* percent: an exception that no row knows, with a traceback */
#define WARNED 45        /* ... what a warning of Python says, at most */
#define GENERIC_ALONE 55 /* ... without one */

struct failure_table { /* torchrun's report of its processes */
    uint32_t lines_left;
    bool root; /* the first observed failure */
    struct log_event event;
};

struct nccl_warning { /* whose process may go on */
    uint32_t line, pid, lines_left, informed;
};

struct log_engine {
    struct log_patterns patterns;
    struct matcher *matcher;
    struct log_reader *reader;
    struct log_source source;
    char name[80];
    uint32_t log;       /* of all parts of a rotated log */
    char *buffer;       /* BUFFER bytes of text, and as much again for what is decoded */
    unsigned char *raw; /* UTF-16, before it is decoded */
    size_t used, raw_used;
    bool started, utf16, big_endian;
    uint32_t line; /* of the first byte in the buffer */
    struct tracebacks tracebacks;
    struct failure_table table;
    struct log_keep *keep;
    uint32_t rows; /* of the table of patterns */
    struct kernel_reader kernel;
    struct log_watch watch;
    struct log_nan nan;
    struct nccl_warning warning;
    uint32_t nan_rank; /* of its event */
    struct log_tail tail;
    uint32_t
        lost; /* the line of the last event that tells of a lost peer, while there is none of another kind; 0: none */
    bool has_end; /* there is an event that says how the log ended */
    bool failed;  /* there is one that follows from a failure */
};

int log_engine_create(struct log_engine **ret)
{
    struct log_engine *file = calloc(1, sizeof(*file));

    if (!file)
        return -ENOMEM;
    file->buffer = malloc(3 * BUFFER);
    file->raw = malloc(BUFFER);
    if (!file->buffer || !file->raw || patterns_init(&file->patterns) < 0 ||
        matcher_create(file->patterns.text, file->patterns.texts, &file->matcher) < 0 ||
        log_keep_create(file->patterns.rows, &file->keep) < 0) {
        log_engine_destroy(file);
        return -ENOMEM;
    }
    file->rows = file->patterns.rows;
    *ret = file;
    return 0;
}

void log_engine_destroy(struct log_engine *file)
{
    if (!file)
        return;
    log_keep_destroy(file->keep);
    matcher_destroy(file->matcher);
    patterns_fini(&file->patterns);
    free(file->buffer);
    free(file->raw);
    free(file);
}

void log_file_name(const char *name, char *out, size_t room)
{
    size_t bytes = strlen(name);

    if (bytes >= room)
        snprintf(out, room, "...%s", name + bytes - (room - 1) + 3);
    else
        snprintf(out, room, "%s", name);
}

void log_file_begin(struct log_engine *file, struct log_reader *reader,
                    const struct log_source *source)
{
    size_t bytes;

    file->reader = reader;
    file->source = *source;
    file->used = file->raw_used = 0;
    file->started = file->utf16 = false;
    file->line = 1;
    file->tracebacks = (struct tracebacks){ 0 };
    file->table = (struct failure_table){ 0 };
    kernel_reader_init(&file->kernel);
    log_watch_begin(&file->watch);
    file->nan.name[0] = '\0';
    file->warning = (struct nccl_warning){ 0 };
    log_tail_begin(&file->tail);
    file->has_end = file->failed = false;
    file->lost = 0;
    log_file_name(source->name, file->name, sizeof(file->name));
    name_part(source->name, &bytes);
    file->log = (uint32_t)hash64(1, source->name, bytes);
}

char *log_file_room(struct log_engine *file, size_t *room)
{
    if (file->utf16) {
        *room = BUFFER - file->raw_used;
        return (char *)file->raw + file->raw_used;
    }
    *room = BUFFER - file->used;
    return file->buffer + file->used;
}

/* ---- events ---- */

/* A time limit ends all ranks: who prints that is one of them. */
static bool log_event_is_of_job(const struct log_event *event)
{
    return event->kind == LOG_EVENT_OUTSIDE && event->confidence >= 80;
}

static int file_event(struct log_engine *file, const struct log_line *line, uint32_t pattern,
                      struct log_event *event)
{
    struct log_reader *reader = file->reader;
    bool timed = reader->until_real_ns != 0;

    event->line = line->number;
    event->part = file->source.part;
    event->log = file->log;
    event->real_ns = event->real_ns ? event->real_ns : line->real_ns;
    event->boot_ns = line->boot_ns;
    if (timed && !event->real_ns && !event->boot_ns)
        return 0;
    if (timed && event->real_ns &&
        (event->real_ns < reader->from_real_ns || event->real_ns > reader->until_real_ns))
        return 0;
    if (event->kind == LOG_EVENT_DESYNC && event->by_name) {
        event->by_name =
            false; /* both sides are named in the line; whoever printed it is neither */
    } else if (event->rank == LOG_EVENT_NO_RANK && event->kind != LOG_EVENT_EXIT &&
               !log_event_is_of_job(event) &&
               (event->kind <= LOG_EVENT_FOLLOW || event->kind == LOG_EVENT_CHANNELS ||
                event->kind == LOG_EVENT_COMPLETED)) {
        event->rank = line->rank;
        event->local = line->local;
        event->by_name = event->rank == LOG_EVENT_NO_RANK;
        if (event->by_name) {
            event->rank = file->source.rank;
            event->local = file->source.local;
        }
    }
    if (!event->node[0])
        snprintf(event->node, sizeof(event->node), "%s", line->node);
    if (!event->text[0])
        snprintf(event->text, sizeof(event->text), "%.*s", (int)MIN(line->end - line->text, 190),
                 line->text);
    if (!event->cause[0])
        snprintf(event->cause, sizeof(event->cause), "%.*s", (int)sizeof(event->cause) - 1,
                 event->text);
    snprintf(event->file, sizeof(event->file), "%s", file->name);
    if (event->kind < LOG_EVENT_FOLLOW)
        log_watch_error(&file->watch);
    file->watch.failed |=
        event->kind == LOG_EVENT_FOLLOW && !event->warned && event->confidence >= FOLLOWS;
    if (event->kind < LOG_EVENT_FOLLOW && line->pid && line_find(line, "NCCL WARN "))
        file->warning = (struct nccl_warning){ line->number, line->pid, NCCL_LINES, 0 };
    if (event->kind == LOG_EVENT_WRONG) {
        log_nan_begin(&file->nan, line);
        file->nan_rank = event->rank;
    }
    file->failed |=
        event->kind == LOG_EVENT_FOLLOW && !event->warned && event->confidence >= FOLLOWS;
    if (event->kind == LOG_EVENT_LOST_PEER && (file->lost || !file->has_end))
        file->lost = line->number;
    else if (event->kind < LOG_EVENT_IDENTITY && event->kind != LOG_EVENT_FOLLOW && !event->warned)
        file->lost = 0;
    file->has_end |= !event->warned && event->kind != LOG_EVENT_FOLLOW &&
                     (event->kind < LOG_EVENT_IDENTITY || event->kind >= LOG_EVENT_COMPLETED);
    return log_keep_event(file->keep, reader, pattern, event, timed ? KEPT_TIMED : KEPT);
}

static struct log_event log_event_new(void)
{
    return (struct log_event){ .rank = LOG_EVENT_NO_RANK,
                               .seq = LOG_EVENT_NO_NUMBER,
                               .enqueued = LOG_EVENT_NO_NUMBER,
                               .completed = LOG_EVENT_NO_NUMBER };
}

/* What a row of the table says; false: nothing. */
static bool log_event_of_row(const struct log_pattern *row, const struct log_line *line,
                             struct log_event *event)
{
    event->kind = row->kind;
    event->layer = row->layer;
    event->confidence = row->confidence;
    event->advice = row->advice;
    if (row->cause)
        snprintf(event->cause, sizeof(event->cause), "%s", row->cause);
    return !row->more || row->more(line, event);
}

/* What the program itself does not call an error.  Launchers warn of what others did, so that stays.  `found`: where the
 * words that mean an error begin.
 */
static void log_event_by_tone(const struct log_line *line, const char *found,
                              struct log_event *event)
{
    bool peer = event->kind == LOG_EVENT_LOST_PEER, follow = event->kind == LOG_EVENT_FOLLOW;
    bool cause = event->kind <= LOG_EVENT_DESYNC || event->kind == LOG_EVENT_FABRIC;
    bool wrong = event->kind == LOG_EVENT_WRONG;
    enum line_tone tone = peer || cause || follow || wrong ? line_tone(line) : LINE_PLAIN;

    if (wrong) /* whatever the level, but a step that was skipped did no harm */
        tone = line_find(line, "kipping ") ? tone : LINE_PLAIN;
    if (event->kind < LOG_EVENT_XID && line_mentions(line, found))
        tone = LINE_HANDLED;
    if (tone == LINE_HANDLED || (tone == LINE_WARNED && peer)) {
        event->kind = LOG_EVENT_FOLLOW;
        event->confidence = 0;
    }
    event->warned |= tone >= LINE_WARNED;
    if (tone == LINE_REMARK)
        event->confidence = MIN(event->confidence, WARNED);
}

/* What another process of the program was sending broke off: that one ended first. */
static bool log_event_is_cut_off(const struct traceback *traceback, const char *text)
{
    static const char *const names[] = { "EOFError", "_pickle.UnpicklingError",
                                         "ConnectionResetError", "BrokenPipeError" };

    for (size_t i = 0; i < COUNT(names) && traceback->pipe; i++) {
        if (strncmp(text, names[i], strlen(names[i])) == 0)
            return true;
    }
    return false;
}

/* Whatever came first in a chain was the cause; one that no row knows gives way to one that is known. */
static void log_event_in_chain(struct traceback *traceback, bool generic, struct log_event *event)
{
    if (traceback->cleanup && event->kind != LOG_EVENT_DESYNC) {
        event->kind = LOG_EVENT_FOLLOW;
        event->confidence = 0;
    }
    if (log_event_is_cut_off(traceback, event->text)) {
        event->kind = LOG_EVENT_FOLLOW;
        event->confidence = FOLLOWS;
        snprintf(event->cause, sizeof(event->cause), "another process of the program ended");
    }
    if (traceback->chained && traceback->first == LOG_EVENT_ERROR &&
        event->kind <= LOG_EVENT_TIMEOUT && !(traceback->first_generic && !generic))
        event->kind = LOG_EVENT_FOLLOW;
    if (!traceback->chained || event->kind != LOG_EVENT_FOLLOW) {
        traceback->first = event->kind;
        traceback->first_generic = generic;
    }
    if (generic && traceback->checkpoint && event->layer == LAYER_USER_CODE)
        event->layer = LAYER_CHECKPOINT;
    traceback->chained = false;
    traceback->cleanup = false;
}

/* The event of the first row that fits, from `which` on, and does not find that the line is not what it seems; false: none. */
static bool log_event_of_line(const struct log_engine *file, const struct log_line *line,
                              uint32_t *which, struct log_event *event)
{
    struct log_event empty = *event;

    for (uint32_t i = *which; i < file->rows; i++) {
        const struct log_pattern *row = file->patterns.row[i];

        if (!row->kind ||
            (i > *which &&
             !pattern_fits(row->pattern, *row->pattern == '^' ? line->text : line->raw, line->end,
                           NULL)))
            continue;
        if (log_event_of_row(row, line, event)) {
            *which = i;
            return true;
        }
        *event = empty;
    }
    return false;
}

static int file_exception(struct log_engine *file, const struct log_line *line, size_t name,
                          uint32_t which, struct traceback *traceback)
{
    struct log_event event = log_event_new();
    const char *text = line->text;
    bool generic = which == UINT32_MAX;

    while (text < line->end && *text == ' ')
        text++;
    snprintf(event.text, sizeof(event.text), "%.*s", (int)MIN(line->end - text, 190), text);
    event.exception = true;
    if (generic) {
        pattern_of_exception(text, name, &event);
        event.confidence = traceback ? GENERIC : GENERIC_ALONE;
        which = file->rows + LOG_KEEP_EXCEPTION;
    } else if (!log_event_of_line(file, line, &which, &event)) {
        return 0;
    }
    if (traceback) /* it was raised, so the row is about an error and no remark */
        event.confidence = MAX(event.confidence, event.kind == LOG_EVENT_ERROR ? RAISED : 0);
    if (traceback)
        log_event_in_chain(traceback, generic, &event);
    else
        log_event_by_tone(line, line->text, &event);
    if (generic && event.layer == LAYER_USER_CODE)
        event.advice = "Read the traceback or the lines before this one, and fix the program.";
    if (file->table.lines_left && event.rank == LOG_EVENT_NO_RANK)
        event.rank = file->table.event.rank;
    return file_event(file, line, which, &event);
}

/* ---- torchrun's table ---- */

static bool table_value(const struct log_line *line, const char *key, const char **ret)
{
    const char *at = line->text;

    while (at < line->end && *at == ' ')
        at++;
    if ((size_t)(line->end - at) < strlen(key) || memcmp(at, key, strlen(key)) != 0)
        return false;
    at = memchr(at, ':', (size_t)(line->end - at));
    if (!at)
        return false;
    for (at++; at < line->end && *at == ' ';)
        at++;
    *ret = at;
    return true;
}

/* Rows "  key : value" that follow "Failures:" and "Root Cause (first observed failure):". */
static int file_table(struct log_engine *file, const struct log_line *line)
{
    struct failure_table *table = &file->table;
    struct log_event *event = &table->event;
    const char *value;
    int64_t number, boot_ns;
    char time[40];

    table->lines_left--;
    if (table_value(line, "time ", &value)) {
        *event = log_event_new();
        snprintf(time, sizeof(time), "%.*s", (int)MIN(line->end - value, 39), value);
        date_read(time, file->source.near_real_ns, &event->real_ns, &boot_ns);
    } else if (table_value(line, "host ", &value)) {
        snprintf(event->node, sizeof(event->node), "%.*s", (int)MIN(line->end - value, 63), value);
    } else if (table_value(line, "rank ", &value) && line_number(value, line->end, &number) &&
               number >= 0 && number < 1 << 20) {
        event->rank = (uint32_t)number;
    } else if (table_value(line, "exitcode ", &value) && line_number(value, line->end, &number)) {
        event->kind = table->root ? LOG_EVENT_ROOT : LOG_EVENT_EXIT;
        event->confidence = 80;
        event->value = number;
        event->pid = (uint32_t)MAX(line_number_after(line, "(pid:", 0), 0);
        patterns_end_text(event);
        table->lines_left = TABLE_LINES;
        number = file_event(file, line, file->rows + (table->root ? LOG_KEEP_ROOT : LOG_KEEP_EXIT),
                            event);
        return number < 0 ? (int)number : 1;
    } else {
        return 0;
    }
    table->lines_left = TABLE_LINES;
    return 1;
}

static bool log_line_has(const struct log_line *line, const char *words)
{
    return memmem(line->text, (size_t)(line->end - line->text), words, strlen(words)) != NULL;
}

/* ---- lines ---- */

/* 1: it was a kernel's message; 0: it was none. */
static int file_kernel_line(struct log_engine *file, const struct log_line *line)
{
    struct log_event event = log_event_new();
    int result;

    if (!pattern_kernel_event(&file->kernel, line, &event))
        return 0;
    result =
        file_event(file, line, file->rows + LOG_KEEP_KERNEL + (event.kind - LOG_EVENT_XID), &event);
    return result < 0 ? result : 1;
}

/* Reports quote lines with an indent. */
static size_t log_blanks(const struct log_line *line)
{
    size_t blanks = 0;

    while (line->text + blanks < line->end && line->text[blanks] == ' ' && blanks < 8)
        blanks++;
    return blanks;
}

/* A line that is not inside a traceback or a table. */
static int file_message(struct log_engine *file, const struct log_line *line,
                        struct traceback *traceback)
{
    uint32_t last, which = matcher_line(file->matcher, line->raw, line->text, line->end, &last);
    struct log_event event = log_event_new();
    const char *row, *found;
    size_t name = 0;

    if (last >= file->rows) { /* words of the kernel are in it */
        int result = file_kernel_line(file, line);

        if (result)
            return MIN(result, 0);
    }
    if (which >= file->rows || !file->patterns.row[which]->kind)
        which = UINT32_MAX; /* no row, or a hook that only woke us */
    if (traceback)
        name = exception_name(line->text + traceback->indent, line->end, !traceback->headless);
    else
        name = exception_name(line->text + log_blanks(line), line->end, false);
    if (name)
        return file_exception(file, line, name, which, traceback);
    if (which == UINT32_MAX || !log_event_of_line(file, line, &which, &event))
        return 0;
    row = file->patterns.row[which]->pattern;
    if (!pattern_fits(row, *row == '^' ? line->text : line->raw, line->end, &found))
        found = NULL;
    log_event_by_tone(line, found, &event);
    return file_event(file, line, which, &event);
}

static int file_line(struct log_engine *file, const char *begin, const char *end, uint32_t number)
{
    struct traceback *traceback;
    struct log_line line;
    bool root;

    line_read(&line, begin, end, file->source.near_real_ns);
    line.number = number;
    file->watch.at_work = false;
    if (file->reader->until_real_ns) /* kernel messages alone count */
        return MIN(file_kernel_line(file, &line), 0);
    root = log_line_has(&line, "Root Cause (first observed failure)");
    if (root || log_line_has(&line, "Failures:")) {
        file->table = (struct failure_table){ .lines_left = TABLE_LINES, .root = root };
        file->table.event = log_event_new();
        return 0;
    }
    if (!file->table.lines_left && log_line_has(&line, "rank      :")) { /* its head was cut off */
        file->table = (struct failure_table){ .lines_left = TABLE_LINES };
        file->table.event = log_event_new();
    }
    if (file->table.lines_left) {
        int result = file_table(file, &line);

        if (result)
            return MIN(result, 0);
    }
    switch (traceback_line(&file->tracebacks, &line, &traceback)) {
    case TRACEBACK_INSIDE:
        return 0;
    case TRACEBACK_EXCEPTION:
        return file_message(file, &line, traceback);
    default:
        return line_is_code(&line) ? 0 : file_message(file, &line, NULL);
    }
}

static uint32_t log_newlines(const char *from, const char *to)
{
    uint32_t count = 0;

    for (; from < to && (from = memchr(from, '\n', (size_t)(to - from))); from++)
        count++;
    return count;
}

/* The process that warned goes on with its work: that warning was no error. */
static bool file_warning_passed(struct log_engine *file, const struct log_line *line)
{
    struct nccl_warning *warning = &file->warning;

    if (!warning->lines_left)
        return false;
    warning->lines_left--;
    if (line->pid != warning->pid || !line_find(line, "NCCL INFO "))
        return false;
    if (!line_nccl_goes_on(line))
        warning->lines_left = 0;
    else
        warning->informed++;
    return warning->lines_left && warning->informed == NCCL_ENOUGH;
}

static int file_went_on(struct log_engine *file, const char *begin, const char *end,
                        uint32_t number)
{
    struct log_event event = log_event_new(), passed = log_event_new();
    bool went_on = log_watch_step(&file->watch, begin, end);
    bool near = log_watch_is_near(&file->watch);
    struct log_line line;
    int result = 0;

    if (!went_on && !file->nan.name[0] && !near && !file->warning.lines_left)
        return 0;
    line_read(&line, begin, end, file->source.near_real_ns);
    line.number = number;
    if (log_nan_passed(&file->nan, &line)) {
        passed.kind = LOG_EVENT_PASSED;
        passed.rank = file->nan_rank;
        result = file_event(file, &line, file->rows + LOG_KEEP_PASSED, &passed);
    }
    event.kind = LOG_EVENT_WENT_ON;
    if (file_warning_passed(file, &line))
        event.value = file->warning.line;
    else if (!went_on && !(near && line_tone(&line) == LINE_HANDLED))
        return result;
    return result == 0 ? file_event(file, &line, file->rows + LOG_KEEP_WENT_ON, &event) : result;
}

/* The lines of [at, end) behind an error.  What is kept has the number of the last line that matters before it. */
static int file_watch_steps(struct log_engine *file, const char *at, const char *end)
{
    int result = 0;

    while (at < end && result == 0 && file->watch.after_error) {
        const char *stop = at;

        while (stop < end && *stop != '\n' && *stop != '\r')
            stop++;
        result = file_went_on(file, at, stop, file->line);
        at = stop + 1;
    }
    return result;
}

static void file_watch_ranks(struct log_engine *file, const char *at, const char *end)
{
    while (at < end && log_watch_wants_ranks(&file->watch)) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct log_line line;

        stop = stop ? stop : end;
        if (stop - at > 1) {
            line_read(&line, at, stop, file->source.near_real_ns);
            log_watch_rank(&file->watch, &line);
        }
        at = stop + 1;
    }
}

/* Whole lines; what they are after the last of them. */
static int file_lines(struct log_engine *file, char *text, size_t bytes)
{
    const struct matcher *matcher = file->matcher;
    size_t stripped = log_strip_colours(text, bytes);
    const char *at = text, *end = text + stripped, *counted = text;
    bool timed = file->reader->until_real_ns != 0;
    int result = 0;

    if (!timed)
        file_watch_ranks(file, at, end);
    log_tail_add(&file->tail, text, stripped);
    while (at < end && result == 0) {
        bool watching = file->tracebacks.watching || file->table.lines_left;
        const char *hit = watching ? at : matcher_next(matcher, at, end, NULL), *begin, *stop;

        if (!hit)
            break;
        for (begin = hit; begin > at && begin[-1] != '\n' && begin[-1] != '\r';)
            begin--;
        for (stop = hit; stop < end && *stop != '\n' && *stop != '\r';)
            stop++;
        if (!timed)
            result = file_watch_steps(file, at, begin);
        file->line += log_newlines(counted, begin);
        counted = begin;
        if (stop > begin && result == 0)
            result = file_line(file, begin, stop, file->line);
        if (watching && !timed && result == 0)
            result = file_watch_steps(file, begin, stop);
        at = stop + 1;
    }
    if (!timed && result == 0 && at < end)
        result = file_watch_steps(file, at, end);
    file->line += log_newlines(counted, end);
    return result;
}

/* UTF-16 goes through a buffer of its own. */
static void file_decode(struct log_engine *file, size_t bytes)
{
    size_t ready;

    if (!file->utf16) {
        file->used += bytes;
        return;
    }
    file->raw_used += bytes;
    ready = file->raw_used & ~(size_t)1;
    file->used += log_from_utf16(file->raw, ready, file->big_endian, file->buffer + file->used);
    file->raw[0] = file->raw[file->raw_used - 1];
    file->raw_used -= ready;
}

static void file_start(struct log_engine *file)
{
    file->started = true;
    if (!log_is_utf16(file->buffer, file->used))
        return;
    file->utf16 = true;
    file->big_endian = file->buffer[0] == 0 || (unsigned char)file->buffer[0] == 0xfe;
    file->raw_used = file->used;
    memcpy(file->raw, file->buffer, file->raw_used);
    file->used = 0;
    file_decode(file, 0);
}

static int file_process(struct log_engine *file, bool all)
{
    char *last = memrchr(file->buffer, '\n', file->used);
    size_t ready = last ? (size_t)(last + 1 - file->buffer) : 0;
    int result;

    if (all || (!ready && file->used >= BUFFER)) /* a line as long as the buffer is cut */
        ready = file->used;
    if (!ready)
        return 0;
    result = file_lines(file, file->buffer, ready);
    file->used -= ready;
    memmove(file->buffer, file->buffer + ready, file->used);
    return result;
}

int log_file_came(struct log_engine *file, size_t bytes)
{
    if (!file->started) {
        file->used += bytes;
        if (file->used < 256) /* enough to know the encoding */
            return 0;
        file_start(file);
    } else {
        file_decode(file, bytes);
    }
    return file->used >= BUFFER / 2 || file->utf16 ? file_process(file, false) : 0;
}

/* Is there a row for this line, and not one for errors that nobody knows? */
static enum log_tail_known file_knows(const void *user, const struct log_line *line)
{
    const struct log_engine *file = user;
    uint32_t last, which = matcher_line(file->matcher, line->raw, line->text, line->end, &last);
    const struct log_pattern *row = which < file->rows ? file->patterns.row[which] : NULL;

    if (!row || !row->kind)
        return LOG_TAIL_UNKNOWN;
    if (row->kind == LOG_EVENT_FOLLOW && row->confidence >= FOLLOWS)
        return LOG_TAIL_FOLLOWS;
    return row->kind == LOG_EVENT_COMPLETED ||
                   (row->kind > LOG_EVENT_WRONG && row->kind <= LOG_EVENT_FOLLOW)
               ? LOG_TAIL_KNOWN
               : LOG_TAIL_UNKNOWN;
}

/* A lost connection behind which the program went on with its work was made again. */
static bool file_outlived_peer(const struct log_engine *file, const struct log_tail_rules *rules)
{
    return file->lost && !file->failed && file->line > file->lost &&
           log_tail_ordinary(&file->tail, rules, file->line - file->lost - 1) >= ORDINARY_LINES;
}

static int file_add_went_on(struct log_engine *file)
{
    struct log_event event = log_event_new();
    struct log_line line = { .number = file->line, .rank = LOG_EVENT_NO_RANK };

    event.kind = LOG_EVENT_WENT_ON;
    return file_event(file, &line, file->rows + LOG_KEEP_WENT_ON, &event);
}

/* What the end of the log shows: that the program went on, or an error that the table does not know. */
static int file_tail(struct log_engine *file)
{
    struct log_tail_rules rules = { .near_real_ns = file->source.near_real_ns,
                                    .failed = file->failed,
                                    .known = file_knows,
                                    .user = file };
    struct log_event event = log_event_new();
    struct log_line line;
    uint32_t behind;

    if (file->reader->until_real_ns)
        return 0;
    if (log_watch_went_on(&file->watch) || file_outlived_peer(file, &rules))
        return file_add_went_on(file);
    if (file->has_end || !log_tail_error(&file->tail, &rules, &line, &event, &behind))
        return 0;
    line.number = file->line > behind + 1 ? file->line - behind - 1 : 1;
    if (!event.exception)
        line.rank = LOG_EVENT_NO_RANK; /* who wrote the line is not known to be at fault */
    event.guess = true;
    if (!event.advice)
        event.advice = "Read the lines around this one: lockstep does not know this message.";
    return file_event(file, &line, file->rows + LOG_KEEP_TAIL, &event);
}

int log_file_end(struct log_engine *file)
{
    int result, ended;

    if (!file->started)
        file_start(file);
    result = file_process(file, true);
    if (result == 0)
        result = file_tail(file);
    for (uint32_t rank = 0;
         rank < LOG_WATCH_RANKS && log_watch_is_labelled(&file->watch) && result == 0; rank++) {
        if (log_watch_writes(&file->watch, rank))
            result = log_reader_saw_rank(file->reader, rank);
    }
    if (file->watch.local)
        log_reader_saw_local(file->reader, file->log);
    ended = log_keep_end(file->keep, file->reader);
    return result < 0 ? result : ended;
}
