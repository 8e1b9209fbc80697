/* engine_private.h - the engine of one rank, for the files of this room.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_ENGINE_PRIVATE_H
#define LOCKSTEP_CKPT_ENGINE_PRIVATE_H

#include <sys/types.h>

#include "ckpt/arena.h"
#include "ckpt/copier.h"
#include "ckpt/format/manifest.h"
#include "ckpt/writer/message.h"
#include "core/err.h"
#include "core/map.h"
#include "lockstep/ckpt.h"

/* A registered tensor: `part` is what this rank has, `saved` the slice of it that this rank saves. */
struct engine_tensor {
    struct ckpt_tensor part, saved; /* saved.name belongs to the layout */
    unsigned char *data;            /* of the part; on a GPU: its address there */
    const unsigned char *from;      /* of the slice */
    uint32_t device, device_index;  /* enum lockstep_ckpt_device */
    bool later;                     /* on a GPU: it may be copied until the fence */
    bool equal, compared; /* on all ranks that have it; and compared with those of this directory */
    uint32_t replicas, replica;
};

enum image_state {
    IMAGE_FREE = 0,
    IMAGE_FILLED,  /* between save_begin() and fence() */
    IMAGE_WRITING, /* belongs to the writer */
};

struct engine_image {
    enum image_state state;
    struct message_save save;
};

struct lockstep_ckpt {
    struct lockstep_ckpt_settings settings; /* its texts are not valid after open */
    struct err err;
    pid_t owner; /* that opened it */
    int dir_fd, socket;
    unsigned respawned;
    struct engine_tensor *tensor;
    size_t tensors, tensor_room;
    struct map names; /* hash of a name, to index + 1 */
    struct ckpt_blob *blob;
    size_t blobs, blob_room;
    bool laid_out;
    bool uncompared;        /* the memory does not suffice for slices of other replicas */
    struct manifest layout; /* what this rank saves, in the order of the file; names are borrowed */
    size_t *order;          /* of the layout: index of the registered tensor */
    struct buf header;
    struct arena arena;
    struct copier copier;
    struct engine_image image[ARENA_IMAGES];
    unsigned last_image; /* of the last save: the other one is filled first */
    struct lockstep_ckpt_status status;
    struct lockstep_ckpt_spans spans;
    bool has_spans;
    int64_t fence_ns;
    uint64_t fenced_step;                               /* of the last save */
    uint64_t number, stored, written, verified, failed; /* saves; numbers begin at 1 */
    unsigned skips; /* that were sent since the writer's last answer */
    char failure[256];
};

/* engine.c */
struct engine_tensor *engine_find(const struct lockstep_ckpt *ckpt, const char *name);
int engine_result(struct lockstep_ckpt *ckpt, int result); /* clears the text after success */
/* In a process that was forked from the program: the writer, the arena and GPUs are not its own.  0, or -EPERM. */
int engine_owner_check(const struct lockstep_ckpt *ckpt, struct err *err);
/* The program begins, or goes back to an older step: it may save now what it could not before. */
void engine_failures_forget(const struct lockstep_ckpt *ckpt);
int engine_blob_set(struct lockstep_ckpt *ckpt, const char *name, const void *data, size_t size);
/* The rows of a part that the replica saves. */
void engine_replica_rows(const struct engine_tensor *tensor, uint32_t replica, uint64_t *ret_first,
                         uint64_t *ret_end);

/* replica_slices.c: this rank's copies of slices that other ranks save. */
uint64_t replica_slices_room(const struct lockstep_ckpt *ckpt); /* bytes, of any step */
int replica_slices_choose(struct lockstep_ckpt *ckpt, uint64_t step, struct err *err);
void replica_slices_copy(struct lockstep_ckpt *ckpt, unsigned image, unsigned threads);
int replica_slices_device_copy(struct lockstep_ckpt *ckpt, unsigned image, bool later,
                               struct err *err);

/* restore.c: what became of restoring a point. */
struct restored {
    uint64_t step;
    bool refused; /* there are points that could not be restored */
    struct err why;
};

/* By this rank alone. */
int restore_alone(struct lockstep_ckpt *ckpt, uint64_t step, struct restored *ret, struct err *err);
/* restore_agreed.c: the newest point that all ranks can restore. */
int restore_agreed(struct lockstep_ckpt *ckpt, struct restored *ret, struct err *err);

/* writer_link.c: the writer process. */
int writer_link_open(struct lockstep_ckpt *ckpt, struct err *err);
int writer_link_hello(struct lockstep_ckpt *ckpt, struct err *err);
void writer_link_drain(struct lockstep_ckpt *ckpt,
                       int timeout_ms); /* takes what the writer has sent */
void writer_link_bye(struct lockstep_ckpt *ckpt);
int writer_link_save(struct lockstep_ckpt *ckpt, unsigned image, struct err *err);
/* Tells the ranks that share the directory that this one does not save the step. */
void writer_link_skip(struct lockstep_ckpt *ckpt, uint64_t step, const char *why);

#endif
