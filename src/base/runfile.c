/* runfile.c - run.json, written and read, and the lock beside it.
 *
 * The lock is one of the open file description (F_OFD_SETLK): the keeper inherits it, so it is free
 * only when launcher and keeper are both gone; and it can be looked at without being taken.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/runfile.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/json_member.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/time.h"
#include "core/untrusted.h"

#define RUNFILE_BYTES_MAX (64 << 20) /* some bytes a rank */

/* ---- writing ---- */

static struct json_object *runfile_utc_json(int64_t real_ns)
{
    char text[32];

    time_format_utc(real_ns, text);
    return json_object_new_string(text);
}

static struct json_object *runfile_nodes_json(const struct layout *layout)
{
    struct json_object *nodes = json_object_new_array();

    for (uint32_t i = 0; i < layout->nodes; i++) {
        struct json_object *node = json_object_new_object(), *ranks = json_object_new_array();
        char name[64];

        layout_name(layout, i, name);
        for (uint32_t n = 0; n < layout_count(layout, i); n++)
            json_object_array_add(ranks, json_object_new_int64(layout_first(layout, i) + n));
        json_object_object_add(node, "name", json_object_new_string(name));
        json_object_object_add(node, "ranks", ranks);
        json_object_array_add(nodes, node);
    }
    return nodes;
}

static struct json_object *runfile_command_json(char *const *command)
{
    struct json_object *list = json_object_new_array();

    for (; command && *command; command++)
        json_object_array_add(list, json_object_new_string(*command));
    return list;
}

static struct json_object *runfile_json(const struct runfile *file)
{
    struct json_object *top = json_object_new_object();

    json_object_object_add(top, "id", json_object_new_string(file->id));
    json_object_object_add(top, "command", runfile_command_json(file->command));
    json_object_object_add(top, "ranks", json_object_new_int64(file->layout.ranks));
    json_object_object_add(top, "host", json_object_new_string(file->layout.host));
    json_object_object_add(top, "nodes", runfile_nodes_json(&file->layout));
    json_object_object_add(top, "rings", json_object_new_string(file->rings));
    json_object_object_add(top, "pid", json_object_new_int(file->pid));
    json_object_object_add(top, "keeper", json_object_new_int(file->keeper));
    json_object_object_add(top, "started", runfile_utc_json(file->started_real_ns));
    json_object_object_add(top, "attempt", json_object_new_int64(file->attempt));
    json_object_object_add(top, "restarts", json_object_new_int64(file->restarts));
    json_object_object_add(top, "max_restarts", json_object_new_int64(file->max_restarts));
    json_object_object_add(top, "drill", json_object_new_boolean(file->drill));
    json_object_object_add(top, "ended",
                           file->ended ? runfile_utc_json(file->ended_real_ns) : NULL);
    json_object_object_add(top, "exit", file->ended ? json_object_new_int(file->exit) : NULL);
    return top;
}

static int runfile_file_write(const char *path, const char *text)
{
    CLEAN(fd_clean)
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    size_t size = strlen(text);

    if (fd < 0)
        return -errno;
    for (size_t at = 0; at < size;) {
        ssize_t put = write(fd, text + at, size - at);

        if (put < 0 && errno != EINTR)
            return -errno;
        at += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

int runfile_write(const char *directory, const struct runfile *file, struct err *err)
{
    CLEAN(json_clean) struct json_object *top = runfile_json(file);
    struct path path, beside;
    const char *text;
    int r;

    r = path_join(&path, directory, "run.json", err);
    if (r == 0)
        r = path_join(&beside, directory, "run.json.new", err);
    if (r < 0)
        return r;
    text = json_object_to_json_string_ext(top,
                                          JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
    r = text ? runfile_file_write(beside.text, text) : -ENOMEM;
    if (r == 0 && rename(beside.text, path.text) < 0)
        r = -errno;
    if (r < 0) {
        unlink(beside.text);
        return err_set(err, r, "%s: %s", path.text, strerror(-r));
    }
    return 0;
}

/* ---- reading ---- */

static int64_t runfile_utc_parse(const char *text)
{
    struct tm tm = { 0 };
    const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    int ms = 0;

    if (!rest)
        return 0;
    if (sscanf(rest, ".%3dZ", &ms) != 1)
        ms = 0;
    return (int64_t)timegm(&tm) * NS_PER_S + ms * NS_PER_MS;
}

/* 0 when it is not there, or beyond what the field holds. */
static int64_t runfile_number(struct json_object *top, const char *name, int64_t max)
{
    int64_t value = json_object_get_int64(json_member(top, name, json_type_int));

    return value >= 0 && value <= max ? value : 0;
}

static void runfile_text_get(struct json_object *top, const char *name, char *ret, size_t room)
{
    const char *text = json_object_get_string(json_member(top, name, json_type_string));

    snprintf(ret, room, "%s", text ? text : "");
}

static int runfile_command_get(struct json_object *list, char ***ret)
{
    size_t count = list ? json_object_array_length(list) : 0;
    char **command = calloc(count + 1, sizeof(*command));

    if (!command)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const char *word = json_object_get_string(json_object_array_get_idx(list, i));

        command[i] = strdup(word ? word : "");
        if (!command[i])
            break; /* the rest is not shown */
    }
    *ret = command;
    return 0;
}

static int runfile_parse(struct json_object *top, struct runfile *ret)
{
    struct json_object *nodes = json_member(top, "nodes", json_type_array);
    struct runfile file = { 0 };

    runfile_text_get(top, "id", file.id, sizeof(file.id));
    runfile_text_get(top, "rings", file.rings, sizeof(file.rings));
    runfile_text_get(top, "host", file.layout.host, sizeof(file.layout.host));
    file.layout.ranks = (uint32_t)runfile_number(top, "ranks", UINT32_MAX);
    file.layout.nodes = nodes ? (uint32_t)json_object_array_length(nodes) : 0;
    file.attempt = (uint32_t)runfile_number(top, "attempt", UINT32_MAX);
    file.restarts = (uint32_t)runfile_number(top, "restarts", UINT32_MAX);
    file.max_restarts = (uint32_t)runfile_number(top, "max_restarts", UINT32_MAX);
    file.pid = (int32_t)runfile_number(top, "pid", INT32_MAX);
    file.keeper = (int32_t)runfile_number(top, "keeper", INT32_MAX);
    file.started_real_ns =
        runfile_utc_parse(json_object_get_string(json_member(top, "started", json_type_string)));
    file.ended_real_ns =
        runfile_utc_parse(json_object_get_string(json_member(top, "ended", json_type_string)));
    file.drill = json_object_get_boolean(json_member(top, "drill", json_type_boolean));
    file.ended = json_member(top, "ended", json_type_string) != NULL;
    file.exit = (int32_t)runfile_number(top, "exit", 255);
    if (runfile_command_get(json_member(top, "command", json_type_array), &file.command) < 0)
        return -ENOMEM;
    *ret = file;
    return 0;
}

/* Opens no link and no pipe: an agent may read a directory that is not its own user's. */
static int runfile_json_read(const char *directory, struct path *path, struct json_object **ret,
                             struct err *err)
{
    struct json_object *top;
    CLEAN(fd_clean) int fd = -1;
    struct stat st;
    int r = path_join(path, directory, "run.json", err);

    if (r < 0)
        return r;
    fd = untrusted_open(AT_FDCWD, path->text, O_RDONLY, UNTRUSTED_ANY_OWNER, err);
    if (fd < 0)
        return fd == -EPROTO ? -EINVAL : TAKE_FD(fd);
    if (fstat(fd, &st) < 0 || st.st_size > RUNFILE_BYTES_MAX)
        return err_set(err, -EINVAL, "%s: larger than %d bytes", path->text, RUNFILE_BYTES_MAX);
    top = json_object_from_fd(fd);
    if (!top || !json_object_is_type(top, json_type_object)) {
        json_object_put(top);
        return err_set(err, -EINVAL, "%s: not the run.json of a run", path->text);
    }
    *ret = top;
    return 0;
}

int runfile_read(const char *directory, struct runfile *ret, struct err *err)
{
    CLEAN(json_clean) struct json_object *top = NULL;
    CLEAN(runfile_fini) struct runfile file = { 0 };
    struct path path;
    int r = runfile_json_read(directory, &path, &top, err);

    if (r < 0)
        return r;
    if (runfile_parse(top, &file) < 0)
        return err_nomem(err);
    if (!file.id[0] || !file.layout.nodes)
        return err_set(err, -EINVAL, "%s: not the run.json of a run", path.text);
    if (file.layout.ranks > LAYOUT_RANKS_MAX)
        file.layout.ranks = 0;
    *ret = file;
    file.command = NULL;
    return 0;
}

static int runfile_node_ranks_get(struct json_object *node, struct runfile_ranks *ret)
{
    struct json_object *ranks = json_member(node, "ranks", json_type_array);
    size_t count = ranks ? json_object_array_length(ranks) : 0;

    ret->rank = calloc(count + 1, sizeof(*ret->rank));
    if (!ret->rank)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        int64_t rank = json_object_get_int64(json_object_array_get_idx(ranks, i));

        if (rank >= 0 && rank <= UINT32_MAX)
            ret->rank[ret->count++] = (uint32_t)rank;
    }
    return 0;
}

/* A run on one node, or one whose ranks are not known, has all its rings here.  -ESRCH: no such node. */
static int runfile_node_get(struct json_object *top, const char *name, const struct layout *layout,
                            struct runfile_ranks *ret)
{
    struct json_object *nodes = json_member(top, "nodes", json_type_array);

    ret->all = layout->nodes < 2 || layout->ranks == 0;
    for (size_t i = 0; i < layout->nodes && !ret->all; i++) {
        struct json_object *node = json_object_array_get_idx(nodes, i);
        const char *is = json_object_get_string(json_member(node, "name", json_type_string));

        if (is && strcmp(is, name) == 0)
            return runfile_node_ranks_get(node, ret);
    }
    return ret->all ? 0 : -ESRCH;
}

int runfile_read_node(const char *directory, const char *node, struct runfile *ret,
                      struct runfile_ranks *ret_ranks, struct err *err)
{
    CLEAN(json_clean) struct json_object *top = NULL;
    CLEAN(runfile_fini) struct runfile file = { 0 };
    struct runfile_ranks ranks = { 0 };
    struct path path;
    int r = runfile_json_read(directory, &path, &top, err);

    if (r < 0)
        return r;
    r = runfile_parse(top, &file);
    if (r == 0)
        r = runfile_node_get(top, node, &file.layout, &ranks);
    if (r == -ESRCH)
        return err_set(err, -EINVAL, "%s: the run has no node %s", path.text, node);
    if (r < 0)
        return err_nomem(err);
    *ret = file;
    file.command = NULL;
    *ret_ranks = ranks;
    return 0;
}

void runfile_fini(struct runfile *file)
{
    for (char **word = file->command; word && *word; word++)
        free(*word);
    free(file->command);
    file->command = NULL;
}

/* ---- the lock ---- */

static int runfile_lock_open(const char *directory, int flags, struct err *err)
{
    struct path path;
    int r = path_join(&path, directory, "lock", err), fd;

    if (r < 0)
        return r;
    fd = open(path.text, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? err_set(err, -errno, "%s: %m", path.text) : fd;
}

int runfile_lives(const char *directory, struct err *err)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    CLEAN(fd_clean) int fd = runfile_lock_open(directory, O_RDONLY, err);

    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    if (fcntl(fd, F_OFD_GETLK, &lock) < 0)
        return err_set(err, -errno, "%s/lock: %m", directory);
    return lock.l_type != F_UNLCK;
}

int runfile_lock(const char *directory, struct err *err)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    CLEAN(fd_clean) int fd = runfile_lock_open(directory, O_RDWR | O_CREAT, err);

    if (fd < 0)
        return fd;
    if (fcntl(fd, F_OFD_SETLK, &lock) < 0)
        return err_set(err, errno == EAGAIN || errno == EACCES ? -EBUSY : -errno, "%s/lock: %m",
                       directory);
    return TAKE_FD(fd);
}
