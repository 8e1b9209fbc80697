/* ckpt.h - checkpoints of a training program, written off the training path.
 *
 * The engine copies the tensors of one rank into memory that it shares with a writer process.  The
 * training goes on; the writer puts the copy on the disk, syncs it, commits it together with the other
 * ranks and reads it back.  A point (the checkpoint of one step, of all ranks) is committed or it does not
 * exist: a crash or a power cut at any moment leaves no partial point that a reader would accept.
 *
 *     struct lockstep_ckpt_settings settings = { .size = sizeof(settings), .directory = "ckpt",
 *                                                .rank = rank, .world = world };
 *     struct lockstep_ckpt *ckpt = NULL;
 *     char why[256];
 *
 *     if (lockstep_ckpt_open(&settings, &ckpt, why, sizeof(why)) < 0)
 *         fprintf(stderr, "no checkpoints: %s\n", why);
 *     lockstep_ckpt_tensor_set(ckpt, &(struct lockstep_ckpt_tensor){
 *         .size = sizeof(struct lockstep_ckpt_tensor), .name = "weight",
 *         .dtype = LOCKSTEP_CKPT_F32, .dims = 2, .shape = { 1024, 1024 }, .data = weight });
 *     if (lockstep_ckpt_restore(ckpt, LOCKSTEP_CKPT_NEWEST, &step) == 0)
 *         first = step + 1;
 *     ...
 *     lockstep_ckpt_save_begin(ckpt, step);
 *     lockstep_ckpt_fence(ckpt);
 *     ...
 *     lockstep_ckpt_close(ckpt);
 *
 * Failure: no function ends the program.  Functions return 0 or a negative errno, and lockstep_ckpt_error()
 * has the last reason.  Every function accepts a NULL engine and then returns -ENODEV or does nothing, so a
 * program whose open failed needs no checks.  A save that cannot start is skipped and counted.
 * Threads: one thread at a time may use an engine.  Threads of the library exist only inside a call, with one exception:
 * lockstep_ckpt_prepare() with tensors on a GPU.
 * Fork: a child process must not use the engine of its parent.  Saves and waits fail there with -EPERM; close() only releases what the
 * child has.
 *
 * Structs that start with `size` can grow in later versions.  The caller sets `size` to the sizeof of the
 * struct and sets unused members to 0.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_H
#define LOCKSTEP_CKPT_H

#include <stddef.h>
#include <stdint.h>

#ifndef LOCKSTEP_API
#define LOCKSTEP_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct lockstep_ckpt;

#define LOCKSTEP_CKPT_DIMS 8
#define LOCKSTEP_CKPT_NEWEST UINT64_MAX

/* The numbers of all enums here are part of the file format and never change. */
enum lockstep_ckpt_dtype {
    LOCKSTEP_CKPT_BOOL = 1,
    LOCKSTEP_CKPT_U8 = 2,
    LOCKSTEP_CKPT_I8 = 3,
    LOCKSTEP_CKPT_F8_E5M2 = 4,
    LOCKSTEP_CKPT_F8_E4M3 = 5,
    LOCKSTEP_CKPT_F8_E8M0 = 6,
    LOCKSTEP_CKPT_F8_E4M3FNUZ = 7,
    LOCKSTEP_CKPT_F8_E5M2FNUZ = 8,
    LOCKSTEP_CKPT_I16 = 9,
    LOCKSTEP_CKPT_U16 = 10,
    LOCKSTEP_CKPT_F16 = 11,
    LOCKSTEP_CKPT_BF16 = 12,
    LOCKSTEP_CKPT_I32 = 13,
    LOCKSTEP_CKPT_U32 = 14,
    LOCKSTEP_CKPT_F32 = 15,
    LOCKSTEP_CKPT_C64 = 16,
    LOCKSTEP_CKPT_F64 = 17,
    LOCKSTEP_CKPT_I64 = 18,
    LOCKSTEP_CKPT_U64 = 19,
    LOCKSTEP_CKPT_C128 = 20
};

enum lockstep_ckpt_device {
    LOCKSTEP_CKPT_CPU = 0,
    LOCKSTEP_CKPT_CUDA = 1 /* memory of a GPU, in the primary context of `device_index` */
};

/* How far a save has come. */
enum lockstep_ckpt_stage {
    LOCKSTEP_CKPT_COPIED = 1,  /* the tensors may change */
    LOCKSTEP_CKPT_WRITTEN = 2, /* synced to the disk and committed by all ranks */
    LOCKSTEP_CKPT_VERIFIED =
        3, /* read back from the disk, past the page cache, with equal checksums */
    LOCKSTEP_CKPT_REPLICATED = 4, /* another node has it, by lockstep ckpt serve and mirror */
    LOCKSTEP_CKPT_UPLOADED = 5,   /* an object store has it, by lockstep ckpt push */
    LOCKSTEP_CKPT_STORED =
        6 /* before WRITTEN: this rank's file is synced, other ranks may still write theirs */
};

/* The version of the library, such as "0.1.0". */
LOCKSTEP_API const char *lockstep_ckpt_version(void);

/* ---- open and close ---- */

struct lockstep_ckpt_settings {
    size_t size;           /* sizeof(struct lockstep_ckpt_settings) */
    const char *directory; /* of all points; it is created if it is missing */
    uint32_t rank, world;  /* `rank` is below `world`; `world` 0 means 1 */
    /* Ranks that save into this directory.  0: all, on a file system that they share.  On disks of the
     * nodes: the ranks of the node, and each node commits its own points.
     */
    uint32_t group;
    uint32_t images;  /* copies in memory, 1 or 2; 0: 2, or 1 where the memory does not suffice */
    uint32_t threads; /* that copy and read; 0: the engine chooses */
    uint32_t deadline_s; /* for the writer after the end of the program; 0: 30 */
    /* The same for all ranks of one start of the job, and another one for each start; it keeps files of
     * two starts apart.  0: from the environment (LOCKSTEP_RUN and LOCKSTEP_RESTART, or what torchrun sets);
     * with one rank: random.
     */
    uint64_t job;
    uint64_t bytes_per_s; /* limit for the writer; 0: none */
    uint32_t keep; /* committed points to keep, at least 1; 0: all.  A point is removed only after a
                             newer one is verified. */
    uint32_t no_verify; /* 1: the writer does not read points back */
    /* How several ranks agree on the point that they restore: puts the least `value` of all ranks into *ret_least and
     * returns 0, or returns a negative errno.  Every rank calls it equally often, inside lockstep_ckpt_restore().  An
     * all-reduce (minimum) does it.  NULL: several ranks cannot restore LOCKSTEP_CKPT_NEWEST.
     */
    int (*agree)(void *ctx, uint64_t value, uint64_t *ret_least);
    void *agree_ctx;
    uint64_t keep_every; /* points whose step is a multiple of it stay, too; 0: none */
    /* If the program dies without lockstep_ckpt_close(): seconds for which the writer keeps the last image in memory, so that the next
     * start on this machine restores from there.  The memory is given back when the next start saves, or at SIGTERM.  0: from the
     * environment (LOCKSTEP_ARENA_HOLD); without it nothing is kept.
     */
    uint32_t arena_hold_s;
    /* Of how many parts of its file a save reads one back, another one each time; lockstep ckpt scrub reads the rest.  0: 1, the whole
     * file, on disks of the machine, 8 on file systems that machines share.  At most 4096.
     */
    uint32_t verify_parts;
    /* Seconds for which a save waits for those of the other ranks; then it has failed.  0: 600.  A rank that skips or cancels a save
     * and does not save this step after all within 30 seconds tells the others, whose save then fails at once.
     */
    uint32_t commit_s;
};

/* Starts the writer process.  Returns 0, or a negative errno with *ret unchanged and the reason in `error`,
 * one line without a newline.  `error` may be NULL; `error_size` is its size in bytes.
 */
LOCKSTEP_API int lockstep_ckpt_open(const struct lockstep_ckpt_settings *settings,
                                    struct lockstep_ckpt **ret, char *error, size_t error_size);
/* Returns at once; the writer finishes what was saved within its deadline. */
LOCKSTEP_API void lockstep_ckpt_close(struct lockstep_ckpt *ckpt);
/* Why the last call failed, "" if it did not; valid until the next call. */
LOCKSTEP_API const char *lockstep_ckpt_error(const struct lockstep_ckpt *ckpt);

/* ---- what is saved ---- */

struct lockstep_ckpt_tensor {
    size_t size;      /* sizeof(struct lockstep_ckpt_tensor) */
    const char *name; /* UTF-8, up to 1,000 bytes */
    uint32_t dtype;   /* enum lockstep_ckpt_dtype */
    uint32_t dims;    /* 0 for a scalar */
    uint64_t shape[LOCKSTEP_CKPT_DIMS];
    /* Where this part lies in the tensor of this global shape.  global_shape[0] == 0 (with dims > 0): this part is all of it. */
    uint64_t global_shape[LOCKSTEP_CKPT_DIMS], offset[LOCKSTEP_CKPT_DIMS];
    void *data;      /* contiguous, in C order; NULL only for a tensor without elements */
    uint32_t device; /* enum lockstep_ckpt_device */
    /* More than 1: that many ranks have this tensor with equal contents, and this one is number `replica`
     * of them.  Each of them saves one slice of it.
     */
    uint32_t replicas, replica;
    uint32_t device_index; /* of a GPU, as the CUDA driver counts them */
    /* 1: the tensor does not change before fence(), so that its copy may last until then (GPU).  0: it is copied when save_begin()
     * returns.
     */
    uint32_t later;
    /* 1, with `replicas`: their contents must be equal bit for bit.  Each rank then also digests its own copy of a slice that
     * another rank saves; if the two differ, the save fails with the name of the tensor, and its point is refused.
     * When a point of another number of ranks is restored: it is an error if ranks have saved different contents for the same
     * place, since nothing tells which to take.  Otherwise a rank takes its own, else that of the lowest rank.
     */
    uint32_t compare;
};

/* Registers a tensor, or changes the tensor of that name: call it again when its memory moved.  A new tensor
 * or another shape makes the next save slower, since the memory for the copy is allocated again.
 */
LOCKSTEP_API int lockstep_ckpt_tensor_set(struct lockstep_ckpt *ckpt,
                                          const struct lockstep_ckpt_tensor *tensor);
LOCKSTEP_API int lockstep_ckpt_tensor_drop(struct lockstep_ckpt *ckpt, const char *name);

/* The stream on which the program computes the tensors of this GPU, a CUstream; NULL, as at first: the default stream.  Copies begin
 * after what was launched on it before save_begin(), on a stream of their own.
 */
LOCKSTEP_API int lockstep_ckpt_stream_set(struct lockstep_ckpt *ckpt, uint32_t device_index,
                                          void *stream);

/* A small piece of state (random number generators, data loader, scheduler), copied at once; part of all
 * following saves until it is set again.  `size` 0 removes it.  All blobs together: at most 16 MiB.
 */
LOCKSTEP_API int lockstep_ckpt_blob_set(struct lockstep_ckpt *ckpt, const char *name,
                                        const void *data, size_t size);
/* The size of a blob, as it was set or restored, or -ENOENT; copies it if `room` suffices. */
LOCKSTEP_API int64_t lockstep_ckpt_blob_get(const struct lockstep_ckpt *ckpt, const char *name,
                                            void *data, size_t room);

/* ---- saving ---- */

/* Allocates the memory for the copies and touches all of it.  Optional: the first save does it otherwise.  If there are tensors
 * on a GPU, it returns at once, and a thread touches the memory and registers it for direct access by the GPU; a save that comes
 * earlier waits for that (`pin_wait_ns`).
 */
LOCKSTEP_API int lockstep_ckpt_prepare(struct lockstep_ckpt *ckpt);
/* Copies the tensors.  -EBUSY: all images are being written; the save is skipped and counted. */
LOCKSTEP_API int lockstep_ckpt_save_begin(struct lockstep_ckpt *ckpt, uint64_t step);
/* The tensors may change after it, and the writer begins. */
LOCKSTEP_API int lockstep_ckpt_fence(struct lockstep_ckpt *ckpt);
/* Instead of fence(): the copy is dropped, since a tensor changed meanwhile. */
LOCKSTEP_API int lockstep_ckpt_cancel(struct lockstep_ckpt *ckpt, const char *why);
/* Until the last save has come to that stage.  `timeout_ms` < 0: no limit.  -ETIMEDOUT; -EIO when the save
 * failed; -EPIPE when the writer is gone.
 */
LOCKSTEP_API int lockstep_ckpt_wait(struct lockstep_ckpt *ckpt, enum lockstep_ckpt_stage stage,
                                    int timeout_ms);

struct lockstep_ckpt_status {
    size_t size;                                /* sizeof(struct lockstep_ckpt_status) */
    uint64_t saved, skipped, cancelled, failed; /* saves */
    uint64_t written, verified;                 /* steps; UINT64_MAX: none yet */
    uint64_t arena_bytes;
    uint64_t copy_ns, write_ns, verify_ns; /* of the last save; write_ns: from fence to committed */
    uint64_t writer_cpu_ns;                /* of the writer process so far */
    int32_t writer_pid;
    char io[192]; /* how the last file was written, and why not faster */
    /* Of the last save that was written: tensors with elements, and how many of them are bit for bit as in the save
     * before.  All of them, after training steps: the program saves memory that it no longer trains.
     */
    uint64_t tensors, unchanged;
    /* Of the last save: waiting for the registration of the memory, part of copy_ns; waiting in fence() for copies. */
    uint64_t pin_wait_ns, fence_wait_ns;
    char device[192]; /* "" without tensors on a GPU; "pinned"; "not pinned, because ..." */
    uint64_t
        memory_bytes; /* of the last restore: bytes of files that came from memory (arena_hold_s) */
    uint64_t
        compared; /* slices of other replicas in the last save; 0 also without memory for them */
    char failure[256]; /* of the newest save that failed or was cancelled: "step N: why" */
};

LOCKSTEP_API int lockstep_ckpt_status_get(struct lockstep_ckpt *ckpt,
                                          struct lockstep_ckpt_status *ret);

/* What the stages of a save took: of the newest one that is verified, with `no_verify` of the newest that is written. */
struct lockstep_ckpt_spans {
    size_t size;        /* sizeof(struct lockstep_ckpt_spans) */
    uint64_t step;      /* of the save */
    uint64_t bytes;     /* of this rank's file */
    uint64_t copy_ns;   /* the training waited for it, fence() included */
    uint64_t write_ns;  /* until the file was synced, without the turn that it waited for */
    uint64_t digest_ns; /* part of write_ns */
    uint64_t commit_ns; /* until all ranks had written theirs, and the point was committed */
    uint64_t verify_ns; /* reading it back */
    /* Tensors with elements, and how many of them are bit for bit as in the save before. */
    uint64_t tensors, unchanged;
    /* The same of the optimizer's moments: tensors of more than one number whose names begin with "optim".  All of
     * them, after training steps: the program saves an optimizer that it does not use.
     */
    uint64_t moments, moments_unchanged;
    char disk[64]; /* where the directory is, such as "nvme0n1p1 (ext4)"; "": not known */
};

/* -ENODATA: no save has come so far. */
LOCKSTEP_API int lockstep_ckpt_spans_get(struct lockstep_ckpt *ckpt,
                                         struct lockstep_ckpt_spans *ret);

/* What other programs took for their copies of a point. */
struct lockstep_ckpt_copies {
    size_t size; /* sizeof(struct lockstep_ckpt_copies) */
    /* To another node (lockstep ckpt serve and mirror), to an object store (lockstep ckpt push).  0: there is none so far; 1: it is
     * not known what it took.
     */
    uint64_t replicate_ns, upload_ns;
};

/* Looks into the directory.  -ENOENT: this start of the job has no point of that step there. */
LOCKSTEP_API int lockstep_ckpt_copies_get(struct lockstep_ckpt *ckpt, uint64_t step,
                                          struct lockstep_ckpt_copies *ret);

/* ---- restoring ---- */

/* Fills the registered tensors, and the blobs, from the point of `step`, or from the newest one that is
 * complete and whose checksums are right.  A damaged point is marked and never taken again.  A point
 * of another number of ranks serves as well if each tensor differs from what was saved in its first
 * dimension only.
 * Several ranks that restore LOCKSTEP_CKPT_NEWEST get the same step, the newest that each of them could load:
 * settings.agree.  All of them must call it.
 * Returns 0 with the step in *ret_step.  -ENODATA: there is no such point, so a training begins at its first
 * step.  -EBADMSG: there are points, but none can be restored; a person must decide.  After any error but -ENODATA
 * the contents of the tensors are undefined.
 */
LOCKSTEP_API int lockstep_ckpt_restore(struct lockstep_ckpt *ckpt, uint64_t step,
                                       uint64_t *ret_step);

/* The committed points of the directory, newest first, without those that were refused.  Returns how many
 * there are; fills at most `room`.
 */
LOCKSTEP_API int64_t lockstep_ckpt_list(struct lockstep_ckpt *ckpt, uint64_t *step, size_t room);

/* The points of the directory that cannot be restored, newest first, as lines "step N: why": damaged ones, and those that were
 * never committed, such as the last one before a crash of trainer and writer.  Returns how many are damaged.  `text` may be
 * NULL; `room` is its size in bytes, and lines that do not fit are left out.
 */
LOCKSTEP_API int64_t lockstep_ckpt_refused(struct lockstep_ckpt *ckpt, char *text, size_t room);

/* Every rank of the job has verified the point of `step`.  Needed for `keep` on disks of the nodes: a node does not know
 * what the others have, so its writer removes a point only after this was called for newer ones.
 */
LOCKSTEP_API int lockstep_ckpt_complete(struct lockstep_ckpt *ckpt, uint64_t step);

/* ---- how often to save ---- */

struct lockstep_ckpt_costs {
    size_t size;      /* sizeof(struct lockstep_ckpt_costs) */
    double save_s;    /* training time that one save takes */
    double write_s;   /* from a save until it is written; the next save does not begin earlier */
    double failure_s; /* mean time between two failures of the whole job */
    double
        restart_s; /* from a failure until the training goes on, without the work that is repeated */
    double step_s; /* one step of the training; 0: the interval is not rounded to steps */
};

struct lockstep_ckpt_interval {
    size_t size;       /* sizeof(struct lockstep_ckpt_interval) */
    double interval_s; /* from the begin of a save to the begin of the next one */
    uint64_t steps;    /* the same in steps, at least 1; 0 if step_s is 0 */
    /* Expected parts of the time, each 0 to 1: in saves, in work that is repeated, in restarts. */
    double save_share, rework_share, restart_share;
    char why[256]; /* one sentence */
};

/* The interval that loses the least time (J. T. Daly, 2006), but not shorter than the disk allows.  A pure function of its
 * arguments.  -EINVAL: a number is negative or not finite, or failure_s is 0.
 */
LOCKSTEP_API int lockstep_ckpt_interval(const struct lockstep_ckpt_costs *costs,
                                        struct lockstep_ckpt_interval *ret);

#ifdef __cplusplus
}
#endif

#endif
