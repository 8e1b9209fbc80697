/* relay_cursor.c - the cursor file: parsing, and replacing it as a whole.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/relay/relay_cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clean.h"

#define HEAD "lockstep-relay-cursor 1\n"
#define MARKS_MAX 2000000u
#define CURSOR_BYTES_MAX (256u << 20)

void relay_cursor_fini(struct relay_cursor *cursor)
{
    free(cursor->mark);
    *cursor = (struct relay_cursor){ 0 };
}

int relay_cursor_add(struct relay_cursor *cursor, const struct relay_mark *mark)
{
    if (!ARRAY_FIT(cursor->mark, cursor->room, cursor->count + 1))
        return -ENOMEM;
    cursor->mark[cursor->count++] = *mark;
    return 0;
}

static bool relay_mark_parse(const char *line, struct relay_mark *ret)
{
    struct relay_place *place = &ret->place;
    int used = 0;

    *ret = (struct relay_mark){ 0 };
    if (sscanf(line, "log %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNx64 " %79[^ \n]%n",
               &place->inode, &place->at, &place->event_at, &place->event_id, ret->name,
               &used) == 5)
        ret->kind = RELAY_LOG;
    else if (sscanf(line, "audit %" SCNu64 " %79[^ \n]%n", &place->number, ret->name, &used) == 2)
        ret->kind = RELAY_AUDIT;
    return ret->kind && used > 0 && line[used] == '\0';
}

static int relay_cursor_line(struct relay_cursor *cursor, const char *line, size_t number,
                             bool *ended, struct err *err)
{
    struct relay_mark mark;
    size_t lines;
    int used = 0;

    if (!*ended && sscanf(line, "end %zu%n", &lines, &used) == 1 && line[used] == '\0' &&
        lines == cursor->count) {
        *ended = true;
        return 0;
    }
    if (*ended || cursor->count >= MARKS_MAX || !relay_mark_parse(line, &mark))
        return err_set(err, -EINVAL, "line %zu: expected 'log', 'audit' or 'end'", number);
    return relay_cursor_add(cursor, &mark) < 0 ? err_nomem(err) : 0;
}

int relay_cursor_parse(const char *text, size_t size, struct relay_cursor *ret, struct err *err)
{
    CLEAN(relay_cursor_fini) struct relay_cursor cursor = { 0 };
    size_t number = 2;
    bool ended = false;

    if (size < strlen(HEAD) || memcmp(text, HEAD, strlen(HEAD)) != 0)
        return err_set(err, -EINVAL, "line 1: expected 'lockstep-relay-cursor 1'");
    for (const char *at = text + strlen(HEAD), *end = text + size; at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        char line[256] = "";
        int result;

        if (stop && stop - at < (ptrdiff_t)sizeof(line) && !memchr(at, '\0', (size_t)(stop - at)))
            memcpy(line, at, (size_t)(stop - at));
        result = relay_cursor_line(&cursor, line, number, &ended, err);
        if (result < 0)
            return result;
        at = stop + 1;
    }
    if (!ended)
        return err_set(err, -EINVAL, "line %zu: the file is not complete", number);
    *ret = cursor;
    cursor = (struct relay_cursor){ 0 };
    return 0;
}

void relay_cursor_print(const struct relay_cursor *cursor, struct buf *out)
{
    char line[256];

    buf_put(out, HEAD, strlen(HEAD));
    for (size_t i = 0; i < cursor->count; i++) {
        const struct relay_mark *mark = &cursor->mark[i];
        const struct relay_place *place = &mark->place;

        if (mark->kind == RELAY_LOG)
            snprintf(line, sizeof(line), "log %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIx64 " %s\n",
                     place->inode, place->at, place->event_at, place->event_id, mark->name);
        else
            snprintf(line, sizeof(line), "audit %" PRIu64 " %s\n", place->number, mark->name);
        buf_put(out, line, strlen(line));
    }
    snprintf(line, sizeof(line), "end %zu\n", cursor->count);
    buf_put(out, line, strlen(line));
}

const struct relay_mark *relay_cursor_find(const struct relay_cursor *cursor, const char *name)
{
    for (size_t i = 0; i < cursor->count; i++) {
        if (strcmp(cursor->mark[i].name, name) == 0)
            return &cursor->mark[i];
    }
    return NULL;
}

int relay_cursor_read(const char *path, struct relay_cursor *ret, struct err *err)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    CLEAN(free_clean) char *text = NULL;
    struct stat st;
    ssize_t got;
    int result;

    if (fd < 0)
        return errno == ENOENT ? -ENOENT : err_set(err, -errno, "%s: %m", path);
    if (fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %m", path);
    if (!S_ISREG(st.st_mode) || st.st_size > CURSOR_BYTES_MAX)
        return err_set(err, -EINVAL, "%s: not a cursor file", path);
    text = malloc((size_t)st.st_size + 1);
    if (!text)
        return err_nomem(err);
    got = read(fd, text, (size_t)st.st_size);
    if (got < 0)
        return err_set(err, -errno, "%s: %m", path);
    result = relay_cursor_parse(text, (size_t)got, ret, err);
    return result < 0 ? err_wrap(err, result, "%s", path) : 0;
}

static int relay_sync_directory(const char *path)
{
    CLEAN(fd_clean) int fd = -1;
    struct path directory;
    char *slash;

    snprintf(directory.text, sizeof(directory.text), "%s", path);
    slash = strrchr(directory.text, '/');
    if (slash)
        *slash = '\0';
    fd = open(slash ? directory.text : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

int relay_cursor_write(const char *path, const struct relay_cursor *cursor, struct err *err)
{
    CLEAN(buf_fini) struct buf text = { 0 };
    CLEAN(fd_clean) int fd = -1;
    struct path next;

    if (snprintf(next.text, sizeof(next.text), "%s.new", path) >= (int)sizeof(next.text))
        return err_set(err, -ENAMETOOLONG, "%s: name too long", path);
    relay_cursor_print(cursor, &text);
    if (text.failed)
        return err_nomem(err);
    fd = open(next.text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || write(fd, text.data, text.size) != (ssize_t)text.size || fsync(fd) < 0)
        return err_set(err, errno ? -errno : -ENOSPC, "%s: %m", next.text);
    if (rename(next.text, path) < 0 || relay_sync_directory(path) < 0)
        return err_set(err, -errno, "%s: %m", path);
    return 0;
}
