/* nccl-job.c - a rank of a job whose only communication is an all-to-all of NCCL, as lockstep's plugin is told of it.
 *
 * nccl-job FILE MODE STEP: FILE is shared by all ranks and holds how many steps each has launched.  In each step a rank
 * launches messages to all ranks, itself included, and waits for its device, as a host does for the sizes of its experts:
 * a loop in a function with CUDA's name.  At that step rank 1 does MODE:
 *   stop    SIGSTOP
 *   host    never launches: its host sleeps
 *   device  launches, but its device never comes: all hosts wait for their devices
 *   none    nothing, and the job ends
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lockstep/probe.h"
#include "probe/nccl_plugin.h"

#define JOB_RANKS 16

static struct {
    _Atomic int launched[JOB_RANKS], arrived[JOB_RANKS];
} * job_shared;
static int job_rank, job_world, job_mask;
static void *job_comm;

void cudaStreamSynchronize(int step);

/* Not inlined, and with its own name: it is looked for in the stack. */
__attribute__((noinline)) void cudaStreamSynchronize(int step)
{
    for (int peer = 0; peer < job_world; peer++) {
        while (atomic_load(&job_shared->arrived[peer]) <= step)
            sched_yield();
    }
}

static void job_message(void *group, const char *func, int peer)
{
    struct nccl_descr_v5 descr = { .type = NCCL_EVENT_P2P,
                                   .rank = job_rank,
                                   .p2p = { .is = { .func = func,
                                                    .datatype = "ncclFloat32",
                                                    .count = 1024,
                                                    .peer = peer,
                                                    .channels = 1 },
                                            .group = group } };
    void *handle;

    ncclProfiler_v5.start(job_comm, &handle, &descr);
}

static void job_all_to_all(void)
{
    struct nccl_descr_v5 descr = { .type = NCCL_EVENT_GROUP, .rank = job_rank };
    void *group;

    ncclProfiler_v5.start(job_comm, &group, &descr);
    for (int peer = 0; peer < job_world; peer++) {
        job_message(group, "Send", peer);
        job_message(group, "Recv", peer);
    }
    ncclProfiler_v5.stop(group);
}

__attribute__((noinline)) static void job_never_returns(void)
{
    for (;;)
        pause();
}

static void job_step(struct lockstep_probe *probe, int step, const char *fault)
{
    lockstep_step_begin(probe, (uint64_t)step);
    if (strcmp(fault, "stop") == 0)
        raise(SIGSTOP);
    if (strcmp(fault, "host") == 0)
        job_never_returns();
    job_all_to_all();
    if (strcmp(fault, "device") != 0)
        atomic_store(&job_shared->arrived[job_rank], step + 1);
    cudaStreamSynchronize(step);
    usleep(2000);
    lockstep_step_end(probe, (uint64_t)step);
}

static int job_open(const char *file)
{
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0 || ftruncate(fd, sizeof(*job_shared)) < 0)
        return -1;
    job_shared = mmap(NULL, sizeof(*job_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    job_rank = atoi(getenv("RANK"));
    job_world = atoi(getenv("WORLD_SIZE"));
    return job_shared == MAP_FAILED || job_world > JOB_RANKS ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct lockstep_probe *probe;
    int until;

    if (argc != 4 || job_open(argv[1]) < 0)
        return 2;
    until = atoi(argv[3]);
    if (lockstep_probe_open((uint32_t)job_rank, (uint32_t)job_world, &probe, NULL, 0) < 0)
        return 2;
    ncclProfiler_v5.init(&job_comm, 77, &job_mask, "experts", 1, job_world, job_rank, NULL);
    for (int step = 0; step < until; step++)
        job_step(probe, step, "");
    if (strcmp(argv[2], "none") != 0)
        job_step(probe, until, job_rank == 1 ? argv[2] : "");
    ncclProfiler_v5.finalize(job_comm);
    lockstep_probe_close(probe);
    return 0;
}
