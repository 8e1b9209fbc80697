/* name_rank.c - words and numbers in paths.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/name_rank.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/clean.h"
#include "core/hash.h"

#define DIGITS_MAX 6
#define FOLDERS 3 /* above a file, that may name a rank */

static size_t name_rank_digits_at(const char *at, const char *end)
{
    size_t digits = 0;

    while (at + digits < end && isdigit((unsigned char)at[digits]))
        digits++;
    return digits;
}

static uint32_t name_rank_number_at(const char *at, size_t digits)
{
    uint32_t number = 0;

    for (size_t i = 0; i < digits; i++)
        number = 10 * number + (uint32_t)(at[i] - '0');
    return number;
}

/* Does a word begin at `at`?  "frank3" has no rank, and "5r7" is none; "localrank3" has one. */
static bool name_rank_word_begins(const char *from, const char *at, const char *word)
{
    if (at == from)
        return true;
    if (strlen(word) < 3)
        return !isalnum((unsigned char)at[-1]);
    if (strcmp(word, "rank") != 0 || !isalpha((unsigned char)at[-1]))
        return true;
    return (at >= from + 5 && strncasecmp(at - 5, "local", 5) == 0) ||
           (at >= from + 6 && strncasecmp(at - 6, "global", 6) == 0);
}

/* The number behind this word in [from, end): "rank3", "rank_3", "worker-3"; not "gpu8x80g". */
static bool name_rank_number_of_word(const char *from, const char *end, const char *word,
                                     struct name_rank *ret)
{
    size_t size = strlen(word);

    for (const char *at = from; (size_t)(end - at) > size; at++) {
        const char *number = at + size;
        size_t digits;

        if (strncasecmp(at, word, size) != 0 || !name_rank_word_begins(from, at, word))
            continue;
        number += *number == '-' || *number == '_' || *number == '.' || *number == '=';
        digits = name_rank_digits_at(number, end);
        if (!digits || digits > DIGITS_MAX ||
            (number + digits < end && isalpha((unsigned char)number[digits])))
            continue;
        ret->rank = name_rank_number_at(number, digits);
        ret->local = strcmp(word, "rank") == 0 && at >= from + 5 &&
                     (strncasecmp(at - 5, "local", 5) == 0 ||
                      (at >= from + 6 && strncasecmp(at - 6, "local", 5) == 0));
        return true;
    }
    return false;
}

static const char *name_rank_last_part(const char *path, const char *end)
{
    while (end > path && end[-1] != '/')
        end--;
    return end;
}

struct name_rank name_rank(const char *path)
{
    static const char *const words[] = { "rank", "worker", "gpu", "dump", "trace", "r" };
    struct name_rank found = { .rank = NAME_NO_RANK };
    const char *end = path + strlen(path);

    for (int folder = 0; folder <= FOLDERS && end > path; folder++) {
        const char *begin = name_rank_last_part(path, end);

        for (size_t i = 0; i < COUNT(words); i++) {
            if (name_rank_number_of_word(begin, end, words[i], &found))
                return found;
        }
        end = begin > path ? begin - 1 : path;
    }
    return found;
}

/* Bytes of a name without what says how it is packed or written. */
static size_t name_rank_without_endings(const char *name, size_t bytes)
{
    static const char *const endings[] = { ".gz",  ".zst", ".json", ".pkl", ".pickle", ".log",
                                           ".txt", ".err", ".out",  ".bin", ".dump",   ".pt" };

    for (size_t i = 0; i < COUNT(endings); i++) {
        size_t end = strlen(endings[i]);

        if (bytes > end && memcmp(name + bytes - end, endings[i], end) == 0) {
            bytes -= end;
            i = (size_t)-1; /* once more from the start: ".json.gz" */
        }
    }
    return bytes;
}

/* "-of-8" behind a rank says how many there are. */
static size_t name_rank_without_count(const char *name, size_t bytes)
{
    size_t at = bytes;

    while (at > 0 && isdigit((unsigned char)name[at - 1]))
        at--;
    return at < bytes && at > 4 && strchr("-_.", name[at - 1]) &&
                   memcmp(name + at - 3, "of", 2) == 0 && strchr("-_.", name[at - 4])
               ? at - 4
               : bytes;
}

/* Where the number at the end of a name begins; its digits, 0: there is none. */
static size_t name_rank_number_at_end(const char *name, size_t bytes, const char **ret)
{
    size_t digits = 0;

    bytes = name_rank_without_count(name, name_rank_without_endings(name, bytes));
    while (digits < bytes && isdigit((unsigned char)name[bytes - 1 - digits]))
        digits++;
    *ret = name + bytes - digits;
    return digits > DIGITS_MAX ? 0 : digits;
}

uint32_t name_number(const char *path)
{
    const char *end = path + strlen(path), *begin = name_rank_last_part(path, end), *at;
    size_t digits = name_rank_number_at_end(begin, (size_t)(end - begin), &at);

    if (!digits && begin > path) {
        end = begin - 1;
        begin = name_rank_last_part(path, end);
        digits = name_rank_number_at_end(begin, (size_t)(end - begin), &at);
    }
    return digits ? name_rank_number_at(at, digits) : NAME_NO_RANK;
}

uint32_t name_part(const char *path, size_t *bytes)
{
    size_t size = strlen(path), digits = 0;

    *bytes = size;
    if (size > 3 && (strcmp(path + size - 3, ".gz") == 0))
        size -= 3;
    else if (size > 4 && strcmp(path + size - 4, ".zst") == 0)
        size -= 4;
    while (digits < size && isdigit((unsigned char)path[size - 1 - digits]))
        digits++;
    if (!digits || digits > 3 || size - digits < 5 || path[size - digits - 1] != '.' ||
        (memcmp(path + size - digits - 5, ".log", 4) != 0 &&
         memcmp(path + size - digits - 5, ".out", 4) != 0 &&
         memcmp(path + size - digits - 5, ".err", 4) != 0 &&
         memcmp(path + size - digits - 5, ".txt", 4) != 0)) {
        if (size < *bytes)
            *bytes = size; /* packed, and not rotated */
        return 0;
    }
    *bytes = size - digits - 1;
    return name_rank_number_at(path + size - digits, digits);
}

/* ---- siblings ---- */

struct name_place { /* a number in one of the paths */
    uint64_t alike; /* hash of the path without it */
    uint32_t number, path;
};

static int place_order(const void *left, const void *right)
{
    const struct name_place *a = left, *b = right;

    if (a->alike != b->alike)
        return a->alike < b->alike ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* Names whose numbers are never ranks, however they count. */
static bool name_rank_counts_other_things(const char *name, const char *number)
{
    static const char *const words[] = { "node", "host",  "attempt", "step",   "job", "slurm",
                                         "part", "epoch", "iter",    "run",    "try", "log.",
                                         "err.", "out.",  "version", "restart" };

    for (size_t i = 0; i < COUNT(words); i++) {
        const char *at = name;
        size_t size = strlen(words[i]);

        for (; at + size <= number; at++) {
            if (strncasecmp(at, words[i], size) == 0 && number - (at + size) <= 1)
                return true;
        }
    }
    return false;
}

/* The number at the end of the name, or a folder that is a number. */
static bool place_find(const char *path, struct name_place *ret)
{
    const char *end = path + strlen(path);

    for (int folder = 0; folder <= FOLDERS && end > path; folder++) {
        const char *begin = name_rank_last_part(path, end), *at;
        size_t digits = name_rank_number_at_end(begin, (size_t)(end - begin), &at);

        if (digits && (folder == 0 || at == begin) && !name_rank_counts_other_things(begin, at)) {
            uint64_t hash = hash64(1, path, (size_t)(at - path));

            ret->alike = hash64(hash, at + digits, strlen(at + digits));
            ret->number = name_rank_number_at(at, digits);
            return true;
        }
        end = begin > path ? begin - 1 : path;
    }
    return false;
}

static void name_rank_take_siblings(struct name_place *place, size_t places, struct name_rank *rank)
{
    for (size_t i = 0, next; i < places; i = next) {
        bool counts = true;

        for (next = i; next < places && place[next].alike == place[i].alike; next++)
            counts &= place[next].number == next - i;
        for (size_t k = i; k < next && counts && next - i > 1; k++)
            rank[place[k].path].rank = place[k].number;
    }
}

/* The part of a path from the component with its rank on, and what is before it. */
static const char *name_rank_tail_of(const char *path, uint32_t rank)
{
    const char *end = path + strlen(path);

    for (int folder = 0; folder <= FOLDERS && end > path; folder++) {
        const char *begin = name_rank_last_part(path, end);

        for (const char *at = begin; at < end; at++) {
            size_t digits = name_rank_digits_at(at, end);

            if (digits && digits <= DIGITS_MAX && name_rank_number_at(at, digits) == rank)
                return begin;
            at += digits;
        }
        end = begin > path ? begin - 1 : path;
    }
    return path;
}

/* Folders of one node or job have each rank once; attempts are the same rank again. */
static int name_rank_find_local(const char *const *path, size_t count, struct name_rank *rank)
{
    CLEAN(free_clean) struct name_place *place = calloc(count + 1, sizeof(*place));
    size_t places = 0;
    bool local = false;

    if (!place)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const char *tail = name_rank_tail_of(path[i], rank[i].rank);

        if (rank[i].rank == NAME_NO_RANK ||
            memmem(path[i], (size_t)(tail - path[i]), "attempt", 7) ||
            memmem(path[i], (size_t)(tail - path[i]), "restart", 7))
            continue;
        place[places++] =
            (struct name_place){ .alike = hash64(1, tail, strlen(tail)), .path = (uint32_t)i };
    }
    qsort(place, places, sizeof(*place), place_order);
    for (size_t i = 1; i < places; i++)
        local |= place[i].alike == place[i - 1].alike;
    for (size_t i = 0; i < count && local; i++)
        rank[i].rank = NAME_NO_RANK; /* of which node it is, the name does not say */
    return 0;
}

int name_ranks(const char *const *path, size_t count, struct name_rank *rank)
{
    CLEAN(free_clean) struct name_place *place = calloc(count + 1, sizeof(*place));
    size_t places = 0;

    if (!place)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        if (rank[i].rank == NAME_NO_RANK && place_find(path[i], &place[places]))
            place[places++].path = (uint32_t)i;
    }
    qsort(place, places, sizeof(*place), place_order);
    name_rank_take_siblings(place, places, rank);
    return name_rank_find_local(path, count, rank);
}
