/* artifacts.c - walks a directory and gives each file to the reader that recognizes its content.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/artifacts.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "core/time.h"
#include "read/flight.h"
#include "read/jsontext.h"
#include "read/kineto.h"
#include "read/logtext.h"
#include "read/pickle.h"
#include "read/read_file.h"
#include "read/walk.h"

#define FILES_MAX 100000
#define VALUE_KEPT (1u << 20) /* values, whose memory serves the next file */
#define DEPTH_MAX 5
#define JOBS_MAX 64 /* whose dumps lie in one directory */

/* Dumps whose paths differ only by the rank are of one job.  Where a rank has two dumps there are two jobs, or a job
 * and what came after it: the one with the newer dump counts, and the directory is read again without the other.
 */
struct dump_job {
    uint64_t alike;       /* hash of a path without its rank */
    char instead_of[120]; /* why it does not count: the file that does */
};

struct claim { /* of a rank */
    uint64_t alike;
    int64_t changed_ns;
    char name[120];
};

struct gatherer {
    struct artifacts *artifacts;
    size_t room;
    const struct dump_job *other; /* that do not count */
    size_t others;
    struct dump_job lost; /* one more that does not */
    int64_t changed_ns;   /* the file at hand */
    struct map rank;      /* → index of its claim */
    struct claim *claim;
    size_t claims, claim_room;
    struct flight flight;
    struct logtext logtext;
    struct value_tree tree; /* used for one file after the other */
    struct budget *budget;
};

static void gatherer_fini(struct gatherer *gatherer)
{
    flight_fini(&gatherer->flight);
    logtext_fini(&gatherer->logtext);
    value_fini(&gatherer->tree);
    map_fini(&gatherer->rank);
    free(gatherer->claim);
}

/* "-of-8" behind a rank says how many there are. */
static size_t without_count(const char *name, size_t bytes)
{
    size_t at = bytes;

    while (at > 0 && isdigit((unsigned char)name[at - 1]))
        at--;
    return at < bytes && at > 4 && strchr("-_.", name[at - 1]) &&
                   memcmp(name + at - 3, "of", 2) == 0 && strchr("-_.", name[at - 4])
               ? at - 4
               : bytes;
}

/* The number at the end of a name, without what says how it is packed. */
static uint32_t number_at_end(const char *name, size_t bytes)
{
    static const char *const endings[] = { ".gz",  ".json", ".pkl", ".pickle", ".log", ".txt",
                                           ".err", ".out",  ".bin", ".dump",   ".pt" };
    size_t digits = 0;
    uint32_t number = 0;

    for (size_t i = 0; i < COUNT(endings); i++) {
        size_t end = strlen(endings[i]);

        if (bytes > end && memcmp(name + bytes - end, endings[i], end) == 0) {
            bytes -= end;
            i = (size_t)-1; /* once more from the start: ".json.gz" */
        }
    }
    bytes = without_count(name, bytes);
    while (digits < bytes && isdigit((unsigned char)name[bytes - 1 - digits]))
        digits++;
    if (!digits || digits > 6)
        return UINT32_MAX;
    for (size_t i = bytes - digits; i < bytes; i++)
        number = 10 * number + (uint32_t)(name[i] - '0');
    return number;
}

uint32_t artifact_rank(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    uint32_t rank = number_at_end(name, strlen(name));
    const char *parent;

    if (rank != UINT32_MAX || !slash)
        return rank;
    for (parent = slash; parent > path && parent[-1] != '/';)
        parent--;
    return number_at_end(parent, (size_t)(slash - parent));
}

bool artifact_is_named_as_dump(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    return number_at_end(name, strlen(name)) != UINT32_MAX && !strstr(name, ".log") &&
           (strstr(name, "dump") || strstr(name, "trace"));
}

static int file_add(struct gatherer *gatherer, const char *name, enum artifact_kind kind,
                    const char *why)
{
    struct artifacts *artifacts = gatherer->artifacts;
    struct artifact_file *file;

    if (!ARRAY_FIT(artifacts->file, gatherer->room, artifacts->files + 1))
        return -ENOMEM;
    file = &artifacts->file[artifacts->files++];
    *file = (struct artifact_file){ .kind = (uint8_t)kind };
    snprintf(file->name, sizeof(file->name), "%s", name);
    snprintf(file->why, sizeof(file->why), "%s", why ? why : "");
    artifacts->dump_files += kind == ARTIFACT_DUMP;
    artifacts->log_files += kind == ARTIFACT_LOG;
    artifacts->trace_files += kind == ARTIFACT_TRACE;
    artifacts->skipped += kind == ARTIFACT_SKIPPED;
    return 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* A path without its rank: of several numbers in it the last one that is the rank is left out. */
static uint64_t alike(const char *path, uint32_t rank)
{
    const char *at = path + strlen(path);

    while (at > path) {
        const char *end = at;

        while (end > path && !isdigit((unsigned char)end[-1]))
            end--;
        for (at = end; at > path && isdigit((unsigned char)at[-1]);)
            at--;
        if (at < end && strtoul(at, NULL, 10) == rank)
            return hash64(hash64(1, path, (size_t)(at - path)), end, strlen(end));
    }
    return hash64(1, path, strlen(path));
}

static const struct dump_job *job_of_another(const struct gatherer *gatherer, uint64_t which)
{
    for (size_t i = 0; i < gatherer->others; i++) {
        if (gatherer->other[i].alike == which)
            return &gatherer->other[i];
    }
    return NULL;
}

static int claim_add(struct gatherer *gatherer, const struct claim *claim)
{
    if (!ARRAY_FIT(gatherer->claim, gatherer->claim_room, gatherer->claims + 1))
        return -ENOMEM;
    gatherer->claim[gatherer->claims++] = *claim;
    return 1;
}

/* May this dump speak for its rank?  1: yes; 0: it is of another job, and is named as skipped; -EAGAIN: there is one
 * more job that does not count (`lost`).
 */
static int claim_rank(struct gatherer *gatherer, const char *name, uint32_t rank)
{
    struct claim mine = { .alike = alike(name, rank), .changed_ns = gatherer->changed_ns };
    const struct dump_job *other = job_of_another(gatherer, mine.alike);
    const struct claim *before;
    uint64_t *at;
    char why[160];

    snprintf(mine.name, sizeof(mine.name), "%s", name);
    if (other) {
        snprintf(why, sizeof(why), "belongs to another job or attempt than %.100s",
                 other->instead_of);
        return MIN(file_add(gatherer, name, ARTIFACT_SKIPPED, why), 0);
    }
    at = map_put(&gatherer->rank, rank, gatherer->claims);
    if (!at)
        return -ENOMEM;
    if (*at == gatherer->claims)
        return claim_add(gatherer, &mine);
    before = &gatherer->claim[*at];
    if (before->alike == mine.alike)
        return 1;
    gatherer->lost.alike = before->changed_ns < mine.changed_ns ? before->alike : mine.alike;
    snprintf(gatherer->lost.instead_of, sizeof(gatherer->lost.instead_of), "%s",
             before->changed_ns < mine.changed_ns ? mine.name : before->name);
    return -EAGAIN;
}

/* A dump that is not one: its rank is still one of which we know nothing. */
static int take_damaged(struct gatherer *gatherer, const char *name, const char *why)
{
    uint32_t rank = artifact_rank(name);
    int result = 0;

    if (rank != UINT32_MAX && !map_get(&gatherer->rank, rank) &&
        !job_of_another(gatherer, alike(name, rank)))
        result = flight_add_left(&gatherer->flight, rank, base_name(name), DUMP_DAMAGED);
    return result < 0 ? result : file_add(gatherer, name, ARTIFACT_SKIPPED, why);
}

static int take_trace(struct gatherer *gatherer, const char *name, uint32_t rank, struct err *err)
{
    int result = kineto_add(&gatherer->artifacts->lanes, rank == UINT32_MAX ? 0 : rank,
                            &gatherer->tree, err);

    if (result == -EPROTO)
        return file_add(gatherer, name, ARTIFACT_SKIPPED, err->text);
    if (result == 0 && file_add(gatherer, name, ARTIFACT_TRACE, NULL) < 0)
        result = err_nomem(err);
    return result;
}

static int take_value(struct gatherer *gatherer, const char *name, struct err *err)
{
    uint32_t rank = artifact_rank(name);
    int result;

    if (!flight_is(&gatherer->tree) && kineto_is(&gatherer->tree))
        return take_trace(gatherer, name, rank, err);
    if (!flight_is(&gatherer->tree))
        return file_add(gatherer, name, ARTIFACT_SKIPPED,
                        "valid data, but not a format that lockstep knows");
    if (rank == UINT32_MAX)
        return file_add(gatherer, name, ARTIFACT_SKIPPED,
                        "a flight-recorder dump whose name does not end in a rank");
    result = claim_rank(gatherer, name, rank);
    if (result == -ENOMEM)
        return err_nomem(err);
    if (result <= 0)
        return result;
    result = flight_add(&gatherer->flight, rank, base_name(name), &gatherer->tree, err);
    if (result == 0 && file_add(gatherer, name, ARTIFACT_DUMP, NULL) < 0)
        result = err_nomem(err);
    return result;
}

static int take_log(struct gatherer *gatherer, const char *name, const struct file_content *file)
{
    int result;

    if (!logtext_is(file->data, file->size))
        return file_add(gatherer, name, ARTIFACT_SKIPPED, "not a format that lockstep knows");
    gatherer->logtext.near_real_ns = gatherer->changed_ns;
    result = logtext_add(&gatherer->logtext, artifact_rank(name), name, file->data, file->size);
    return result < 0 ? result : file_add(gatherer, name, ARTIFACT_LOG, NULL);
}

/* Many a log begins with a bracket; a list of dictionaries, or of nothing, does so in JSON. */
static bool is_json_list(const char *text)
{
    text += 1 + strspn(text + 1, " \t\r\n");
    return *text == '{' || *text == ']';
}

static int take_content(struct gatherer *gatherer, const char *name, struct file_content *file)
{
    struct err err = { "" };
    size_t at = strspn(file->data, " \t\r\n");
    int result;

    if (!file->size) {
        if (!artifact_is_named_as_dump(name))
            return take_log(gatherer, name, file);
        result = claim_rank(gatherer, name, artifact_rank(name));
        if (result <= 0)
            return result;
        result =
            flight_add_left(&gatherer->flight, artifact_rank(name), base_name(name), DUMP_EMPTY);
        return result < 0 ? result : file_add(gatherer, name, ARTIFACT_DUMP, NULL);
    }
    if (pickle_is(file->data, file->size)) {
        result = pickle_read(file->data, file->size, &gatherer->tree, &err);
    } else if (file->data[at] == '{' || (file->data[at] == '[' && is_json_list(file->data + at))) {
        result = jsontext_read(file->data, file->size, &gatherer->tree, &err);
    } else if (artifact_is_named_as_dump(name)) {
        return take_damaged(gatherer, name, "neither a pickle nor JSON");
    } else {
        return take_log(gatherer, name, file);
    }
    if (result == 0)
        return take_value(gatherer, name, &err);
    if (result == -EPROTO)
        return take_damaged(gatherer, name, err.text);
    return result;
}

static int take_refused(struct gatherer *gatherer, const char *name, const char *why)
{
    return artifact_is_named_as_dump(name) ? take_damaged(gatherer, name, why)
                                           : file_add(gatherer, name, ARTIFACT_SKIPPED, why);
}

/* What the budget does not hold is one file that is not read; the values of a file do not stay when it is. */
static int take_bounded(struct gatherer *gatherer, const char *name, struct file_content *file)
{
    struct err err = { "" };
    size_t notes = gatherer->logtext.logs.notes;
    int result = take_content(gatherer, name, file);
    bool refused = gatherer->budget->refused;

    if (refused || gatherer->tree.node_room > VALUE_KEPT)
        value_fini(&gatherer->tree);
    if ((result != -ENOMEM && result != -EFBIG) || !refused)
        return result;
    if (gatherer->logtext.logs.notes > notes)
        logtext_cut(&gatherer->logtext, notes);
    budget_error(gatherer->budget, &err);
    gatherer->budget->refused = false;
    return take_refused(gatherer, name, err.text);
}

static int artifacts_take_file(struct gatherer *gatherer, const char *path, const char *name)
{
    CLEAN(read_file_fini) struct file_content file = { 0 };
    struct err err = { "" };
    int result = read_file(path, gatherer->budget, &file, &err);
    const char *why = strstr(err.text, ": "); /* the name is said elsewhere */

    gatherer->budget->refused = false;
    if (result < 0 && result != -ENOMEM)
        return take_refused(gatherer, name, why ? why + 2 : err.text);
    return result < 0 ? result : take_bounded(gatherer, name, &file);
}

static int artifacts_walk(struct gatherer *gatherer, const char *directory, struct err *err)
{
    CLEAN(walk_clean) FTS *fts = walk_open(directory, err);
    FTSENT *entry;
    int result = 0;

    if (!fts)
        return -errno; /* walk_open() has said why */
    while (result == 0 && (entry = fts_read(fts))) {
        const char *name = walk_name(directory, entry);

        if (entry->fts_info == FTS_D && entry->fts_level >= DEPTH_MAX)
            fts_set(fts, entry, FTS_SKIP);
        else if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
            result = file_add(gatherer, *name ? name : ".", ARTIFACT_SKIPPED,
                              strerror(entry->fts_errno));
        else if (entry->fts_info == FTS_F || entry->fts_info == FTS_SL) {
            gatherer->changed_ns = (int64_t)entry->fts_statp->st_mtim.tv_sec * NS_PER_S +
                                   entry->fts_statp->st_mtim.tv_nsec;
            result = artifacts_take_file(gatherer, entry->fts_path, name);
        } else if (entry->fts_info == FTS_DEFAULT)
            result = file_add(gatherer, name, ARTIFACT_SKIPPED, "not a regular file");
        if (gatherer->artifacts->files >= FILES_MAX)
            return err_set(err, -E2BIG, "%s: more than %d files below it", directory, FILES_MAX);
    }
    return result == -ENOMEM ? err_wrap(err, err_nomem(err), "%s", directory) : result;
}

struct other_jobs {
    struct dump_job job[JOBS_MAX];
    size_t count;
};

static int read_without(const char *directory, struct other_jobs *others, struct budget *budget,
                        struct artifacts *ret, struct err *err)
{
    CLEAN(artifacts_fini) struct artifacts artifacts = { 0 };
    CLEAN(gatherer_fini)
    struct gatherer gatherer = { .artifacts = &artifacts,
                                 .other = others->job,
                                 .others = others->count,
                                 .flight.budget = budget,
                                 .logtext.budget = budget,
                                 .tree = { .root = VALUE_NIL, .budget = budget },
                                 .budget = budget };
    int result = artifacts_walk(&gatherer, directory, err);

    if (result == -EAGAIN && others->count == JOBS_MAX)
        return err_set(err, -E2BIG, "%s: contains dumps of more than %d jobs", directory, JOBS_MAX);
    if (result == -EAGAIN) {
        others->job[others->count++] = gatherer.lost;
        return result;
    }
    if (result == 0)
        result = flight_take(&gatherer.flight, &artifacts.dumps);
    if (result == 0)
        result = logtext_take(&gatherer.logtext, &artifacts.logs);
    if (result == -ENOMEM)
        return err_wrap(err, err_nomem(err), "%s", directory);
    if (result < 0)
        return result;
    if (!artifacts.files)
        return err_set(err, -ENOENT, "%s: empty", directory);
    *ret = artifacts;
    artifacts = (struct artifacts){ 0 };
    return 0;
}

int artifacts_read(const char *directory, struct budget *budget, struct artifacts *ret,
                   struct err *err)
{
    struct other_jobs others = { .count = 0 };
    size_t used = budget->used;
    int result;

    do {
        budget->used = used;
        result = read_without(directory, &others, budget, ret, err);
    } while (result == -EAGAIN);
    return result;
}

void artifacts_fini(struct artifacts *artifacts)
{
    dumps_fini(&artifacts->dumps);
    logs_fini(&artifacts->logs);
    lanes_fini(&artifacts->lanes);
    free(artifacts->file);
    *artifacts = (struct artifacts){ 0 };
}
