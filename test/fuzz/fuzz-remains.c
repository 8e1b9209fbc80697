/* fuzz-remains.c - a directory of anything, read and judged together, as 'why DIR' does.
 *
 * The input is a list of files, each a byte that says which name, one that says whose (a rank) and when, two that say
 * how large, and its bytes.  Names are those that decide something: of dumps, of two jobs, of logs, of traces, packed
 * ones, below a directory of a rank.  Whatever lies there, every file must be told once, as what it was taken for; one
 * that was skipped, with a reason; and a verdict says why.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "autopsy/postmortem.h"
#include "core/buf.h"
#include "core/clean.h"
#include "read/artifacts.h"

#define FILES_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

static const char *const names[] = {
    "_dump_%u",          "nccl_trace_rank_%u",
    "job2_dump_%u.pkl",  "trace_%u.json",
    "trace_%u.json.gz",  "rank%u.log",
    "%u/stderr.log",     "%u/dump",
    "dump-%u-of-8.json", "dmesg",
    "no_rank.dump",      "deep/er/than/most/of/_dump_%u",
};

/* Directories on the way to it, too. */
static int file_open(const char *directory, uint8_t which, unsigned rank)
{
    char path[160];
    size_t below = strlen(directory) + 1;

    snprintf(path, sizeof(path), "%s/", directory);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(path + below, sizeof(path) - below, names[which % COUNT(names)], rank);
#pragma GCC diagnostic pop
    for (char *slash = strchr(path + below, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

/* How many files there are. */
static size_t directory_fill(const char *directory, struct reader *in)
{
    size_t files = 0;

    while (files < FILES_MAX && reader_left(in) >= 4) {
        uint8_t which = reader_get_u8(in), who = reader_get_u8(in);
        size_t size = reader_get_u16(in);
        const struct timespec when = { .tv_sec = 1790000000 + who / 8 };
        CLEAN(fd_clean) int fd = file_open(directory, which, who % 8);

        size = MIN(size, reader_left(in));
        if (fd < 0) { /* the same name again */
            reader_get(in, size);
            continue;
        }
        must(write(fd, reader_get(in, size), size) == (ssize_t)size);
        must(futimens(fd, (const struct timespec[]){ when, when }) == 0);
        files++;
    }
    return files;
}

static void look(const char *directory, size_t files)
{
    CLEAN(artifacts_fini) struct artifacts artifacts = { 0 };
    CLEAN(findings_fini) struct findings findings = { 0 };
    struct err err = { "" };
    struct budget budget = { .limit = BUDGET_WHY };
    int result = artifacts_read(directory, &budget, &artifacts, &err);

    if (result < 0) {
        must(err.text[0] != '\0');
        return;
    }
    must(artifacts.files <= files); /* fewer where some lie too deep */
    must(artifacts.dump_files + artifacts.log_files + artifacts.trace_files + artifacts.skipped ==
         artifacts.files);
    for (size_t i = 0; i < artifacts.files; i++)
        must((artifacts.file[i].kind == ARTIFACT_SKIPPED) == (artifacts.file[i].why[0] != '\0'));
    if (artifacts.dumps.ranks > 4096 || postmortem_dumps(&artifacts.dumps, "fuzz", &findings) < 0 ||
        postmortem_lanes(&artifacts.lanes, "fuzz", &findings) < 0 ||
        postmortem_logs(&artifacts.logs, "fuzz", &findings) < 0)
        return;
    for (size_t i = 0; i < findings.count; i++)
        must(findings.verdict[i].because_count > 0);
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char directory[64] = "/dev/shm/lockstep-fuzz-remains-XXXXXX"; /* many small files: in memory */
    struct reader in = reader_of(data, size);

    if (!mkdtemp(directory)) {
        strcpy(directory, "/tmp/lockstep-fuzz-remains-XXXXXX");
        must(mkdtemp(directory) != NULL);
    }
    look(directory, directory_fill(directory, &in));
    nftw(directory, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
    return 0;
}
