/* names.h - names of phases, operations and element types in messages.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_NAMES_H
#define LOCKSTEP_WIRE_NAMES_H

#include <stdbool.h>

const char *name_of_phase(unsigned phase); /* "data"; "no phase" for 0 */
const char *name_of_op(unsigned op);       /* "all-reduce"; "operation" when unknown */
const char *name_of_dtype(unsigned dtype); /* "bfloat16"; "another type" for one not known here */
/* Does a wait channel, or a line of a kernel stack, belong to a file system or a block device? */
bool name_is_storage_wait(const char *kernel);
/* Whether frames of a host, native or of Python, show that it waits for its device. */
bool name_is_device_wait(const char *stack);

#endif
