/* reindex.c - clears the index and reads every log from its first byte.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/index/reindex.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/paths.h"
#include "control/index/index.h"
#include "control/matrix/step_places.h"
#include "core/clean.h"

#define FRAMES_AT_ONCE 100000

static void index_clean(struct index **index)
{
    index_close(*index);
}

static int reindex_count_run(void *arg, const struct index_run *row)
{
    struct reindex_counts *counts = arg;

    counts->frames += row->frames;
    counts->steps += row->steps;
    counts->damaged_bytes += row->damaged_bytes;
    if (row->damaged_bytes)
        log_error("run %s: skipped %llu damaged bytes of its log", row->run,
                  (unsigned long long)row->damaged_bytes);
    return 0;
}

static int reindex_one_run(struct index *index, const char *run_dir, struct reindex_counts *counts,
                           struct err *err)
{
    const char *run = strrchr(run_dir, '/') + 1;
    struct path matrix, places;
    int64_t more;
    int result = path_join(&matrix, run_dir, "matrix.lsm", err);

    if (result == 0)
        result = path_join(&places, run_dir, STEP_PLACES_FILE, err);
    if (result == 0)
        result = index_forget(index, run, err);
    if (result < 0)
        return result;
    unlink(matrix.text);
    unlink(places.text);
    while ((more = index_follow(index, run_dir, FRAMES_AT_ONCE, err)) > 0)
        ;
    index_leave(index, run);
    if (more == -ENOENT) {
        counts->empty++;
        return 0;
    }
    if (more < 0)
        return (int)more;
    counts->runs++;
    more = index_runs(index, &(struct index_query){ .run = run }, reindex_count_run, counts, err);
    return (int)MIN(more, 0);
}

int reindex_state(const char *state, struct reindex_counts *ret, struct err *err)
{
    CLEAN(index_clean) struct index *index = NULL;
    CLEAN(dir_clean) DIR *dir = NULL;
    struct reindex_counts counts = { 0 };
    struct path file, run_dir;
    struct dirent *entry;
    int result = paths_runs_open(state, &dir, err);

    if (result == 0)
        result = path_join(&file, state, INDEX_FILE, err);
    if (result == 0)
        result = index_open(file.text, &index, err);
    while (result == 0 && dir && (entry = readdir(dir))) {
        struct path log;
        struct stat st;

        if (paths_run_of(state, entry->d_name, &run_dir, NULL) < 0)
            continue;
        result = path_join(&log, run_dir.text, "log.lsf", err);
        if (result == 0 && stat(log.text, &st) == 0)
            result = reindex_one_run(index, run_dir.text, &counts, err);
    }
    if (result == 0)
        *ret = counts;
    return result;
}

/* Of STATE/runs/RUN it is STATE/index.sqlite; of a run that lies elsewhere it is beside the run. */
static int index_of(const char *run_dir, struct path *ret, struct err *err)
{
    struct path resolved = { "" };
    char *slash = NULL;

    snprintf(resolved.text, sizeof(resolved.text), "%s", run_dir);
    slash = strrchr(resolved.text, '/');
    *slash = '\0';
    slash = strrchr(resolved.text, '/');
    if (slash && strcmp(slash, "/runs") == 0)
        *slash = '\0';
    return path_join(ret, resolved.text, INDEX_FILE, err);
}

int reindex_run(const char *run_dir, struct reindex_counts *ret, struct err *err)
{
    CLEAN(index_clean) struct index *index = NULL;
    struct reindex_counts counts = { 0 };
    struct path resolved, file;
    int result;

    if (!realpath(run_dir, resolved.text))
        return err_set(err, -errno, "%s: %m", run_dir);
    result = index_of(resolved.text, &file, err);
    if (result == 0)
        result = index_open(file.text, &index, err);
    if (result == 0)
        result = reindex_one_run(index, resolved.text, &counts, err);
    if (result == 0)
        *ret = counts;
    return result;
}
