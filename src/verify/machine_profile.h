/* machine_profile.h - what a site expects of one type of machine, learnt on nodes that are known to be good.
 *
 * A JSON file with facts (counts, widths, versions: texts that must be equal), measured values (a number from each node
 * that was learnt from), and for people a summary of the values: median, spread, the lowest that is ok.  docs/state-directory.md describes it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_MACHINE_PROFILE_H
#define LOCKSTEP_VERIFY_MACHINE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"

#define PROFILE_NAME 64
#define PROFILE_TEXT 128

struct machine_profile;

int machine_profile_create(const char *machine, struct machine_profile **ret); /* empty; -ENOMEM */
/* -EINVAL with what and where: no profile, or another version of it. */
int machine_profile_parse(const char *text, size_t size, struct machine_profile **ret,
                          struct err *err);
int machine_profile_read(const char *path, struct machine_profile **ret,
                         struct err *err); /* -ENOENT */
/* The old file stays whole until the new one is on disk. */
int machine_profile_save(const struct machine_profile *profile, const char *path, struct err *err);
void machine_profile_destroy(struct machine_profile *profile); /* NULL is fine */

const char *machine_profile_machine(const struct machine_profile *profile); /* its type */
const char *machine_profile_fact(const struct machine_profile *profile,
                                 const char *name); /* NULL: not learnt */
size_t machine_profile_facts(const struct machine_profile *profile);
const char *machine_profile_fact_at(const struct machine_profile *profile, size_t at,
                                    const char **value);

struct machine_profile_range {
    unsigned samples;
    double median;
    double spread; /* as a standard deviation */
    double low;    /* less is not as it should be ... */
    double high;   /* ... and more of a latency */
};

/* false: no value of this name was learnt. */
bool machine_profile_range(const struct machine_profile *profile, const char *name,
                           struct machine_profile_range *ret);

int machine_profile_learn_fact(struct machine_profile *profile, const char *name,
                               const char *value); /* -ENOMEM */
int machine_profile_learn_value(struct machine_profile *profile, const char *name,
                                double value); /* -ENOMEM */

#endif
