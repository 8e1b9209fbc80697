/* probe_lane.c - a lane for each thread that marks, at its first mark.
 *
 * The only system calls after open are here: at a thread's first mark its id, and where all
 * lanes are taken, whether the threads that hold them still live.  A program that starts a
 * thread per checkpoint would otherwise run out of lanes.
 */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe/probe.h"

PROBE_TLS struct probe_thread probe_thread = { .epoch = PROBE_EPOCH_NEVER };

static struct ring_lane *lane_at(const struct lockstep_probe *probe, uint32_t index)
{
    return (struct ring_lane *)(void *)(probe->lanes + index * probe->lane_bytes);
}

static struct ring_lane *lane_take_free(struct lockstep_probe *probe, uint32_t tid)
{
    for (uint32_t i = 0; i < probe->lane_count; i++) {
        struct ring_lane *lane = lane_at(probe, i);
        uint32_t none = 0;

        if (atomic_compare_exchange_strong(&lane->tid, &none, tid)) {
            atomic_fetch_add(&probe->header->lanes_used, 1);
            return lane;
        }
    }
    return NULL;
}

/* A dead thread's lane goes on where that one stopped: its head stays. */
static struct ring_lane *lane_take_dead(struct lockstep_probe *probe, uint32_t tid)
{
    for (uint32_t i = 0; i < probe->lane_count; i++) {
        struct ring_lane *lane = lane_at(probe, i);
        uint32_t holder = atomic_load(&lane->tid);

        if (syscall(SYS_tgkill, getpid(), holder, 0) == 0 || errno != ESRCH)
            continue;
        if (atomic_compare_exchange_strong(&lane->tid, &holder, tid))
            return lane;
    }
    return NULL;
}

static struct ring_lane *lane_take(struct lockstep_probe *probe)
{
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    struct ring_lane *lane = lane_take_free(probe, tid);

    return lane ? lane : lane_take_dead(probe, tid);
}

void probe_lane_claim(struct lockstep_probe *probe, uint32_t epoch)
{
    int saved = errno;
    struct ring_lane *lane = lane_take(probe);

    if (!lane)
        atomic_fetch_add(&probe->header->lanes_used, 1);
    probe_thread = (struct probe_thread){ .epoch = epoch, .lane = lane };
    errno = saved;
}

/* A thread without a lane asks again at its 1st, 2nd, 4th, 8th … lost mark: some other thread
 * may have ended since.
 */
void probe_lane_missed(struct lockstep_probe *probe)
{
    int saved = errno;

    atomic_fetch_add_explicit(&probe->header->dropped, 1, memory_order_relaxed);
    probe_thread.missed++;
    if ((probe_thread.missed & (probe_thread.missed - 1)) == 0)
        probe_thread.lane = lane_take_dead(probe, (uint32_t)syscall(SYS_gettid));
    errno = saved;
}
