/* job_mounts.h - which device a file of a process lies on: reads mountinfo, maps and fdinfo of /proc.
 *
 * Texts in, answers out; nothing is opened.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SENSE_JOB_MOUNTS_H
#define LOCKSTEP_SENSE_JOB_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct job_mount { /* a line of mountinfo */
    int id;
    unsigned major, minor; /* major 0: no block device */
    char point[256], type[24], source[128];
    const char *options; /* of the file system, in the text; end with the line */
};

/* One line; false: it is none. */
bool job_mount_read(const char *line, struct job_mount *ret);

/* Where the lines of one mountinfo are, by id and by device: a process may have thousands of files and of mounts. */
#define JOB_MOUNTS_MAX 4096
struct job_mounts {
    const char *text; /* outlives it */
    size_t count;
    bool cut; /* there are more */
    struct job_mounts_line {
        int id;
        unsigned major, minor;
        uint32_t at;
    } line[JOB_MOUNTS_MAX]; /* sorted by id ... */
    uint16_t by_minor[JOB_MOUNTS_MAX],
        minors; /* ... and those without a disk by their minor number */
};
void job_mounts_index(struct job_mounts *mounts, const char *mountinfo);
/* The mount with this id, or with id 0 the one whose device has major number 0 and this minor number. */
bool job_mounts_find(const struct job_mounts *mounts, int id, unsigned minor,
                     struct job_mount *ret);
/* The mount that a path lies in. */
bool job_mounts_of_path(const char *mountinfo, const char *path, struct job_mount *ret);
/* The upper directory of an overlay; false: it has none. */
bool job_mount_upper(const struct job_mount *mount, char *out, size_t room);
/* Whether such a file system lies on no disk of this node. */
bool job_mount_is_elsewhere(const char *type);

/* The device of a line of maps; false: it maps no file. */
bool job_map_read(const char *line, unsigned *major, unsigned *minor);
int job_fdinfo_mount(const char *fdinfo); /* the id of its mount; 0: not known */

#endif
