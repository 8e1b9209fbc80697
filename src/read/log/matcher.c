/* matcher.c - a table of jumps by three bytes, and lists of anchors where it says zero.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/log/matcher.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

#define MATCHER_BLOCK 3 /* bytes that decide how far to jump */
#define MATCHER_BITS 15
#define MATCHER_SLOTS (1u << MATCHER_BITS)
#define MATCHER_NONE UINT32_MAX

struct anchor {
    const char *text; /* within its pattern */
    uint32_t bytes;
    uint32_t next; /* with the same hash; MATCHER_NONE */
};

struct matcher {
    const char *const *pattern;
    struct anchor *anchor; /* by pattern */
    uint8_t jump[MATCHER_SLOTS];
    uint32_t first[MATCHER_SLOTS]; /* anchors */
};

static unsigned char matcher_fold(char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c | 0x20) : (unsigned char)c;
}

/* Folds more than letters: what is taken for equal here is compared again. */
static uint32_t matcher_block_hash(const char *at)
{
    uint32_t three = (uint32_t)(unsigned char)at[0] | (uint32_t)(unsigned char)at[1] << 8 |
                     (uint32_t)(unsigned char)at[2] << 16;

    return ((three | 0x202020) * UINT32_C(2654435761)) >> (32 - MATCHER_BITS);
}

static bool matcher_same_text(const char *a, const char *b, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (matcher_fold(a[i]) != matcher_fold(b[i]))
            return false;
    }
    return true;
}

/* Bytes up to the next hole, or to the end. */
static size_t matcher_piece_bytes(const char *pattern)
{
    size_t bytes = strcspn(pattern, "*#");

    if (bytes && !pattern[bytes] && pattern[bytes - 1] == '$')
        bytes--;
    return bytes;
}

/* Digits, and where they end; NULL: there are none. */
static const char *matcher_digits_end(const char *text, const char *end)
{
    const char *at = text;

    while (at < end && isdigit((unsigned char)*at))
        at++;
    return at > text ? at : NULL;
}

/* The rest of a pattern directly at `text`: pieces that follow "#" must stand where the digits end.  NULL: it does not fit,
 * else where it ends; `*rest` is what is left of the pattern: "*...", "$" or "".
 */
static const char *matcher_run_fits(const char *pattern, const char *text, const char *end,
                                    const char **rest)
{
    while (*pattern && *pattern != '*' && strcmp(pattern, "$") != 0) {
        size_t bytes;

        if (*pattern == '#') {
            text = matcher_digits_end(text, end);
            if (!text)
                return NULL;
            pattern++;
            continue;
        }
        bytes = matcher_piece_bytes(pattern);
        if ((size_t)(end - text) < bytes || !matcher_same_text(text, pattern, bytes))
            return NULL;
        text += bytes;
        pattern += bytes;
    }
    *rest = pattern;
    return text;
}

bool pattern_fits(const char *pattern, const char *text, const char *end, const char **found)
{
    bool fixed = *pattern == '^', first = true;

    pattern += fixed;
    for (;;) {
        const char *rest = pattern, *at = text,
                   *after = matcher_run_fits(pattern, text, end, &rest);

        while (!fixed && !after && at < end)
            after = matcher_run_fits(pattern, ++at, end, &rest);
        if (!after)
            return false;
        if (first && found)
            *found = at;
        first = false;
        if (!*rest)
            return true;
        if (*rest == '$') {
            if (after == end)
                return true;
            if (fixed || at >= end)
                return false;
            text = at + 1; /* perhaps further on */
            continue;
        }
        pattern = rest + 1;
        text = after;
        fixed = false;
        if (!*pattern)
            return true;
    }
}

static struct anchor anchor_of(const char *pattern)
{
    struct anchor best = { .next = MATCHER_NONE };

    pattern += *pattern == '^';
    while (*pattern) {
        size_t bytes = matcher_piece_bytes(pattern);

        if (bytes > best.bytes) {
            best.text = pattern;
            best.bytes = (uint32_t)bytes;
        }
        pattern += bytes ? bytes : 1;
    }
    return best;
}

static void matcher_add(struct matcher *matcher, uint32_t which)
{
    struct anchor *anchor = &matcher->anchor[which];
    uint32_t hash = matcher_block_hash(anchor->text + MATCHER_ANCHOR_MIN - MATCHER_BLOCK);
    uint32_t *at = &matcher->first[hash];

    for (unsigned i = 0; i + MATCHER_BLOCK <= MATCHER_ANCHOR_MIN; i++) {
        uint8_t *jump = &matcher->jump[matcher_block_hash(anchor->text + i)];

        *jump = (uint8_t)MIN(*jump, MATCHER_ANCHOR_MIN - MATCHER_BLOCK - i);
    }
    while (*at != MATCHER_NONE) /* in the order of the table */
        at = &matcher->anchor[*at].next;
    *at = which;
}

int matcher_create(const char *const *pattern, size_t count, struct matcher **ret)
{
    struct matcher *matcher = calloc(1, sizeof(*matcher));

    if (!matcher)
        return -ENOMEM;
    matcher->pattern = pattern;
    matcher->anchor = calloc(count + 1, sizeof(*matcher->anchor));
    memset(matcher->jump, MATCHER_ANCHOR_MIN - MATCHER_BLOCK + 1, sizeof(matcher->jump));
    memset(matcher->first, 0xff, sizeof(matcher->first));
    if (!matcher->anchor) {
        matcher_destroy(matcher);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        matcher->anchor[i] = anchor_of(matcher->pattern[i]);
        if (matcher->anchor[i].bytes < MATCHER_ANCHOR_MIN) {
            matcher_destroy(matcher);
            return -EINVAL;
        }
        matcher_add(matcher, i);
    }
    *ret = matcher;
    return 0;
}

void matcher_destroy(struct matcher *matcher)
{
    if (matcher)
        free(matcher->anchor);
    free(matcher);
}

const char *matcher_next(const struct matcher *matcher, const char *at, const char *end,
                         uint32_t *which)
{
    const size_t ahead = MATCHER_ANCHOR_MIN - MATCHER_BLOCK;

    while ((size_t)(end - at) >= MATCHER_ANCHOR_MIN) {
        uint32_t hash = matcher_block_hash(at + ahead);

        if (matcher->jump[hash]) {
            at += matcher->jump[hash];
            if (at > end)
                return NULL;
            continue;
        }
        for (uint32_t i = matcher->first[hash]; i != MATCHER_NONE; i = matcher->anchor[i].next) {
            const struct anchor *anchor = &matcher->anchor[i];

            if ((size_t)(end - at) >= anchor->bytes &&
                matcher_same_text(at, anchor->text, anchor->bytes)) {
                if (which)
                    *which = i;
                return at;
            }
        }
        at++;
    }
    return NULL;
}

uint32_t matcher_line(const struct matcher *matcher, const char *line, const char *message,
                      const char *end, uint32_t *last)
{
    uint32_t best = MATCHER_NONE, which;

    if (last)
        *last = 0;
    for (const char *at = line; (at = matcher_next(matcher, at, end, &which)); at++) {
        for (uint32_t i = which; i != MATCHER_NONE && (last || i < best);
             i = matcher->anchor[i].next) {
            const struct anchor *anchor = &matcher->anchor[i];
            const char *pattern = matcher->pattern[i];

            if ((size_t)(end - at) >= anchor->bytes &&
                matcher_same_text(at, anchor->text, anchor->bytes) &&
                pattern_fits(pattern, *pattern == '^' ? message : line, end, NULL)) {
                best = MIN(best, i);
                if (last)
                    *last = MAX(*last, i);
            }
        }
    }
    return best;
}
