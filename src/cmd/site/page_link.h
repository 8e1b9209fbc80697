/* page_link.h - a one-time link to the page of a running controller.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_PAGE_LINK_H
#define LOCKSTEP_CMD_PAGE_LINK_H

#include <stdbool.h>
#include <stdio.h>

#include "core/err.h"

/* `directory`: of a run with its own controller, or the state directory of a site.  *ret: the whole address; the link works
 * once.  -ENOENT: no controller is running there; -EACCES, -EHOSTUNREACH, -EPROTO.
 */
int page_link_ask(const char *directory, char ret[static 512], struct err *err);
/* The address on a line, and over ssh how to reach it from the machine with the browser. */
void page_link_print(const char *address, FILE *out);

#endif
