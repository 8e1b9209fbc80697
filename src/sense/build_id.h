/* build_id.h - the build id of an ELF image that is mapped in a process.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SENSE_BUILD_ID_H
#define LOCKSTEP_SENSE_BUILD_ID_H

#include <stdint.h>

#define BUILD_ID_TEXT 41 /* 20 bytes as digits, and NUL */

/* `fd`: /proc/PID/mem; `base`: where the image begins.  At most 2 + BUILD_ID_NOTES reads.  "": it has none, or it cannot
 * be read.
 */
#define BUILD_ID_NOTES 8
void build_id_read(int fd, uint64_t base, char ret[static BUILD_ID_TEXT]);

#endif
