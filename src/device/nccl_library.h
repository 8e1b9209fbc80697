/* nccl_library.h - the part of NCCL's interface that checks of links between GPUs use.
 *
 * Opened at run time like the others.  A training process brings its own NCCL (torch's wheels do): checks open the
 * system's, or the one that they are given by path.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_DEVICE_NCCL_LIBRARY_H
#define LOCKSTEP_DEVICE_NCCL_LIBRARY_H

#include <stddef.h>

#include "core/err.h"

#define NCCL_LIBRARY "libnccl.so.2"

enum {
    NCCL_SUCCESS = 0,
    NCCL_IN_PROGRESS = 7
};
enum {
    NCCL_INT8 = 0,
    NCCL_INT32 = 2,
    NCCL_FLOAT16 = 6,
    NCCL_FLOAT32 = 7,
    NCCL_FLOAT64 = 8,
    NCCL_BFLOAT16 = 9
};
enum {
    NCCL_SUM = 0,
    NCCL_PROD = 1,
    NCCL_MAX = 2,
    NCCL_MIN = 3
};

struct nccl_id { /* made by one rank, given to all */
    char byte[128];
};

struct library;

struct nccl {
    struct library *library;
    int (*version)(int *ret);
    const char *(*error)(int result);
    const char *(*last_error)(void *comm); /* NULL: older than 2.13 */
    int (*id_make)(struct nccl_id *ret);
    int (*comm_init)(void **ret, int ranks, struct nccl_id id, int rank);
    int (*comm_destroy)(void *comm);
    int (*comm_abort)(void *comm);
    int (*comm_async_error)(void *comm, int *ret);
    int (*group_begin)(void);
    int (*group_end)(void);
    int (*all_reduce)(const void *from, void *to, size_t count, int type, int op, void *comm,
                      void *stream);
    int (*all_gather)(const void *from, void *to, size_t count, int type, void *comm, void *stream);
    int (*reduce_scatter)(const void *from, void *to, size_t count, int type, int op, void *comm,
                          void *stream);
    int (*send)(const void *from, size_t count, int type, int peer, void *comm, void *stream);
    int (*receive)(void *to, size_t count, int type, int peer, void *comm, void *stream);
};

/* NULL: NCCL_LIBRARY.  -ENOENT: it is not there. */
int nccl_open(struct nccl *nccl, const char *library, struct err *err);
void nccl_close(struct nccl *nccl);
/* 0 for success or "in progress", else -EIO with "WHAT: NCCL's text". */
int nccl_check(const struct nccl *nccl, int result, const char *what, struct err *err);

#endif
