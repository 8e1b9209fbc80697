/* tree.c - reads small files; a file that would block is skipped.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sense/tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"

#define LIST_BYTES 4096 /* who has so much room expects a list */

/* One read of a list in /proc gives a page of it, whatever room there is.  What is short is read at once. */
static ssize_t tree_read_all(int fd, char *out, size_t room)
{
    ssize_t bytes = read(fd, out, room);
    size_t used = bytes > 0 ? (size_t)bytes : 0;

    while (room >= LIST_BYTES && bytes > 0 && used < room) {
        bytes = read(fd, out + used, room - used);
        used += bytes > 0 ? (size_t)bytes : 0;
    }
    return bytes < 0 && !used ? -1 : (ssize_t)used;
}

static int tree_read_path(const char *path, char *out, size_t room)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t bytes;

    out[0] = '\0';
    if (fd < 0)
        return -errno;
    bytes = tree_read_all(fd, out, room - 1);
    if (bytes < 0) {
        out[0] = '\0';
        return -errno;
    }
    while (bytes > 0 && isspace((unsigned char)out[bytes - 1]))
        bytes--;
    out[bytes] = '\0';
    return (int)bytes;
}

static int __attribute__((format(printf, 3, 0)))
tree_path(const struct tree *tree, char path[PATH_MAX], const char *format, va_list args)
{
    char name[PATH_MAX];

    vsnprintf(name, sizeof(name), format, args);
    return snprintf(path, PATH_MAX, "%s%s", tree->root, name) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int tree_read(const struct tree *tree, char *out, size_t room, const char *format, ...)
{
    char path[PATH_MAX];
    va_list args;
    int result;

    out[0] = '\0';
    va_start(args, format);
    result = tree_path(tree, path, format, args);
    va_end(args);
    return result < 0 ? result : tree_read_path(path, out, room);
}

bool tree_number(const struct tree *tree, int64_t *ret, const char *format, ...)
{
    char path[PATH_MAX], text[64], *end;
    va_list args;
    long long value;
    int result;

    va_start(args, format);
    result = tree_path(tree, path, format, args);
    va_end(args);
    if (result < 0 || tree_read_path(path, text, sizeof(text)) <= 0)
        return false;
    errno = 0;
    value = strtoll(text, &end, 10);
    if (end == text || errno)
        return false;
    *ret = value;
    return true;
}

bool tree_field(const char *text, const char *word, int64_t *ret)
{
    size_t bytes = strlen(word);

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, word, bytes) == 0 && (line[bytes] == ' ' || line[bytes] == '=')) {
            char *end;
            long long value = strtoll(line + bytes + 1, &end, 10);

            if (end == line + bytes + 1)
                return false;
            *ret = value;
            return true;
        }
    }
    return false;
}

static int tree_by_name(const struct dirent **left, const struct dirent **right)
{
    return strverscmp((*left)->d_name, (*right)->d_name);
}

static int tree_not_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int tree_list(const struct tree *tree, const char *folder, tree_each *each, void *user)
{
    struct dirent **list = NULL;
    char path[PATH_MAX];
    int count;

    if (snprintf(path, sizeof(path), "%s%s", tree->root, folder) >= PATH_MAX)
        return -ENAMETOOLONG;
    count = scandir(path, &list, tree_not_hidden, tree_by_name);
    if (count < 0)
        return -errno;
    for (int i = 0; i < count; i++) {
        each(user, list[i]->d_name);
        free(list[i]);
    }
    free(list);
    return count;
}

int tree_list_some(const struct tree *tree, const char *folder, unsigned most, tree_each *each,
                   void *user)
{
    CLEAN(dir_clean) DIR *dir = NULL;
    const struct dirent *entry;
    char path[PATH_MAX];
    unsigned count = 0;

    if (snprintf(path, sizeof(path), "%s%s", tree->root, folder) >= PATH_MAX)
        return -ENAMETOOLONG;
    dir = opendir(path);
    if (!dir)
        return -errno;
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        if (count == most)
            return -E2BIG;
        each(user, entry->d_name);
        count++;
    }
    return (int)count;
}

int64_t tree_counter_grown(struct tree_counter *counter, int64_t value)
{
    int64_t grown = !counter->known ? 0 : value >= counter->last ? value - counter->last : value;

    counter->known = true;
    counter->last = value;
    return grown;
}
