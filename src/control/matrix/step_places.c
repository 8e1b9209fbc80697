/* step_places.c - writes and reads the places of steps in a log.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/matrix/step_places.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/matrix/matrix.h"
#include "core/clean.h"
#include "core/hash.h"

#define PLACES_MAGIC UINT64_C(0x3143414c5053534c) /* "LSSPLAC1" */
#define PLACES_VERSION 1
#define PLACES_HEADER_BYTES 4096

struct places_header {
    uint64_t magic;
    uint32_t version, ranks;
    uint64_t first;     /* column */
    uint32_t zero, crc; /* of all before */
};
_Static_assert(sizeof(struct places_header) == 32, "file format");

struct places_head { /* of a column */
    uint32_t crc;    /* of all behind it */
    uint32_t column; /* its low bits */
};
_Static_assert(sizeof(struct places_head) == 8, "file format");

struct step_places {
    int fd;
    struct places_header header;
    unsigned char *record;
};

static void places_clean(struct step_places **places)
{
    step_places_close(*places);
}

static size_t places_record_bytes(const struct places_header *header)
{
    return sizeof(struct places_head) + (size_t)header->ranks * sizeof(uint64_t);
}

static off_t places_record_at(const struct places_header *header, uint64_t column)
{
    return (off_t)(PLACES_HEADER_BYTES + (column - header->first) * places_record_bytes(header));
}

static uint32_t places_header_crc(const struct places_header *header)
{
    return crc32c(0, header, offsetof(struct places_header, crc));
}

static uint32_t places_record_crc(const unsigned char *record, size_t size)
{
    return crc32c(0, record + offsetof(struct places_head, column),
                  size - offsetof(struct places_head, column));
}

static int places_header_read(int fd, struct places_header *ret)
{
    if (pread(fd, ret, sizeof(*ret), 0) != sizeof(*ret) || ret->magic != PLACES_MAGIC ||
        ret->version != PLACES_VERSION || ret->crc != places_header_crc(ret) || ret->ranks < 1 ||
        ret->ranks > MATRIX_RANKS_MAX || ret->first > MATRIX_COLUMNS_MAX)
        return -EUCLEAN;
    return 0;
}

static int places_begin(struct step_places *places, uint32_t ranks, uint64_t column,
                        struct err *err)
{
    struct places_header *header = &places->header;

    *header = (struct places_header){
        .magic = PLACES_MAGIC, .version = PLACES_VERSION, .ranks = ranks, .first = column
    };
    header->crc = places_header_crc(header);
    if (ftruncate(places->fd, 0) < 0 ||
        pwrite(places->fd, header, sizeof(*header), 0) != sizeof(*header))
        return err_set(err, errno ? -errno : -ENOSPC, "places of steps: %m");
    return 0;
}

/* Copies the columns before `column` for more ranks.  What cannot be read stays out: a reader finds that it was never written. */
static int places_copy(const char *path, const struct places_header *header, uint64_t column,
                       struct step_places *to, struct err *err)
{
    CLEAN(free_clean) uint64_t *offset = calloc(to->header.ranks, sizeof(*offset));
    CLEAN(free_clean) uint32_t *rank = calloc(header->ranks, sizeof(*rank));
    int result = 0;

    if (!offset || !rank)
        return err_nomem(err);
    for (uint32_t i = 0; i < header->ranks; i++)
        rank[i] = i;
    for (uint64_t at = header->first; at < column && result == 0; at++) {
        if (step_places_read(path, at, rank, header->ranks, offset, NULL) == 0)
            result = step_places_put(to, at, offset, err);
    }
    return result;
}

static int places_open(const char *path, int flags, struct step_places **ret, struct err *err)
{
    struct step_places *places = calloc(1, sizeof(*places));

    if (!places)
        return err_nomem(err);
    places->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    if (places->fd < 0) {
        free(places);
        return err_set(err, -errno, "%s: %m", path);
    }
    *ret = places;
    return 0;
}

static int places_alloc(struct step_places *places, struct err *err)
{
    places->record = malloc(places_record_bytes(&places->header));
    return places->record ? 0 : err_nomem(err);
}

/* A file for more ranks beside the one that is there takes its place. */
static int places_widen(const char *path, const struct places_header *header, uint32_t ranks,
                        uint64_t column, struct step_places **ret, struct err *err)
{
    CLEAN(places_clean) struct step_places *wider = NULL;
    char beside[PATH_MAX];
    int result;

    if ((size_t)snprintf(beside, sizeof(beside), "%s.wider", path) >= sizeof(beside))
        return err_set(err, -ENAMETOOLONG, "%s: its name is too long", path);
    unlink(beside); /* of a life that was killed */
    result = places_open(beside, O_EXCL, &wider, err);
    if (result == 0)
        result = places_begin(wider, ranks, header->first, err);
    if (result == 0)
        result = places_alloc(wider, err);
    if (result == 0)
        result = places_copy(path, header, column, wider, err);
    if (result == 0 && rename(beside, path) < 0)
        result = err_set(err, -errno, "%s: %m", path);
    if (result < 0)
        unlink(beside);
    else
        *ret = TAKE(wider);
    return result;
}

int step_places_open(const char *path, uint32_t ranks, uint64_t column, struct step_places **ret,
                     struct err *err)
{
    CLEAN(places_clean) struct step_places *places = NULL;
    int result = places_open(path, 0, &places, err);
    bool known;

    if (result < 0)
        return result;
    known = places_header_read(places->fd, &places->header) == 0 && places->header.first <= column;
    if (known && places->header.ranks < ranks)
        return places_widen(path, &places->header, ranks, column, ret, err);
    if (!known || places->header.ranks != ranks)
        result = places_begin(places, ranks, column, err);
    if (result == 0)
        result = places_alloc(places, err);
    if (result == 0)
        *ret = TAKE(places);
    return result;
}

void step_places_close(struct step_places *places)
{
    if (!places)
        return;
    if (places->fd >= 0)
        close(places->fd);
    free(places->record);
    free(places);
}

uint32_t step_places_ranks(const struct step_places *places)
{
    return places->header.ranks;
}

int step_places_put(struct step_places *places, uint64_t column, const uint64_t *offset,
                    struct err *err)
{
    size_t size = places_record_bytes(&places->header);
    struct places_head head = { .column = (uint32_t)column };
    ssize_t wrote;

    if (column < places->header.first)
        return 0;
    memcpy(places->record, &head, sizeof(head));
    memcpy(places->record + sizeof(head), offset, size - sizeof(head));
    head.crc = places_record_crc(places->record, size);
    memcpy(places->record, &head, sizeof(head));
    errno = 0;
    wrote = pwrite(places->fd, places->record, size, places_record_at(&places->header, column));
    if (wrote != (ssize_t)size)
        return err_set(err, errno ? -errno : -ENOSPC, "places of steps: %m");
    return 0;
}

int step_places_read(const char *path, uint64_t column, const uint32_t *rank, uint32_t count,
                     uint64_t *ret, struct err *err)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    CLEAN(free_clean) unsigned char *record = NULL;
    struct places_header header;
    struct places_head head;
    size_t size;

    if (fd < 0)
        return err_set(err, -errno, "%s: %m", path);
    if (places_header_read(fd, &header) < 0)
        return err_set(err, -EUCLEAN, "%s: damaged", path);
    if (column < header.first || column > MATRIX_COLUMNS_MAX)
        return err_set(err, -ENOENT, "%s: column %" PRIu64 " is not there", path, column);
    size = places_record_bytes(&header);
    record = malloc(size);
    if (!record)
        return err_nomem(err);
    if (pread(fd, record, size, places_record_at(&header, column)) != (ssize_t)size)
        return err_set(err, -ENOENT, "%s: column %" PRIu64 " is not there", path, column);
    memcpy(&head, record, sizeof(head));
    if (head.column != (uint32_t)column || head.crc != places_record_crc(record, size))
        return err_set(err, -EUCLEAN, "%s: column %" PRIu64 " is damaged or was never written",
                       path, column);
    for (uint32_t i = 0; i < count; i++) {
        ret[i] = 0;
        if (rank[i] < header.ranks)
            memcpy(&ret[i], record + sizeof(head) + rank[i] * sizeof(*ret), sizeof(*ret));
    }
    return 0;
}
