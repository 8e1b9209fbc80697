/* artifacts.c - gives each file below the operands, or in their archives, to the reader that recognizes its content.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/artifacts.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "core/time.h"
#include "read/flight.h"
#include "read/jsontext.h"
#include "read/kineto.h"
#include "read/log/log_reader.h"
#include "read/name_rank.h"
#include "read/pickle.h"
#include "read/read_file.h"
#include "read/report/report.h"
#include "read/source/tar.h"
#include "read/walk.h"

#define FILES_MAX 100000
#define VALUE_KEPT (1u << 20) /* values, whose memory serves the next file */
#define DEPTH_MAX 5
#define LAYERS_MAX 2 /* of packing around one file */
#define REPORT_BYTES_MAX ((size_t)4 << 20)
#define JSON_ERROR_MAX (1u << 20) /* bytes of a launcher's error file */
#define JOBS_MAX 64               /* whose dumps lie in one directory */
/* A date without a year is at most half a year from what it is near to, and no line is newer than its file, two days for
 * zones and clocks apart.
 */
#define YEARLESS_NS (181 * 86400 * NS_PER_S)

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
    struct log_reader log;
    struct value_tree tree; /* used for one file after the other */
    struct budget *budget;
};

static void gatherer_fini(struct gatherer *gatherer)
{
    flight_fini(&gatherer->flight);
    log_reader_fini(&gatherer->log);
    value_fini(&gatherer->tree);
    map_fini(&gatherer->rank);
    free(gatherer->claim);
}

uint32_t artifact_rank(const char *path)
{
    struct name_rank by_word = name_rank(path);

    return by_word.rank == NAME_NO_RANK ? name_number(path) : by_word.rank;
}

bool artifact_is_named_as_dump(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    return name_number(name) != NAME_NO_RANK && !strstr(name, ".log") &&
           (strstr(name, "dump") || strstr(name, "trace"));
}

static int artifacts_file_add(struct gatherer *gatherer, const char *name, enum artifact_kind kind,
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

static const char *artifacts_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* A path without its rank: of several numbers in it the last one that is the rank is left out. */
static uint64_t artifacts_alike(const char *path, uint32_t rank)
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
    struct claim mine = { .alike = artifacts_alike(name, rank),
                          .changed_ns = gatherer->changed_ns };
    const struct dump_job *other = job_of_another(gatherer, mine.alike);
    const struct claim *before;
    uint64_t *at;
    char why[160];

    snprintf(mine.name, sizeof(mine.name), "%s", name);
    if (other) {
        snprintf(why, sizeof(why), "belongs to another job or attempt than %.100s",
                 other->instead_of);
        return MIN(artifacts_file_add(gatherer, name, ARTIFACT_SKIPPED, why), 0);
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

/* Does a pickle or a JSON text lack its end?  Its process was ended while it wrote. */
static bool artifacts_is_truncated(const struct file_content *file)
{
    size_t size = file->size;

    if (pickle_is(file->data, size))
        return file->data[size - 1] != '.';
    while (size && strchr(" \t\r\n", file->data[size - 1]))
        size--;
    return size && !strchr("}]", file->data[size - 1]);
}

/* A dump that is not one: its rank is still one of which we know nothing. */
static int artifacts_take_damaged(struct gatherer *gatherer, const char *name, enum dump_left left,
                                  const char *why)
{
    uint32_t rank = artifact_rank(name);
    int result = 0;

    if (rank != UINT32_MAX && !map_get(&gatherer->rank, rank) &&
        !job_of_another(gatherer, artifacts_alike(name, rank)))
        result = flight_add_left(&gatherer->flight, rank, artifacts_base_name(name), left);
    return result < 0 ? result : artifacts_file_add(gatherer, name, ARTIFACT_SKIPPED, why);
}

static int artifacts_take_trace(struct gatherer *gatherer, const char *name, uint32_t rank,
                                struct err *err)
{
    int result = kineto_add(&gatherer->artifacts->lanes, rank == UINT32_MAX ? 0 : rank,
                            &gatherer->tree, err);

    if (result == -EPROTO)
        return artifacts_file_add(gatherer, name, ARTIFACT_SKIPPED, err->text);
    if (result == 0 && artifacts_file_add(gatherer, name, ARTIFACT_TRACE, NULL) < 0)
        result = err_nomem(err);
    return result;
}

static int artifacts_take_value(struct gatherer *gatherer, const char *name, struct err *err)
{
    uint32_t rank = artifact_rank(name);
    int result;

    if (!flight_is(&gatherer->tree) && kineto_is(&gatherer->tree))
        return artifacts_take_trace(gatherer, name, rank, err);
    if (!flight_is(&gatherer->tree))
        return artifacts_file_add(gatherer, name, ARTIFACT_SKIPPED,
                                  "valid data, but not a format that lockstep knows");
    if (rank == UINT32_MAX)
        return artifacts_file_add(gatherer, name, ARTIFACT_SKIPPED,
                                  "a flight-recorder dump whose name does not end in a rank");
    result = claim_rank(gatherer, name, rank);
    if (result == -ENOMEM)
        return err_nomem(err);
    if (result <= 0)
        return result;
    gatherer->flight.written_ns = gatherer->changed_ns;
    result = flight_add(&gatherer->flight, rank, artifacts_base_name(name), &gatherer->tree, err);
    if (result == 0 && artifacts_file_add(gatherer, name, ARTIFACT_DUMP, NULL) < 0)
        result = err_nomem(err);
    return result;
}

static struct log_source artifacts_log_source_of(const struct gatherer *gatherer, const char *name)
{
    struct name_rank by_word = name_rank(name);
    struct log_source source = { .name = name,
                                 .rank = by_word.rank,
                                 .local = by_word.local,
                                 .near_real_ns = gatherer->changed_ns - YEARLESS_NS };
    size_t bytes;

    source.part = name_part(name, &bytes);
    return source;
}

/* A log that ends early (damaged, too large) counts as far as it was read; the list of files says so. */
static int artifacts_take_log_stream(struct gatherer *gatherer, const char *name,
                                     struct stream *stream)
{
    const struct log_source source = artifacts_log_source_of(gatherer, name);
    struct err err = { "" };
    const unsigned char *head;
    ssize_t bytes = stream_peek(stream, &head, &err);
    int result;

    if (bytes < 0)
        return bytes == -ENOMEM ? -ENOMEM
                                : artifacts_file_add(gatherer, name, ARTIFACT_SKIPPED, err.text);
    if (!log_is_text(head, (size_t)bytes))
        return artifacts_file_add(gatherer, name, ARTIFACT_SKIPPED,
                                  "not a format that lockstep knows");
    result = log_reader_stream(&gatherer->log, &source, stream, &err);
    if (result == -ENOMEM)
        return result;
    return result < 0 ? artifacts_file_add(gatherer, name, ARTIFACT_SKIPPED, err.text)
                      : artifacts_file_add(gatherer, name, ARTIFACT_LOG, NULL);
}

/* Reports of other tools are small: a text of this size or more is a log.  1: it was one, and nothing else. */
static int artifacts_take_report(struct gatherer *gatherer, const char *name, const char *text,
                                 size_t bytes)
{
    enum report_text what = report_text_of(text, bytes);
    int result;

    if (what == REPORT_TEXT_NONE)
        return 0;
    result = report_add(&gatherer->artifacts->reports, gatherer->budget, artifact_rank(name), name,
                        text, bytes);
    if (result < 0 || (what != REPORT_TEXT_STACKS && what != REPORT_TEXT_DEVICE))
        return result;
    result = artifacts_file_add(gatherer, name, ARTIFACT_LOG, NULL);
    return result < 0 ? result : 1;
}

static int artifacts_take_log(struct gatherer *gatherer, const char *name, struct stream *stream)
{
    CLEAN(free_clean) char *text = malloc(REPORT_BYTES_MAX + 1);
    CLEAN(stream_clean) struct stream *joined = NULL;
    size_t used = 0;
    ssize_t got = 1;
    int result = 0;

    if (!text)
        return -ENOMEM;
    while (got > 0 && used < REPORT_BYTES_MAX) {
        got = stream_read(stream, text + used, REPORT_BYTES_MAX - used, NULL);
        used += got > 0 ? (size_t)got : 0;
    }
    text[used] = '\0';
    if (got == 0)
        result = artifacts_take_report(gatherer, name, text, used);
    if (result == 0)
        result = stream_open_joined(text, used, stream, &joined);
    if (result)
        return MIN(result, 0);
    return artifacts_take_log_stream(gatherer, name, joined);
}

static int artifacts_take_log_text(struct gatherer *gatherer, const char *name, const char *text,
                                   size_t bytes)
{
    CLEAN(stream_clean) struct stream *stream = NULL;
    int result = stream_open_memory(text, bytes, &stream);

    return result < 0 ? result : artifacts_take_log_stream(gatherer, name, stream);
}

/* torchrun's error file: {"message": {"message": "...", "extraInfo": {"py_callstack": "Traceback ...\n..."}}}.  Its texts
 * have escaped newlines; unescaped they are lines of a log.
 */
static bool artifacts_is_error_file(const struct file_content *file)
{
    return file->size < JSON_ERROR_MAX && memmem(file->data, file->size, "\"py_callstack\"", 14);
}

static size_t artifacts_unescape_lines(char *text, size_t bytes)
{
    char *to = text;

    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\\' && i + 1 < bytes && text[i + 1] == 'n') {
            *to++ = '\n';
            i++;
        } else if (text[i] == '"' && i + 1 < bytes && strchr(",:}", text[i + 1])) {
            *to++ = '\n'; /* a text begins or ends */
        } else {
            *to++ = text[i];
        }
    }
    return (size_t)(to - text);
}

/* Many a log begins with a bracket; a list of dictionaries, or of nothing, does so in JSON. */
static bool artifacts_is_json_list(const unsigned char *text, const unsigned char *end)
{
    if (*text != '[')
        return false;
    for (text++; text < end && *text && strchr(" \t\r\n", *text);)
        text++;
    return text < end && (*text == '{' || *text == ']');
}

static int artifacts_take_empty(struct gatherer *gatherer, const char *name)
{
    uint32_t rank = artifact_rank(name);
    int result;

    if (!artifact_is_named_as_dump(name))
        return artifacts_take_log_text(gatherer, name, "", 0);
    result = claim_rank(gatherer, name, rank);
    if (result <= 0)
        return result;
    result = flight_add_left(&gatherer->flight, rank, artifacts_base_name(name), DUMP_EMPTY);
    return result < 0 ? result : artifacts_file_add(gatherer, name, ARTIFACT_DUMP, NULL);
}

/* Data that must be read whole: a pickle or JSON.  JSON that is none may be a log of JSON lines. */
static int artifacts_take_data(struct gatherer *gatherer, const char *name,
                               struct file_content *file)
{
    struct err err = { "" };
    bool pickle = pickle_is(file->data, file->size);
    int result = pickle ? pickle_read(file->data, file->size, &gatherer->tree, &err)
                        : jsontext_read(file->data, file->size, &gatherer->tree, &err);

    if (result == 0 && !pickle && !flight_is(&gatherer->tree) && !kineto_is(&gatherer->tree) &&
        artifacts_is_error_file(file))
        return artifacts_take_log_text(gatherer, name, file->data,
                                       artifacts_unescape_lines(file->data, file->size));
    if (result == 0)
        return artifacts_take_value(gatherer, name, &err);
    if (result == -EPROTO && !pickle && !artifact_is_named_as_dump(name) &&
        memchr(file->data, '\n', file->size))
        return artifacts_take_log_text(gatherer, name, file->data, file->size);
    if (result == -EPROTO)
        return artifacts_take_damaged(
            gatherer, name, artifacts_is_truncated(file) ? DUMP_TRUNCATED : DUMP_DAMAGED, err.text);
    return result;
}

static int artifacts_take_refused(struct gatherer *gatherer, const char *name, const char *why)
{
    return artifact_is_named_as_dump(name)
               ? artifacts_take_damaged(gatherer, name, DUMP_DAMAGED, why)
               : artifacts_file_add(gatherer, name, ARTIFACT_SKIPPED, why);
}

static int artifacts_take_content(struct gatherer *gatherer, const char *name,
                                  struct stream *stream)
{
    CLEAN(read_file_fini) struct file_content file = { 0 };
    struct err err = { "" };
    const unsigned char *head;
    ssize_t bytes = stream_peek(stream, &head, &err);
    size_t at = 0;
    int result;

    if (bytes < 0)
        return bytes == -ENOMEM ? -ENOMEM : artifacts_take_refused(gatherer, name, err.text);
    if (bytes == 0)
        return artifacts_take_empty(gatherer, name);
    while (at < (size_t)bytes && strchr(" \t\r\n", head[at]) && head[at])
        at++;
    if (!pickle_is((const char *)head, (size_t)bytes) &&
        !(at < (size_t)bytes &&
          (head[at] == '{' || artifacts_is_json_list(head + at, head + bytes)))) {
        return artifact_is_named_as_dump(name)
                   ? artifacts_take_damaged(gatherer, name, DUMP_DAMAGED,
                                            "neither a pickle nor JSON")
                   : artifacts_take_log(gatherer, name, stream);
    }
    result = read_stream(stream, gatherer->budget, &file, &err);
    if (result == -ENOMEM)
        return result;
    return result < 0 ? artifacts_take_refused(gatherer, name, err.text)
                      : artifacts_take_data(gatherer, name, &file);
}

/* What the budget does not hold is one file that is not read; the values of a file do not stay when it is. */
static int artifacts_take_bounded(struct gatherer *gatherer, const char *name,
                                  struct stream *stream)
{
    struct err err = { "" };
    size_t events = gatherer->log.logs.events;
    int result = artifacts_take_content(gatherer, name, stream);
    bool refused = gatherer->budget->refused;

    if (refused || gatherer->tree.node_room > VALUE_KEPT)
        value_fini(&gatherer->tree);
    if ((result != -ENOMEM && result != -EFBIG) || !refused)
        return result;
    if (gatherer->log.logs.events > events)
        log_reader_truncated(&gatherer->log, events);
    budget_error(gatherer->budget, &err);
    gatherer->budget->refused = false;
    return artifacts_take_refused(gatherer, name, err.text);
}

static int artifacts_take_stream(struct gatherer *gatherer, const char *name,
                                 struct stream **stream, bool in_archive);

static int artifacts_take_archive(struct gatherer *gatherer, const char *name,
                                  struct stream *stream)
{
    struct tar tar = { .stream = stream };
    struct tar_member member;
    struct err err = { "" };
    int result = 0, got;

    while ((got = tar_next(&tar, &member, &err)) > 0) {
        CLEAN(stream_clean) struct stream *part = NULL;

        if (gatherer->artifacts->files >= FILES_MAX)
            return artifacts_file_add(gatherer, name, ARTIFACT_SKIPPED, "has too many members");
        gatherer->changed_ns = member.changed_ns;
        result = stream_open_part(stream, member.bytes, &part);
        if (result == 0)
            result = artifacts_take_stream(gatherer, member.name, &part, true);
        if (result < 0)
            return result;
    }
    return got < 0 ? artifacts_file_add(gatherer, name, ARTIFACT_SKIPPED, err.text) : 0;
}

/* Unpacks what is packed, and looks into an archive; not into archives in archives. */
static int artifacts_take_stream(struct gatherer *gatherer, const char *name,
                                 struct stream **stream, bool in_archive)
{
    struct err err = { "" };
    const unsigned char *head;
    ssize_t bytes;
    int result = 1;

    gatherer->budget->refused = false;
    for (int layer = 0; layer < LAYERS_MAX && result > 0; layer++)
        result = stream_unpack(stream, &err);
    bytes = result < 0 ? result : stream_peek(*stream, &head, &err);
    if (bytes < 0)
        return bytes == -ENOMEM ? -ENOMEM : artifacts_take_refused(gatherer, name, err.text);
    if (!tar_is(head, (size_t)bytes))
        return artifacts_take_bounded(gatherer, name, *stream);
    return in_archive ? artifacts_file_add(gatherer, name, ARTIFACT_SKIPPED,
                                           "an archive inside an archive")
                      : artifacts_take_archive(gatherer, name, *stream);
}

static int artifacts_take_file(struct gatherer *gatherer, const char *path, const char *name)
{
    CLEAN(stream_clean) struct stream *stream = NULL;
    struct err err = { "" };
    int result = stream_open(path, &stream, &err);
    const char *why = strstr(err.text, ": "); /* the name stands elsewhere */

    if (result < 0 && result != -ENOMEM)
        return artifacts_take_refused(gatherer, name, why ? why + 2 : err.text);
    return result < 0 ? result : artifacts_take_stream(gatherer, name, &stream, false);
}

static int64_t artifacts_changed_ns_of(const struct stat *stat)
{
    return (int64_t)stat->st_mtim.tv_sec * NS_PER_S + stat->st_mtim.tv_nsec;
}

/* `prefix`: what names begin with, where there are several operands. */
static int artifacts_walk(struct gatherer *gatherer, const char *directory, const char *prefix,
                          struct err *err)
{
    CLEAN(walk_clean) FTS *fts = walk_open(directory, err);
    FTSENT *entry;
    int result = 0;

    if (!fts)
        return -errno; /* walk_open() has set the message */
    while (result == 0 && (entry = fts_read(fts))) {
        const char *below = walk_name(directory, entry);
        char name[PATH_MAX];

        snprintf(name, sizeof(name), "%s%s", prefix, below);
        if (entry->fts_info == FTS_D && entry->fts_level >= DEPTH_MAX)
            fts_set(fts, entry, FTS_SKIP);
        else if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
            result = artifacts_file_add(gatherer, *name ? name : ".", ARTIFACT_SKIPPED,
                                        strerror(entry->fts_errno));
        else if (entry->fts_info == FTS_F || entry->fts_info == FTS_SL) {
            gatherer->changed_ns = artifacts_changed_ns_of(entry->fts_statp);
            result = artifacts_take_file(gatherer, entry->fts_path, name);
        } else if (entry->fts_info == FTS_DEFAULT)
            result = artifacts_file_add(gatherer, name, ARTIFACT_SKIPPED, "not a regular file");
        if (gatherer->artifacts->files >= FILES_MAX)
            return err_set(err, -E2BIG, "%s: more than %d files below it", directory, FILES_MAX);
    }
    return result == -ENOMEM ? err_wrap(err, err_nomem(err), "%s", directory) : result;
}

static int artifacts_take_standard_input(struct gatherer *gatherer, struct err *err)
{
    CLEAN(stream_clean) struct stream *stream = NULL;
    int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), result;

    if (fd < 0)
        return err_set(err, -errno, "standard input: %m");
    result = stream_open_fd(fd, &stream, err);
    gatherer->changed_ns = time_real_ns();
    return result < 0 ? result : artifacts_take_stream(gatherer, "stdin", &stream, false);
}

static int artifacts_take_operand(struct gatherer *gatherer, const char *path, bool only,
                                  struct err *err)
{
    char prefix[PATH_MAX] = "";
    struct stat found;
    int result;

    if (strcmp(path, "-") == 0)
        return artifacts_take_standard_input(gatherer, err);
    if (stat(path, &found) < 0)
        return err_set(err, -errno, "%s: %m", path);
    if (S_ISDIR(found.st_mode)) {
        if (!only)
            snprintf(prefix, sizeof(prefix), "%s%s", path,
                     path[strlen(path) - 1] == '/' ? "" : "/");
        return artifacts_walk(gatherer, path, prefix, err);
    }
    if (!S_ISREG(found.st_mode))
        return err_set(err, -EINVAL, "%s: not a regular file; use - to read from standard input",
                       path);
    gatherer->changed_ns = artifacts_changed_ns_of(&found);
    result = artifacts_take_file(gatherer, path, path);
    return result == -ENOMEM ? err_wrap(err, err_nomem(err), "%s", path) : result;
}

/* Ranks that the names of all logs together show. */
static int artifacts_settle_ranks(struct gatherer *gatherer)
{
    const struct artifacts *artifacts = gatherer->artifacts;
    CLEAN(free_clean) const char **path = calloc(artifacts->files + 1, sizeof(*path));
    CLEAN(free_clean) struct name_rank *rank = calloc(artifacts->files + 1, sizeof(*rank));
    size_t logs = 0;
    int result = path && rank ? 0 : -ENOMEM;

    for (size_t i = 0; i < artifacts->files && result == 0; i++) {
        if (artifacts->file[i].kind != ARTIFACT_LOG)
            continue;
        path[logs] = artifacts->file[i].name;
        rank[logs] = name_rank(path[logs]);
        logs++;
    }
    if (result == 0)
        result = name_ranks(path, logs, rank);
    return result < 0 ? result : log_reader_ranks(&gatherer->log, path, rank, logs);
}

struct other_jobs {
    struct dump_job job[JOBS_MAX];
    size_t count;
};

static int read_without(const char *const *operand, size_t count, struct other_jobs *others,
                        struct budget *budget, struct artifacts *ret, struct err *err)
{
    CLEAN(artifacts_fini) struct artifacts artifacts = { 0 };
    CLEAN(gatherer_fini)
    struct gatherer gatherer = { .artifacts = &artifacts,
                                 .other = others->job,
                                 .others = others->count,
                                 .flight.budget = budget,
                                 .log.budget = budget,
                                 .tree = { .root = VALUE_NIL, .budget = budget },
                                 .budget = budget };
    int result = 0;

    for (size_t i = 0; i < count && result == 0; i++)
        result = artifacts_take_operand(&gatherer, operand[i], count == 1, err);
    if (result == -EAGAIN && others->count == JOBS_MAX)
        return err_set(err, -E2BIG, "%s: contains dumps of more than %d jobs", operand[0],
                       JOBS_MAX);
    if (result == -EAGAIN) {
        others->job[others->count++] = gatherer.lost;
        return result;
    }
    if (result == 0)
        result = flight_take(&gatherer.flight, &artifacts.dumps);
    if (result == 0)
        result = artifacts_settle_ranks(&gatherer);
    if (result == 0)
        result = log_reader_take(&gatherer.log, &artifacts.logs);
    if (result == -ENOMEM)
        return err_wrap(err, err_nomem(err), "%s", operand[0]);
    if (result < 0)
        return result;
    if (!artifacts.files)
        return err_set(err, -ENOENT, "%s: empty", operand[0]);
    *ret = artifacts;
    artifacts = (struct artifacts){ 0 };
    return 0;
}

int artifacts_read_all(const char *const *operand, size_t count, struct budget *budget,
                       struct artifacts *ret, struct err *err)
{
    struct other_jobs others = { .count = 0 };
    size_t used = budget->used;
    int result;

    do {
        budget->used = used;
        result = read_without(operand, count, &others, budget, ret, err);
    } while (result == -EAGAIN);
    return result;
}

int artifacts_read(const char *directory, struct budget *budget, struct artifacts *ret,
                   struct err *err)
{
    return artifacts_read_all(&directory, 1, budget, ret, err);
}

void artifacts_fini(struct artifacts *artifacts)
{
    dumps_fini(&artifacts->dumps);
    logs_fini(&artifacts->logs);
    lanes_fini(&artifacts->lanes);
    reports_fini(&artifacts->reports);
    free(artifacts->file);
    *artifacts = (struct artifacts){ 0 };
}
