/* metadata_stats.c - sums the counters of single operations.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sense/job/metadata_stats.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"

#define COUNT_MAX (INT64_C(1) << 53)

static const char *stats_next_line(const char *line)
{
    line += strcspn(line, "\n");
    return *line ? line + 1 : line;
}

static bool stats_is_one_of(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, list[i]) == 0)
            return true;
    }
    return false;
}

static int64_t stats_add(int64_t sum, long long more)
{
    return more > 0 && more < COUNT_MAX ? MIN(sum + more, COUNT_MAX) : sum;
}

/* "	        GETATTR: ops transmissions timeouts sent received queue_ms rtt_ms execute_ms errors" */
static void stats_nfs_op(const char *line, struct metadata_stats *stats)
{
    static const char *const data[] = { "READ", "WRITE", "COMMIT", "READ_PLUS" };
    /* Of leases, sessions and layouts: the client's own. */
    static const char *const own[] = {
        "NULL",
        "RENEW",
        "SEQUENCE",
        "SETCLIENTID",
        "SETCLIENTID_CONFIRM",
        "EXCHANGE_ID",
        "CREATE_SESSION",
        "DESTROY_SESSION",
        "GET_LEASE_TIME",
        "BIND_CONN_TO_SESSION",
        "TEST_STATEID",
        "FREE_STATEID",
        "RECLAIM_COMPLETE",
        "GETDEVICEINFO",
        "LAYOUTGET",
        "LAYOUTCOMMIT",
        "LAYOUTRETURN",
        "LAYOUTSTATS",
        "DESTROY_CLIENTID",
        "SERVER_CAPS",
    };
    char name[32];
    long long ops, execute_ms;

    if (sscanf(line, " %31[A-Z_]: %lld %*d %*d %*d %*d %*d %*d %lld", name, &ops, &execute_ms) != 3)
        return;
    if (stats_is_one_of(name, own, COUNT(own)))
        return;
    if (stats_is_one_of(name, data, COUNT(data))) {
        stats->data = stats_add(stats->data, ops);
        return;
    }
    stats->ops = stats_add(stats->ops, ops);
    stats->ms = stats_add(stats->ms, execute_ms);
}

/* "device filer:/home mounted on /home with fstype nfs4 statvers=1.1" */
static bool stats_nfs_mount(const char *line, struct metadata_stats *ret)
{
    static const char on[] = " mounted on ", with[] = " with fstype nfs";
    const char *end = line + strcspn(line, "\n");
    const char *at = memmem(line, (size_t)(end - line), on, sizeof(on) - 1), *stop;

    if (strncmp(line, "device ", 7) != 0 || !at)
        return false;
    at += sizeof(on) - 1;
    stop = memmem(at, (size_t)(end - at), with, sizeof(with) - 1);
    if (!stop)
        return false;
    *ret = (struct metadata_stats){ .ops = 0 };
    snprintf(ret->name, sizeof(ret->name), "%.*s", (int)MIN(stop - at, METADATA_NAME - 1), at);
    return true;
}

void metadata_nfs_read(const char *text, metadata_each *each, void *user)
{
    struct metadata_stats stats;
    bool open = false, ops = false;

    for (const char *line = text; *line; line = stats_next_line(line)) {
        if (strncmp(line, "device ", 7) == 0) {
            if (open && ops)
                each(user, &stats);
            open = stats_nfs_mount(line, &stats);
            ops = false;
        } else if (open && ops) {
            stats_nfs_op(line, &stats);
        } else if (open) {
            ops = strncmp(line + strspn(line, " \t"), "per-op statistics", 17) == 0;
        }
    }
    if (open && ops)
        each(user, &stats);
}

/* "open 1234 samples [regs]", "getattr 5 samples [usec] 3 99 1200 ..." */
void metadata_lustre_read(const char *text, struct metadata_stats *ret)
{
    static const char *const data[] = { "read_bytes", "write_bytes" };
    static const char *const meta[] = {
        "open",       "close",    "getattr",     "setattr",   "lookup",
        "readdir",    "create",   "unlink",      "mkdir",     "rmdir",
        "rename",     "mknod",    "link",        "symlink",   "statfs",
        "getxattr",   "setxattr", "removexattr", "listxattr", "inode_permission",
        "alloc_inode"
    };

    ret->ops = ret->ms = ret->data = 0;
    for (const char *line = text; *line; line = stats_next_line(line)) {
        char name[32], unit[16];
        long long count, sum = 0;
        int fields =
            sscanf(line, "%31s %lld samples [%15[^]]] %*d %*d %lld", name, &count, unit, &sum);

        if (fields < 3)
            continue;
        if (stats_is_one_of(name, meta, COUNT(meta))) {
            ret->ops = stats_add(ret->ops, count);
            ret->ms =
                stats_add(ret->ms, fields == 4 && strncmp(unit, "usec", 4) == 0 ? sum / 1000 : 0);
        } else if (stats_is_one_of(name, data, COUNT(data))) {
            ret->data = stats_add(ret->data, count);
        }
    }
}
