/* stencil.c - an ordinary MPI program: a grid in rows, edges exchanged with both neighbours, a residual over all ranks.
 *
 * Ranks spin while they wait, as MPI does by default.  The calls of lockstep/probe-inline.h are those that a user adds.
 *
 * usage: stencil [--steps N] [--rows N] [--work-ms N] [--fault KIND:VALUE] [--bad RANK] [--at STEP]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lockstep/probe-inline.h"

#define COLUMNS 512

static struct settings {
    long steps, rows, work_ms, bad, at, value;
    char fault[32];
} settings = { .steps = 100, .rows = 64, .work_ms = 20, .bad = 1, .at = 25 };

static void settings_read(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        long number = strtol(argv[i + 1], NULL, 10);

        if (!strcmp(argv[i], "--steps"))
            settings.steps = number;
        else if (!strcmp(argv[i], "--rows"))
            settings.rows = number;
        else if (!strcmp(argv[i], "--work-ms"))
            settings.work_ms = number;
        else if (!strcmp(argv[i], "--bad"))
            settings.bad = number;
        else if (!strcmp(argv[i], "--at"))
            settings.at = number;
        else if (!strcmp(argv[i], "--fault"))
            sscanf(argv[i + 1], "%31[^:]:%ld", settings.fault, &settings.value);
    }
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static void fault_strike(int rank, long step)
{
    if (rank != settings.bad || step < settings.at)
        return;
    if (!strcmp(settings.fault, "sleep") || (!strcmp(settings.fault, "every4") && step % 4 == 0))
        sleep_ms(settings.value);
    if (step > settings.at)
        return;
    if (!strcmp(settings.fault, "exit0"))
        exit(0);
    if (!strcmp(settings.fault, "kill"))
        kill(getpid(), SIGKILL);
    if (!strcmp(settings.fault, "segv"))
        kill(getpid(), SIGSEGV);
    if (!strcmp(settings.fault, "stop"))
        kill(getpid(), SIGSTOP);
    if (!strcmp(settings.fault, "hang"))
        sleep_ms(3600000);
}

static double relax(double *grid, double *next)
{
    double residual = 0;

    for (long row = 1; row <= settings.rows; row++) {
        for (long column = 1; column < COLUMNS - 1; column++) {
            const double *at = &grid[row * COLUMNS + column];
            double value = 0.25 * (at[-1] + at[1] + at[-COLUMNS] + at[COLUMNS]);

            residual += (value - *at) * (value - *at);
            next[row * COLUMNS + column] = value;
        }
    }
    memcpy(&grid[COLUMNS], &next[COLUMNS], (size_t)settings.rows * COLUMNS * sizeof(*grid));
    return residual;
}

/* Both directions of one side, as lockstep sees it: a message out and one in. */
static void halo(struct lockstep_probe *probe, int comm, double *out, double *in, int peer)
{
    uint64_t sent, received;

    if (peer == MPI_PROC_NULL)
        return;
    sent = lockstep_inline_p2p_enqueue(probe, LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_SEND,
                                                               .bytes = COLUMNS * sizeof(*out),
                                                               .peer = (uint32_t)peer,
                                                               .flags = LOCKSTEP_FLAG_STARTED));
    received = lockstep_inline_p2p_enqueue(
        probe,
        LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_RECV, .bytes = COLUMNS * sizeof(*in),
                         .peer = (uint32_t)peer, .flags = LOCKSTEP_FLAG_STARTED));
    MPI_Sendrecv(out, COLUMNS, MPI_DOUBLE, peer, 0, in, COLUMNS, MPI_DOUBLE, peer, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    lockstep_inline_p2p_end(probe, comm, sent, 0);
    lockstep_inline_p2p_end(probe, comm, received, 0);
}

static double residual_of_all(struct lockstep_probe *probe, int comm, double own)
{
    double sum;
    uint64_t key = lockstep_inline_coll_enqueue(
        probe, LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_ALL_REDUCE, .bytes = sizeof(own),
                                .dtype = LOCKSTEP_DTYPE_FLOAT64, .flags = LOCKSTEP_FLAG_STARTED));

    MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    lockstep_inline_coll_end(probe, comm, key, 0);
    return sum;
}

int main(int argc, char **argv)
{
    int rank, world, above, below, comm;
    struct lockstep_probe *probe = NULL;
    double *grid, *next;

    settings_read(argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    below = rank + 1 < world ? rank + 1 : MPI_PROC_NULL;
    lockstep_inline_probe_open((uint32_t)rank, (uint32_t)world, &probe, NULL, 0);
    comm = lockstep_inline_comm_add(probe, 1, (uint32_t)world, (uint32_t)rank, LOCKSTEP_COMM_WORLD,
                                    "world");
    grid = calloc((size_t)(settings.rows + 2) * COLUMNS, sizeof(*grid));
    next = calloc((size_t)(settings.rows + 2) * COLUMNS, sizeof(*next));
    for (long i = 0; grid && i < COLUMNS; i++)
        grid[i] = rank == 0;
    for (long step = 0; grid && next && step < settings.steps; step++) {
        double residual;

        lockstep_inline_step_begin(probe, (uint64_t)step);
        lockstep_inline_phase_begin(probe, LOCKSTEP_PHASE_FORWARD);
        fault_strike(rank, step);
        sleep_ms(settings.work_ms);
        residual = relax(grid, next);
        lockstep_inline_phase_end(probe, LOCKSTEP_PHASE_FORWARD);
        halo(probe, comm, &grid[COLUMNS], grid, above);
        halo(probe, comm, &grid[settings.rows * COLUMNS], &grid[(settings.rows + 1) * COLUMNS],
             below);
        residual = residual_of_all(probe, comm, residual);
        if (rank == 0 && step % 50 == 0)
            printf("step %ld residual %g\n", step, residual);
        lockstep_inline_step_end(probe, (uint64_t)step);
    }
    lockstep_inline_probe_close(probe);
    free(grid);
    free(next);
    MPI_Finalize();
    return 0;
}
