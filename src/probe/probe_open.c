/* probe_open.c - one ring per process: opened once, shared, and never a forked child's.
 *
 * The probe's page is made at the first open and stays.  In a forked child it is full of
 * zeros: closed, unlocked, without users; the child may open a ring of its own in it.  Where
 * the kernel cannot wipe on fork (before 4.14) a fork handler does it.
 *
 * After close the mapping stays, so that a thread that is just writing a mark writes to memory
 * nobody reads, not to a hole.  The next open puts empty pages in its place, for good: it is not known
 * how long that thread was held up.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "probe/gloo_open.h"
#include "probe/probe_private.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* The process's own.  Unlike the page it is copied to a forked child, which goes on counting
 * epochs where its parent was, and can let go of the mapping it inherited.
 */
static struct {
    _Atomic(struct lockstep_probe *) page;
    uint32_t epoch;
    void *map;
    size_t bytes;
} probe_home;

static void probe_wipe(void)
{
    memset(atomic_load(&probe_home.page), 0, sizeof(struct lockstep_probe));
}

static struct lockstep_probe *probe_page(void)
{
    struct lockstep_probe *page = atomic_load(&probe_home.page), *none = NULL;
    bool wiped;

    if (page)
        return page;
    page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    wiped = madvise(page, sizeof(*page), MADV_WIPEONFORK) == 0; /* before anybody can use it */
    if (!atomic_compare_exchange_strong(&probe_home.page, &none, page)) {
        munmap(page, sizeof(*page)); /* another thread was first */
        return none;
    }
    if (!wiped)
        pthread_atfork(NULL, NULL, probe_wipe);
    return page;
}

struct lockstep_probe *probe_current(void)
{
    return atomic_load(&probe_home.page);
}

/* Gives back the old ring's memory but not its addresses. */
static void probe_vacate(void *map, size_t bytes)
{
    if (map) /* where that fails the old ring stays: it costs memory, not more */
        /* NOLINTNEXTLINE(bugprone-unused-return-value): where that fails the old ring stays */
        mmap(map, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static int probe_start(struct lockstep_probe *probe, uint32_t rank, uint32_t world, struct err *err)
{
    struct probe_file file;
    struct ring_header *header;
    int result = probe_file_create(rank, world, &file, err);

    if (result < 0)
        return result;
    probe_vacate(probe_home.map, probe_home.bytes);
    probe_home.map = file.map;
    probe_home.bytes = file.bytes;
    header = file.map;
    probe->header = header;
    probe->comm = (struct ring_comm *)((unsigned char *)file.map + RING_COMMS_OFFSET);
    probe->lanes = (unsigned char *)file.map + RING_LANES_OFFSET;
    probe->lane_count = header->lanes;
    probe->lane_bytes = ring_lane_bytes(header->lane_records);
    probe->mask = header->lane_records - 1;
    probe->rank = rank;
    atomic_store_explicit(&probe->step, RING_NO_STEP, memory_order_relaxed);
    atomic_store_explicit(&probe->depth, 0, memory_order_relaxed);
    atomic_store_explicit(&probe->depth_seq, 0, memory_order_relaxed);
    atomic_store_explicit(&probe->depth_step, UINT64_MAX, memory_order_relaxed);
    for (size_t i = 0; i < RING_COMMS; i++)
        atomic_store_explicit(&probe->claimed[i], 0, memory_order_relaxed);
    atomic_store_explicit(&probe->shared_busy, 0, memory_order_relaxed);
    probe_lane_claim(probe, ++probe_home.epoch);
    atomic_store_explicit(&probe->epoch, probe_home.epoch, memory_order_release);
    return 0;
}

static int probe_join(struct lockstep_probe *probe, uint32_t rank, uint32_t world, struct err *err)
{
    if (world == 0 || rank >= world)
        return err_set(err, -EINVAL, "rank %u is not below the world size %u", rank, world);
    if (probe->refs > 0 && probe->rank != rank)
        return err_set(err, -EBUSY, "this process is already rank %u", probe->rank);
    return probe->refs > 0 ? 0 : probe_start(probe, rank, world, err);
}

int lockstep_probe_open(uint32_t rank, uint32_t world, struct lockstep_probe **ret, char *error,
                        size_t error_size)
{
    struct lockstep_probe *probe = probe_page();
    int saved = errno, result = -ENOMEM;
    struct err err = { .text = "out of memory" };

    if (probe) {
        pthread_mutex_lock(&probe->lock);
        result = probe_join(probe, rank, world, &err);
        if (result == 0)
            probe->refs++;
        pthread_mutex_unlock(&probe->lock);
    }
    if (result == 0)
        *ret = probe;
    else if (error && error_size > 0)
        snprintf(error, error_size, "%s", err.text);
    errno = saved;
    return result;
}

void lockstep_probe_close(struct lockstep_probe *probe)
{
    if (!probe)
        return;
    pthread_mutex_lock(&probe->lock);
    if (probe->refs > 0 && --probe->refs == 0) {
        gloo_open_flush(NULL); /* what is over must not look open for ever */
        atomic_store_explicit(&probe->epoch, 0, memory_order_relaxed);
        atomic_store_explicit(&probe->header->closed, 1, memory_order_release);
    }
    pthread_mutex_unlock(&probe->lock);
}

const char *lockstep_version(void)
{
    return LOCKSTEP_VERSION;
}

uint64_t lockstep_clock_ns(void)
{
    return (uint64_t)time_mono_ns();
}
