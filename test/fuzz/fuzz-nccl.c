/* fuzz-nccl.c - any bytes as what NCCL tells its profiler plugin: calls of all tables, in any order, with handles
 * that were given out, bent ones and such as never were.
 *
 * Then the ring is read back: every record is one that a reader takes; a launch starts and ends at most once, in that
 * order, by the clock, too; and nothing is told of what was launched before its communicator was opened.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "lockstep/probe.h"
#include "probe/nccl_plugin.h"
#include "wire/ring.h"

#define CALLS 4000u /* of an input; more than launches are remembered */
#define RECORDS "16384"
#define IDS 8u
#define HANDLES 64u
#define REOPENS 200u /* of the process: a ring's addresses are never given back */

struct feed {
    const uint8_t *at, *end;
    uint32_t calls; /* left */
};

struct seen {
    uint64_t enqueue_ns, start_ns, end_ns;
};

static struct {
    struct lockstep_probe *probe;
    struct ring_reader *reader;
    uint64_t lost;
    uint32_t reopens;
    int mask;
    void *context[IDS], *handle[HANDLES];
    uint32_t handles;                /* given out so far */
    uint64_t base[IDS][2];           /* launches before this input; collectives, messages */
    uint64_t next[IDS][2];           /* and now */
    struct seen seen[IDS][2][CALLS]; /* this input's */
} fuzz;

static const char *const words[] = {
    "AllReduce",
    "Send",
    "Recv",
    "AllGather",
    "ReduceScatter",
    "ncclFloat32",
    "ncclFloat64",
    "RING",
    "TREE",
    "SIMPLE",
    "LL128",
    "not one of a",
    "AlltoAll",
    "",
    "a word that is longer than there is room for it",
    NULL,
};

static uint8_t feed_byte(struct feed *feed)
{
    return feed->at < feed->end ? *feed->at++ : 0;
}

static uint64_t feed_word(struct feed *feed)
{
    uint64_t word = 0;

    for (int i = 0; i < 8; i++)
        word = word << 8 | feed_byte(feed);
    return word;
}

static const char *feed_text(struct feed *feed)
{
    return words[feed_byte(feed) % COUNT(words)];
}

/* 0, true, a little off, or anything. */
static uint64_t feed_timer(struct feed *feed)
{
    uint8_t kind = feed_byte(feed);
    uint64_t now_ns = lockstep_clock_ns() + UINT64_C(1700000000000000000);

    if (kind < 64)
        return 0;
    if (kind < 128)
        return now_ns;
    return kind < 192 ? now_ns - ((uint64_t)feed_byte(feed) << 20) : feed_word(feed);
}

static void *feed_bent(struct feed *feed, uint8_t kind, void *handle)
{
    if (kind < 200)
        return handle;
    if (kind < 230)
        return (void *)((uintptr_t)handle ^ (uintptr_t)1 << feed_byte(feed) % 64);
    return (void *)(uintptr_t)feed_word(feed);
}

static void *feed_context(struct feed *feed)
{
    uint8_t kind = feed_byte(feed);

    return feed_bent(feed, kind, fuzz.context[kind % IDS]);
}

static void *feed_handle(struct feed *feed)
{
    uint8_t kind = feed_byte(feed);

    return feed_bent(feed, kind, fuzz.handle[(fuzz.handles - 1 - kind) % HANDLES]);
}

/* ---- the ring ---- */

static void ring_open(void)
{
    char dir[] = "/dev/shm/lockstep-fuzz-XXXXXX", path[64];
    int used;

    if (!mkdtemp(dir))
        abort();
    setenv("LOCKSTEP_DIR", dir, 1);
    if (lockstep_probe_open(0, 4, &fuzz.probe, NULL, 0) < 0)
        abort();
    used = snprintf(path, sizeof(path), "%s/", dir);
    snprintf(path + used, sizeof(path) - (size_t)used, RING_NAME_FORMAT, 0u, 0u);
    if (ring_reader_open(path, &fuzz.reader, NULL) < 0)
        abort();
    unlink(path); /* both have it open: nothing is left behind, whatever happens */
    rmdir(dir);
    memset(fuzz.base, 0, sizeof(fuzz.base));
    memset(fuzz.next, 0, sizeof(fuzz.next));
}

static void environment(void)
{
    static const char *const names[] = { "RANK",     "SLURM_PROCID", "OMPI_COMM_WORLD_RANK",
                                         "PMI_RANK", "LOCKSTEP_RUN", "LOCKSTEP_NCCL" };

    for (size_t i = 0; i < COUNT(names); i++)
        unsetenv(names[i]);
    setenv("LOCKSTEP_QUIET", "1", 1);
    setenv("LOCKSTEP_RING_LANES", "1", 1);
    setenv("LOCKSTEP_RING_RECORDS", RECORDS, 1);
}

static void check_op(const struct ring_event *event, int p2p, int state)
{
    uint64_t base = fuzz.base[event->comm][p2p], next = fuzz.next[event->comm][p2p];
    struct seen *seen;

    if (state == 0) {
        if (event->a != next || next - base >= CALLS)
            abort();
        fuzz.next[event->comm][p2p]++;
        fuzz.seen[event->comm][p2p][next - base] = (struct seen){ .enqueue_ns = event->time_ns };
        return;
    }
    if (event->a < base || event->a >= next)
        abort(); /* an earlier input's: its communicator is gone */
    seen = &fuzz.seen[event->comm][p2p][event->a - base];
    if (state == 1) {
        if (seen->start_ns || event->time_ns < seen->enqueue_ns)
            abort();
        seen->start_ns = event->time_ns;
    } else {
        if (seen->end_ns || !seen->start_ns || event->time_ns < seen->start_ns)
            abort();
        seen->end_ns = event->time_ns;
    }
}

static void check_event(const struct ring_event *event, uint64_t now_ns)
{
    if (event->time_ns > now_ns || event->comm < 0 || event->comm >= (int)IDS)
        abort();
    if (event->kind >= RING_COLL_ENQUEUE && event->kind <= RING_COLL_END)
        check_op(event, 0, event->kind - RING_COLL_ENQUEUE);
    else if (event->kind >= RING_P2P_ENQUEUE && event->kind <= RING_P2P_END)
        check_op(event, 1, event->kind - RING_P2P_ENQUEUE);
    else if (event->kind != RING_COLL_METHOD)
        abort();
}

static void check_counts(void)
{
    struct ring_comm_info comm;

    for (uint32_t i = 0; i < IDS; i++) {
        if (ring_reader_comm(fuzz.reader, i, &comm) != 1)
            continue;
        if (comm.coll_enqueued != fuzz.next[i][0] || comm.p2p_enqueued != fuzz.next[i][1])
            abort();
        if (comm.coll_started > comm.coll_enqueued || comm.coll_ended > comm.coll_started ||
            comm.p2p_started > comm.p2p_enqueued || comm.p2p_ended > comm.p2p_started)
            abort();
    }
}

static void check(void)
{
    static struct ring_event event[4096];
    uint64_t now_ns = lockstep_clock_ns();
    int got;

    while ((got = ring_reader_next(fuzz.reader, event, COUNT(event), &fuzz.lost, NULL)) > 0)
        for (int i = 0; i < got; i++)
            check_event(&event[i], now_ns);
    if (got < 0 || fuzz.lost > 0) /* there is room for all: what is lost was no record */
        abort();
    check_counts();
}

/* ---- the calls ---- */

static void keep(void *handle)
{
    fuzz.handle[fuzz.handles++ % HANDLES] = handle;
}

static void call_start(void *context, struct nccl_descr_v5 *descr, int version)
{
    struct nccl_descr_v4 old = { .type = (uint8_t)descr->type, .parent = descr->parent };
    void *handle = NULL;
    int result;

    if (version == 4) {
        if (descr->type == NCCL_EVENT_COLL) {
            old.parent = descr->coll.group;
            old.coll = descr->coll.is;
        } else if (descr->type == NCCL_EVENT_P2P) {
            old.parent = descr->p2p.group;
            old.p2p = descr->p2p.is;
        } else if (descr->type == NCCL_EVENT_KERNEL) {
            old.kernel = descr->kernel;
        }
        result = ncclProfiler_v4.start(context, &handle, &old);
    } else if (version == 5) {
        result = ncclProfiler_v5.start(context, &handle, descr);
    } else {
        result = ncclProfiler_v6.start(context, &handle, &(struct nccl_descr_v6){ .v5 = *descr });
    }
    if (result != NCCL_SUCCESS)
        abort();
    keep(handle);
}

static void call_init(struct feed *feed, int version)
{
    uint8_t at = feed_byte(feed) % IDS;
    uint64_t id = at == 0 ? UINT64_MAX : at;
    int ranks = (int8_t)feed_byte(feed), rank = (int8_t)feed_byte(feed), result;
    const char *name = feed_text(feed);
    void *context = NULL;

    result =
        version == 4   ? ncclProfiler_v4.init(&context, &fuzz.mask, name, id, 1, ranks, rank, NULL)
        : version == 5 ? ncclProfiler_v5.init(&context, id, &fuzz.mask, name, 1, ranks, rank, NULL)
                       : ncclProfiler_v6.init(&context, id, &fuzz.mask, name, 1, ranks, rank, NULL);
    if (result != NCCL_SUCCESS)
        abort();
    if (context)
        fuzz.context[at] = context;
}

static void call_coll(struct feed *feed, int version, uint32_t times)
{
    void *context = feed_context(feed);
    struct nccl_descr_v5 descr = { .type = NCCL_EVENT_COLL };

    descr.coll.is = (struct nccl_coll_v4){ .func = feed_text(feed),
                                           .datatype = feed_text(feed),
                                           .algorithm = feed_text(feed),
                                           .protocol = feed_text(feed),
                                           .count = (size_t)feed_byte(feed) << feed_byte(feed) % 60,
                                           .channels = feed_byte(feed) };
    descr.coll.group = feed_handle(feed);
    for (; times > 0 && feed->calls > 0; times--, feed->calls--)
        call_start(context, &descr, version);
}

static void call_p2p(struct feed *feed, int version)
{
    void *context = feed_context(feed);
    struct nccl_descr_v5 descr = { .type = NCCL_EVENT_P2P };

    descr.p2p.is = (struct nccl_p2p_v4){ .func = feed_text(feed),
                                         .datatype = feed_text(feed),
                                         .count = feed_word(feed),
                                         .peer = (int8_t)feed_byte(feed),
                                         .channels = feed_byte(feed) };
    descr.p2p.group = feed_handle(feed);
    call_start(context, &descr, version);
}

static void call_kernel(struct feed *feed, int version)
{
    void *context = feed_context(feed);
    struct nccl_descr_v5 descr = { .type = NCCL_EVENT_KERNEL, .parent = feed_handle(feed) };

    descr.kernel = (struct nccl_kernel){ .channel = feed_byte(feed), .timer_ns = feed_timer(feed) };
    call_start(context, &descr, version);
}

static void call_record(struct feed *feed, int version)
{
    void *handle = feed_handle(feed);
    union nccl_state state = { .timer_ns = feed_timer(feed) };
    int result = version == 4 ? ncclProfiler_v4.record(handle, 22, &state)
                              : ncclProfiler_v5.record(handle, feed_byte(feed), &state);

    if (result != NCCL_SUCCESS)
        abort();
}

static void call_reopen(void)
{
    if (fuzz.reopens++ >= REOPENS)
        return;
    check();
    lockstep_probe_close(fuzz.probe);
    ring_reader_close(fuzz.reader);
    ring_open();
}

static void call(struct feed *feed)
{
    uint8_t what = feed_byte(feed);
    int version = what & 0x80 ? 4 : what & 0x40 ? 6 : 5;

    switch ((what & 0x3f) % 11) {
    case 0:
        call_init(feed, version);
        break;
    case 1:
        ncclProfiler_v5.finalize(feed_context(feed));
        break;
    case 2:
        call_start(feed_context(feed), &(struct nccl_descr_v5){ .type = NCCL_EVENT_GROUP },
                   version);
        break;
    case 3:
        call_coll(feed, version, 1);
        break;
    case 4:
        call_coll(feed, version, 16u * feed_byte(feed));
        break;
    case 5:
        call_p2p(feed, version);
        break;
    case 6:
        call_kernel(feed, version);
        break;
    case 7:
        call_record(feed, version);
        break;
    case 8:
        ncclProfiler_v5.stop(feed_handle(feed));
        break;
    case 9:
        call_reopen();
        break;
    default: /* a kind of event that was not asked for */
        call_start(feed_context(feed), &(struct nccl_descr_v5){ .type = feed_word(feed) }, 5);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct feed feed = { .at = data, .end = data + size, .calls = CALLS };

    if (!fuzz.reader) {
        environment();
        ring_open();
    }
    memcpy(fuzz.base, fuzz.next, sizeof(fuzz.base));
    for (; feed.at < feed.end && feed.calls > 0; feed.calls -= feed.calls > 0)
        call(&feed);
    for (size_t i = 0; i < IDS; i++)
        ncclProfiler_v5.finalize(fuzz.context[i]);
    check();
    return 0;
}
