/* processes.c - one pass over the rings that agents reported.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/report/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/log/rundir.h"
#include "control/log/spools.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "wire/facts.h"
#include "wire/frame.h"
#include "wire/spool.h"

struct roster {
    struct processes processes;
    size_t room;
    struct map clock; /* sender → real minus monotonic time of its node */
    struct map known; /* rank, attempt and ring */
};

static void roster_fini(struct roster *roster)
{
    processes_fini(&roster->processes);
    map_fini(&roster->clock);
    map_fini(&roster->known);
}

static void processes_spools_clean(struct spools **spools)
{
    spools_destroy(*spools);
}

static int roster_add(struct roster *roster, const struct fact_ring *ring, int64_t clock_ns)
{
    struct processes *processes = &roster->processes;
    uint64_t key = hash64_u64(hash64_u64(ring->rank, ring->attempt), ring->ring);
    struct logprocess *process;

    if (!ring->pid || map_get(&roster->known, key))
        return 0;
    if (!map_put(&roster->known, key, 1))
        return -ENOMEM;
    if (!ARRAY_FIT(processes->process, roster->room, processes->count + 1))
        return -ENOMEM;
    process = &processes->process[processes->count++];
    *process = (struct logprocess){ .rank = ring->rank,
                                    .attempt = ring->attempt,
                                    .pid = ring->pid,
                                    .boot_real_ns = clock_ns,
                                    .began_real_ns = clock_ns ? ring->open_ns + clock_ns : 0 };
    memcpy(process->node, ring->node, sizeof(process->node));
    return 0;
}

static int roster_frame(struct roster *roster, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    uint64_t *clock = map_get(&roster->clock, frame->sender);
    int64_t when_ns = fact_when(frame->type, in), *end_ns = &roster->processes.end_real_ns;
    struct fact_hello hello;
    struct fact_ring ring;

    if (frame->type == FRAME_HELLO && fact_hello_get(in, &hello) == 0) {
        *end_ns = MAX(*end_ns, hello.real_ns);
        return map_put(&roster->clock, frame->sender, (uint64_t)(hello.real_ns - hello.mono_ns))
                   ? 0
                   : -ENOMEM;
    }
    if (clock && when_ns)
        *end_ns = MAX(*end_ns, when_ns + (int64_t)*clock);
    if (frame->type != FRAME_RING || fact_ring_get(in, &ring) < 0)
        return 0;
    return roster_add(roster, &ring, clock ? (int64_t)*clock : 0);
}

static int roster_log(struct roster *roster, const struct rundir *dir, struct err *err)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    struct frame frame;
    int result = spool_reader_open(dir->log.text, &reader, err);

    if (result < 0)
        return result == -ENOENT ? 0 : result;
    while ((result = spool_next(reader, &frame, err)) == 1) {
        if (roster_frame(roster, &frame) < 0)
            return err_nomem(err);
    }
    return result;
}

static int roster_spools(struct roster *roster, const struct rundir *dir, struct err *err)
{
    CLEAN(processes_spools_clean) struct spools *spools = NULL;
    struct frame frame;
    int result;

    if (spools_create(dir->spool.text, NULL, &spools) < 0)
        return err_nomem(err);
    result = spools_scan(spools, err);
    while (result == 0 && spools_peek(spools, &frame, NULL) == 1) {
        if (roster_frame(roster, &frame) < 0 || spools_take(spools) < 0)
            return err_nomem(err);
    }
    return result;
}

int processes_read(const char *run_dir, struct processes *ret, struct err *err)
{
    CLEAN(roster_fini) struct roster roster = { 0 };
    struct rundir dir;
    int result = rundir_open(&dir, run_dir, err);

    if (result == 0)
        result = roster_log(&roster, &dir, err);
    if (result == 0)
        result = roster_spools(&roster, &dir, err);
    if (result == -ENOMEM)
        return err_wrap(err, result, "%s: while reading its processes", run_dir);
    if (result < 0)
        return result;
    *ret = roster.processes;
    roster.processes = (struct processes){ 0 };
    return 0;
}

void processes_fini(struct processes *processes)
{
    free(processes->process);
    *processes = (struct processes){ 0 };
}
