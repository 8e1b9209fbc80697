/* message.h - what the engine in the trainer and the writer process send each other.
 *
 * A Unix socket of packets; each packet is one message.  The engine sends a hello with two descriptors (the directory, the
 * arena), then a save for each image; the writer answers with events.  Both sides are of one version, but the
 * writer outlives the trainer and trusts no number from it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_WRITER_MESSAGE_H
#define LOCKSTEP_CKPT_WRITER_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"

#define MESSAGE_BYTES_MAX 1024
#define MESSAGE_FDS 2 /* directory, arena */

enum message_type {
    MESSAGE_HELLO = 1,
    MESSAGE_SAVE = 2,
    MESSAGE_EVENT = 3,
    MESSAGE_COMPLETE = 4,
    MESSAGE_BYE = 5, /* the trainer closes the engine: nobody needs its memory */
    MESSAGE_SKIP =
        6, /* this rank does not save a step: the others need not wait for it; with the directory, as there may be no hello */
};

struct message_hello {
    uint32_t rank, world, group, images, deadline_s, keep, no_verify;
    uint32_t
        hold_s; /* for how long the last image stays in memory if the trainer dies; 0: not at all */
    uint32_t verify_parts; /* 0: as the file system suggests */
    uint32_t commit_s;     /* for how long a save waits for those of other ranks */
    uint64_t job, bytes_per_s, keep_every;
    uint64_t image_bytes; /* of one image in the arena, its draft included */
};

struct message_save {
    uint32_t image;
    uint64_t number, step;
    uint64_t draft_at, draft_bytes; /* the draft of the manifest, from the begin of the image */
    uint64_t copy_ns;               /* that the copy took the trainer */
};

enum event_type {
    EVENT_READY = 1,    /* the writer lives */
    EVENT_RELEASED = 2, /* the image may be filled again */
    EVENT_WRITTEN = 3,
    EVENT_VERIFIED = 4,
    EVENT_FAILED = 5,
};

/* What is known of a save once it is on disk. */
struct message_figures {
    uint64_t bytes;
    uint64_t copy_ns, store_ns, digest_ns, commit_ns; /* digest_ns is part of store_ns */
    uint64_t tensors, unchanged;         /* with elements, and of them as in the save before */
    uint64_t moments, moments_unchanged; /* of them, the optimizer's */
};

struct message_event {
    uint32_t type, image;
    uint64_t number, step;          /* of the save */
    uint64_t ns, cpu_ns;            /* how long it took; CPU time of the writer so far */
    int32_t pid, code;              /* code: -errno of a failure */
    char text[256];                 /* how it was written, or why it failed */
    struct message_figures figures; /* written, verified */
};

struct message_skip {
    uint32_t rank, world, group;
    uint64_t job, step;
    char why[200];
};

struct message_complete {
    uint64_t step; /* all ranks of the job have verified its point */
};

struct message {
    enum message_type type;
    union {
        struct message_hello hello;
        struct message_save save;
        struct message_event event;
        struct message_complete complete;
        struct message_skip skip;
    };
};

void message_encode(const struct message *message, struct buf *out);
int message_parse(const void *data, size_t size, struct message *ret, struct err *err);

/* fds: MESSAGE_FDS of them, or NULL.  Never raises SIGPIPE. */
int message_send(int socket, const struct message *message, const int *fds, struct err *err);
/* 1: a message; 0: the other side is gone; -EAGAIN: nothing there (`wait` false).  Descriptors that came are in fds, else
 * -1, and belong to the caller.
 */
int message_receive(int socket, bool wait, struct message *ret, int *fds, struct err *err);

#endif
