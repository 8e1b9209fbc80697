/* ps_site.h - `lockstep ps` of a site.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_PS_SITE_H
#define LOCKSTEP_CMD_PS_SITE_H

#include <stdbool.h>

#include "cmd/site/site_ask.h"

/* All runs of the site, newest first.  The exit status. */
int ps_site_list(const struct site_options *options, bool json);

/* "41s", "3m07s", "5h12m", "2d04h" */
void ps_age(int64_t ns, char *ret, size_t room);
void ps_print_head(void);

#endif
