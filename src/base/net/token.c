/* token.c - creates, stores and compares tokens.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/net/token.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clean.h"

#define TOKEN_PREFIX "lst_"
#define TOKEN_BYTES 32
#define FILE_BYTES 256

int token_make(struct token *ret, struct err *err)
{
    unsigned char byte[TOKEN_BYTES];
    size_t at = strlen(TOKEN_PREFIX);

    if (getrandom(byte, sizeof(byte), 0) != (ssize_t)sizeof(byte))
        return err_set(err, -EIO, "cannot read random bytes from the kernel: %m");
    strcpy(ret->text, TOKEN_PREFIX);
    for (size_t i = 0; i < sizeof(byte); i++, at += 2)
        snprintf(ret->text + at, 3, "%02x", byte[i]);
    return 0;
}

static bool token_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

int token_parse(const char *text, size_t size, struct token *ret, struct err *err)
{
    size_t prefix = strlen(TOKEN_PREFIX);

    while (size && token_is_blank(text[0])) {
        text++;
        size--;
    }
    while (size && token_is_blank(text[size - 1]))
        size--;
    if (size != TOKEN_SIZE || memcmp(text, TOKEN_PREFIX, prefix) != 0)
        return err_set(err, -EINVAL, "not a token: expected " TOKEN_PREFIX " and 64 hex digits");
    for (size_t i = prefix; i < TOKEN_SIZE; i++) {
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return err_set(err, -EINVAL, "not a token: character %zu is not a hex digit", i + 1);
    }
    memcpy(ret->text, text, TOKEN_SIZE);
    ret->text[TOKEN_SIZE] = '\0';
    return 0;
}

bool token_equal(const struct token *token, const struct token *other)
{
    unsigned different = !token->text[0];

    for (size_t i = 0; i < TOKEN_SIZE; i++)
        different |= (unsigned char)token->text[i] ^ (unsigned char)other->text[i];
    return different == 0;
}

static int token_file_check(int fd, const char *path, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %m", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "%s: not a regular file", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return err_set(err, -EACCES, "%s: owner is user %u, expected %u or root", path, st.st_uid,
                       geteuid());
    if (st.st_mode & 077)
        return err_set(err, -EACCES, "%s: mode %04o lets other users read it; run chmod 600", path,
                       st.st_mode & 07777);
    return 0;
}

int token_read(const char *path, struct token *ret, struct err *err)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char text[FILE_BYTES];
    ssize_t size;
    int result;

    if (fd < 0)
        return err_set(err, -errno, "%s: %m", path);
    result = token_file_check(fd, path, err);
    if (result < 0)
        return result;
    size = read(fd, text, sizeof(text));
    if (size < 0)
        return err_set(err, -errno, "%s: %m", path);
    result = token_parse(text, (size_t)size, ret, err);
    return result < 0 ? err_wrap(err, result, "%s", path) : 0;
}

static int token_write_line(int fd, const struct token *token, const char *path, struct err *err)
{
    char line[TOKEN_SIZE + 2];

    snprintf(line, sizeof(line), "%s\n", token->text);
    if (write(fd, line, TOKEN_SIZE + 1) != TOKEN_SIZE + 1 || fsync(fd) < 0)
        return err_set(err, errno ? -errno : -EIO, "%s: %m", path);
    return 0;
}

/* Beside it, then in its place: a reader sees no token or a whole one.  Other machines may do the same in this directory at the same
 * time, and have processes of the same number.
 */
static int token_put(const char *path, const struct token *token, bool replace, struct err *err)
{
    char beside[PATH_MAX];
    CLEAN(fd_clean) int fd = -1;
    int result;

    if (snprintf(beside, sizeof(beside), "%s.XXXXXX", path) >= (int)sizeof(beside))
        return err_set(err, -ENAMETOOLONG, "%s: too long", path);
    fd = mkostemp(beside, O_CLOEXEC); /* mode 0600 */
    if (fd < 0)
        return err_set(err, -errno, "%s: %m", beside);
    result = token_write_line(fd, token, beside, err);
    if (result == 0 && (replace ? rename(beside, path) : link(beside, path)) < 0)
        result = err_set(err, -errno, "%s: %m", path);
    if (result < 0 || !replace)
        unlink(beside);
    return result;
}

int token_read_or_make(const char *path, struct token *ret, struct err *err)
{
    struct token made;
    int result = token_read(path, ret, err);

    if (result != -ENOENT)
        return result;
    result = token_make(&made, err);
    if (result == 0)
        result = token_put(path, &made, false, err);
    if (result < 0 && result != -EEXIST)
        return result;
    return token_read(path, ret, err);
}

int token_write(const char *path, const struct token *token, struct err *err)
{
    return token_put(path, token, true, err);
}
