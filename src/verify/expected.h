/* expected.h - should this node have what a sensor looks at?
 *
 * A sensor that finds nothing to read says nothing about the node.  Whether that is fine depends on the node: every one has a
 * kernel log, but not every one has GPUs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_EXPECTED_H
#define LOCKSTEP_VERIFY_EXPECTED_H

#include <stdbool.h>
#include <stddef.h>

struct machine_profile;

/* True, with the reason: what `sensor` looks at should be on this node.  False, with the reason: it has nothing of the kind, and
 * none is expected.  A name that is not in the table is expected.  `profile` may be NULL.
 */
bool expected_on_node(const char *sensor, const char *root, const struct machine_profile *profile,
                      char *why, size_t room);

/* GPUs of NVIDIA on the PCI bus. */
unsigned expected_gpus(const char *root);

#endif
