/* logtext.c - searches a log for known phrases and reads Python tracebacks.
 *
 * Each phrase is searched in the whole text: that is ten times as fast as going line by line, and logs may be
 * large.  Of each kind of line the first and last ones of a file are kept; those between are alike.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/logtext.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "read/logtext_private.h"

#define KEPT 32         /* notes of one rule and file, half of them the last; but for identities */
#define KEPT_TIMED 4096 /* where their times matter: older ones may come before those that do */

struct log_file {
    struct logtext *logtext;
    const char *text, *end, *name;
    uint32_t rank;
    const char *counted; /* lines are counted up to here */
    uint32_t lines;
};

struct log_hit {
    struct log_line line;
    struct log_event note;
};

struct keep { /* of notes that come in the order of the text, the first and the last ones */
    size_t half, came;
    struct log_hit *last; /* a ring of `half` */
};

bool log_number(const char *at, const char *end, int64_t *ret)
{
    bool minus = false;
    int64_t value = 0;

    while (at < end && (*at == ' ' || *at == ':'))
        at++;
    if (at < end && *at == '-') {
        minus = true;
        at++;
    }
    if (at == end || !isdigit((unsigned char)*at))
        return false;
    for (; at < end && isdigit((unsigned char)*at) && value < INT64_C(1) << 53; at++)
        value = 10 * value + (*at - '0');
    *ret = minus ? -value : value;
    return true;
}

const char *log_find(const struct log_line *line, const char *words)
{
    return memmem(line->text, (size_t)(line->end - line->text), words, strlen(words));
}

static struct log_line line_at(const struct log_file *file, const char *found)
{
    struct log_line line = { .text = found, .end = found, .found = found };
    const char *end = memchr(found, '\n', (size_t)(file->end - found));

    while (line.text > file->text && line.text[-1] != '\n')
        line.text--;
    line.end = end ? end : file->end;
    return line;
}

/* "[rank3]: ...", "[default3]:...", "3: ..." as launchers label lines; UINT32_MAX: none. */
static uint32_t label_rank(const struct log_line *line)
{
    const char *at = line->text;
    int64_t rank;

    if (line->end - at > 6 && memcmp(at, "[rank", 5) == 0)
        at += 5;
    else if (line->end - at > 9 && memcmp(at, "[default", 8) == 0)
        at += 8;
    else if (at == line->end || !isdigit((unsigned char)*at))
        return LOG_EVENT_NO_RANK;
    if (!log_number(at, line->end, &rank) || rank > 1 << 20)
        return LOG_EVENT_NO_RANK;
    while (at < line->end && isdigit((unsigned char)*at))
        at++;
    if (line->text == at || at + 1 >= line->end ||
        !(at[0] == ']' || (at[0] == ':' && at[1] == ' ')))
        return LOG_EVENT_NO_RANK;
    return (uint32_t)rank;
}

/* Counted on from the last one: a file is large, and its notes mostly come in order. */
static uint32_t line_number(struct log_file *file, const char *at)
{
    if (!file->counted || at < file->counted) {
        file->counted = file->text;
        file->lines = 1;
    }
    for (const char *end; (end = memchr(file->counted, '\n', (size_t)(at - file->counted)));
         file->lines++)
        file->counted = end + 1;
    return file->lines;
}

static int note_add(struct log_file *file, const struct log_line *line, struct log_event *note)
{
    struct logtext *logtext = file->logtext;
    struct logs *logs = &logtext->logs;

    note->line = line_number(file, line->text);
    if (note->rank == LOG_EVENT_NO_RANK &&
        (note->kind <= LOG_EVENT_FABRIC || note->kind == LOG_EVENT_CHANNELS)) {
        note->rank = label_rank(line);
        note->by_name = note->rank == LOG_EVENT_NO_RANK;
        if (note->by_name)
            note->rank = file->rank;
    }
    /* Of those that are kept alone: a date takes longer to read than a line to find. */
    if (logtext->near_real_ns)
        log_when(line, logtext->near_real_ns, note);
    if (!note->text[0])
        snprintf(note->text, sizeof(note->text), "%.*s", (int)MIN(line->end - line->text, 180),
                 line->text);
    if (!note->cause[0])
        snprintf(note->cause, sizeof(note->cause), "%s", note->text);
    snprintf(note->file, sizeof(note->file), "%s", file->name);
    if (budget_grow(logtext->budget, &logs->note, &logtext->note_room, logs->notes,
                    sizeof(*logs->note)) < 0)
        return -ENOMEM;
    logs->note[logs->notes++] = *note;
    return 0;
}

static int keep_note(struct keep *keep, struct log_file *file, const struct log_line *line,
                     struct log_event *note)
{
    if (note->kind >= LOG_EVENT_IDENTITY)
        return note_add(file, line, note);
    if (keep->came < keep->half) {
        keep->came++;
        return note_add(file, line, note);
    }
    if (!keep->last)
        keep->last = calloc(keep->half, sizeof(*keep->last));
    if (!keep->last)
        return -ENOMEM;
    keep->last[keep->came++ % keep->half] = (struct log_hit){ *line, *note };
    return 0;
}

/* Adds the last ones, and lets go. */
static int keep_end(struct keep *keep, struct log_file *file, int result)
{
    size_t first = MAX(keep->came, 2 * keep->half) - keep->half;

    for (size_t i = first; keep->last && i < keep->came && result == 0; i++) {
        struct log_hit *hit = &keep->last[i % keep->half];

        result = note_add(file, &hit->line, &hit->note);
    }
    free(keep->last);
    return result;
}

/* Is it of the time that is asked for?  Times since boot are somebody else's to compare. */
static bool logtext_in_time(const struct logtext *logtext, const struct log_line *line,
                            struct log_event *note)
{
    if (!logtext->until_real_ns)
        return true;
    if (!log_when(line, logtext->until_real_ns, note))
        return false;
    return !note->real_ns ||
           (note->real_ns >= logtext->from_real_ns && note->real_ns <= logtext->until_real_ns);
}

static int apply_rule(struct log_file *file, const struct log_rule *rule)
{
    struct keep keep = { .half = (file->logtext->until_real_ns ? KEPT_TIMED : KEPT) / 2 };
    const char *at = file->text;
    int result = 0;

    while (result == 0 &&
           (at = memmem(at, (size_t)(file->end - at), rule->words, strlen(rule->words)))) {
        struct log_line line = line_at(file, at);
        struct log_event note = { .kind = rule->kind,
                                  .layer = rule->layer,
                                  .rank = LOG_EVENT_NO_RANK };

        at = line.end;
        if (rule->cause)
            snprintf(note.cause, sizeof(note.cause), "%s", rule->cause);
        if (rule->more && !rule->more(&line, &note))
            continue;
        if (logtext_in_time(file->logtext, &line, &note))
            result = keep_note(&keep, file, &line, &note);
    }
    return keep_end(&keep, file, result);
}

/* From the line of "Traceback" to the exception's: the first below it that is not indented more. */
static const char *traceback_end(const struct log_file *file, const struct log_line *first,
                                 struct log_line *ret)
{
    size_t indent = (size_t)(first->found - first->text);
    struct log_line line = *first;

    while (line.end + 1 < file->end) {
        line = line_at(file, line.end + 1);
        if (line.end == line.text)
            return NULL;
        if ((size_t)(line.end - line.text) > indent && line.text[indent] != ' ' &&
            line.text[indent] != '\t') {
            line.found = line.text + indent;
            *ret = line;
            return line.end;
        }
    }
    return NULL;
}

/* Is this the exception during whose handling the next one came?  Then the next one is its echo. */
static bool traceback_goes_on(const struct log_file *file, const char *end)
{
    const char *near = file->end - end > 400 ? end + 400 : file->end;

    return memmem(end, (size_t)(near - end), "above exception", strlen("above exception")) != NULL;
}

static int add_tracebacks(struct log_file *file)
{
    static const char words[] = "Traceback (most recent call last):";
    struct keep keep = { .half = KEPT / 2 };
    const char *at = file->text;
    bool chained = false;
    int result = 0;

    while (result == 0 && (at = memmem(at, (size_t)(file->end - at), words, strlen(words)))) {
        struct log_line first = line_at(file, at), last;
        struct log_event note = { .rank = LOG_EVENT_NO_RANK };
        const char *end = traceback_end(file, &first, &last);

        at = first.end;
        if (!end)
            continue;
        snprintf(note.text, sizeof(note.text), "%.*s", (int)MIN(last.end - last.found, 180),
                 last.found);
        log_classify(note.text, &note);
        if (!chained || note.kind == LOG_EVENT_ERROR)
            result = keep_note(&keep, file, &last, &note);
        chained = traceback_goes_on(file, end);
        at = end;
    }
    return keep_end(&keep, file, result);
}

static struct logrank *logtext_rank_of(struct logtext *logtext, uint32_t rank)
{
    struct logs *logs = &logtext->logs;

    for (size_t i = 0; i < logs->ranks; i++) {
        if (logs->rank[i].rank == rank)
            return &logs->rank[i];
    }
    if (budget_grow(logtext->budget, &logs->rank, &logtext->rank_room, logs->ranks,
                    sizeof(*logs->rank)) < 0)
        return NULL;
    logs->rank[logs->ranks] = (struct logrank){ .rank = rank };
    return &logs->rank[logs->ranks++];
}

bool logtext_is(const char *text, size_t bytes)
{
    size_t looked = MIN(bytes, (size_t)8192), odd = 0;

    for (size_t i = 0; i < looked; i++) {
        if (text[i] == '\0')
            return false;
        odd += (unsigned char)text[i] < ' ' && !strchr("\n\r\t\033\b", text[i]);
    }
    return odd * 20 <= looked;
}

int logtext_add(struct logtext *logtext, uint32_t rank, const char *name, const char *text,
                size_t bytes)
{
    struct log_file file = {
        .logtext = logtext, .text = text, .end = text + bytes, .name = name, .rank = rank
    };
    int result = add_tracebacks(&file);

    for (const struct log_rule *rule = log_rules_job; rule->words && result == 0; rule++)
        result = apply_rule(&file, rule);
    for (const struct log_rule *rule = log_rules_kernel; rule->words && result == 0; rule++)
        result = apply_rule(&file, rule);
    if (result == 0 && rank != LOG_EVENT_NO_RANK && !logtext_rank_of(logtext, rank))
        result = -ENOMEM;
    return result;
}

int logtext_add_kernel(struct logtext *logtext, const char *name, const char *text, size_t bytes)
{
    struct log_file file = { .logtext = logtext,
                             .text = text,
                             .end = text + bytes,
                             .name = name,
                             .rank = LOG_EVENT_NO_RANK };
    int result = 0;

    for (const struct log_rule *rule = log_rules_kernel; rule->words && result == 0; rule++)
        result = apply_rule(&file, rule);
    return result;
}

static int by_rank(const void *left, const void *right)
{
    const struct logrank *a = left, *b = right;

    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* The strongest word about a rank's end counts: its own error before what it saw of others. */
static int find_ends(struct logtext *logtext)
{
    for (size_t i = 0; i < logtext->logs.notes; i++) {
        const struct log_event *note = &logtext->logs.note[i];
        struct logrank *rank;

        if (note->rank == LOG_EVENT_NO_RANK || note->kind > LOG_EVENT_TIMEOUT)
            continue;
        rank = logtext_rank_of(logtext, note->rank);
        if (!rank)
            return -ENOMEM;
        if (!rank->ended || note->kind < rank->ended ||
            (note->kind == LOG_EVENT_TIMEOUT && rank->ended == LOG_EVENT_LOST_PEER))
            rank->ended = note->kind == LOG_EVENT_LOST_PEER && rank->ended == LOG_EVENT_TIMEOUT
                              ? rank->ended
                              : note->kind;
    }
    return 0;
}

/* "slurm-4211.out" is a job, not a rank: numbers far beyond the count of logs are no ranks. */
static void drop_strangers(struct logs *logs)
{
    size_t limit = 4 * logs->ranks + 16, kept = 0;

    for (size_t i = 0; i < logs->ranks; i++) {
        if (logs->rank[i].rank < limit)
            logs->rank[kept++] = logs->rank[i];
    }
    logs->ranks = kept;
    for (size_t i = 0; i < logs->notes; i++) {
        struct log_event *note = &logs->note[i];

        if (note->by_name && note->rank != LOG_EVENT_NO_RANK && note->rank >= limit)
            note->rank = LOG_EVENT_NO_RANK;
    }
}

int logtext_take(struct logtext *logtext, struct logs *ret)
{
    int result;

    drop_strangers(&logtext->logs);
    result = find_ends(logtext);
    if (result < 0)
        return result;
    if (logtext->logs.ranks)
        qsort(logtext->logs.rank, logtext->logs.ranks, sizeof(*logtext->logs.rank), by_rank);
    *ret = logtext->logs;
    logtext->logs = (struct logs){ 0 };
    return 0;
}

void logtext_cut(struct logtext *logtext, size_t notes)
{
    struct log_event *cut;

    logtext->logs.notes = notes;
    cut = reallocarray(logtext->logs.note, MAX(notes, 1u), sizeof(*cut));
    if (!cut)
        return;
    budget_give(logtext->budget, (logtext->note_room - MAX(notes, 1u)) * sizeof(*cut));
    logtext->logs.note = cut;
    logtext->note_room = MAX(notes, 1u);
}

void logtext_fini(struct logtext *logtext)
{
    logs_fini(&logtext->logs);
    *logtext = (struct logtext){ 0 };
}
