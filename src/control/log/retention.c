/* retention.c - selects closed runs, and compacts their logs: drops the steps of single ranks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/log/retention.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/paths.h"
#include "base/remove_tree.h"
#include "control/log/compaction.h"
#include "control/log/merge.h"
#include "control/log/rundir.h"
#include "control/log/spools.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/frame.h"
#include "wire/spool.h"

/* ---- one run ---- */

struct compact {
    struct rundir dir;
    struct path beside; /* the new log */
    struct spool_reader *reader;
    struct spool_writer *writer;
    struct merge merge;
    struct err *err;
};

static void compact_fini(struct compact *compact)
{
    merge_fini(&compact->merge);
    spool_reader_close(compact->reader);
    spool_writer_close(compact->writer);
}

/* The new log lies beside the old one for a while. */
static int compact_space_check(struct compact *compact)
{
    struct frame frame;
    uint64_t bytes = 0;
    int result;

    while ((result = spool_next(compact->reader, &frame, compact->err)) == 1)
        bytes += merge_stays(&frame);
    spool_reader_seek(compact->reader, 0);
    return result < 0 ? result : compaction_space(compact->dir.path.text, bytes, compact->err);
}

static int compact_write_beside(struct compact *compact)
{
    struct merge *merge = &compact->merge;
    struct frame frame;
    int result = merge_write(merge); /* of no steps: the mark of a compacted log */

    while (result == 0 && (result = spool_next(compact->reader, &frame, compact->err)) == 1)
        result = merge_frame(merge, &frame);
    if (result == 0)
        result = merge_flush(merge);
    if (result == 0 && !merge->closed)
        return err_set(compact->err, -EBUSY, "the run is not closed");
    if (result == 0 && merge->has_tick) {
        merge->tick_frame.payload = merge->tick.data;
        result = spool_put_frame(compact->writer, &merge->tick_frame, compact->err);
    }
    return result < 0 ? result : spool_sync(compact->writer, compact->err);
}

static int compact_open(struct compact *compact, const char *run_dir)
{
    struct frame frame;
    int result = rundir_open(&compact->dir, run_dir, compact->err);

    if (result == 0)
        result =
            path_join(&compact->beside, compact->dir.path.text, "log.lsf.compact", compact->err);
    if (result == 0)
        result = spool_reader_open(compact->dir.log.text, &compact->reader, compact->err);
    if (result == 0)
        result = spool_next(compact->reader, &frame, compact->err);
    if (result <= 0)
        return result < 0 ? result : err_set(compact->err, -EBUSY, "its log is empty");
    if (frame.type == FRAME_MERGED && frame.sender == control_sender())
        return 0;
    spool_reader_seek(compact->reader, 0);
    unlink(compact->beside.text);
    result =
        spool_writer_open(compact->beside.text, CONTROL_SENDER, &compact->writer, compact->err);
    compact->merge = (struct merge){ .writer = compact->writer, .err = compact->err };
    if (result == 0)
        result = merge_init(&compact->merge);
    return result < 0 ? result : 1;
}

/* Nobody may begin to write the old log while the new one is made. */
static int compact_lock(const struct rundir *dir, struct err *err)
{
    CLEAN(fd_clean) int fd = open(dir->log.text, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return err_set(err, -errno, "%s: %m", dir->log.text);
    if (rundir_is_written(dir->launcher.text) || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, -EBUSY, "another process is using it");
    return TAKE_FD(fd);
}

static int compact_put_in_place(const struct compact *compact)
{
    CLEAN(fd_clean) int fd = open(compact->dir.path.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || rename(compact->beside.text, compact->dir.log.text) < 0 || fsync(fd) < 0)
        return err_set(compact->err, -errno, "%s: %m", compact->dir.log.text);
    tree_remove(compact->dir.spool.text); /* the log had all of it */
    return 0;
}

/* 1: done; 0: already compacted; -EBUSY: in use, or not closed.  Written beside and renamed, so that a kill leaves the old
 * log or the new one.
 */
static int retention_compact(const char *run_dir, struct err *err)
{
    CLEAN(compact_fini) struct compact compact = { .err = err };
    CLEAN(fd_clean) int lock = -1;
    int result = compact_open(&compact, run_dir);

    if (result <= 0)
        return result;
    lock = compact_lock(&compact.dir, err);
    result = lock < 0 ? lock : compact_space_check(&compact);
    if (result == 0)
        result = compact_write_beside(&compact);
    if (result == 0)
        result = compact_put_in_place(&compact);
    if (result < 0)
        unlink(compact.beside.text);
    return result < 0 ? result : 1;
}

/* ---- which runs ---- */

struct old_run {
    struct path dir;
    int64_t written_ns; /* its log, last */
    uint64_t bytes;
};

struct old_runs {
    struct old_run *run;
    size_t count, room;
};

static void runs_fini(struct old_runs *runs)
{
    free(runs->run);
}

static uint64_t retention_file_bytes(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

/* Log, matrix and spools. */
static uint64_t run_bytes(const struct path *dir)
{
    static const char *const names[] = { "log.lsf", "matrix.lsm", "steps.lsp" };
    uint64_t bytes = 0;
    struct path path;

    for (size_t i = 0; i < COUNT(names); i++) {
        if (path_join(&path, dir->text, names[i], NULL) == 0)
            bytes += retention_file_bytes(path.text);
    }
    if (path_join(&path, dir->text, "spool", NULL) == 0) {
        CLEAN(dir_clean) DIR *spool = opendir(path.text);
        struct dirent *entry;

        while (spool && (entry = readdir(spool))) {
            struct path file;

            if (entry->d_name[0] != '.' && path_join(&file, path.text, entry->d_name, NULL) == 0)
                bytes += retention_file_bytes(file.text);
        }
    }
    return bytes;
}

static int runs_add(struct old_runs *runs, const char *state, const char *name, struct err *err)
{
    struct old_run run;
    struct path log;
    struct stat st;

    if (paths_run_of(state, name, &run.dir, NULL) < 0 ||
        path_join(&log, run.dir.text, "log.lsf", NULL) < 0 || stat(log.text, &st) < 0)
        return 0;
    run.written_ns = (int64_t)st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec;
    run.bytes = run_bytes(&run.dir);
    if (!ARRAY_FIT(runs->run, runs->room, runs->count + 1))
        return err_nomem(err);
    runs->run[runs->count++] = run;
    return 0;
}

static int retention_older_first(const void *a, const void *b)
{
    const struct old_run *left = a, *right = b;

    return (left->written_ns > right->written_ns) - (left->written_ns < right->written_ns);
}

static int runs_find(const char *state, struct old_runs *runs, struct err *err)
{
    CLEAN(dir_clean) DIR *dir = NULL;
    struct dirent *entry;
    int result = paths_runs_open(state, &dir, err);

    while (result == 0 && dir && (entry = readdir(dir)))
        result = runs_add(runs, state, entry->d_name, err);
    if (runs->count)
        qsort(runs->run, runs->count, sizeof(*runs->run), retention_older_first);
    return result;
}

int retention_apply(const char *state, const struct retention *keep, int64_t now_real_ns,
                    struct retention_counts *ret, struct err *err)
{
    CLEAN(runs_fini) struct old_runs runs = { 0 };
    struct retention_counts counts = { 0 };
    uint64_t all = 0;
    int result = runs_find(state, &runs, err);

    if (result < 0)
        return result;
    for (size_t i = 0; i < runs.count; i++)
        all += runs.run[i].bytes;
    counts.runs = runs.count;
    counts.bytes_before = all;
    for (size_t i = 0; i < runs.count; i++) {
        const struct old_run *run = &runs.run[i];
        bool too_old = keep->age_ns && now_real_ns - run->written_ns > keep->age_ns;
        struct err why = { "" };

        if (!too_old && !(keep->bytes && all > keep->bytes))
            continue;
        result = retention_compact(run->dir.text, &why);
        if (result < 0 && result != -EBUSY) /* the others may be kept short all the same */
            log_error("%s: %s", run->dir.text, why.text);
        if (result == 1) {
            counts.compacted++;
            all -= run->bytes;
            all += run_bytes(&run->dir);
        }
    }
    counts.bytes_after = all;
    counts.still_above = keep->bytes && all > keep->bytes ? all - keep->bytes : 0;
    *ret = counts;
    return 0;
}
