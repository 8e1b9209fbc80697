/* tar.c - reads headers of 512 bytes and the names that stand in front of them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/source/tar.h"

#include <errno.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"

#define TAR_BLOCK 512
#define TAR_EXTRA ((size_t)64 << 10) /* of a long name or a pax header */
#define TAR_BYTES_MAX (UINT64_C(1) << 50)

enum tar_offset {
    TAR_NAME = 0,
    TAR_SIZE = 124,
    TAR_TIME = 136,
    TAR_SUM = 148,
    TAR_TYPE = 156,
    TAR_MAGIC = 257,
    TAR_PREFIX = 345,
};

/* Octal digits, or a big-endian number whose first bit is set. */
static uint64_t tar_number(const unsigned char *at, size_t bytes)
{
    uint64_t value = 0;

    if (at[0] & 0x80) {
        for (size_t i = 1; i < bytes; i++) {
            if (i + 8 < bytes && at[i])
                return UINT64_MAX;
            value = value << 8 | at[i];
        }
        return value;
    }
    for (size_t i = 0; i < bytes && at[i]; i++) {
        if (at[i] >= '0' && at[i] <= '7')
            value = value << 3 | (uint64_t)(at[i] - '0');
        else if (at[i] != ' ')
            return UINT64_MAX;
    }
    return value;
}

static bool tar_sum_fits(const unsigned char *block)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += i >= TAR_SUM && i < TAR_SUM + 8 ? ' ' : block[i];
    return sum == tar_number(block + TAR_SUM, 8);
}

bool tar_is(const unsigned char *head, size_t bytes)
{
    return bytes >= TAR_BLOCK && memcmp(head + TAR_MAGIC, "ustar", 5) == 0 && tar_sum_fits(head);
}

static int tar_block(struct tar *tar, unsigned char *block, struct err *err)
{
    size_t have = 0;

    while (have < TAR_BLOCK) {
        ssize_t got = stream_read(tar->stream, block + have, TAR_BLOCK - have, err);

        if (got < 0)
            return (int)got;
        if (got == 0)
            return have ? err_set(err, -EPROTO, "the archive ends early") : 0;
        have += (size_t)got;
    }
    return 1;
}

/* The end of a long name says more than its beginning. */
static void tar_set_name(struct tar_member *member, const char *name, size_t bytes)
{
    size_t skipped = bytes >= sizeof(member->name) ? bytes - (sizeof(member->name) - 1) : 0;

    memcpy(member->name, name + skipped, bytes - skipped);
    member->name[bytes - skipped] = '\0';
}

static void tar_header_name(const unsigned char *block, struct tar_member *member)
{
    size_t prefix = strnlen((const char *)block + TAR_PREFIX, 155);
    size_t name = strnlen((const char *)block + TAR_NAME, 100);
    char joined[260];

    if (memcmp(block + TAR_MAGIC, "ustar\0", 6) != 0)
        prefix = 0; /* GNU keeps something else there */
    memcpy(joined, block + TAR_PREFIX, prefix);
    if (prefix)
        joined[prefix++] = '/';
    memcpy(joined + prefix, block + TAR_NAME, name);
    tar_set_name(member, joined, prefix + name);
}

/* "27 path=logs/rank_3.log\n", one after the other */
static void tar_pax_name(const char *text, size_t bytes, struct tar_member *member)
{
    size_t at = 0;

    while (at < bytes) {
        size_t size = 0, digits = 0;

        while (at + digits < bytes && text[at + digits] >= '0' && text[at + digits] <= '9' &&
               digits < 8)
            size = 10 * size + (size_t)(text[at + digits++] - '0');
        if (size < digits + 3 || size > bytes - at)
            return;
        if (size > digits + 7 && memcmp(text + at + digits, " path=", 6) == 0)
            tar_set_name(member, text + at + digits + 6, size - digits - 7);
        at += size;
    }
}

/* What stands in front of a member and names it. */
static int tar_extra(struct tar *tar, char type, uint64_t bytes, struct tar_member *member,
                     struct err *err)
{
    char text[TAR_EXTRA];
    size_t want = (size_t)MIN(bytes, sizeof(text)), have = 0;

    while (have < want) {
        ssize_t got = stream_read(tar->stream, text + have, want - have, err);

        if (got <= 0)
            return got < 0 ? (int)got : err_set(err, -EPROTO, "the archive ends early");
        have += (size_t)got;
    }
    if (type == 'L')
        tar_set_name(member, text, strnlen(text, have));
    else if (type == 'x')
        tar_pax_name(text, have, member);
    return 0;
}

int tar_next(struct tar *tar, struct tar_member *ret, struct err *err)
{
    struct tar_member member = { .name = "" };

    for (;;) {
        unsigned char block[TAR_BLOCK];
        uint64_t passed = stream_passed(tar->stream), bytes;
        int result = stream_skip(tar->stream, tar->next > passed ? tar->next - passed : 0, err);
        char type;

        if (result == 0)
            result = tar_block(tar, block, err);
        if (result <= 0 || !block[0])
            return result < 0 ? result : 0; /* a block of zeros ends an archive */
        bytes = tar_number(block + TAR_SIZE, 12);
        if (!tar_sum_fits(block) || bytes > TAR_BYTES_MAX)
            return err_set(err, -EPROTO, "damaged tar after %llu bytes",
                           (unsigned long long)stream_passed(tar->stream));
        tar->next = stream_passed(tar->stream) + (bytes + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
        type = (char)block[TAR_TYPE];
        if (type == 'L' || type == 'x') {
            result = tar_extra(tar, type, bytes, &member, err);
            if (result < 0)
                return result;
            continue;
        }
        if (type != '0' && type != '\0' && type != '7') {
            member.name[0] = '\0';
            continue;
        }
        if (!member.name[0])
            tar_header_name(block, &member);
        member.bytes = bytes;
        member.changed_ns =
            (int64_t)MIN(tar_number(block + TAR_TIME, 12), UINT64_C(1) << 33) * NS_PER_S;
        *ret = member;
        return 1;
    }
}
