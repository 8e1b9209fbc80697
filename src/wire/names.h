/* names.h - what phases and operations are called in sentences. */
#ifndef LOCKSTEP_WIRE_NAMES_H
#define LOCKSTEP_WIRE_NAMES_H

const char *name_of_phase(unsigned phase); /* "data"; "no phase" for 0 */
const char *name_of_op(unsigned op);       /* "all-reduce"; "operation" when unknown */

#endif
