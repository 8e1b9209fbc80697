/* inspection.h - one look at all that this node reports of itself, as health checks.
 *
 * Every sensor is opened again and read for a few seconds; each that is on this node gives a check with the stage "inspect".
 * It reads, and changes nothing.  What a program wrote, or did, says nothing about the node.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_INSPECTION_H
#define LOCKSTEP_VERIFY_INSPECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sense/sensor.h"
#include "wire/finding.h"

struct inspection;
struct machine_profile;

/* With kernel records of a test (place->kmsg) nothing else is read.  NULL: no memory. */
struct inspection *inspection_begin(const struct sense_place *place, int64_t now_ns);
void inspection_destroy(struct inspection *inspection); /* NULL is fine */
/* Reads what is due; does not block.  True: it is over. */
bool inspection_turn(struct inspection *inspection, int64_t now_ns);
/* What this type of machine has: a sensor of such a part that finds nothing is unknown.  NULL: not known, as before the call. */
void inspection_expect(struct inspection *inspection, const struct machine_profile *profile);

/* Of the sensors that read something, or should (expected.h). */
size_t inspection_checks(const struct inspection *inspection);
void inspection_check(const struct inspection *inspection, size_t at, struct check *ret);

/* The sensors of what this node does not have, and should not: how many, and the name of each with the reason. */
size_t inspection_absent(const struct inspection *inspection);
const char *inspection_absent_name(const struct inspection *inspection, size_t at, char *why,
                                   size_t room);

#endif
