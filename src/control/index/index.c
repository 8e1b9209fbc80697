/* index.c - opens, rebuilds and queries the file of the index.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/index/index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/index/index_private.h"
#include "core/clean.h"

#define INDEX_VERSION 6              /* of the tables: another one is made anew */
#define INDEX_APPLICATION 0x4c534958 /* "LSIX" */
#define BUSY_MS 2000

/* clang-format off */
static const char index_tables[] =
    "CREATE TABLE run (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, command TEXT,"
    " ranks INT, attempts INT, ended INT, closed INT, status INT, begin_real INT, end_real INT, steps INT,"
    " frames INT, log_bytes INT, damaged INT, position INT, position_frames INT, position_damaged INT, log_id INT, done_attempt INT, done_step INT,"
    " clock INT, ledger BLOB);"
    "CREATE TABLE rank (run INT, rank INT, attempt INT, ring INT, pid INT, node TEXT, layout BLOB, step INT,"
    " beat_real INT, state INT, phase INT, ended INT, told INT, status INT, end_text TEXT,"
    " PRIMARY KEY (run, rank)) WITHOUT ROWID;"
    "CREATE TABLE node (id INTEGER PRIMARY KEY AUTOINCREMENT, run INT, node TEXT, version TEXT, hello_real INT,"
    " sender INT, clock INT, heard_real INT, rate REAL, boot INT, traffic BLOB, UNIQUE (run, node));"
    "CREATE INDEX node_sender ON node (run, sender);"
    "CREATE TABLE step (run INT, col INT, attempt INT, step INT, ranks INT, begin_real INT, duration INT,"
    " median INT, excess INT, worst INT, shape INT, loss REAL, tokens REAL, PRIMARY KEY (run, col)) WITHOUT ROWID;"
    "CREATE INDEX step_number ON step (run, step);"
    "CREATE TABLE shape (id INTEGER PRIMARY KEY AUTOINCREMENT, run INT, hash INT, class INT, items INT,"
    " payload BLOB, UNIQUE (run, hash));"
    "CREATE TABLE verdict (seq INTEGER PRIMARY KEY AUTOINCREMENT, run INT, id TEXT, kind INT, layer INT,"
    " since_step INT, since_real INT, open INT, payload BLOB, UNIQUE (run, id));"
    "CREATE TABLE verdict_rank (run INT, id TEXT, rank INT, PRIMARY KEY (run, rank, id)) WITHOUT ROWID;"
    "CREATE TABLE verdict_node (run INT, id TEXT, node TEXT, PRIMARY KEY (run, node, id)) WITHOUT ROWID;"
    "CREATE TABLE evidence (cursor INTEGER PRIMARY KEY, run INT, id TEXT, role INT, line INT, source TEXT);"
    "CREATE INDEX evidence_verdict ON evidence (run, id);"
    "CREATE TABLE record (seq INTEGER PRIMARY KEY AUTOINCREMENT, run INT, type INT, key TEXT, id TEXT, kind INT,"
    " real INT, root INT, payload BLOB, UNIQUE (run, type, key));"
    "CREATE TABLE record_name (run INT, type INT, key TEXT, rank INT, node TEXT);"
    "CREATE INDEX record_name_key ON record_name (run, type, key);"
    "CREATE TABLE ledger (id INTEGER PRIMARY KEY AUTOINCREMENT, run INT, real INT, at INT, payload BLOB,"
    " UNIQUE (run, at));";
/* clang-format on */

void statement_clean(sqlite3_stmt **statement)
{
    sqlite3_finalize(*statement);
}

int index_error(struct index *index, int code, struct err *err)
{
    int primary = code & 0xff, result = -EIO;

    switch (primary) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_SCHEMA:
        index->broken = true;
        result = -EUCLEAN;
        break;
    case SQLITE_FULL:
        result = -ENOSPC;
        break;
    case SQLITE_NOMEM:
        result = -ENOMEM;
        break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        result = -EBUSY;
        break;
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
        result = -EROFS;
        break;
    default:
        break;
    }
    return err_set(err, result, "%s: %s", index->path.text,
                   index->db ? sqlite3_errmsg(index->db) : sqlite3_errstr(code));
}

int index_prepare(struct index *index, const char *sql, sqlite3_stmt **ret, struct err *err)
{
    int code = sqlite3_prepare_v2(index->db, sql, -1, ret, NULL), result;

    if (code == SQLITE_OK)
        return 0;
    result = index_error(index, code, err);
    if ((code & 0xff) == SQLITE_ERROR) { /* our statements are right, so the tables are not */
        index->broken = true;
        result = -EUCLEAN;
    }
    return result;
}

static void index_bind_next(sqlite3_stmt *statement, int at, char type, va_list *args)
{
    const void *data;

    switch (type) {
    case 'i':
        sqlite3_bind_int64(statement, at, va_arg(*args, int64_t));
        break;
    case 'd':
        sqlite3_bind_double(statement, at, va_arg(*args, double));
        break;
    case 't':
        sqlite3_bind_text(statement, at, va_arg(*args, const char *), -1, SQLITE_TRANSIENT);
        break;
    default:
        data = va_arg(*args, const void *);
        sqlite3_bind_blob64(statement, at, data, va_arg(*args, size_t), SQLITE_TRANSIENT);
        break;
    }
}

int index_execute(struct index *index, struct err *err, const char *sql, const char *types, ...)
{
    CLEAN(statement_clean) sqlite3_stmt *statement = NULL;
    int code, result = index_prepare(index, sql, &statement, err);
    va_list args;

    if (result < 0)
        return result;
    va_start(args, types);
    for (int at = 1; types[at - 1]; at++)
        index_bind_next(statement, at, types[at - 1], &args);
    va_end(args);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW)
        ;
    return code == SQLITE_DONE ? 0 : index_error(index, code, err);
}

static int index_number(struct index *index, const char *sql, int64_t *ret, struct err *err)
{
    CLEAN(statement_clean) sqlite3_stmt *statement = NULL;
    int code, result = index_prepare(index, sql, &statement, err);

    if (result < 0)
        return result;
    code = sqlite3_step(statement);
    if (code != SQLITE_ROW)
        return index_error(index, code, err);
    *ret = sqlite3_column_int64(statement, 0);
    return 0;
}

static int index_connect(struct index *index, struct err *err)
{
    CLEAN(fd_clean)
    int fd = open(index->path.text, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int code;

    if (fd < 0) /* SQLite would make it readable for everyone */
        return err_set(err, -errno, "%s: %m", index->path.text);
    code = sqlite3_open_v2(index->path.text, &index->db, SQLITE_OPEN_READWRITE, NULL);
    if (code != SQLITE_OK)
        return index_error(index, code, err);
    sqlite3_busy_timeout(index->db, BUSY_MS);
    sqlite3_extended_result_codes(index->db, 1);
    /* What a power cut takes from it is read from the log again. */
    code = sqlite3_exec(index->db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF", NULL, NULL,
                        NULL);
    return code == SQLITE_OK ? 0 : index_error(index, code, err);
}

static int index_create(struct index *index, struct err *err)
{
    char sql[sizeof(index_tables) + 128];
    int code;

    snprintf(sql, sizeof(sql), "BEGIN;%s PRAGMA user_version=%d; PRAGMA application_id=%d; COMMIT;",
             index_tables, INDEX_VERSION, INDEX_APPLICATION);
    code = sqlite3_exec(index->db, sql, NULL, NULL, NULL);
    index->makings++;
    return code == SQLITE_OK ? 0 : index_error(index, code, err);
}

/* 0: it is ours and whole as far as one can see; 1: there is nothing yet; -EUCLEAN: not to be used.  A file without
 * a table is a new one: to ask for WAL has already given it a first page.
 */
static int index_look(struct index *index, struct err *err)
{
    int64_t version = 0, application = 0, tables = 0;
    int result = index_number(index, "PRAGMA user_version", &version, err);

    if (result == 0)
        result = index_number(index, "PRAGMA application_id", &application, err);
    if (result == 0)
        result = index_number(index, "SELECT count(*) FROM sqlite_master", &tables, err);
    if (result < 0)
        return result;
    if (tables == 0 && application == 0 && version == 0)
        return 1;
    if (application != INDEX_APPLICATION || version != INDEX_VERSION)
        return err_set(err, -EUCLEAN, "%s: tables of version %" PRId64 ", this program has %d",
                       index->path.text, version, INDEX_VERSION);
    return index_execute(index, err, "SELECT count(*) FROM run", "");
}

static void index_disconnect(struct index *index)
{
    while (index->follower) {
        struct index_follower *next = index->follower->next;

        follower_close(index->follower);
        index->follower = next;
    }
    sqlite3_close(index->db);
    index->db = NULL;
}

static void index_remove(const struct index *index)
{
    static const char *const suffixes[] = { "", "-wal", "-shm", "-journal" };

    for (size_t i = 0; i < COUNT(suffixes); i++) {
        char path[PATH_MAX + 16];

        snprintf(path, sizeof(path), "%s%s", index->path.text, suffixes[i]);
        unlink(path);
    }
}

static int index_renew(struct index *index, const char *why, struct err *err)
{
    int result;

    index_disconnect(index);
    index_remove(index);
    free(index->rebuilt);
    index->rebuilt = strdup(why);
    index->broken = false;
    result = index_connect(index, err);
    return result < 0 ? result : index_create(index, err);
}

int index_open(const char *path, struct index **ret, struct err *err)
{
    struct index *index = calloc(1, sizeof(*index));
    struct err why = { "" };
    int result;

    if (!index)
        return err_nomem(err);
    snprintf(index->path.text, sizeof(index->path.text), "%s", path);
    result = index_connect(index, &why);
    if (result == 0)
        result = index_look(index, &why);
    if (result == 1)
        result = index_create(index, &why);
    if (result == -EUCLEAN)
        result = index_renew(index, why.text, &why);
    if (result < 0) {
        err_set(err, result, "%s", why.text);
        index_close(index);
        return result;
    }
    *ret = index;
    return 0;
}

void index_close(struct index *index)
{
    if (!index)
        return;
    index_disconnect(index);
    free(index->rebuilt);
    free(index);
}

const char *index_was_rebuilt(const struct index *index)
{
    return index->rebuilt;
}

bool index_is_broken(const struct index *index)
{
    return index->broken;
}

uint64_t index_makings(const struct index *index)
{
    return index->makings;
}

int index_repair(struct index *index, struct err *err)
{
    return index_renew(index, "it is damaged", err);
}

/* ---- following ---- */

static struct index_follower *index_follower_find(const struct index *index, const char *run)
{
    struct index_follower *follower = index->follower;

    while (follower && strcmp(follower->run, run) != 0)
        follower = follower->next;
    return follower;
}

void index_leave(struct index *index, const char *run)
{
    for (struct index_follower **at = &index->follower; *at; at = &(*at)->next) {
        struct index_follower *follower = *at;

        if (strcmp(follower->run, run) == 0) {
            *at = follower->next;
            follower_close(follower);
            return;
        }
    }
}

int index_forget(struct index *index, const char *run, struct err *err)
{
    index_leave(index, run);
    return follower_forget(index, run, err);
}

static const char *index_run_of(const char *run_dir)
{
    const char *slash = strrchr(run_dir, '/');

    return slash && slash[1] ? slash + 1 : run_dir;
}

int64_t index_follow(struct index *index, const char *run_dir, size_t frames_max, struct err *err)
{
    const char *run = index_run_of(run_dir);
    struct index_follower *follower = index_follower_find(index, run);
    int64_t count;
    int result = 0;

    if (index->broken) {
        result = index_repair(index, err);
        follower = NULL;
    }
    if (result == 0 && !follower) {
        result = follower_open(index, run_dir, &follower, err);
        if (result == 0) {
            follower->next = index->follower;
            index->follower = follower;
        }
    }
    if (result < 0)
        return result;
    count = follower_read(follower, frames_max, err);
    if (count == 0) /* that is the end of the log */
        follower->rebuilding = false;
    if (count < 0) /* what is in memory is ahead of the file: begin again from the file */
        index_leave(index, run);
    if (count != -EAGAIN)
        return count;
    count = index_follow(index, run_dir, frames_max, err);
    follower = index_follower_find(index, run);
    if (follower)
        follower->rebuilding = count > 0;
    return count;
}

bool index_is_rebuilding(const struct index *index, const char *run)
{
    const struct index_follower *follower = index_follower_find(index, run);

    return follower && follower->rebuilding;
}
