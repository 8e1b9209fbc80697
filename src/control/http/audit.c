/* audit.c - records of requests, written once each and counted when they repeat.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/http/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/log.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/text.h"
#include "core/time.h"

#define REPEAT_NS (60 * NS_PER_S) /* refused requests of one kind: one record in this time */
#define READ_NS (3600 * NS_PER_S) /* who reads which run */
#define LINE_MAX_BYTES 4096       /* of a record, more than any has */
#define RUNS_PATH "/api/v1/runs/"
#define LOST_EVERY 1000

void audit_init(struct audit *audit, const char *state)
{
    memset(audit, 0, sizeof(*audit));
    snprintf(audit->state, sizeof(audit->state), "%s", state);
    audit->fd = -1;
    audit->bytes_max = AUDIT_BYTES_MAX;
}

/* ---- the file ---- */

static int audit_file_open(const struct audit *audit, const char *name, int flags)
{
    struct path path;
    int result = path_join(&path, audit->state, name, NULL);

    if (result < 0)
        return result;
    result = open(path.text, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    return result < 0 ? -errno : result;
}

/* The number behind the last whole record; *whole: where that ends.  0: there is none. */
static uint64_t audit_number_after(int fd, uint64_t *whole)
{
    char tail[LINE_MAX_BYTES + 1];
    off_t size = lseek(fd, 0, SEEK_END), from = size > LINE_MAX_BYTES ? size - LINE_MAX_BYTES : 0;
    ssize_t got = pread(fd, tail, LINE_MAX_BYTES, from);
    uint64_t number;
    char *end, *line;

    *whole = 0;
    if (got <= 0)
        return 0;
    tail[got] = '\0';
    end = memrchr(tail, '\n', (size_t)got);
    if (!end)
        return 0;
    *whole = (uint64_t)(from + (end + 1 - tail));
    line = memrchr(tail, '\n', (size_t)(end - tail));
    line = line ? line + 1 : tail;
    return sscanf(line, "{\"n\":%" SCNu64, &number) == 1 ? number + 1 : 0;
}

/* Numbers count on where the last process stopped; a record that it did not finish is cut off. */
static int audit_open(struct audit *audit)
{
    CLEAN(fd_clean) int old = -1;
    uint64_t whole;
    struct stat st;

    if (audit->fd >= 0)
        return 0;
    audit->fd = audit_file_open(audit, AUDIT_FILE, O_RDWR | O_CREAT | O_APPEND);
    if (audit->fd < 0)
        return audit->fd;
    if (fstat(audit->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -EPROTO;
    audit->next = MAX(audit->next, audit_number_after(audit->fd, &whole));
    if (whole < (uint64_t)st.st_size && ftruncate(audit->fd, (off_t)whole) < 0)
        return -errno;
    audit->bytes = whole;
    if (!audit->next && (old = audit_file_open(audit, AUDIT_OLD_FILE, O_RDONLY)) >= 0)
        audit->next = audit_number_after(old, &whole);
    audit->next = MAX(audit->next, 1u);
    return 0;
}

static void audit_close(struct audit *audit)
{
    if (audit->dirty && audit->fd >= 0)
        fdatasync(audit->fd);
    audit->dirty = false;
    fd_clean(&audit->fd);
    audit->fd = -1;
}

static int audit_rotate(struct audit *audit)
{
    struct path now, old;

    if (audit->bytes < audit->bytes_max)
        return 0;
    audit_close(audit);
    if (path_join(&now, audit->state, AUDIT_FILE, NULL) < 0 ||
        path_join(&old, audit->state, AUDIT_OLD_FILE, NULL) < 0)
        return -ENAMETOOLONG;
    return rename(now.text, old.text) < 0 ? -errno : audit_open(audit);
}

static struct json_object *audit_text(const char *text)
{
    return text[0] ? json_object_new_string(text) : NULL;
}

static struct json_object *audit_json(const struct audit *audit, const struct audit_record *record,
                                      uint64_t more)
{
    struct json_object *root = json_object_new_object();
    char time[32];

    time_format_utc(time_real_ns(), time);
    json_object_object_add(root, "n", json_object_new_uint64(audit->next));
    json_object_object_add(root, "time", json_object_new_string(time));
    json_object_object_add(root, "who", audit_text(record->who));
    json_object_object_add(root, "from", audit_text(record->from));
    json_object_object_add(root, "method", audit_text(record->method));
    json_object_object_add(root, "path", audit_text(record->path));
    json_object_object_add(root, "run", audit_text(record->run));
    json_object_object_add(root, "what", audit_text(record->what));
    json_object_object_add(root, "status",
                           record->status ? json_object_new_int((int)record->status) : NULL);
    json_object_object_add(root, "result",
                           json_object_new_string(record->refused         ? "refused"
                                                  : record->status >= 400 ? "failed"
                                                                          : "done"));
    json_object_object_add(root, "count", json_object_new_uint64(MAX(more, 1u)));
    return root;
}

static int audit_write(struct audit *audit, const struct audit_record *record, uint64_t more)
{
    CLEAN(buf_fini) struct buf line = { 0 };
    struct json_object *root;
    const char *text;
    ssize_t put;
    int result = audit_open(audit);

    if (result == 0)
        result = audit_rotate(audit);
    if (result < 0)
        return result;
    root = audit_json(audit, record, more);
    text = json_object_to_json_string_ext(root,
                                          JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    buf_put(&line, text, strlen(text));
    json_object_put(root);
    if (!line.failed)
        line.size = text_clean((char *)line.data, line.size, false);
    buf_put(&line, "\n", 1);
    if (line.failed)
        return -ENOMEM;
    put = write(audit->fd, line.data, line.size);
    if (put != (ssize_t)line.size) { /* a full disk: nothing of the record stays */
        result = put < 0 ? -errno : -ENOSPC;
        if (ftruncate(audit->fd, (off_t)audit->bytes) < 0)
            audit_close(audit);
        return result;
    }
    audit->bytes += line.size;
    audit->next++;
    audit->dirty = true;
    return 0;
}

/* A record that is lost leaves a gap in the numbers. */
static void audit_write_or_count(struct audit *audit, const struct audit_record *record,
                                 uint64_t more)
{
    int result = audit_write(audit, record, more);

    if (result == 0)
        return;
    audit->next++;
    if (audit->lost++ % LOST_EVERY == 0)
        log_error("%s/" AUDIT_FILE ": %s; %" PRIu64 " records of the audit trail are lost",
                  audit->state, strerror(-result), audit->lost);
}

/* ---- repetitions ---- */

static uint64_t audit_hash(const struct audit_record *record, bool read)
{
    uint64_t hash = hash64(record->status, record->from, strlen(record->from));

    hash = hash64(hash, record->who, strlen(record->who));
    if (record->who[0]) { /* whoever has no token may ask for any number of paths */
        hash = hash64(hash, record->run, strlen(record->run));
        if (!read)
            hash = hash64(hash, record->path, strlen(record->path));
    }
    return hash | 1;
}

static void audit_memo_end(struct audit *audit, struct audit_memo *memo)
{
    if (memo->key && memo->more && !memo->read)
        audit_write_or_count(audit, &memo->record, memo->more);
    memo->key = 0;
}

static void audit_put_once(struct audit *audit, const struct audit_record *record, bool read,
                           int64_t now_ns)
{
    uint64_t key = audit_hash(record, read);
    struct audit_memo *oldest = &audit->memo[0];

    for (size_t i = 0; i < COUNT(audit->memo); i++) {
        struct audit_memo *memo = &audit->memo[i];

        if (memo->key == key && memo->until_ns > now_ns) {
            memo->more++;
            return;
        }
        if (!memo->key || (oldest->key && memo->until_ns < oldest->until_ns))
            oldest = memo;
    }
    audit_memo_end(audit, oldest);
    *oldest = (struct audit_memo){ .key = key,
                                   .until_ns = now_ns + (read ? READ_NS : REPEAT_NS),
                                   .read = read,
                                   .record = *record };
    audit_write_or_count(audit, record, 0);
}

void audit_put(struct audit *audit, const struct audit_record *record, int64_t now_ns)
{
    if (record->refused)
        audit_put_once(audit, record, false, now_ns);
    else
        audit_write_or_count(audit, record, 0);
}

void audit_turn(struct audit *audit, int64_t now_ns)
{
    for (size_t i = 0; i < COUNT(audit->memo); i++) {
        if (audit->memo[i].key && audit->memo[i].until_ns <= now_ns)
            audit_memo_end(audit, &audit->memo[i]);
    }
    if (audit->dirty && audit->fd >= 0 && fdatasync(audit->fd) == 0)
        audit->dirty = false;
}

void audit_fini(struct audit *audit)
{
    for (size_t i = 0; i < COUNT(audit->memo); i++)
        audit_memo_end(audit, &audit->memo[i]);
    audit_close(audit);
}

/* ---- requests ---- */

static void audit_run_of(const struct http_exchange *exchange, char ret[static 64])
{
    const char *path = http_path(exchange), *run = http_query(exchange, "run");

    ret[0] = '\0';
    if (strncmp(path, RUNS_PATH, strlen(RUNS_PATH)) == 0)
        snprintf(ret, 64, "%.*s", (int)strcspn(path + strlen(RUNS_PATH), "/"),
                 path + strlen(RUNS_PATH));
    else if (run)
        snprintf(ret, 64, "%s", run);
}

static bool audit_is_refusal(unsigned status, bool changes)
{
    return status == 401 || status == 403 || status == 405 || status == 429 ||
           (status == 400 && !changes);
}

/* Agents send facts and ask for orders all the time; what they send is in the logs. */
static bool audit_is_traffic(const char *path)
{
    size_t size = strlen(path);

    return (size > 7 && strcmp(path + size - 7, "/frames") == 0) ||
           strcmp(path, "/api/v1/orders") == 0;
}

void audit_answered(struct audit *audit, const struct http_exchange *exchange, unsigned status,
                    int64_t now_ns)
{
    const char *method = http_method(exchange), *path = http_path(exchange);
    bool changes = strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0,
         login = strcmp(path, "/login") == 0 && status == 303;
    struct audit_record record = { .status = status, .refused = audit_is_refusal(status, changes) };

    if (!record.refused && (audit_is_traffic(path) || (status >= 400 && !changes) ||
                            (!changes && !login && !http_who(exchange)[0])))
        return;
    snprintf(record.who, sizeof(record.who), "%s", http_who(exchange));
    snprintf(record.what, sizeof(record.what), "%s",
             login ? "session of the page" : http_what(exchange));
    snprintf(record.method, sizeof(record.method), "%s", method);
    snprintf(record.path, sizeof(record.path), "%s", path);
    http_peer_text(exchange, record.from, sizeof(record.from));
    audit_run_of(exchange, record.run);
    if (record.refused || changes || login)
        audit_put(audit, &record, now_ns);
    else
        audit_put_once(audit, &record, true, now_ns);
}
