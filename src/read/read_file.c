/* read_file.c - reads a whole file through zlib, which passes plain files through.
 *
 * FIFOs, devices and sockets are refused before they are opened for reading: the directory of a dead job may contain
 * anything, and no file may block the reader.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "core/clean.h"

#define READ_FILE_FIRST ((size_t)64 << 10)

static void gz_clean(gzFile *file)
{
    if (*file)
        gzclose(*file);
}

static int read_file_grow(struct file_content *content)
{
    size_t want = content->room ? content->room + content->room / 2 : READ_FILE_FIRST;
    char *grown;

    if (!budget_take(content->budget, want - content->room))
        return -EFBIG;
    grown = realloc(content->data, want);
    if (!grown) {
        budget_give(content->budget, want - content->room);
        return -ENOMEM;
    }
    content->data = grown;
    content->room = want;
    return 0;
}

/* What the last growth took too much is for the file's values. */
static void read_file_fit(struct file_content *content)
{
    char *fitting = realloc(content->data, content->size + 1);

    if (!fitting)
        return;
    budget_give(content->budget, content->room - (content->size + 1));
    content->data = fitting;
    content->room = content->size + 1;
}

static int read_file_gz(gzFile file, struct file_content *content, struct err *err)
{
    for (;;) {
        int got, code;

        if (content->size + 1 >= content->room && read_file_grow(content) < 0)
            return budget_error(content->budget, err);
        got = gzread(file, content->data + content->size,
                     (unsigned)MIN(content->room - 1 - content->size, 1u << 30));
        if (got < 0) {
            const char *what = gzerror(file, &code);

            return err_set(err, code == Z_ERRNO ? -errno : -EPROTO,
                           "damaged gzip after %zu bytes: %s", content->size,
                           code == Z_ERRNO ? strerror(errno) : what);
        }
        if (got == 0)
            break;
        content->size += (size_t)got;
    }
    content->data[content->size] = '\0';
    read_file_fit(content);
    return 0;
}

static int read_file_fd(int fd, struct budget *budget, struct file_content *ret, struct err *err)
{
    CLEAN(read_file_fini) struct file_content content = { .budget = budget };
    CLEAN(gz_clean) gzFile file = NULL;
    struct stat stat;
    int result, code;

    if (fstat(fd, &stat) < 0)
        return err_set(err, -errno, "%m");
    if (!S_ISREG(stat.st_mode))
        return err_set(err, -EINVAL, "not a regular file");
    if (fcntl(fd, F_SETFL, 0) < 0)
        return err_set(err, -errno, "%m");
    fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    file = fd < 0 ? NULL : gzdopen(fd, "rb");
    if (!file) {
        if (fd >= 0)
            close(fd);
        return err_set(err, -ENOMEM, "cannot read it: out of memory or file descriptors");
    }
    result = read_file_gz(file, &content, err);
    if (result < 0)
        return result;
    gzerror(file, &code); /* a cut gzip reads as a short one, and says so only here */
    if (code == Z_BUF_ERROR)
        return err_set(err, -EPROTO, "gzip ends early, after %zu bytes", content.size);
    *ret = content;
    content = (struct file_content){ 0 };
    return 0;
}

int read_file(const char *path, struct budget *budget, struct file_content *ret, struct err *err)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int result = fd < 0 ? err_set(err, -errno, "%m") : read_file_fd(fd, budget, ret, err);

    return result < 0 ? err_wrap(err, result, "%s", path) : 0;
}

void read_file_fini(struct file_content *content)
{
    budget_free(content->budget, content->data, content->room, 1);
    *content = (struct file_content){ 0 };
}
