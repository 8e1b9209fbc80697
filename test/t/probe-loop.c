/* probe-loop.c - every call of the probe again and again, between two marks that strace shows. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/probe.h"

#define ROUNDS 10000

static void loop_once(struct lockstep_probe *probe, uint64_t i)
{
    const struct lockstep_layout layout = { 1, 1, 1, 1, 1, 0, 0, 0, 0, 0 };
    int comm = lockstep_comm_add(probe, 7, 2, 0, LOCKSTEP_COMM_DP, "dp");
    uint64_t key;

    lockstep_layout_set(probe, &layout);
    lockstep_step_begin(probe, i);
    lockstep_phase_begin(probe, LOCKSTEP_PHASE_DATA);
    lockstep_phase_end(probe, LOCKSTEP_PHASE_DATA);
    lockstep_device_span(probe, 1, LOCKSTEP_PHASE_FORWARD, 1, 2, 3);
    key = lockstep_coll_enqueue(probe, comm, LOCKSTEP_OP_ALL_REDUCE, 8, 1);
    lockstep_coll_start(probe, comm, key, 0);
    lockstep_coll_end(probe, comm, key, 0);
    key = lockstep_p2p_enqueue(probe, comm, LOCKSTEP_OP_SEND, 1, 8, 1);
    lockstep_p2p_start(probe, comm, key, 0);
    lockstep_p2p_end(probe, comm, key, 0);
    lockstep_metric_put(probe, LOCKSTEP_METRIC_LOSS, 0.5);
    lockstep_digest_put(probe, 0, 1, 2, 3);
    lockstep_note_put(probe, "a note of more than thirty-two bytes");
    lockstep_control_word(probe);
    lockstep_step_end(probe, i);
}

static void say(const char *word)
{
    if (write(STDOUT_FILENO, word, strlen(word)) < 0)
        _exit(1);
}

static void *loop(void *arg)
{
    say("loop begins\n");
    for (uint64_t i = 0; i < ROUNDS; i++)
        loop_once(arg, i);
    say("loop ends\n");
    return NULL;
}

int main(int argc, char **argv)
{
    struct lockstep_probe *probe = NULL;
    pthread_t thread;

    if (lockstep_probe_open(0, 1, &probe) < 0)
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
