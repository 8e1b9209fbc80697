/* xid.h - the error numbers of the GPU driver: meaning, severity, suggested action.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_KERNEL_XID_H
#define LOCKSTEP_WIRE_KERNEL_XID_H

#include <stddef.h>
#include <stdint.h>

#define XID_MAX 172
#define XID_FALLEN_OFF 79
#define XID_RECOVERY_ACTION 154

struct xid {
    const char *what;
    uint8_t layer; /* enum verdict_layer; unknown: explains no failure of a job */
    uint8_t class, severity, action;
    uint8_t follows; /* in a burst the lowest is the root: 0 begins one, 45 follows all others */
};

const struct xid *xid_find(uint32_t code); /* NULL: no such number */

/* Numbers 144 to 150: `unit` is the name in the line, not ended with NUL.  NULL: the table does not know these bits. */
struct xid_link {
    const char *what; /* "link down", "bit error rate" … */
    uint8_t severity, action;
};
const struct xid_link *xid_link_decode(uint32_t code, const char *unit, size_t unit_bytes,
                                       uint32_t info, uint32_t status);

/* Number 154: the action that the hexadecimal number asks for.  Its words differ between drivers. */
struct xid_recovery {
    const char *what;
    uint8_t severity, action;
};
const struct xid_recovery *xid_recovery_find(uint32_t number); /* NULL: no such number */

#endif
