/* compact.c - compacts the log of a closed run: drops the steps of single ranks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/remove_tree.h"
#include "control/log/compaction.h"
#include "control/log/merge.h"
#include "control/log/retention.h"
#include "control/log/rundir.h"
#include "control/log/spools.h"
#include "core/clean.h"
#include "core/map.h"
#include "wire/frame.h"
#include "wire/spool.h"

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
static int space_check(struct compact *compact)
{
    struct frame frame;
    uint64_t bytes = 0;
    int result;

    while ((result = spool_next(compact->reader, &frame, compact->err)) == 1)
        bytes += merge_stays(&frame);
    spool_reader_seek(compact->reader, 0);
    return result < 0 ? result : compaction_space(compact->dir.path.text, bytes, compact->err);
}

static int write_beside(struct compact *compact)
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
static int lock_log(const struct rundir *dir, struct err *err)
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

int retention_compact(const char *run_dir, struct err *err)
{
    CLEAN(compact_fini) struct compact compact = { .err = err };
    CLEAN(fd_clean) int lock = -1;
    int result = compact_open(&compact, run_dir);

    if (result <= 0)
        return result;
    lock = lock_log(&compact.dir, err);
    result = lock < 0 ? lock : space_check(&compact);
    if (result == 0)
        result = write_beside(&compact);
    if (result == 0)
        result = compact_put_in_place(&compact);
    if (result < 0)
        unlink(compact.beside.text);
    return result < 0 ? result : 1;
}
