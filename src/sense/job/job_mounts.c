/* job_mounts.c - lines of mountinfo, maps and fdinfo.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sense/job/job_mounts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

/* "36 35 98:0 /root /mnt rw,noatime shared:1 - ext4 /dev/sda1 rw,errors=continue" */
bool job_mount_read(const char *line, struct job_mount *ret)
{
    const char *dash = memmem(line, strcspn(line, "\n"), " - ", 3);

    if (!dash ||
        sscanf(line, "%d %*d %u:%u %*s %255s", &ret->id, &ret->major, &ret->minor, ret->point) !=
            4 ||
        sscanf(dash, " - %23s %127s", ret->type, ret->source) != 2)
        return false;
    ret->options = dash + 3;
    for (int i = 0; i < 2; i++) {
        ret->options += strcspn(ret->options, " \n");
        ret->options += *ret->options == ' ';
    }
    return true;
}

static const char *mounts_next_line(const char *line)
{
    line += strcspn(line, "\n");
    return *line ? line + 1 : line;
}

static int mounts_by_id(const void *left, const void *right)
{
    const struct job_mounts_line *a = left, *b = right;

    return (a->id > b->id) - (a->id < b->id);
}

static int mounts_by_minor(const void *left, const void *right, void *user)
{
    const struct job_mounts *mounts = user;
    unsigned a = mounts->line[*(const uint16_t *)left].minor;
    unsigned b = mounts->line[*(const uint16_t *)right].minor;

    return (a > b) - (a < b);
}

/* "36 35 98:0 "; not by sscanf(), which measures the whole text that follows, at each line. */
static bool mounts_read_numbers(const char *line, struct job_mounts_line *one)
{
    char *end;

    one->id = (int)strtol(line, &end, 10);
    if (end == line || *end != ' ')
        return false;
    strtol(line = end, &end, 10);
    if (end == line || *end != ' ')
        return false;
    one->major = (unsigned)strtoul(line = end, &end, 10);
    if (end == line || *end != ':')
        return false;
    one->minor = (unsigned)strtoul(line = end + 1, &end, 10);
    return end != line;
}

void job_mounts_index(struct job_mounts *mounts, const char *mountinfo)
{
    mounts->text = mountinfo;
    mounts->count = mounts->minors = 0;
    mounts->cut = false;
    for (const char *line = mountinfo; *line; line = mounts_next_line(line)) {
        struct job_mounts_line *one = &mounts->line[mounts->count];

        if (mounts->count == JOB_MOUNTS_MAX) {
            mounts->cut = true;
            break;
        }
        if (!mounts_read_numbers(line, one))
            continue;
        one->at = (uint32_t)(line - mountinfo);
        mounts->count++;
    }
    qsort(mounts->line, mounts->count, sizeof(mounts->line[0]), mounts_by_id);
    for (size_t i = 0; i < mounts->count; i++) {
        if (!mounts->line[i].major)
            mounts->by_minor[mounts->minors++] = (uint16_t)i;
    }
    qsort_r(mounts->by_minor, mounts->minors, sizeof(mounts->by_minor[0]), mounts_by_minor, mounts);
}

static const struct job_mounts_line *mounts_of_minor(const struct job_mounts *mounts,
                                                     unsigned minor)
{
    size_t from = 0, to = mounts->minors;

    while (from < to) {
        size_t middle = (from + to) / 2;
        const struct job_mounts_line *line = &mounts->line[mounts->by_minor[middle]];

        if (line->minor == minor)
            return line;
        if (line->minor < minor)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

bool job_mounts_find(const struct job_mounts *mounts, int id, unsigned minor, struct job_mount *ret)
{
    struct job_mounts_line key = { .id = id };
    const struct job_mounts_line *line =
        id ? bsearch(&key, mounts->line, mounts->count, sizeof(key), mounts_by_id)
           : mounts_of_minor(mounts, minor);

    return line && job_mount_read(mounts->text + line->at, ret);
}

bool job_mounts_of_path(const char *mountinfo, const char *path, struct job_mount *ret)
{
    size_t best = 0;

    for (const char *line = mountinfo; *line; line = mounts_next_line(line)) {
        struct job_mount mount;
        size_t bytes;

        if (!job_mount_read(line, &mount))
            continue;
        bytes = strcmp(mount.point, "/") == 0 ? 0 : strlen(mount.point);
        if (bytes + 1 > best && strncmp(path, mount.point, bytes) == 0 && path[bytes] == '/') {
            best = bytes + 1;
            *ret = mount;
        }
    }
    return best > 0;
}

bool job_mount_upper(const struct job_mount *mount, char *out, size_t room)
{
    static const char word[] = "upperdir=";
    const char *at = memmem(mount->options, strcspn(mount->options, "\n"), word, sizeof(word) - 1);
    size_t bytes = at ? strcspn(at + sizeof(word) - 1, ", \n") : 0;

    if (!bytes || bytes >= room)
        return false;
    memcpy(out, at + sizeof(word) - 1, bytes);
    out[bytes] = '\0';
    return true;
}

bool job_mount_is_elsewhere(const char *type)
{
    static const char *const types[] = {
        "9p",       "afs",     "anon_inodefs", "beegfs",   "binfmt_misc", "bpf",        "ceph",
        "cgroup",   "cgroup2", "cifs",         "configfs", "debugfs",     "devpts",     "devtmpfs",
        "efivarfs", "gpfs",    "hugetlbfs",    "lustre",   "mqueue",      "nfs",        "nfs4",
        "nsfs",     "panfs",   "proc",         "pstore",   "ramfs",       "securityfs", "smb3",
        "sysfs",    "tmpfs",   "tracefs",      "virtiofs", "wekafs",
    };

    for (size_t i = 0; i < COUNT(types); i++) {
        if (strcmp(type, types[i]) == 0)
            return true;
    }
    return false;
}

/* "7f2c-7f2d r--p 00000000 103:02 1234  /data/tokens.bin": major and minor number are hexadecimal. */
bool job_map_read(const char *line, unsigned *major, unsigned *minor)
{
    unsigned long inode;

    return sscanf(line, "%*s %*s %*s %x:%x %lu", major, minor, &inode) == 3 && inode > 0;
}

int job_fdinfo_mount(const char *fdinfo)
{
    const char *at = strstr(fdinfo, "mnt_id:");
    long id = at ? strtol(at + 7, NULL, 10) : 0;

    return id > 0 && id < 1 << 30 ? (int)id : 0;
}
