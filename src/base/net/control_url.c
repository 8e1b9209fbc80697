/* control_url.c - reads and writes control.url.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/net/control_url.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/net/address.h"
#include "base/paths.h"
#include "core/clean.h"

#define FILE_BYTES 512

int control_url_parse(const char *text, size_t size, struct control_url *ret, struct err *err)
{
    const char *end = memchr(text, '\n', size);
    size_t line = end ? (size_t)(end - text) : 0;
    struct control_url value = { .url = "" };
    struct address_url address;
    int result;

    if (!line || line >= sizeof(value.url) || memchr(text, '\0', line))
        return err_set(err, -EINVAL, "expected the address of a controller on the first line");
    memcpy(value.url, text, line);
    if (address_url_parse(value.url, &address) < 0)
        return err_set(err, -EINVAL, "expected the address of a controller on the first line");
    if (size > line + 1) {
        result = token_parse(end + 1, size - line - 1, &value.token, err);
        if (result < 0)
            return result;
    }
    *ret = value;
    return 0;
}

static int control_url_file_check(int fd, const struct control_url *value, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_set(err, -errno, "%m");
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return err_set(err, -EACCES, "owner is user %u, expected %u or root", st.st_uid, geteuid());
    if (value->token.text[0] && (st.st_mode & 077))
        return err_set(err, -EACCES, "mode %04o lets other users read its token",
                       st.st_mode & 07777);
    return 0;
}

int control_url_read(const char *directory, struct control_url *ret, struct err *err)
{
    CLEAN(fd_clean) int fd = -1;
    struct control_url value;
    char text[FILE_BYTES];
    struct path path;
    ssize_t size;
    int result = path_join(&path, directory, CONTROL_URL_FILE, err);

    if (result < 0)
        return result;
    fd = open(path.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    size = fd < 0 ? -1 : read(fd, text, sizeof(text));
    if (size < 0)
        return err_set(err, -errno, "%s: %m", path.text);
    result = control_url_parse(text, (size_t)size, &value, err);
    if (result == 0)
        result = control_url_file_check(fd, &value, err);
    if (result < 0)
        return err_wrap(err, result, "%s", path.text);
    *ret = value;
    return 0;
}

static int control_url_file_fill(int fd, const struct control_url *value)
{
    char text[FILE_BYTES];
    int size = snprintf(text, sizeof(text), "%s\n%s%s", value->url, value->token.text,
                        value->token.text[0] ? "\n" : "");

    if (fd < 0)
        return -errno;
    errno = 0;
    return write(fd, text, (size_t)size) == size ? 0 : -(errno ?: ENOSPC);
}

int control_url_write(const char *directory, const struct control_url *value, struct err *err)
{
    CLEAN(fd_clean) int fd = -1;
    char beside[PATH_MAX + 16];
    struct path path;
    int result = path_join(&path, directory, CONTROL_URL_FILE, err);

    if (result < 0)
        return result;
    snprintf(beside, sizeof(beside), "%s.new", path.text);
    unlink(beside); /* of a controller that was killed; the caller holds its lock */
    fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    result = control_url_file_fill(fd, value);
    if (result == 0 && rename(beside, path.text) < 0)
        result = -errno;
    if (result < 0)
        unlink(beside);
    return result < 0 ? err_set(err, result, "%s: %s", path.text, strerror(-result)) : 0;
}

void control_url_remove(const char *directory)
{
    struct path path;

    if (path_join(&path, directory, CONTROL_URL_FILE, NULL) == 0)
        unlink(path.text);
}
