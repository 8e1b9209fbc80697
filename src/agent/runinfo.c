/* runinfo.c - run.json as the launcher wrote it. */
#include "agent/runinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/paths.h"
#include "core/clean.h"
#include "core/untrusted.h"

#define RUN_JSON_MAX (64 << 20) /* some bytes a rank */

static void json_clean(struct json_object **object)
{
    json_object_put(*object);
}

static struct json_object *member(struct json_object *top, const char *name, enum json_type type)
{
    struct json_object *value = NULL;

    if (!json_object_object_get_ex(top, name, &value) || !json_object_is_type(value, type))
        return NULL;
    return value;
}

static void text_get(struct json_object *top, const char *name, char *ret, size_t room)
{
    const char *text = json_object_get_string(member(top, name, json_type_string));

    snprintf(ret, room, "%s", text ? text : "");
}

static int64_t number_get(struct json_object *top, const char *name, int64_t max)
{
    int64_t value = json_object_get_int64(member(top, name, json_type_int));

    return value >= 0 && value <= max ? value : 0;
}

static int mine_get(struct json_object *node, struct runinfo *info)
{
    struct json_object *ranks = member(node, "ranks", json_type_array);
    size_t count = ranks ? json_object_array_length(ranks) : 0;

    info->mine = calloc(count + 1, sizeof(*info->mine));
    if (!info->mine)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        int64_t rank = json_object_get_int64(json_object_array_get_idx(ranks, i));

        if (rank >= 0 && rank <= UINT32_MAX)
            info->mine[info->mine_count++] = (uint32_t)rank;
    }
    return 0;
}

/* A run on one node, or one whose ranks are not known, has all its rings here. */
static int nodes_get(struct json_object *top, const char *name, struct runinfo *info)
{
    struct json_object *nodes = member(top, "nodes", json_type_array);
    size_t count = nodes ? json_object_array_length(nodes) : 0;

    info->all = count < 2 || info->ranks == 0;
    for (size_t i = 0; i < count && !info->all; i++) {
        struct json_object *node = json_object_array_get_idx(nodes, i);
        const char *is = json_object_get_string(member(node, "name", json_type_string));

        if (is && strcmp(is, name) == 0)
            return mine_get(node, info);
    }
    return info->all ? 0 : -ESRCH;
}

int runinfo_read(const char *run_dir, const char *node, struct runinfo *ret, struct err *err)
{
    CLEAN(json_clean) struct json_object *top = NULL;
    CLEAN(fd_clean) int fd = -1;
    struct runinfo info = { 0 };
    struct path path;
    struct stat st;
    int result = path_join(&path, run_dir, "run.json", err);

    if (result < 0)
        return result;
    fd = untrusted_open(AT_FDCWD, path.text, O_RDONLY, UNTRUSTED_ANY_OWNER, err);
    if (fd < 0)
        return TAKE_FD(fd);
    if (fstat(fd, &st) < 0 || st.st_size > RUN_JSON_MAX)
        return err_set(err, -EINVAL, "%s: larger than %d bytes", path.text, RUN_JSON_MAX);
    top = json_object_from_fd(fd);
    if (!top || !json_object_is_type(top, json_type_object))
        return err_set(err, -EINVAL, "%s: not the run.json of a run", path.text);
    text_get(top, "id", info.id, sizeof(info.id));
    text_get(top, "rings", info.rings, sizeof(info.rings));
    info.ranks = (uint32_t)number_get(top, "ranks", UINT32_MAX);
    info.pid = (int32_t)number_get(top, "pid", INT32_MAX);
    info.keeper = (int32_t)number_get(top, "keeper", INT32_MAX);
    result = nodes_get(top, node, &info);
    if (result == -ESRCH)
        return err_set(err, -EINVAL, "%s: the run has no node %s", path.text, node);
    if (result < 0)
        return err_set(err, result, "%s: %s", path.text, strerror(-result));
    *ret = info;
    return 0;
}

int runinfo_check_owner(const char *run_dir, struct err *err)
{
    struct stat st;

    if (geteuid() != 0 || stat(run_dir, &st) < 0 || st.st_uid == 0)
        return 0; /* one that is not there is somebody else's error */
    return err_set(err, -EPERM, "%s belongs to user %u; run this as that user", run_dir, st.st_uid);
}

void runinfo_fini(struct runinfo *info)
{
    free(info->mine);
    info->mine = NULL;
    info->mine_count = 0;
}

bool runinfo_is_mine(const struct runinfo *info, uint32_t rank)
{
    for (uint32_t i = 0; i < info->mine_count; i++) {
        if (info->mine[i] == rank)
            return true;
    }
    return info->all;
}
