/* inspection.h - one look at all that this node reports of itself, as health checks.
 *
 * Every sensor is opened anew and read for a few seconds; each that is on this node gives a check with the stage "inspect".
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

/* With kernel records of a test (place->kmsg) nothing else is read.  NULL: no memory. */
struct inspection *inspection_begin(const struct sense_place *place, int64_t now_ns);
void inspection_destroy(struct inspection *inspection); /* NULL is fine */
/* Reads what is due; does not block.  True: it is over. */
bool inspection_turn(struct inspection *inspection, int64_t now_ns);
/* Of the sensors that are on this node. */
size_t inspection_checks(const struct inspection *inspection);
void inspection_check(const struct inspection *inspection, size_t at, struct check *ret);

#endif
