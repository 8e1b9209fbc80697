/* log_make.c - the large log of a job that ran for days and then failed on one rank.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/log_make.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"

#define RANKS 8
#define CHUNK (1u << 20)

static void log_put_step(FILE *file, uint64_t step)
{
    unsigned day = 1 + (unsigned)(step / 86400 % 28), second = (unsigned)(step % 86400);

    fprintf(file,
            "2026-11-%02u %02u:%02u:%02u,%03u - trainer - INFO - iteration %8llu/ 1000000 | "
            "consumed samples: %12llu | elapsed time per iteration (ms): %.1f | lm loss: %.6E | "
            "grad norm: %.3f | number of skipped iterations:   0 | number of nan iterations:   0 "
            "|\n",
            day, second / 3600, second / 60 % 60, second % 60, (unsigned)(step * 37 % 1000),
            (unsigned long long)step, (unsigned long long)step * 512, 991.0 + (double)(step % 19),
            2.1 + 1.0 / (double)(1 + step), 0.3 + (double)(step % 7) / 100);
    fprintf(file, "\rTraining: %3llu%%|####      | %llu/1000000 [%llu:%02u<6:12:40,  1.01it/s]",
            (unsigned long long)(step / 10000), (unsigned long long)step,
            (unsigned long long)(step / 3600), second / 60 % 60);
    fputc('\n', file);
}

static void log_put_noise(FILE *file, uint64_t step)
{
    unsigned rank = (unsigned)(step % RANKS);

    if (step % 50 == 0)
        fprintf(
            file,
            "gpu-0%u:1234%u:1299%u [%u] NCCL INFO comm 0x7f1928e6e060 rank %u nranks %u cudaDev "
            "%u busId %u000 - Init COMPLETE\n",
            rank / 4, rank, rank, rank, rank, RANKS, rank, rank);
    if (step % 200 == 7)
        fprintf(
            file,
            "[rank%u]:[W1118 02:00:00.%06u ProcessGroupNCCL.cpp:4115] [PG ID 0 PG GUID 0 Rank %u]  "
            "using GPU %u to perform barrier as devices used by this process are currently "
            "unknown.\n",
            rank, (unsigned)(step % 1000000), rank, rank);
    if (step % 1000 == 13)
        fprintf(file, "/opt/venv/lib/python3.12/site-packages/torch/utils/checkpoint.py:295: "
                      "FutureWarning: the default will change in a future release\n");
}

static void log_put_end(FILE *file)
{
    fprintf(file, "[rank%d]: Traceback (most recent call last):\n", LOG_MAKE_CULPRIT);
    fprintf(file, "[rank%d]:   File \"/job/train.py\", line 412, in <module>\n", LOG_MAKE_CULPRIT);
    fprintf(file,
            "[rank%d]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU "
            "5 has a total capacity of 79.10 GiB of which 1.12 GiB is free.\n",
            LOG_MAKE_CULPRIT);
    for (int rank = 0; rank < RANKS; rank++) {
        if (rank != LOG_MAKE_CULPRIT)
            fprintf(file,
                    "[rank%d]: torch.distributed.DistBackendError: NCCL error in: "
                    "NCCLUtils.hpp:268, remote process exited or there was a network error, NCCL "
                    "version 2.21.5\n",
                    rank);
    }
}

int64_t log_make(const char *name, int64_t bytes, struct err *err)
{
    FILE *file = fopen(name, "we");
    int64_t written;
    bool failed;

    if (!file)
        return err_set(err, -errno, "%s: %m", name);
    for (uint64_t step = 0; ftello(file) < bytes && !ferror(file); step++) {
        log_put_step(file, step);
        log_put_noise(file, step);
    }
    log_put_end(file);
    written = ftello(file);
    failed = ferror(file);
    if (fclose(file) != 0 || failed)
        return err_set(err, -errno, "%s: %m", name);
    return written;
}

double log_make_ceiling(const char *name, struct err *err)
{
    CLEAN(free_clean) char *chunk = malloc(CHUNK);
    CLEAN(fd_clean) int fd = open(name, O_RDONLY | O_CLOEXEC);
    int64_t began = time_mono_ns();
    volatile uint64_t lines = 0;
    ssize_t got;

    if (fd < 0 || !chunk)
        return err_set(err, -errno, "%s: %m", name);
    while ((got = read(fd, chunk, CHUNK)) > 0) {
        for (const char *at = chunk, *end = chunk + got;
             (at = memchr(at, '\n', (size_t)(end - at))); at++)
            lines++;
    }
    return got < 0 ? err_set(err, -errno, "%s: %m", name) : (double)(time_mono_ns() - began) / 1e9;
}
