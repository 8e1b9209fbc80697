/* policy_file.h - the policy's table from a settings file (base/conf.h).
 *
 * The sections 'limits' and 'severity' are fixed; every other section is a row of the table.  What the file leaves out of
 * 'limits' is as in the default table, which is part of the program (dist/policy.yaml).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_TABLE_POLICY_FILE_H
#define LOCKSTEP_ACT_TABLE_POLICY_FILE_H

#include <stddef.h>

#include "base/conf.h"
#include "core/err.h"
#include "wire/policy_table.h"

extern const unsigned char policy_default[]; /* the text of the default table */
extern const size_t policy_default_size;

/* `path` NULL: the default table.  -EINVAL: "FILE:LINE:COLUMN: what is wrong"; -ENOENT, … */
int policy_file_read(const char *path, struct policy_table *ret, struct err *err);
/* Over the default table, which fills what the file does not set; `conf` NULL: that alone. */
int policy_file_take(const struct conf *conf, struct policy_table *ret, struct err *err);

#endif
