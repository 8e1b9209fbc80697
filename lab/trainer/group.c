/* group.c - all-reduce by recursive doubling.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/trainer/group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

struct group_head { /* before the numbers of each message */
    uint64_t count; /* reductions finished by the sender: both sides must be in the same one */
    uint64_t bytes;
    int64_t latest_ns;
};
_Static_assert(sizeof(struct group_head) == 24, "sent as it lies in memory");

int group_init(struct group *group, const char *name, uint64_t id, const uint32_t *rank,
               uint32_t size, uint32_t index)
{
    *group = (struct group){ .id = id, .size = size, .index = index, .wait = { -1, 30000 } };
    snprintf(group->name, sizeof(group->name), "%s", name);
    group->rank = calloc(size, sizeof(*group->rank));
    group->fd = calloc(size, sizeof(*group->fd));
    if (!group->rank || !group->fd) {
        group_fini(group);
        return -ENOMEM;
    }
    memcpy(group->rank, rank, size * sizeof(*rank));
    memset(group->fd, 0xff, size * sizeof(*group->fd));
    return 0;
}

void group_fini(struct group *group)
{
    for (uint32_t i = 0; group->fd && i < group->size; i++)
        if (group->fd[i] >= 0)
            close(group->fd[i]);
    free(group->rank);
    free(group->fd);
    free(group->scratch);
    *group = (struct group){ 0 };
}

static uint32_t group_power(uint32_t size) /* the largest power of two up to size */
{
    uint32_t power = 1;

    while (power * 2 <= size)
        power *= 2;
    return power;
}

/* Place of a member among those that double, UINT32_MAX for one that folds into its neighbour. */
static uint32_t group_place(uint32_t size, uint32_t index)
{
    uint32_t extra = size - group_power(size);

    if (index >= 2 * extra)
        return index - extra;
    return index % 2 ? UINT32_MAX : index / 2;
}

static uint32_t group_at_place(uint32_t size, uint32_t place) /* the inverse */
{
    uint32_t extra = size - group_power(size);

    return place < extra ? 2 * place : place + extra;
}

bool group_talks(uint32_t size, uint32_t a, uint32_t b)
{
    uint32_t place_a = group_place(size, a), place_b = group_place(size, b), differ;

    if (a == b)
        return false;
    if (place_a == UINT32_MAX || place_b == UINT32_MAX)
        return (a ^ b) == 1 && MAX(a, b) < 2 * (size - group_power(size));
    differ = place_a ^ place_b;
    return (differ & (differ - 1)) == 0;
}

static int group_lost(const struct group *group, uint32_t peer, int result, struct err *err)
{
    if (result == -ECANCELED)
        return result;
    errno = -result;
    return err_set(err, result, "lost rank %u in all-reduce %llu of %s: %m", group->rank[peer],
                   (unsigned long long)group->done, group->name);
}

static void group_add(enum group_op op, void *data, const void *other, size_t count)
{
    if (op == GROUP_SUM_F32)
        for (size_t i = 0; i < count; i++)
            ((float *)data)[i] += ((const float *)other)[i];
    else if (op == GROUP_SUM_F64)
        for (size_t i = 0; i < count; i++)
            ((double *)data)[i] += ((const double *)other)[i];
    else
        for (size_t i = 0; i < count; i++)
            ((uint64_t *)data)[i] = MIN(((uint64_t *)data)[i], ((const uint64_t *)other)[i]);
}

/* The message lies in scratch twice: what we send, then what we get. */
struct group_message {
    struct group_head head;
    char data[];
};

static size_t group_room(size_t bytes) /* of one message: the next begins at a multiple of 8 */
{
    return sizeof(struct group_head) + (bytes + 7) / 8 * 8;
}

static int group_check(const struct group *group, uint32_t peer, const struct group_head *mine,
                       const struct group_head *theirs, struct err *err)
{
    if (theirs->count == mine->count && theirs->bytes == mine->bytes)
        return 0;
    return err_set(
        err, -EPROTO,
        "rank %u is in all-reduce %llu (%llu bytes) of %s, this rank is in %llu (%llu bytes)",
        group->rank[peer], (unsigned long long)theirs->count, (unsigned long long)theirs->bytes,
        group->name, (unsigned long long)mine->count, (unsigned long long)mine->bytes);
}

enum group_way {
    WAY_SEND = 1,
    WAY_RECV = 2,
    WAY_BOTH = 3
};

/* One message to and/or from a peer; what came lies in *ret_in. */
/* NOLINTNEXTLINE(readability-function-size): eight parameters */
static int group_talk(struct group *group, uint32_t peer, enum group_way way, const void *data,
                      size_t bytes, int64_t *latest_ns, const void **ret_in, struct err *err)
{
    size_t total = sizeof(struct group_head) + bytes;
    struct group_message *out = (void *)group->scratch;
    struct group_message *in = (void *)(group->scratch + group_room(bytes));
    int fd = group->fd[peer], result = 0;

    out->head = (struct group_head){ group->done, bytes, *latest_ns };
    if (way & WAY_SEND)
        memcpy(out->data, data, bytes);
    if (way == WAY_BOTH)
        result = socket_exchange(fd, out, in, total, &group->wait);
    else if (way == WAY_SEND)
        result = socket_send(fd, out, total, &group->wait);
    else
        result = socket_recv(fd, in, total, &group->wait);
    if (result < 0)
        return group_lost(group, peer, result, err);
    if (!(way & WAY_RECV))
        return 0;
    *latest_ns = MAX(*latest_ns, in->head.latest_ns);
    *ret_in = in->data;
    return group_check(group, peer, &out->head, &in->head, err);
}

/* NOLINTNEXTLINE(readability-function-size): seven parameters */
static int group_double(struct group *group, enum group_op op, void *data, size_t count,
                        size_t bytes, int64_t *latest_ns, struct err *err)
{
    uint32_t place = group_place(group->size, group->index), power = group_power(group->size);

    for (uint32_t bit = 1; bit < power; bit *= 2) {
        uint32_t peer = group_at_place(group->size, place ^ bit);
        const void *other = NULL;
        int result = group_talk(group, peer, WAY_BOTH, data, bytes, latest_ns, &other, err);

        if (result < 0)
            return result;
        group_add(op, data, other, count);
    }
    return 0;
}

/* The even member of a folded pair: takes its neighbour's numbers in, gives the result back. */
/* NOLINTNEXTLINE(readability-function-size): seven parameters */
static int group_fold(struct group *group, enum group_op op, void *data, size_t count, size_t bytes,
                      int64_t *latest_ns, struct err *err)
{
    uint32_t peer = group->index + 1;
    const void *other = NULL;
    int result = group_talk(group, peer, WAY_RECV, NULL, bytes, latest_ns, &other, err);

    if (result < 0)
        return result;
    group_add(op, data, other, count);
    result = group_double(group, op, data, count, bytes, latest_ns, err);
    if (result < 0)
        return result;
    return group_talk(group, peer, WAY_SEND, data, bytes, latest_ns, NULL, err);
}

static int group_folded(struct group *group, void *data, size_t bytes, int64_t *latest_ns,
                        struct err *err) /* the odd member */
{
    uint32_t peer = group->index - 1;
    const void *sum = NULL;
    int result = group_talk(group, peer, WAY_SEND, data, bytes, latest_ns, NULL, err);

    if (result == 0)
        result = group_talk(group, peer, WAY_RECV, NULL, bytes, latest_ns, &sum, err);
    if (result == 0)
        memcpy(data, sum, bytes);
    return result;
}

static int group_reserve(struct group *group, size_t bytes)
{
    size_t room = 2 * group_room(bytes);

    return ARRAY_FIT(group->scratch, group->scratch_room, room) ? 0 : -ENOMEM;
}

int group_reduce(struct group *group, enum group_op op, void *data, size_t count,
                 int64_t *latest_ns, struct err *err)
{
    size_t bytes = count * (op == GROUP_SUM_F32 ? 4 : 8);
    uint32_t extra = group->size - group_power(group->size);
    int result = group_reserve(group, bytes);

    if (result < 0)
        return err_set(err, result, "no memory for an all-reduce of %zu bytes", bytes);
    if (group->index >= 2 * extra)
        result = group_double(group, op, data, count, bytes, latest_ns, err);
    else if (group->index % 2 == 0)
        result = group_fold(group, op, data, count, bytes, latest_ns, err);
    else
        result = group_folded(group, data, bytes, latest_ns, err);
    if (result == 0)
        group->done++;
    return result;
}
