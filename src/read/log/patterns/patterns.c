/* patterns.c - the order of the tables, and exceptions that no row knows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/log/patterns/patterns.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

/* Lines that are looked at for what they begin, or because they have the form of an exception. */
static const struct log_pattern patterns_hooks[] = {
    { .pattern = "Traceback (most recent call last)" },
    { .pattern = "Root Cause (first observed failure)" },
    { .pattern = "Failures:" },
    { .pattern = "(local_rank: " },
    { .pattern = "above exception" },
    { .pattern = "\", line #, in " },
    { .pattern = "error: " },
    { .pattern = "Error(*): " },
    { .pattern = "exception: " },
    { .pattern = NULL },
};

/* A line that several rows fit means what the first of them says. */
static const struct log_pattern *const tables[] = {
    patterns_outside, patterns_device, patterns_follow, patterns_comm,
    patterns_host,    patterns_launch, patterns_hooks,
};

int patterns_init(struct log_patterns *patterns)
{
    uint32_t rows = 0, words = 0;

    for (size_t i = 0; i < COUNT(tables); i++) {
        for (const struct log_pattern *row = tables[i]; row->pattern; row++)
            rows++;
    }
    while (pattern_of_kernel(words))
        words++;
    *patterns = (struct log_patterns){ .row = calloc(rows, sizeof(struct log_pattern *)),
                                       .text = calloc(rows + words, sizeof(char *)) };
    if (!patterns->row || !patterns->text) {
        patterns_fini(patterns);
        return -ENOMEM;
    }
    for (size_t i = 0; i < COUNT(tables); i++) {
        for (const struct log_pattern *row = tables[i]; row->pattern; row++) {
            patterns->text[patterns->rows] = row->pattern;
            patterns->row[patterns->rows++] = row;
        }
    }
    for (uint32_t i = 0; i < words; i++)
        patterns->text[rows + i] = pattern_of_kernel(i);
    patterns->texts = rows + words;
    return 0;
}

void patterns_fini(struct log_patterns *patterns)
{
    free(patterns->row);
    free(patterns->text);
    *patterns = (struct log_patterns){ 0 };
}

/* By the end of its name; the rest of an error's kinds is the program's own. */
static const struct {
    const char *name;
    uint8_t kind, layer;
} exceptions[] = {
    { "MemoryError", LOG_EVENT_ERROR, LAYER_HOST_MEMORY },
    { "OutOfMemoryError", LOG_EVENT_ERROR, LAYER_GPU_MEMORY },
    { "ModuleNotFoundError", LOG_EVENT_ERROR, LAYER_FRAMEWORK },
    { "ImportError", LOG_EVENT_ERROR, LAYER_FRAMEWORK },
    { "KeyboardInterrupt", LOG_EVENT_OUTSIDE, LAYER_UNKNOWN },
    { "SystemExit", LOG_EVENT_FOLLOW, LAYER_UNKNOWN },
    { "BrokenPipeError", LOG_EVENT_LOST_PEER, LAYER_UNKNOWN },
    { "ConnectionResetError", LOG_EVENT_LOST_PEER, LAYER_UNKNOWN },
    { "ConnectionRefusedError", LOG_EVENT_LOST_PEER, LAYER_UNKNOWN },
    { "ConnectionAbortedError", LOG_EVENT_LOST_PEER, LAYER_UNKNOWN },
    /* Of the world outside the program. */
    { "OSError", LOG_EVENT_ERROR, LAYER_UNKNOWN },
    { "IOError", LOG_EVENT_ERROR, LAYER_UNKNOWN },
    { "TimeoutError", LOG_EVENT_ERROR, LAYER_UNKNOWN },
    { "ConnectionError", LOG_EVENT_ERROR, LAYER_UNKNOWN },
    { "HTTPError", LOG_EVENT_ERROR, LAYER_UNKNOWN },
    { "JSONDecodeError", LOG_EVENT_ERROR, LAYER_DATA },
    { "UnicodeDecodeError", LOG_EVENT_ERROR, LAYER_DATA },
};

static const struct {
    const char *word;
    uint8_t layer;
} paths[] = {
    { "ckpt", LAYER_CHECKPOINT },
    { "checkpoint", LAYER_CHECKPOINT },
    { ".safetensors", LAYER_CHECKPOINT },
    { "data", LAYER_DATA },
    { ".parquet", LAYER_DATA },
    { ".jsonl", LAYER_DATA },
    { ".idx", LAYER_DATA },
    { ".arrow", LAYER_DATA },
    { ".csv", LAYER_DATA },
};

/* Those that libraries raise for what the program cannot help; the others are mistakes in Python code. */
static bool pattern_is_library_error(const char *name, size_t bytes)
{
    static const char *const names[] = { "RuntimeError", "SystemError", "Exception" };

    for (size_t i = 0; i < COUNT(names); i++) {
        size_t size = strlen(names[i]);

        if (bytes >= size && memcmp(name + bytes - size, names[i], size) == 0)
            return true;
    }
    return false;
}

/* "... function error: HcclAllreduce", "ncclCommInitRank failed": a call for which ranks wait for each other.  Whoever reports
 * that it failed is mostly one that waited.
 */
static bool pattern_is_collective(const char *text)
{
    static const char *const libraries[] = { "Hccl", "hccl", "nccl", "rccl", "xccl", "MPI_" };

    for (size_t i = 0; i < COUNT(libraries); i++) {
        size_t bytes = strlen(libraries[i]);

        for (const char *at = text; (at = strstr(at, libraries[i])); at += bytes) {
            if ((at == text || !isalnum((unsigned char)at[-1])) &&
                isupper((unsigned char)at[bytes]) && islower((unsigned char)at[bytes + 1]))
                return true;
        }
    }
    return false;
}

void pattern_of_exception(const char *name, size_t bytes, struct log_event *event)
{
    event->kind = LOG_EVENT_ERROR;
    event->layer = LAYER_USER_CODE;
    for (size_t i = 0; i < COUNT(exceptions); i++) {
        size_t size = strlen(exceptions[i].name);

        if (bytes >= size && memcmp(name + bytes - size, exceptions[i].name, size) == 0) {
            event->kind = exceptions[i].kind;
            event->layer = exceptions[i].layer;
            return;
        }
    }
    if (pattern_is_library_error(name, bytes) && pattern_is_collective(event->text)) {
        event->kind = LOG_EVENT_LOST_PEER;
        event->layer = LAYER_UNKNOWN;
        snprintf(event->cause, sizeof(event->cause), "a call for a collective failed");
        return;
    }
    if (pattern_is_library_error(name, bytes))
        event->layer =
            (uint8_t)pattern_layer(event->text, event->text + strlen(event->text), event->layer);
    if (!memmem(name, bytes, "FileNotFound", 12))
        return;
    for (size_t i = 0; i < COUNT(paths); i++) {
        if (strstr(event->text, paths[i].word)) {
            event->layer = paths[i].layer;
            return;
        }
    }
}
