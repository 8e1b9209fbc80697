/* inline.c - a program that includes probe-inline.h and links to nothing; C and C++.
 *
 * Calls every function once, so that a name that the library does not have shows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lockstep/probe-inline.h"

static void program_ops(struct lockstep_probe *probe, int comm)
{
    struct lockstep_op_desc desc = { 0 };
    uint64_t key;

    desc.size = sizeof(desc);
    desc.comm = comm;
    desc.op = LOCKSTEP_OP_ALL_REDUCE;
    desc.bytes = 64;
    key = lockstep_inline_coll_enqueue(probe, &desc);
    lockstep_inline_coll_start(probe, comm, key, 0);
    lockstep_inline_coll_end(probe, comm, key, 0);
    lockstep_inline_coll_method(probe, comm, LOCKSTEP_OP_ALL_REDUCE, 64, 1, "RING/SIMPLE");
    desc.op = LOCKSTEP_OP_SEND;
    key = lockstep_inline_p2p_enqueue(probe, &desc);
    lockstep_inline_p2p_start(probe, comm, key, 0);
    lockstep_inline_p2p_end(probe, comm, key, 0);
}

static void program_step(struct lockstep_probe *probe, int comm)
{
    struct lockstep_request request = { 0 };

    request.size = sizeof(request);
    lockstep_inline_step_begin(probe, 1);
    lockstep_inline_phase_begin(probe, LOCKSTEP_PHASE_FORWARD);
    lockstep_inline_phase_end(probe, LOCKSTEP_PHASE_FORWARD);
    lockstep_inline_device_span(probe, 1, LOCKSTEP_PHASE_FORWARD, 1, 2, 3);
    program_ops(probe, comm);
    lockstep_inline_metric_put(probe, LOCKSTEP_METRIC_LOSS, 1);
    lockstep_inline_digest_put(probe, 0, 1, 2, 3);
    lockstep_inline_note_put(probe, "inline");
    printf("request %d\n", lockstep_inline_request_get(probe, &request));
    lockstep_inline_request_answer(probe, &request, LOCKSTEP_ANSWER_DONE);
    lockstep_inline_step_end(probe, 1);
}

int main(void)
{
    struct lockstep_layout layout = { sizeof(layout), 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, { 0, 0 } };
    struct lockstep_probe *probe = NULL;
    const char *version = lockstep_inline_version();
    char why[256] = "";
    int result = lockstep_inline_probe_open(0, 1, &probe, why, sizeof(why)), comm;

    printf("version %s\n", version ? version : "none");
    printf("open %d %s\n", result, why);
    printf("layout %d\n", lockstep_inline_layout_set(probe, &layout));
    comm = lockstep_inline_comm_add(probe, 7, 1, 0, LOCKSTEP_COMM_DP, "dp");
    printf("comm %d\n", comm);
    program_step(probe, comm);
    printf("clock %d\n", lockstep_inline_clock_ns() > 0);
    lockstep_inline_probe_close(probe);
    return 0;
}
