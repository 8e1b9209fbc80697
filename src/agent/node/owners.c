/* owners.c - reports owners once each, at a bounded rate for each user.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/node/owners.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "core/time.h"

#define LOOK_NS (2 * NS_PER_S)
#define HOUR_NS (3600 * NS_PER_S)
#define USER_RUNS 64 /* in an hour; the controller keeps so many of a user */

struct owners {
    struct node_facts *facts;
    char node[FACT_NAME];
    struct map run;         /* hash of user and name → 1 */
    struct map count;       /* user → names that were reported in this hour */
    struct map before, now; /* pid → user, of the last two looks */
    int64_t hour_ns, look_ns;
};

int owners_create(struct node_facts *facts, const char *node, struct owners **ret)
{
    struct owners *owners = calloc(1, sizeof(*owners));

    if (!owners)
        return -ENOMEM;
    owners->facts = facts;
    snprintf(owners->node, sizeof(owners->node), "%s", node);
    *ret = owners;
    return 0;
}

void owners_destroy(struct owners *owners)
{
    if (!owners)
        return;
    map_fini(&owners->run);
    map_fini(&owners->count);
    map_fini(&owners->before);
    map_fini(&owners->now);
    free(owners);
}

static int owners_report(struct owners *owners, uid_t uid, const char *name, const char *value)
{
    struct environment_pair pair[2] = { { .name = NODE_OWNS_UID } };
    struct environment environment = {
        .mono_ns = time_mono_ns(), .real_ns = time_real_ns(), .count = 2, .pair = pair
    };

    snprintf(environment.node, sizeof(environment.node), "%s", owners->node);
    snprintf(pair[0].value, sizeof(pair[0].value), "%u", uid);
    snprintf(pair[1].name, sizeof(pair[1].name), "%s", name);
    snprintf(pair[1].value, sizeof(pair[1].value), "%s", value);
    return node_facts_environment(owners->facts, &environment, NULL);
}

/* What could not be written is reported when it is seen again. */
void owners_run(struct owners *owners, uid_t uid, const char *run, int64_t now_ns)
{
    uint64_t key = hash64(uid, run, strlen(run)), *count;

    if (now_ns - owners->hour_ns >= HOUR_NS) {
        owners->hour_ns = now_ns;
        map_fini(&owners->run);
        map_fini(&owners->count);
    }
    if (map_get(&owners->run, key))
        return;
    count = map_put(&owners->count, uid, 0);
    if (!count || *count >= USER_RUNS)
        return;
    if (owners_report(owners, uid, NODE_OWNS_RUN, run) == 0 && map_put(&owners->run, key, 1))
        ++*count;
}

static bool owners_find(const struct owners *owners, uint32_t pid, uid_t *ret)
{
    const uint64_t *uid;
    char path[32];
    struct stat st;

    snprintf(path, sizeof(path), "/proc/%" PRIu32, pid);
    if (stat(path, &st) == 0) {
        *ret = st.st_uid;
        return true;
    }
    uid = map_get(&owners->now, pid);
    if (!uid)
        uid = map_get(&owners->before, pid);
    if (uid)
        *ret = (uid_t)*uid;
    return uid;
}

void owners_process(struct owners *owners, uint32_t pid)
{
    char text[16];
    uid_t uid;

    snprintf(text, sizeof(text), "%" PRIu32, pid);
    if (pid && owners_find(owners, pid, &uid))
        owners_report(owners, uid, NODE_OWNS_PID, text);
}

size_t owners_processes(const struct owners *owners, uid_t uid, uint32_t *pid, size_t room)
{
    size_t count = 0;

    for (size_t i = 0; i < owners->now.size; i++) {
        const struct map_slot *slot = &owners->now.slot[i];

        if (!slot->used || slot->value != uid)
            continue;
        if (count < room)
            pid[count] = (uint32_t)slot->key;
        count++;
    }
    return count;
}

void owners_turn(struct owners *owners, int64_t now_ns)
{
    CLEAN(dir_clean) DIR *dir = NULL;

    if (now_ns - owners->look_ns < LOOK_NS)
        return;
    owners->look_ns = now_ns;
    dir = opendir("/proc");
    map_fini(&owners->before);
    owners->before = owners->now;
    owners->now = (struct map){ 0 };
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat st;

        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            !map_put(&owners->now, strtoul(entry->d_name, NULL, 10), st.st_uid))
            return; /* no memory: fewer are known */
    }
}
