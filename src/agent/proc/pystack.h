/* pystack.h - the Python stack of another process, read from outside.
 *
 * Nothing runs in that process and nothing is stopped: its memory is read (process_vm_readv), so this works while
 * the GIL is held, the process is stopped, or a thread never comes back from C.  CPython 3.9 to 3.12 by the layout
 * of each version, later ones by the table of offsets that they carry.  What is read may change meanwhile, and is
 * not trusted: every loop is bounded, every text checked.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_PROC_PYSTACK_H
#define LOCKSTEP_AGENT_PROC_PYSTACK_H

#include <stddef.h>
#include <stdint.h>

#include "agent/proc/proc.h"
#include "core/err.h"

/* "function (file:line)", innermost first, one a line, of the process's first thread.  Where another thread holds the
 * GIL and does not let go, that one's, the innermost with ", which holds the GIL", then the first's.  -ENOENT: there is no Python
 * in it; -EPERM: it may not be read; -EPROTO: its memory does not look as expected.
 */
int pystack_read(const struct proc_ref *proc, char *ret, size_t room, struct err *err);

/* ---- the parsers ---- */

/* The value of a symbol in a 64-bit ELF file, and the least address that it is linked for.  -ENOENT, -EPROTO. */
int elf_symbol(const unsigned char *data, size_t size, const char *name, uint64_t *ret_value,
               uint64_t *ret_base);
/* The line of the instruction at `offset` (bytes) by co_lnotab (3.9), co_linetable (3.10 and later); `first` when the
 * table does not say.
 */
int python_line(unsigned minor, const unsigned char *table, size_t size, int first,
                uint64_t offset);
/* "…/python3.11", "…/libpython3.9.so.1.0": 11, 9; 0: no Python. */
unsigned python_minor(const char *path);

#endif
