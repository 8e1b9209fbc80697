/* probe_mark.c - the hot path: one cache line written per mark.
 *
 * No malloc, lock, system call (vDSO clock excepted) or failure.  `lockstep bench probe`
 * says what a mark costs beyond its clock read.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "probe/probe_private.h"
#include "probe/stamp.h"
#include "wire/ring_format.h"

#define relaxed memory_order_relaxed
#define DEPTH_MASK (UINT64_C(0xff) << RING_DEPTH_SHIFT)
#define OP_DESC_BYTES (offsetof(struct lockstep_op_desc, reserved) + 4) /* of its first version */
#define NO_COMM (-1)
#define SHARED_TRIES 1000 /* some microseconds */
#define SHARED_LEAST 4    /* lanes of a ring that spares one for sharing */
#define SHARED_TID UINT32_MAX

/* ---- a lane for each thread that marks, at its first mark ----
 *
 * The only system calls after open are here: at a thread's first mark its id, and where all
 * lanes are taken, whether the threads that hold them still live.  A program that starts a
 * thread per checkpoint would otherwise run out of lanes.
 */

/* What this thread knows.  An epoch is never used twice in a process or its children. */
struct probe_thread {
    uint32_t epoch;
    uint32_t missed;        /* marks made without a lane */
    struct ring_lane *lane; /* NULL: all lanes were taken; marks are counted, not kept */
};
#define PROBE_TLS _Thread_local __attribute__((tls_model("initial-exec")))
static PROBE_TLS struct probe_thread probe_thread = { .epoch = PROBE_EPOCH_NEVER };

static struct ring_lane *probe_lane_at(const struct lockstep_probe *probe, uint32_t index)
{
    return (struct ring_lane *)(void *)(probe->lanes + index * probe->lane_bytes);
}

/* The last lane is for all threads that find no other: NCCL has a thread for each communicator. */
static uint32_t probe_lanes_own(const struct lockstep_probe *probe)
{
    return probe->lane_count < SHARED_LEAST ? probe->lane_count : probe->lane_count - 1;
}

/* The lane of those that have none of their own; NULL: this ring has too few. */
static struct ring_lane *probe_lane_shared(struct lockstep_probe *probe)
{
    uint32_t own = probe_lanes_own(probe);
    struct ring_lane *lane = own < probe->lane_count ? probe_lane_at(probe, own) : NULL;

    if (lane && atomic_load_explicit(&lane->tid, relaxed) == 0)
        atomic_store_explicit(&lane->tid, SHARED_TID, relaxed);
    return lane;
}

static struct ring_lane *probe_lane_take_free(struct lockstep_probe *probe, uint32_t tid)
{
    for (uint32_t i = 0; i < probe_lanes_own(probe); i++) {
        struct ring_lane *lane = probe_lane_at(probe, i);
        uint32_t none = 0;

        if (atomic_compare_exchange_strong(&lane->tid, &none, tid)) {
            atomic_fetch_add(&probe->header->lanes_used, 1);
            return lane;
        }
    }
    return NULL;
}

/* A dead thread's lane goes on where that one stopped: its head stays. */
static struct ring_lane *probe_lane_take_dead(struct lockstep_probe *probe, uint32_t tid)
{
    for (uint32_t i = 0; i < probe_lanes_own(probe); i++) {
        struct ring_lane *lane = probe_lane_at(probe, i);
        uint32_t holder = atomic_load(&lane->tid);

        if (syscall(SYS_tgkill, getpid(), holder, 0) == 0 || errno != ESRCH)
            continue;
        if (atomic_compare_exchange_strong(&lane->tid, &holder, tid))
            return lane;
    }
    return NULL;
}

static struct ring_lane *probe_lane_take(struct lockstep_probe *probe)
{
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    struct ring_lane *lane = probe_lane_take_free(probe, tid);

    return lane ? lane : probe_lane_take_dead(probe, tid);
}

void probe_lane_claim(struct lockstep_probe *probe, uint32_t epoch)
{
    int saved = errno;
    struct ring_lane *lane = probe_lane_take(probe);

    if (!lane)
        atomic_fetch_add(&probe->header->lanes_used, 1);
    probe_thread = (struct probe_thread){ .epoch = epoch, .lane = lane };
    errno = saved;
}

/* A thread without a lane asks again at its 1st, 2nd, 4th, 8th … lost mark: some other thread
 * may have ended since.
 */
static void probe_lane_missed(struct lockstep_probe *probe)
{
    int saved = errno;

    atomic_fetch_add_explicit(&probe->header->dropped, 1, memory_order_relaxed);
    probe_thread.missed++;
    if ((probe_thread.missed & (probe_thread.missed - 1)) == 0)
        probe_thread.lane = probe_lane_take_dead(probe, (uint32_t)syscall(SYS_gettid));
    errno = saved;
}

/* ---- marks ---- */

struct mark {
    uint64_t time_ns, step, what, a, b, c, d;
};

/* May this thread write to this ring?  Takes its lane at the first mark. */
static inline bool mark_live(struct lockstep_probe *probe)
{
    uint32_t epoch;

    if (!probe)
        return false;
    epoch = atomic_load_explicit(&probe->epoch, memory_order_acquire);
    if (__builtin_expect(epoch == probe_thread.epoch, 1))
        return true;
    if (epoch == 0)
        return false;
    probe_lane_claim(probe, epoch);
    return true;
}

static inline bool mark_wanted(struct lockstep_probe *probe, uint64_t unless)
{
    return (atomic_load_explicit(&probe->depth, relaxed) & unless) == 0;
}

/* Seqlock: odd while we write.  Every word is stored with release, so a reader that sees a
 * new word also sees the head before it and the odd seq.  No fences: TSan cannot check them.
 */
static inline void mark_write(const struct lockstep_probe *probe, struct ring_lane *lane,
                              struct mark mark)
{
    struct ring_record *record;
    const uint64_t word[7] = { mark.time_ns, mark.step, mark.what, mark.a, mark.b, mark.c, mark.d };
    uint64_t n = atomic_load_explicit(&lane->head, relaxed);

    record = (struct ring_record *)(void *)(lane + 1);
    __builtin_prefetch(&record[(n + 1) & probe->mask], 1);
    record += n & probe->mask;
    atomic_store_explicit(&record->seq, 2 * n + 1, relaxed);
    for (int i = 0; i < 7; i++)
        atomic_store_explicit(&record->word[i], word[i], memory_order_release);
    atomic_store_explicit(&record->seq, 2 * n + 2, memory_order_release);
    atomic_store_explicit(&lane->head, n + 1, memory_order_release);
}

/* Of a thread without a lane of its own: they share one, one at a time.  Whoever finds it taken for longer than a record
 * takes goes on without the mark, which is counted: nobody ever waits here.
 */
static __attribute__((noinline)) void mark_put_shared(struct lockstep_probe *probe,
                                                      struct mark mark)
{
    struct ring_lane *lane = probe_lane_shared(probe);

    for (int tries = 0; lane && tries < SHARED_TRIES; tries++) {
        uint32_t none = 0;

        if (!atomic_compare_exchange_weak_explicit(&probe->shared_busy, &none, 1,
                                                   memory_order_acquire, relaxed))
            continue;
        mark_write(probe, lane, mark);
        atomic_store_explicit(&probe->shared_busy, 0, memory_order_release);
        return;
    }
    probe_lane_missed(probe);
}

static inline void mark_put(struct lockstep_probe *probe, struct mark mark)
{
    struct ring_lane *lane = probe_thread.lane;

    if (__builtin_expect(!lane, 0))
        mark_put_shared(probe, mark);
    else
        mark_write(probe, lane, mark);
}

static inline uint64_t mark_step(struct lockstep_probe *probe)
{
    return atomic_load_explicit(&probe->step, relaxed);
}

static inline uint64_t mark_time(uint64_t time_ns)
{
    return time_ns ? time_ns : (uint64_t)time_mono_ns();
}

/* ---- steps ---- */

/* What the agent asks for takes effect here, between steps, and leaves a record of its own,
 * also when it says "nothing from here on".
 */
static void probe_depth_take(struct lockstep_probe *probe, uint64_t now_ns, uint64_t step)
{
    const struct ring_request_place *place = &probe->header->request[RING_REQUEST_DEPTH - 1];
    uint64_t bits, old = atomic_load_explicit(&probe->depth, relaxed);

    if (atomic_load_explicit(&place->seq, relaxed) ==
            atomic_load_explicit(&probe->depth_seq, relaxed) &&
        step < atomic_load_explicit(&probe->depth_step, relaxed))
        return;
    if (!probe_depth_read(probe, step, &bits) || bits == old)
        return;
    atomic_store_explicit(&probe->depth, bits, relaxed);
    mark_put(probe, (struct mark){ .time_ns = now_ns,
                                   .step = step,
                                   .what = ring_pack(RING_DEPTH, 0, 0, NO_COMM),
                                   .a = bits });
}

void lockstep_step_begin(struct lockstep_probe *probe, uint64_t step)
{
    uint64_t now_ns;

    if (!mark_live(probe))
        return;
    now_ns = (uint64_t)time_mono_ns();
    atomic_store_explicit(&probe->step, step, relaxed);
    atomic_store_explicit(&probe->header->step, step, relaxed);
    probe_depth_take(probe, now_ns, step);
    if (mark_wanted(probe, RING_DEPTH_OFF))
        mark_put(probe, (struct mark){ .time_ns = now_ns,
                                       .step = step,
                                       .what = ring_pack(RING_STEP_BEGIN, 0, 0, NO_COMM) });
}

void lockstep_step_end(struct lockstep_probe *probe, uint64_t step)
{
    if (!mark_live(probe) || !mark_wanted(probe, RING_DEPTH_OFF))
        return;
    mark_put(probe, (struct mark){ .time_ns = (uint64_t)time_mono_ns(),
                                   .step = step,
                                   .what = ring_pack(RING_STEP_END, 0, 0, NO_COMM) });
}

/* ---- phases and spans: not at depth 1 ---- */

static inline bool probe_phase_wanted(struct lockstep_probe *probe, enum lockstep_phase phase)
{
    return (unsigned)phase - 1 < LOCKSTEP_PHASE_COUNT - 1 && mark_live(probe) &&
           mark_wanted(probe, RING_DEPTH_OFF | DEPTH_MASK);
}

static inline void probe_phase_put(struct lockstep_probe *probe, enum lockstep_phase phase,
                                   uint8_t kind)
{
    if (!probe_phase_wanted(probe, phase))
        return;
    mark_put(probe, (struct mark){ .time_ns = (uint64_t)time_mono_ns(),
                                   .step = mark_step(probe),
                                   .what = ring_pack(kind, (uint8_t)phase, 0, NO_COMM) });
}

void lockstep_phase_begin(struct lockstep_probe *probe, enum lockstep_phase phase)
{
    probe_phase_put(probe, phase, RING_PHASE_BEGIN);
}

void lockstep_phase_end(struct lockstep_probe *probe, enum lockstep_phase phase)
{
    probe_phase_put(probe, phase, RING_PHASE_END);
}

void lockstep_device_span(struct lockstep_probe *probe, uint16_t stream, enum lockstep_phase phase,
                          uint64_t enqueue_ns, uint64_t begin_ns, uint64_t end_ns)
{
    if (!probe_phase_wanted(probe, phase))
        return;
    mark_put(probe, (struct mark){ .time_ns = (uint64_t)time_mono_ns(),
                                   .step = mark_step(probe),
                                   .what = ring_pack(RING_SPAN, (uint8_t)phase, stream, NO_COMM),
                                   .a = enqueue_ns,
                                   .b = begin_ns,
                                   .c = end_ns });
}

bool probe_stamp_mark(struct lockstep_probe *probe, const struct stamp *stamp, uint64_t tag)
{
    if (!probe_phase_wanted(probe, stamp->phase))
        return false;
    mark_put(probe,
             (struct mark){ .time_ns = (uint64_t)time_mono_ns(),
                            .step = mark_step(probe),
                            .what = ring_pack(RING_STAMP, (uint8_t)stamp->what, RING_STAMP_STREAM,
                                              stamp->comm < 0 ? NO_COMM : stamp->comm),
                            .a = tag,
                            .b = (uint64_t)stamp->phase,
                            .c = stamp->colls,
                            .d = stamp->messages });
    return true;
}

/* ---- collectives and point-to-point ---- */

/* Counts go on while recording is off: keys must stay those of the other ranks. */
static inline bool probe_comm_usable(struct lockstep_probe *probe, int comm)
{
    return (unsigned)comm < RING_COMMS && mark_live(probe);
}

/* NOLINTNEXTLINE(readability-function-size): seven parameters */
static inline void probe_op_put(struct lockstep_probe *probe, uint64_t what, uint64_t time_ns,
                                uint64_t key, uint64_t bytes, uint64_t peer, uint64_t dtype)
{
    if (!mark_wanted(probe, RING_DEPTH_OFF))
        return;
    mark_put(probe, (struct mark){ .time_ns = mark_time(time_ns),
                                   .step = mark_step(probe),
                                   .what = what,
                                   .a = key,
                                   .b = bytes,
                                   .c = peer,
                                   .d = dtype });
}

static inline uint64_t probe_dtype_word(enum lockstep_dtype dtype) /* out of range: not told */
{
    return (unsigned)dtype < LOCKSTEP_DTYPE_COUNT ? (uint64_t)dtype : LOCKSTEP_DTYPE_UNKNOWN;
}

/* NOLINTNEXTLINE(readability-function-size): seven parameters */
static inline uint64_t probe_coll_enqueue(struct lockstep_probe *probe, int comm,
                                          enum lockstep_op op, uint64_t bytes, uint16_t stream,
                                          enum lockstep_dtype dtype, uint64_t time_ns)
{
    uint64_t key;

    if ((unsigned)op - 1 >= LOCKSTEP_OP_OTHER) /* unknown, but it has its place in the count */
        op = LOCKSTEP_OP_OTHER;
    key = atomic_fetch_add_explicit(&probe->comm[comm].coll_enqueued, 1, relaxed);
    probe_op_put(probe, ring_pack(RING_COLL_ENQUEUE, (uint8_t)op, stream, comm), time_ns, key,
                 bytes, 0, probe_dtype_word(dtype));
    return key;
}

/* NOLINTNEXTLINE(readability-function-size): seven parameters or more, none of which belong together */
uint64_t probe_coll_launch_at(struct lockstep_probe *probe, int comm, enum lockstep_op op,
                              uint64_t bytes, uint16_t stream, enum lockstep_dtype dtype,
                              uint64_t time_ns)
{
    uint64_t key;

    if (!probe_comm_usable(probe, comm))
        return 0;
    key = probe_coll_enqueue(probe, comm, op, bytes, stream, dtype, time_ns);
    lockstep_coll_start(probe, comm, key, time_ns);
    return key;
}

uint64_t probe_coll_launch(struct lockstep_probe *probe, int comm, enum lockstep_op op,
                           uint64_t bytes, uint16_t stream, enum lockstep_dtype dtype)
{
    return probe_coll_launch_at(probe, comm, op, bytes, stream, dtype, (uint64_t)time_mono_ns());
}

/* A time for both events of an operation that starts when it is enqueued. */
static inline uint64_t probe_desc_time(const struct lockstep_op_desc *desc)
{
    return desc->flags & LOCKSTEP_FLAG_STARTED ? mark_time(desc->time_ns) : desc->time_ns;
}

uint64_t lockstep_coll_enqueue(struct lockstep_probe *probe, const struct lockstep_op_desc *desc)
{
    uint64_t key, time_ns;

    if (!desc || desc->size < OP_DESC_BYTES || !probe_comm_usable(probe, desc->comm))
        return 0;
    time_ns = probe_desc_time(desc);
    key = probe_coll_enqueue(probe, desc->comm, (enum lockstep_op)desc->op, desc->bytes,
                             desc->stream, (enum lockstep_dtype)desc->dtype, time_ns);
    if (desc->flags & LOCKSTEP_FLAG_STARTED)
        lockstep_coll_start(probe, desc->comm, key, time_ns);
    return key;
}

void lockstep_coll_start(struct lockstep_probe *probe, int comm, uint64_t key, uint64_t time_ns)
{
    if (!probe_comm_usable(probe, comm))
        return;
    atomic_fetch_add_explicit(&probe->comm[comm].coll_started, 1, relaxed);
    probe_op_put(probe, ring_pack(RING_COLL_START, 0, 0, comm), time_ns, key, 0, 0, 0);
}

void lockstep_coll_end(struct lockstep_probe *probe, int comm, uint64_t key, uint64_t time_ns)
{
    if (!probe_comm_usable(probe, comm))
        return;
    atomic_fetch_add_explicit(&probe->comm[comm].coll_ended, 1, relaxed);
    probe_op_put(probe, ring_pack(RING_COLL_END, 0, 0, comm), time_ns, key, 0, 0, 0);
}

void lockstep_coll_method(struct lockstep_probe *probe, int comm, enum lockstep_op op,
                          uint64_t bytes, uint32_t channels, const char *method)
{
    const uint64_t most = (UINT64_C(1) << RING_METHOD_BYTES_BITS) - 1;
    uint64_t word[RING_METHOD_TEXT / 8] = { 0 };

    if (!method || (unsigned)op - 1 >= LOCKSTEP_OP_OTHER || !probe_comm_usable(probe, comm) ||
        !mark_wanted(probe, RING_DEPTH_OFF))
        return;
    memcpy(word, method, strnlen(method, RING_METHOD_TEXT));
    mark_put(probe, (struct mark){ .time_ns = (uint64_t)time_mono_ns(),
                                   .step = mark_step(probe),
                                   .what = ring_pack(RING_COLL_METHOD, (uint8_t)op, 0, comm),
                                   .a = MIN(bytes, most) | (uint64_t)MIN(channels, UINT16_MAX)
                                                               << RING_METHOD_BYTES_BITS,
                                   .b = word[0],
                                   .c = word[1],
                                   .d = word[2] });
}

/* NOLINTNEXTLINE(readability-function-size): seven parameters or more, none of which belong together */
static inline uint64_t probe_p2p_enqueue(struct lockstep_probe *probe, int comm,
                                         enum lockstep_op op, uint32_t peer, uint64_t bytes,
                                         uint16_t stream, enum lockstep_dtype dtype,
                                         uint64_t time_ns)
{
    uint64_t key = atomic_fetch_add_explicit(&probe->comm[comm].p2p_enqueued, 1, relaxed);

    probe_op_put(probe, ring_pack(RING_P2P_ENQUEUE, (uint8_t)op, stream, comm), time_ns, key, bytes,
                 peer, probe_dtype_word(dtype));
    return key;
}

static inline bool probe_p2p_usable(struct lockstep_probe *probe, int comm, enum lockstep_op op)
{
    return (op == LOCKSTEP_OP_SEND || op == LOCKSTEP_OP_RECV) && probe_comm_usable(probe, comm);
}

/* NOLINTNEXTLINE(readability-function-size): as probe_coll_launch_at() */
uint64_t probe_p2p_launch(struct lockstep_probe *probe, int comm, enum lockstep_op op,
                          uint32_t peer, uint64_t bytes, uint16_t stream, enum lockstep_dtype dtype)
{
    uint64_t key, now_ns = (uint64_t)time_mono_ns();

    if (!probe_p2p_usable(probe, comm, op))
        return 0;
    key = probe_p2p_enqueue(probe, comm, op, peer, bytes, stream, dtype, now_ns);
    lockstep_p2p_start(probe, comm, key, now_ns);
    return key;
}

uint64_t lockstep_p2p_enqueue(struct lockstep_probe *probe, const struct lockstep_op_desc *desc)
{
    uint64_t key, time_ns;

    if (!desc || desc->size < OP_DESC_BYTES ||
        !probe_p2p_usable(probe, desc->comm, (enum lockstep_op)desc->op))
        return 0;
    time_ns = probe_desc_time(desc);
    key = probe_p2p_enqueue(probe, desc->comm, (enum lockstep_op)desc->op, desc->peer, desc->bytes,
                            desc->stream, (enum lockstep_dtype)desc->dtype, time_ns);
    if (desc->flags & LOCKSTEP_FLAG_STARTED)
        lockstep_p2p_start(probe, desc->comm, key, time_ns);
    return key;
}

void lockstep_p2p_start(struct lockstep_probe *probe, int comm, uint64_t key, uint64_t time_ns)
{
    if (!probe_comm_usable(probe, comm))
        return;
    atomic_fetch_add_explicit(&probe->comm[comm].p2p_started, 1, relaxed);
    probe_op_put(probe, ring_pack(RING_P2P_START, 0, 0, comm), time_ns, key, 0, 0, 0);
}

void lockstep_p2p_end(struct lockstep_probe *probe, int comm, uint64_t key, uint64_t time_ns)
{
    if (!probe_comm_usable(probe, comm))
        return;
    atomic_fetch_add_explicit(&probe->comm[comm].p2p_ended, 1, relaxed);
    probe_op_put(probe, ring_pack(RING_P2P_END, 0, 0, comm), time_ns, key, 0, 0, 0);
}

/* ---- numbers and words ---- */

static inline bool probe_value_wanted(struct lockstep_probe *probe)
{
    return mark_live(probe) && mark_wanted(probe, RING_DEPTH_OFF);
}

void lockstep_metric_put(struct lockstep_probe *probe, enum lockstep_metric metric, double value)
{
    uint64_t bits;

    if ((unsigned)metric - 1 >= LOCKSTEP_METRIC_COUNT - 1 || !probe_value_wanted(probe))
        return;
    memcpy(&bits, &value, sizeof(bits));
    mark_put(probe, (struct mark){ .time_ns = (uint64_t)time_mono_ns(),
                                   .step = mark_step(probe),
                                   .what = ring_pack(RING_METRIC, (uint8_t)metric, 0, NO_COMM),
                                   .a = bits });
}

void lockstep_digest_put(struct lockstep_probe *probe, uint32_t part, uint32_t parts, uint64_t low,
                         uint64_t high)
{
    if (!probe_value_wanted(probe))
        return;
    mark_put(probe, (struct mark){ .time_ns = (uint64_t)time_mono_ns(),
                                   .step = mark_step(probe),
                                   .what = ring_pack(RING_DIGEST, 0, 0, NO_COMM),
                                   .a = part | (uint64_t)parts << 32,
                                   .b = low,
                                   .c = high });
}

/* 32 bytes a record, one after the other in this thread's lane. */
void lockstep_note_put(struct lockstep_probe *probe, const char *text)
{
    struct mark mark = { 0 };
    size_t left, parts;

    if (!text || !probe_value_wanted(probe))
        return;
    left = strnlen(text, RING_NOTE_PARTS * 32);
    parts = left ? (left + 31) / 32 : 1;
    mark.time_ns = (uint64_t)time_mono_ns();
    mark.step = mark_step(probe);
    for (size_t i = 0; i < parts; i++) {
        uint64_t word[4] = { 0 };
        size_t size = left < 32 ? left : 32;

        memcpy(word, text + 32 * i, size);
        left -= size;
        mark.what = ring_pack(RING_NOTE, (uint8_t)(i | (left ? RING_NOTE_MORE : 0)), 0, NO_COMM);
        mark.a = word[0];
        mark.b = word[1];
        mark.c = word[2];
        mark.d = word[3];
        mark_put(probe, mark);
    }
}
