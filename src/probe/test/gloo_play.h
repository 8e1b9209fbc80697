/* gloo_play.h - plays torch: objects with tables of virtual functions, as C++ lays them out.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_TEST_GLOO_PLAY_H
#define LOCKSTEP_PROBE_TEST_GLOO_PLAY_H

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "probe/gloo.h"

#define PLAY_CLASSES 20
#define PLAY_ALLREDUCE 7
#define PLAY_DELETE 1
#define PLAY_ELEMENTS 40
#define PLAY_DTYPE 48
#define PLAY_FLOAT 6

struct play_object {
    void **table;
};

struct play_tensor {
    unsigned char bytes[64];
};

struct play_group {
    struct play_object object;
    struct play_object *next; /* what allreduce() returns */
    jmp_buf *throws;          /* it jumps there instead */
    int calls, deleted;
};

struct play_work {
    struct play_object object;
    _Atomic int deleted;
};

/* Tables have two words before their functions, and there is enough behind them. */
static void *play_data[2048];
#define PLAY_GROUP_TABLE (play_data + 2)

static inline void **play_work_table(unsigned class)
{
    return play_data + 300 + 64 * class;
}

static inline struct play_object **play_allreduce(struct play_object **ret,
                                                  struct play_group *group, void *tensors,
                                                  const void *options)
{
    (void)tensors;
    (void)options;
    group->calls++;
    if (group->throws)
        longjmp(*group->throws, 1);
    *ret = group->next;
    return ret;
}

static inline void play_group_delete(struct play_group *group)
{
    group->deleted++;
}

static inline void play_work_delete(struct play_work *work)
{
    work->deleted++;
}

static inline struct gloo_torch play_torch(void)
{
    struct gloo_torch torch = {
        .group_table = PLAY_GROUP_TABLE,
        .data_begin = (uintptr_t)play_data,
        .data_end = (uintptr_t)(play_data + 2048),
        .group_allreduce = PLAY_ALLREDUCE,
        .group_delete = PLAY_DELETE,
        .work_delete = PLAY_DELETE,
        .elements_at = PLAY_ELEMENTS,
        .dtype_at = PLAY_DTYPE,
    };

    torch.dtypes[PLAY_FLOAT].bytes = 4;
    torch.dtypes[PLAY_FLOAT].dtype = LOCKSTEP_DTYPE_FLOAT32;
    PLAY_GROUP_TABLE[PLAY_ALLREDUCE] = (void *)play_allreduce;
    PLAY_GROUP_TABLE[PLAY_DELETE] = (void *)play_group_delete;
    for (unsigned i = 0; i < PLAY_CLASSES; i++)
        play_work_table(i)[PLAY_DELETE] = (void *)play_work_delete;
    return torch;
}

static inline struct play_tensor play_tensor(uint64_t elements, uint16_t dtype)
{
    struct play_tensor tensor = { { 0 } };

    memcpy(tensor.bytes + PLAY_ELEMENTS, &elements, sizeof(elements));
    memcpy(tensor.bytes + PLAY_DTYPE, &dtype, sizeof(dtype));
    return tensor;
}

/* As the reducer calls it: through the table. */
static inline struct play_object *play_reduce(struct play_group *group, struct play_work *work,
                                              struct play_tensor *tensor)
{
    struct play_tensor *list[1] = { tensor };
    struct {
        struct play_tensor **begin, **end;
    } tensors = { list, list + 1 };
    struct play_object *ret = NULL;
    struct play_object **(*call)(struct play_object **, struct play_group *, void *, const void *) =
        (struct play_object * *(*)(struct play_object **, struct play_group *, void *,
                                   const void *)) group->object.table[PLAY_ALLREDUCE];

    group->next = work ? &work->object : NULL;
    call(&ret, group, &tensors, NULL);
    return ret;
}

/* The last reference goes. */
static inline void play_delete(void *object)
{
    struct play_object *one = object;

    ((void (*)(void *))one->table[PLAY_DELETE])(one);
}

#endif
