/* private_table.h - the functions of the library that only lockstep's own Python package calls.
 *
 * They are no part of the public interface and change without notice.  So they have no exported
 * names; the package gets their addresses from one function and refuses a library whose table has
 * another version.  bindings/python/lockstep/_abi.py mirrors the struct.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_PRIVATE_TABLE_H
#define LOCKSTEP_PROBE_PRIVATE_TABLE_H

#include <stdint.h>

#include "device/cuda/symbols.h"
#include "lockstep/probe.h"

#define PRIVATE_TABLE_VERSION 4

struct gloo_torch;
struct python_functions;
struct python_method;

struct private_table {
    /* One call for each operation, with plain arguments: through ctypes a struct costs more. */
    uint64_t (*coll_launch)(struct lockstep_probe *probe, int comm, enum lockstep_op op,
                            uint64_t bytes, uint16_t stream, enum lockstep_dtype dtype);
    uint64_t (*p2p_launch)(struct lockstep_probe *probe, int comm, enum lockstep_op op,
                           uint32_t peer, uint64_t bytes, uint16_t stream,
                           enum lockstep_dtype dtype);
    /* python.h */
    int (*python_use)(const struct python_functions *functions, uint64_t size);
    const struct python_method *(*python_method)(const char *name);
    /* gloo.h */
    int (*gloo_use)(const struct gloo_torch *torch, uint64_t size);
    int (*gloo_watch)(void *group, struct lockstep_probe *probe, int comm, uint16_t stream);
    int (*gloo_work)(void *work, struct lockstep_probe *probe, int comm, uint64_t key);
    void (*gloo_done)(void *work);
    uint32_t (*gloo_look)(void);
    /* nccl_plugin.h */
    void (*nccl_watch)(int on);
    /* stamp.h: stamps_open() with dlsym() and the driver's handle, -errno with the reason; stamps_off_reason() */
    int (*stamps_use)(struct lockstep_probe *probe, symbol_find *find, void *library, char *why,
                      uint64_t room);
    const char *(*stamps_reason)(void);
    /* host_wait.h: host_waits_watch() */
    int (*host_waits)(symbol_find *find);
    /* nccl.h */
    void (*nccl_group)(uint32_t ranks, uint32_t rank, uint32_t kind, const char *name);
};

/* NULL: this library's table has another version. */
LOCKSTEP_API const struct private_table *lockstep_private_table(uint32_t version);

#endif
