/* retention.c - selects the runs to compact.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/log/retention.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/time.h"

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

static uint64_t file_bytes(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

/* Log, matrix and spools. */
static uint64_t run_bytes(const struct path *dir)
{
    static const char *const names[] = { "log.lsf", "matrix.lsm" };
    uint64_t bytes = 0;
    struct path path;

    for (size_t i = 0; i < COUNT(names); i++) {
        if (path_join(&path, dir->text, names[i], NULL) == 0)
            bytes += file_bytes(path.text);
    }
    if (path_join(&path, dir->text, "spool", NULL) == 0) {
        CLEAN(dir_clean) DIR *spool = opendir(path.text);
        struct dirent *entry;

        while (spool && (entry = readdir(spool))) {
            struct path file;

            if (entry->d_name[0] != '.' && path_join(&file, path.text, entry->d_name, NULL) == 0)
                bytes += file_bytes(file.text);
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

static int older_first(const void *a, const void *b)
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
        qsort(runs->run, runs->count, sizeof(*runs->run), older_first);
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
