/* nccl_abi.h - what NCCL and a profiler plugin of it hand each other, as far as we use it.
 *
 * NCCL looks for tables called ncclProfiler_vN, newest first.  Version 3 came with 2.26, version 4 with 2.27, version 5 with
 * 2.28, version 6 with 2.29; later ones are given to a plugin of version 6 by a shim of NCCL's own.  Before version 3 NCCL
 * tells nothing of kernels: such an NCCL finds no table here and goes on without us.  Version 3 says of a communicator
 * only its id, with each launch, and has no times of the device's own.
 *
 * Layouts are NCCL's and not ours to change.  The members of the unions that we never look at are left out: they are
 * only ever handed to us by pointer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_NCCL_ABI_H
#define LOCKSTEP_PROBE_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

enum nccl_event { /* also bits of the mask of what a plugin wants; a child's brings its parents' */
    NCCL_EVENT_GROUP = 1 << 0,
    NCCL_EVENT_COLL = 1 << 1,
    NCCL_EVENT_P2P = 1 << 2,
    NCCL_EVENT_PROXY_OP = 1 << 3,
    NCCL_EVENT_PROXY_STEP = 1 << 4,
    NCCL_EVENT_KERNEL = 1 << 6, /* one channel of a kernel */
    NCCL_EVENT_NET = 1 << 7,
    NCCL_EVENT_CALLS = 0xf << 8, /* of the program, from version 5 on: what a launch belongs to */
    NCCL_EVENT_CE_COLL =
        1 << 12, /* a collective of copy engines: it has no kernel; from version 6 on */
};

#define NCCL_SUCCESS 0 /* nothing else is ever returned: training goes on */

struct nccl_coll_v3 {
    const char *name; /* of the communicator; may be NULL */
    uint64_t id;      /* likewise */
    uint64_t number;
    const char *func;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *datatype;
    uint8_t channels_max, warps;
    const char *algorithm, *protocol;
};

struct nccl_p2p_v3 {
    const char *name;
    uint64_t id;
    const char *func;
    void *buffer;
    const char *datatype;
    size_t count;
    int peer;
};

struct nccl_descr_v3 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct nccl_coll_v3 coll;
        struct nccl_p2p_v3 p2p;
        struct {
            uint8_t channel;
        } kernel;
    };
};

struct nccl_coll_v4 {
    uint64_t number; /* per function; not the order of launches */
    const char *func;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *datatype;
    uint8_t channels, warps;
    const char *algorithm, *protocol;
};

struct nccl_p2p_v4 {
    const char *func;
    void *buffer;
    const char *datatype;
    size_t count;
    int peer;
    uint8_t channels;
};

struct nccl_kernel {
    uint8_t channel;
    uint64_t timer_ns; /* the device's own clock; 0: not known */
};

struct nccl_descr_v4 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        int pid; /* of an operation of a proxy: where `parent` means something */
        struct nccl_coll_v4 coll;
        struct nccl_p2p_v4 p2p;
        struct nccl_kernel kernel;
    };
};

struct nccl_descr_v5 {
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct {
            struct nccl_coll_v4 is;
            void *group; /* `parent` is the call's event now */
        } coll;
        struct {
            struct nccl_p2p_v4 is;
            void *group;
        } p2p;
        struct nccl_kernel kernel;
    };
};

struct nccl_ce_coll_v6 {
    uint64_t number;
    const char *func;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *datatype;
};

/* As in version 5, and one more. */
struct nccl_descr_v6 {
    union {
        struct nccl_descr_v5 v5;
        struct {
            uint64_t type;
            void *parent;
            int rank;
            struct nccl_ce_coll_v6 ce_coll;
        };
    };
};

union nccl_state { /* of what is told while an event goes on; of a kernel: when it was over */
    uint64_t timer_ns;
};

struct nccl_profiler_v3 {
    const char *name;
    int (*init)(void **context, int *mask);
    int (*start)(void *context, void **handle, struct nccl_descr_v3 *descr);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, union nccl_state *args);
    int (*finalize)(void *context);
};

struct nccl_profiler_v4 {
    const char *name;
    int (*init)(void **context, int *mask, const char *name, uint64_t id, int nodes, int ranks,
                int rank, void *log);
    int (*start)(void *context, void **handle, struct nccl_descr_v4 *descr);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, union nccl_state *args);
    int (*finalize)(void *context);
};

struct nccl_profiler_v5 {
    const char *name;
    int (*init)(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks,
                int rank, void *log);
    int (*start)(void *context, void **handle, struct nccl_descr_v5 *descr);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, union nccl_state *args);
    int (*finalize)(void *context);
};

struct nccl_profiler_v6 {
    const char *name;
    int (*init)(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks,
                int rank, void *log);
    int (*start)(void *context, void **handle, struct nccl_descr_v6 *descr);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, union nccl_state *args);
    int (*finalize)(void *context);
};

_Static_assert(offsetof(struct nccl_descr_v3, coll.func) == 48, "NCCL's layout");
_Static_assert(offsetof(struct nccl_descr_v3, coll.channels_max) == 96, "NCCL's layout");
_Static_assert(offsetof(struct nccl_descr_v3, coll.protocol) == 112, "NCCL's layout");
_Static_assert(offsetof(struct nccl_descr_v3, p2p.peer) == 72, "NCCL's layout");
_Static_assert(offsetof(struct nccl_descr_v3, kernel.channel) == 24, "NCCL's layout");
_Static_assert(offsetof(struct nccl_descr_v4, coll.channels) == 80, "NCCL's layout");
_Static_assert(offsetof(struct nccl_descr_v4, coll.protocol) == 96, "NCCL's layout");
_Static_assert(offsetof(struct nccl_descr_v5, coll.group) == 104, "NCCL's layout");
_Static_assert(offsetof(struct nccl_descr_v5, p2p.group) == 64, "NCCL's layout");
_Static_assert(offsetof(struct nccl_descr_v5, kernel.timer_ns) == 32, "NCCL's layout");
_Static_assert(offsetof(struct nccl_descr_v6, v5.coll.is.func) == 32, "NCCL's layout");
_Static_assert(offsetof(struct nccl_descr_v6, ce_coll.func) == 32, "NCCL's layout");
_Static_assert(offsetof(struct nccl_descr_v6, ce_coll.count) == 56, "NCCL's layout");
_Static_assert(offsetof(struct nccl_descr_v6, ce_coll.datatype) == 72, "NCCL's layout");

#endif
