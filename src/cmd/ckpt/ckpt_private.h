/* ckpt_private.h - what the subcommands of `lockstep ckpt` share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_CKPT_CKPT_PRIVATE_H
#define LOCKSTEP_CMD_CKPT_CKPT_PRIVATE_H

#include <json-c/json.h>
#include <stdbool.h>

#include "base/opt.h"
#include "ckpt/seal/sealed_points.h"
#include "ckpt/store/point.h"

/* Options, one directory, and options again; returns a descriptor of the directory, or the exit status as -1 - status. */
int ckpt_parse(const struct command *command, int argc, char **argv, void *options,
               const char **ret_path);

/* Points of both kinds, newest first. */
struct all_points {
    struct points own;
    struct sealed_points sealed;
    size_t own_at, sealed_at;
};

int ckpt_all_read(int dir_fd, enum points_depth depth, struct all_points *ret, struct err *err);
void ckpt_all_fini(struct all_points *all); /* also after a failure */
/* Sets one of both; false: that was the last one. */
bool ckpt_all_next(struct all_points *all, struct point **own, const struct sealed_point **sealed);
/* Not committed, or of another user: a line says so. */
bool ckpt_point_ignored(const struct point *point);
struct json_object *ckpt_step_json(const struct point *point); /* with the step in it */
void ckpt_points_print(struct json_object *list);              /* as {"points": ...}; releases it */
/* The newest point that was read back, else the newest that is committed; `step` UINT64_MAX: of any step.  -ENODATA. */
int ckpt_point_choose(int dir_fd, uint64_t step, struct point *ret, struct err *err);
void ckpt_priority_lower(void); /* of this process, for work beside a job */
const char *sealed_label(const struct sealed_point *point, char *out, size_t room);
struct json_object *sealed_json(const struct sealed_point *point);

/* One sealed checkpoint as an object of `points`; prints a line unless `json`.  Returns whether it is right. */
bool sealed_verify(const struct sealed_point *point, bool json, struct json_object *list);
void sealed_ls(const struct sealed_point *point, bool json, struct json_object *list);

#endif
