/* stack.h - what a rank that does not advance is doing, asked by a process of its own.
 *
 * A child reads everything (proc_look.h).  Only looking (kernel's wait channel and stack, Python) is done on
 * any stuck rank; holding a thread for its native stack only where asked for.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_PROC_STACK_H
#define LOCKSTEP_AGENT_PROC_STACK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/proc/proc.h"
#include "agent/proc/proc_look.h"
#include "wire/facts.h"

struct stack_ask {
    struct proc_ref proc;
    uint32_t rank, attempt;
    char state;  /* of the process, as last seen */
    bool native; /* also its native stack: it is held for a moment */
};

int stack_begin(const struct stack_ask *ask, int64_t now_ns, struct proc_look **ret); /* -errno */
/* 1 and *ret; 0: not yet; -ETIMEDOUT, -EIO: nothing came. */
int stack_poll(struct proc_look *look, int64_t now_ns, struct fact_stack *ret);

void stack_look(const struct stack_ask *ask, struct fact_stack *ret); /* what the child does */
/* /proc/PID/stack without addresses, innermost first: "[<0>] folio_wait_bit+0x1/0x2" → "folio_wait_bit". */
void stack_parse_kernel(const char *text, char *ret, size_t room);

#endif
