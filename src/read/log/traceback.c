/* traceback.c - one state for each rank that is printing a traceback.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/log/traceback.h"

#include <ctype.h>
#include <string.h>

#include "core/clean.h"

#define LINES_MAX 600 /* of a traceback */
#define LINES_HEADLESS 60
#define LINES_CHAIN 12 /* until the next one of a chain begins */

static bool traceback_text_has(const char *text, const char *end, const char *words)
{
    return memmem(text, (size_t)(end - text), words, strlen(words)) != NULL;
}

static bool traceback_text_begins(const char *text, const char *end, const char *words)
{
    return (size_t)(end - text) >= strlen(words) && memcmp(text, words, strlen(words)) == 0;
}

size_t exception_name(const char *text, const char *end, bool any_name)
{
    static const char *const endings[] = { "Error", "Exception", "Interrupt", "Exit",
                                           "Unsupported" };
    const char *at = text, *last = text;

    if (text == end ||
        (!isalpha((unsigned char)*text) && *text != '_')) /* _pickle.UnpicklingError */
        return 0;
    while (at < end && (isalnum((unsigned char)*at) || *at == '_' || *at == '.')) {
        if (*at++ == '.')
            last = at;
    }
    if (at < end && *at == '(') /* RayTaskError(ValueError): */
        at = memchr(at, ')', (size_t)(end - at))
                 ? (const char *)memchr(at, ')', (size_t)(end - at)) + 1
                 : at;
    if (last == at || at - text > 120 ||
        (at < end && (*at != ':' || (at + 1 < end && at[1] != ' '))))
        return 0;
    if (!isupper((unsigned char)*last) && !(any_name && last > text && at < end))
        return any_name && *last == '_' && last + 1 < at && isupper((unsigned char)last[1])
                   ? (size_t)(at - text)
                   : 0;
    if (any_name)
        return (size_t)(at - text);
    for (size_t i = 0; i < COUNT(endings); i++) {
        size_t bytes = strlen(endings[i]);

        if ((size_t)(at - last) == bytes && strcmp(endings[i], "Exception") == 0 && at < end &&
            memcmp(last, endings[i], bytes) == 0)
            return (size_t)(at - text); /* "Exception: text" */
        if ((size_t)(at - last) > bytes && (memcmp(at - bytes, endings[i], bytes) == 0 ||
                                            memmem(last, (size_t)(at - last), "Error(", 6)))
            return (size_t)(at - text);
    }
    return 0;
}

static struct traceback *traceback_find(struct tracebacks *tracebacks, uint64_t who)
{
    for (size_t i = 0; i < TRACEBACKS; i++) {
        if (tracebacks->list[i].lines_left && tracebacks->list[i].who == who)
            return &tracebacks->list[i];
    }
    return NULL;
}

/* The oldest gives way. */
static struct traceback *traceback_add(struct tracebacks *tracebacks, uint64_t who)
{
    struct traceback *found = traceback_find(tracebacks, who);

    if (found)
        return found;
    found = &tracebacks->list[0];
    for (size_t i = 1; i < TRACEBACKS; i++) {
        if (tracebacks->list[i].lines_left < found->lines_left)
            found = &tracebacks->list[i];
    }
    tracebacks->watching += !found->lines_left;
    *found = (struct traceback){ .who = who };
    return found;
}

static void traceback_age(struct tracebacks *tracebacks)
{
    for (size_t i = 0; i < TRACEBACKS && tracebacks->watching; i++) {
        struct traceback *traceback = &tracebacks->list[i];

        if (traceback->lines_left && !--traceback->lines_left)
            tracebacks->watching--;
    }
}

/* What the frames say about where the program was. */
static void traceback_frame(struct traceback *traceback, const char *text, const char *end)
{
    static const char *const cleanup[] = { "_run_finalizers",  "destroy_process_group",
                                           "resource_tracker", "__del__",
                                           "_run_exitfuncs",   "_exit_function" };
    static const char *const checkpoint[] = { "torch/serialization.py", "load_checkpoint",
                                              "save_checkpoint", "distributed/checkpoint/",
                                              "dist_checkpointing" };
    static const char *const pipe[] = { "in spawn_main", "pickle.load(from_parent)",
                                        "multiprocessing/connection.py",
                                        "multiprocessing/managers.py",
                                        "multiprocessing/resource_sharer.py" };

    for (size_t i = 0; i < COUNT(cleanup); i++)
        traceback->cleanup |= traceback_text_has(text, end, cleanup[i]);
    for (size_t i = 0; i < COUNT(checkpoint); i++)
        traceback->checkpoint |= traceback_text_has(text, end, checkpoint[i]);
    for (size_t i = 0; i < COUNT(pipe); i++)
        traceback->pipe |= traceback_text_has(text, end, pipe[i]);
}

static bool traceback_is_indented(const char *text, const char *end, uint32_t indent)
{
    size_t blanks = 0;

    while (text + blanks < end && (text[blanks] == ' ' || text[blanks] == '\t'))
        blanks++;
    return text + blanks == end || blanks > indent;
}

static void traceback_begin(struct tracebacks *tracebacks, uint64_t who,
                            const struct log_line *line)
{
    struct traceback *traceback = traceback_add(tracebacks, who);
    uint32_t blanks = 0;

    while (line->text + blanks < line->end && line->text[blanks] == ' ')
        blanks++;
    traceback->indent = blanks;
    traceback->headless = false;
    traceback->open = true;
    traceback->checkpoint = false;
    traceback->pipe = false;
    traceback->lines_left = LINES_MAX;
}

/* Lines that say what the next traceback is. */
static bool traceback_preface(struct tracebacks *tracebacks, uint64_t who,
                              const struct log_line *line)
{
    static const char *const cleanup[] = { "Exception ignored in", "Error in atexit",
                                           "Exception ignored on", "Error in sys.excepthook" };
    struct traceback *traceback;

    if (traceback_text_has(line->text, line->end, "above exception")) {
        traceback = traceback_find(tracebacks, who);
        if (traceback) {
            traceback->chained = true;
            traceback->lines_left = LINES_CHAIN;
        }
        return true;
    }
    for (size_t i = 0; i < COUNT(cleanup); i++) {
        if (traceback_text_begins(line->text, line->end, cleanup[i])) {
            traceback = traceback_add(tracebacks, who);
            traceback->cleanup = true;
            traceback->lines_left = LINES_CHAIN;
            return false; /* itself a line of the table */
        }
    }
    return false;
}

/* Terminals and forms join lines: "failed (exitcode: -9) ... Traceback (most recent call last): File ..." */
static bool traceback_is_joined(const struct log_line *line)
{
    static const char words[] = "Traceback (most recent call last):";
    const char *at = memmem(line->text, (size_t)(line->end - line->text), words, strlen(words));

    return at && line->end - at > (ptrdiff_t)strlen(words) + 8;
}

/* A frame where no traceback has begun: people and loggers cut logs anywhere. */
static struct traceback *traceback_cut_off(struct tracebacks *tracebacks, uint64_t who,
                                           const struct log_line *line)
{
    const char *at = line->text;
    struct traceback *traceback;

    while (at < line->end && *at == ' ')
        at++;
    if (!traceback_text_begins(at, line->end, "File \"") ||
        !traceback_text_has(at, line->end, "\", line ") ||
        !traceback_text_has(at, line->end, ", in "))
        return NULL;
    traceback_begin(tracebacks, who, line);
    traceback = traceback_find(tracebacks, who);
    traceback->indent -= MIN(traceback->indent, 2);
    traceback->headless = true;
    traceback->lines_left = LINES_HEADLESS;
    return traceback;
}

enum traceback_line traceback_line(struct tracebacks *tracebacks, const struct log_line *line,
                                   struct traceback **ret)
{
    uint64_t who = (uint64_t)line->rank << 32 | line->pid;
    struct traceback *traceback;

    *ret = NULL;
    traceback_age(tracebacks);
    if (traceback_text_has(line->text, line->end, "Traceback (most recent call last)")) {
        traceback_begin(tracebacks, who, line);
        return traceback_is_joined(line) ? TRACEBACK_NONE : TRACEBACK_INSIDE;
    }
    if (traceback_preface(tracebacks, who, line))
        return TRACEBACK_INSIDE;
    traceback = traceback_find(tracebacks, who);
    if (!traceback || !traceback->open)
        traceback = traceback_cut_off(tracebacks, who, line);
    if (!traceback)
        return TRACEBACK_NONE;
    *ret = traceback;
    if (traceback_is_indented(line->text, line->end, traceback->indent)) {
        traceback_frame(traceback, line->text, line->end);
        return TRACEBACK_INSIDE;
    }
    if (!exception_name(line->text + traceback->indent, line->end, !traceback->headless))
        return TRACEBACK_NONE; /* somebody else wrote in between */
    traceback->open = false;
    traceback->lines_left = LINES_CHAIN;
    return TRACEBACK_EXCEPTION;
}
