/* stamp.c - set-up of the stamps, and their launch.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/stamp.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "device/cuda/cuda.h"
#include "device/cuda/stamp_kernel.h"
#include "wire/ring_format.h"

#define relaxed memory_order_relaxed
#define CLOCK_EVERY_NS (20 * NS_PER_MS) /* between two comparisons of the clocks */
#define CLOCK_FIRST 32                  /* comparisons at the beginning, for which we wait */
#define CLOCK_WAIT_NS (2 * NS_PER_MS)   /* for each at most */

enum stamps_state {
    STAMPS_NONE = 0,
    STAMPS_ON,
    STAMPS_OFF
};

/* Set up once, by one thread; `state` is written last. */
static struct {
    _Atomic int state;
    _Atomic uint32_t epoch; /* of the ring that the device writes to */
    struct cuda cuda;
    void *context, *module, *kernel, *clock_stream;
    struct ring_stamps_head *head;
    uint64_t place, clock_place, mask; /* of the stamps, as the device has them */
    _Atomic(void *) stream;            /* that computes: of the newest step */
    _Atomic uintptr_t thread;          /* that began it */
    _Atomic uint64_t tag, step_tags;   /* given so far; when this step began */
    _Atomic uint64_t every;            /* every so many steps are stamped */
    _Atomic bool skip;                 /* not this one */
    /* Of the thread that begins steps. */
    struct stamp_clock clock;
    uint64_t compared, clock_host_ns[RING_CLOCK_PLACES], read, clock_ns;
    char reason[160];
    _Atomic bool reason_new;
} stamps;

/* ---- off ---- */

static void stamps_off(int result, const char *what)
{
    struct err err = { .text = "" };

    if (atomic_exchange(&stamps.state, STAMPS_OFF) != STAMPS_ON)
        return;
    cuda_check(&stamps.cuda, result, what, &err);
    snprintf(stamps.reason, sizeof(stamps.reason), "%s", err.text);
    atomic_store(&stamps.reason_new, true);
}

bool stamps_are_on(void)
{
    return atomic_load_explicit(&stamps.state, memory_order_acquire) == STAMPS_ON;
}

bool stamps_thread_is_this(void)
{
    return atomic_load_explicit(&stamps.thread, relaxed) == (uintptr_t)pthread_self();
}

uint64_t stamps_given(void)
{
    return atomic_load_explicit(&stamps.tag, relaxed);
}

void *stamps_stream(void)
{
    return atomic_load_explicit(&stamps.stream, relaxed);
}

const char *stamps_off_reason(void)
{
    return atomic_exchange(&stamps.reason_new, false) ? stamps.reason : NULL;
}

/* ---- the clocks ---- */

static int stamp_launch(void *stream, uint64_t place, uint64_t mask, uint64_t tag)
{
    void *argument[] = { &place, &mask, &tag };

    return stamps.cuda.launch(stamps.kernel, 1, 1, 1, 1, 1, 1, 0, stream, argument, NULL);
}

static void stamp_clock_publish(void)
{
    struct ring_stamps_head *head = stamps.head;
    struct ring_clock clock;
    uint64_t seq = atomic_load_explicit(&head->clock_seq, relaxed);

    if (!stamp_clock_get(&stamps.clock, &clock))
        return;
    atomic_store_explicit(&head->clock_seq, seq | 1, relaxed);
    atomic_store_explicit(&head->offset_ns, clock.offset_ns, memory_order_release);
    atomic_store_explicit(&head->drift, clock.drift, memory_order_release);
    atomic_store_explicit(&head->at_ns, (uint64_t)clock.at_ns, memory_order_release);
    atomic_store_explicit(&head->clock_seq, (seq | 1) + 1, memory_order_release);
}

/* A copy of what the device may be writing just now; false: not there yet. */
static bool stamp_clock_read(uint64_t number, uint64_t *ret_device_ns)
{
    volatile struct ring_stamp *from = &stamps.head->clock[number % RING_CLOCK_PLACES];
    struct ring_stamp stamp = { from->count, from->tag, from->device_ns, from->check };

    if (stamp.count != number + 1 || stamp.tag != number + 1 ||
        stamp.check != ring_stamp_check(stamp.count, stamp.tag, stamp.device_ns))
        return false;
    *ret_device_ns = stamp.device_ns;
    return true;
}

/* Those that have come. */
static bool stamp_clock_take(void)
{
    uint64_t device_ns;
    bool any = false;

    for (; stamps.read < stamps.compared && stamp_clock_read(stamps.read, &device_ns);
         stamps.read++) {
        stamp_clock_put(&stamps.clock, stamps.clock_host_ns[stamps.read % RING_CLOCK_PLACES],
                        device_ns);
        any = true;
    }
    return any;
}

static int stamp_clock_launch(void)
{
    uint64_t number = stamps.compared, at = number % RING_CLOCK_PLACES;
    uint64_t place = stamps.clock_place + at * sizeof(struct ring_stamp);

    stamps.clock_host_ns[at] = (uint64_t)time_mono_ns();
    stamps.compared++;
    return stamp_launch(stamps.clock_stream, place, STAMP_FIXED, number + 1);
}

/* At the beginning of a step: what has come of the comparison before, and the next one.  While one is on its way none is sent. */
static void stamp_clock_tick(uint64_t now_ns)
{
    int result;

    if (now_ns - stamps.clock_ns < (uint64_t)CLOCK_EVERY_NS)
        return;
    if (stamp_clock_take())
        stamp_clock_publish();
    if (stamps.read < stamps.compared)
        return;
    stamps.clock_ns = now_ns;
    result = stamp_clock_launch();
    if (result)
        stamps_off(result, "cuLaunchKernel on the stream that compares clocks");
}

static int stamp_clock_first(struct err *err)
{
    for (unsigned i = 0; i < CLOCK_FIRST; i++) {
        int result = stamp_clock_launch();
        int64_t until_ns = time_mono_ns() + CLOCK_WAIT_NS;

        if (result)
            return cuda_check(&stamps.cuda, result, "cuLaunchKernel", err);
        while (!stamp_clock_take() && time_mono_ns() < until_ns)
            ;
        if (stamps.read < stamps.compared)
            break; /* the device has work: it comes later */
    }
    stamp_clock_publish();
    return 0;
}

uint64_t stamps_host_ns(uint64_t device_ns)
{
    const struct ring_stamps_head *head;
    struct ring_clock clock;
    uint64_t seq;

    if (!stamps_are_on())
        return 0;
    head = stamps.head;
    for (int tries = 0; tries < 4; tries++) {
        seq = atomic_load_explicit(&head->clock_seq, memory_order_acquire);
        clock.offset_ns = atomic_load_explicit(&head->offset_ns, memory_order_acquire);
        clock.drift = atomic_load_explicit(&head->drift, memory_order_acquire);
        clock.at_ns = (int64_t)atomic_load_explicit(&head->at_ns, memory_order_acquire);
        if (seq && seq % 2 == 0 && atomic_load_explicit(&head->clock_seq, relaxed) == seq)
            return (uint64_t)MAX(ring_clock_host(&clock, device_ns), INT64_C(1));
    }
    return 0;
}

/* ---- set-up ---- */

static int stamps_load(struct err *err)
{
    int result = stamps.cuda.module_load(&stamps.module, stamp_kernel_ptx, 0, NULL, NULL);

    if (result)
        return cuda_check(&stamps.cuda, result, "cuModuleLoadDataEx", err);
    result = stamps.cuda.module_function(&stamps.kernel, stamps.module, STAMP_KERNEL);
    if (result)
        return cuda_check(&stamps.cuda, result, "cuModuleGetFunction", err);
    result = stamps.cuda.stream_create(&stamps.clock_stream, CUDA_STREAM_NON_BLOCKING);
    return cuda_check(&stamps.cuda, result, "cuStreamCreate", err);
}

/* The memory stays registered for as long as the process lives: a stamp may be on its way at any time. */
static int stamps_map(struct lockstep_probe *probe, struct err *err)
{
    const struct ring_header *header = probe->header;
    uint64_t offset = ring_stamps_offset(header->lanes, header->lane_records);
    uint64_t bytes = header->file_bytes - offset, address;
    void *memory = (unsigned char *)probe->header + offset;
    int result;

    if (header->stamps == 0)
        return err_set(err, -ENOTSUP, "the ring has no place for stamps");
    result = stamps.cuda.host_register(memory, bytes,
                                       CUDA_HOST_REGISTER_PORTABLE | CUDA_HOST_REGISTER_MAPPED);
    if (result)
        return cuda_check(&stamps.cuda, result, "cuMemHostRegister of the ring", err);
    result = stamps.cuda.host_address(&address, memory, 0);
    if (result)
        return cuda_check(&stamps.cuda, result, "cuMemHostGetDevicePointer", err);
    stamps.head = memory;
    stamps.clock_place = address + offsetof(struct ring_stamps_head, clock);
    stamps.place = address + sizeof(struct ring_stamps_head);
    stamps.mask = header->stamps - 1;
    return 0;
}

/* Another thread may be capturing a graph, which what we call here would end. */
static int stamps_make(struct lockstep_probe *probe, struct err *err)
{
    int mode = CUDA_CAPTURE_MODE_RELAXED, result;
    bool exchanged =
        stamps.cuda.thread_capture_mode && stamps.cuda.thread_capture_mode(&mode) == CUDA_SUCCESS;

    result = stamps_map(probe, err);
    if (result == 0)
        result = stamps_load(err);
    if (result == 0)
        result = stamp_clock_first(err);
    if (exchanged)
        stamps.cuda.thread_capture_mode(&mode);
    return result;
}

int stamps_open(struct lockstep_probe *probe, symbol_find *find, void *library, struct err *err)
{
    uint32_t epoch = probe_epoch(probe);
    void *context = NULL;
    int result;

    if (stamps_are_on() && epoch && atomic_load(&stamps.epoch) == epoch)
        return 0;
    if (atomic_load(&stamps.state) != STAMPS_NONE)
        return err_set(err, -EBUSY,
                       "stamps belong to a ring that was closed, or were switched off");
    if (epoch == 0)
        return err_set(err, -ENODEV, "no ring is open");
    result = cuda_load(&stamps.cuda, find, library, err);
    if (result < 0)
        return result;
    if (stamps.cuda.context_current(&context) != CUDA_SUCCESS || !context)
        return err_set(err, -EAGAIN, "this thread has no CUDA context");
    stamps.context = context;
    result = stamps_make(probe, err);
    if (result < 0) {
        atomic_store(&stamps.state, STAMPS_OFF);
        return result;
    }
    atomic_store(&stamps.every, 1);
    atomic_store(&stamps.epoch, epoch);
    atomic_store_explicit(&stamps.state, STAMPS_ON, memory_order_release);
    return 0;
}

/* ---- launch ---- */

/* The next power of two of how often a step has more than it may: so a rank with fewer stamps has at least the steps of one with
 * more, whatever each of them decides.
 */
static void stamps_step_begin(struct lockstep_probe *probe)
{
    uint64_t tags = atomic_load_explicit(&stamps.tag, relaxed);
    uint64_t used = tags - atomic_exchange_explicit(&stamps.step_tags, tags, relaxed), every = 1;
    uint64_t step = atomic_load_explicit(&probe->step, relaxed);

    while (every * STAMPS_STEP_MAX < used)
        every *= 2;
    if (!atomic_load_explicit(&stamps.skip, relaxed))
        atomic_store_explicit(&stamps.every, every, relaxed);
    every = atomic_load_explicit(&stamps.every, relaxed);
    atomic_store_explicit(&stamps.skip, every > 1 && step % every != 0, relaxed);
    stamp_clock_tick((uint64_t)time_mono_ns());
}

static bool stamp_is_of_step(const struct stamp *stamp)
{
    return stamp->what == RING_STAMP_STEP_BEGIN || stamp->what == RING_STAMP_STEP_END;
}

/* A thread that has not used the device yet has no context, one that uses another device has another: what they launched would be
 * an error.
 */
static bool stamps_have_context(void)
{
    void *context = NULL;

    return stamps.cuda.context_current(&context) == CUDA_SUCCESS && context == stamps.context;
}

/* 1: being captured, 0: it computes, -1: neither. */
static int stamp_stream_kind(void *stream)
{
    int capturing = 0;

    if (stream == atomic_load_explicit(&stamps.stream, relaxed)) {
        if (!stream) /* the default stream is never captured */
            return 0;
    }
    if (stamps.cuda.stream_capturing(stream, &capturing) == CUDA_SUCCESS && capturing)
        return 1;
    return stream == atomic_load_explicit(&stamps.stream, relaxed) ? 0 : -1;
}

bool stamp_put(struct lockstep_probe *probe, void *stream, const struct stamp *given)
{
    struct stamp told = *given, *stamp = &told;
    int kind, result;
    uint64_t tag;

    if (!stamps_are_on() || !probe ||
        probe_epoch(probe) != atomic_load_explicit(&stamps.epoch, relaxed) ||
        !stamps_have_context())
        return false;
    if (stamp->what == RING_STAMP_STEP_BEGIN) {
        stamps_step_begin(probe);
        atomic_store_explicit(&stamps.stream, stream, relaxed);
        atomic_store_explicit(&stamps.thread, (uintptr_t)pthread_self(), relaxed);
        stamp->colls = atomic_load_explicit(&stamps.skip, relaxed);
    } else if (atomic_load_explicit(&stamps.skip, relaxed) && !stamp_is_of_step(stamp)) {
        return false;
    }
    kind = stamp_stream_kind(stream);
    if (kind < 0 || (kind > 0 && (stamp_is_of_step(stamp) || stamp->what == RING_STAMP_HOST_WAIT)))
        return false;
    tag = atomic_fetch_add_explicit(&stamps.tag, 1, relaxed) + 1;
    if (kind > 0)
        tag |= RING_STAMP_CAPTURED;
    if (!probe_stamp_mark(probe, stamp, tag))
        return false;
    result = stamp_launch(stream, stamps.place, stamps.mask, tag);
    if (result == 0)
        return true;
    stamps_off(result, "cuLaunchKernel");
    return false;
}
