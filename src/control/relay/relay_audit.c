/* relay_audit.c - records of an audit trail, by their numbers.
 *
 * The trail has two files.  One that is read may be renamed meanwhile: it is read to its end, then the newest one is opened.
 * Numbers that are missing were overwritten, and this is an event of its own.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/http/audit.h"
#include "control/relay/relay_source.h"
#include "core/clean.h"

#define READ_BYTES 65536
#define LINE_BYTES_MAX 65536 /* longer ones are none of ours */

void relay_audit_close(struct relay_source *source)
{
    fd_clean(&source->fd);
    source->fd = -1;
    buf_fini(&source->rest);
    source->rest = (struct buf){ 0 };
}

static int relay_audit_file(struct relay_source *source, const char *name, struct err *err)
{
    struct path path;
    struct stat st;
    int result = path_join(&path, source->directory.text, name, err);

    if (result < 0)
        return result;
    source->fd = open(path.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (source->fd < 0)
        return errno == ENOENT ? -ENOENT : err_set(err, -errno, "%s: %m", path.text);
    if (fstat(source->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        relay_audit_close(source);
        return err_set(err, -EPROTO, "%s: not a regular file", path.text);
    }
    source->fd_inode = (uint64_t)st.st_ino;
    return 0;
}

/* The older file first, in case that it has records which were not delivered. */
static int relay_audit_open(struct relay_source *source, struct err *err)
{
    int result = -ENOENT;

    source->fd_old = !source->found;
    if (source->fd_old)
        result = relay_audit_file(source, AUDIT_OLD_FILE, err);
    source->found = true;
    if (result == -ENOENT) {
        source->fd_old = false;
        result = relay_audit_file(source, AUDIT_FILE, err);
    }
    return result;
}

/* 1: the next line is at the front of `rest`; 0: there is none yet. */
static int relay_audit_line(struct relay_source *source, size_t *size, struct err *err)
{
    for (;;) {
        const char *end =
            source->rest.size ? memchr(source->rest.data, '\n', source->rest.size) : NULL;
        char bytes[READ_BYTES];
        ssize_t got;

        if (end) {
            *size = (size_t)(end - (const char *)source->rest.data);
            return 1;
        }
        if (source->rest.size > LINE_BYTES_MAX)
            buf_drop_front(&source->rest, source->rest.size);
        got = read(source->fd, bytes, sizeof(bytes));
        if (got < 0)
            return err_set(err, -errno, "%s/" AUDIT_FILE ": %m", source->directory.text);
        if (got == 0)
            return 0;
        buf_put(&source->rest, bytes, (size_t)got);
        if (source->rest.failed)
            return err_nomem(err);
    }
}

/* The file that was read is not the newest any more, and has no more lines. */
static bool relay_audit_switch(struct relay_source *source)
{
    struct path path;
    struct stat st;

    if (!source->fd_old && (path_join(&path, source->directory.text, AUDIT_FILE, NULL) < 0 ||
                            stat(path.text, &st) < 0 || (uint64_t)st.st_ino == source->fd_inode))
        return false;
    relay_audit_close(source);
    return true;
}

/* 1: an event; 0: a record that was delivered already, or none at all. */
static int relay_audit_take(struct relay_source *source, size_t size, struct relay_event *ret)
{
    uint64_t number, last = source->now.number;
    int result =
        relay_event_of_audit((const char *)source->rest.data, size, source->run, ret, &number);

    if (result < 0 || number <= last) {
        relay_event_fini(ret);
        buf_drop_front(&source->rest, size + 1);
        return 0;
    }
    if (last && number > last + 1) { /* the record itself comes next time */
        relay_event_fini(ret);
        relay_event_gap(last, number - last - 1, source->run, ret);
        source->now.number = number - 1;
        return 1;
    }
    buf_drop_front(&source->rest, size + 1);
    source->now.number = number;
    return 1;
}

int relay_audit_next(struct relay_source *source, size_t *left, struct relay_event *ret,
                     struct err *err)
{
    size_t size = 0;
    int result = 0;

    do {
        if (source->fd < 0)
            result = relay_audit_open(source, err);
        if (result < 0)
            return result == -ENOENT ? 0 : result;
        while (*left && (result = relay_audit_line(source, &size, err)) == 1) {
            --*left;
            *ret = (struct relay_event){ 0 };
            if (relay_audit_take(source, size, ret) == 1)
                return 1;
        }
        if (result < 0 || !*left)
            return result < 0 ? result : 0;
    } while (relay_audit_switch(source));
    return 0;
}
