/* probe-loop.c - every call of the probe again and again, and those of NCCL to its plugin, between two marks that strace
 * shows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/probe.h"
#include "probe/nccl_plugin.h"

#define ROUNDS 10000

static int nccl_mask;
static void *nccl_context;

static void loop_once(struct lockstep_probe *probe, uint64_t i)
{
    const struct lockstep_layout layout = {
        sizeof(struct lockstep_layout), 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, { 0, 0 }
    };
    int comm = lockstep_comm_add(probe, 7, 2, 0, LOCKSTEP_COMM_DP, "dp");
    struct lockstep_request request = { .size = sizeof(request), .kind = 1, .id = 1 };
    uint64_t key;

    lockstep_layout_set(probe, &layout);
    lockstep_step_begin(probe, i);
    lockstep_phase_begin(probe, LOCKSTEP_PHASE_DATA);
    lockstep_phase_end(probe, LOCKSTEP_PHASE_DATA);
    lockstep_device_span(probe, 1, LOCKSTEP_PHASE_FORWARD, 1, 2, 3);
    key = lockstep_coll_enqueue(probe, LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_ALL_REDUCE,
                                                        .bytes = 8, .stream = 1));
    lockstep_coll_start(probe, comm, key, 0);
    lockstep_coll_end(probe, comm, key, 0);
    key = lockstep_p2p_enqueue(probe, LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_SEND,
                                                       .bytes = 8, .peer = 1, .stream = 1));
    lockstep_p2p_start(probe, comm, key, 0);
    lockstep_p2p_end(probe, comm, key, 0);
    lockstep_metric_put(probe, LOCKSTEP_METRIC_LOSS, 0.5);
    lockstep_digest_put(probe, 0, 1, 2, 3);
    lockstep_note_put(probe, "a note of more than thirty-two bytes");
    lockstep_request_get(probe, &request);
    lockstep_request_answer(probe, &request, LOCKSTEP_ANSWER_DONE);
    lockstep_step_end(probe, i);
}

/* A group of a collective and a message, each with one channel. */
static void loop_nccl(void)
{
    const struct nccl_profiler_v5 *nccl = &ncclProfiler_v5;
    void *group = NULL, *task[2] = { NULL }, *kernel = NULL;
    union nccl_state state = { .timer_ns = 5 };
    struct nccl_descr_v5 descr = { .type = NCCL_EVENT_GROUP };

    nccl->start(nccl_context, &group, &descr);
    descr = (struct nccl_descr_v5){ .type = NCCL_EVENT_COLL };
    descr.coll.is = (struct nccl_coll_v4){ .func = "AllReduce",
                                           .datatype = "ncclFloat32",
                                           .algorithm = "RING",
                                           .protocol = "LL",
                                           .count = 8,
                                           .channels = 1 };
    descr.coll.group = group;
    nccl->start(nccl_context, &task[0], &descr);
    descr = (struct nccl_descr_v5){ .type = NCCL_EVENT_P2P };
    descr.p2p.is = (struct nccl_p2p_v4){
        .func = "Send", .datatype = "ncclFloat32", .count = 8, .peer = 1, .channels = 1
    };
    descr.p2p.group = group;
    nccl->start(nccl_context, &task[1], &descr);
    nccl->stop(group);
    for (int i = 0; i < 2; i++) {
        descr = (struct nccl_descr_v5){ .type = NCCL_EVENT_KERNEL, .parent = task[i] };
        descr.kernel.timer_ns = 4;
        nccl->start(nccl_context, &kernel, &descr);
        nccl->record(kernel, 22, &state);
        nccl->stop(kernel);
    }
}

static void print(const char *word)
{
    if (write(STDOUT_FILENO, word, strlen(word)) < 0)
        _exit(1);
}

static void *loop(void *arg)
{
    print("loop begins\n");
    for (uint64_t i = 0; i < ROUNDS; i++)
        loop_once(arg, i);
    for (uint64_t i = 0; i < ROUNDS; i++)
        loop_nccl();
    print("loop ends\n");
    return NULL;
}

int main(int argc, char **argv)
{
    struct lockstep_probe *probe = NULL;
    pthread_t thread;

    if (lockstep_probe_open(0, 1, &probe, NULL, 0) < 0)
        return 1;
    ncclProfiler_v5.init(&nccl_context, 9, &nccl_mask, "nccl", 1, 2, 0, NULL);
    if (!nccl_context)
        return 1;
    if (argc > 1 && strcmp(argv[1], "thread") == 0) {
        if (pthread_create(&thread, NULL, loop, probe) != 0)
            return 1;
        pthread_join(thread, NULL);
    } else {
        loop(probe);
    }
    lockstep_probe_close(probe);
    return 0;
}
