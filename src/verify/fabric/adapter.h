/* adapter.h - bytes over the network adapter that has an address of this machine.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_FABRIC_ADAPTER_H
#define LOCKSTEP_VERIFY_FABRIC_ADAPTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that it has sent or received so far; 0: not known, or the loopback, which has no link. */
uint64_t adapter_bytes(const char *address, bool sent);
/* From the text of /proc/net/dev.  0: there is no such adapter. */
uint64_t adapter_bytes_in(const char *text, const char *name, bool sent);

#endif
