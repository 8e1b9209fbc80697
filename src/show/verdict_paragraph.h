/* verdict_paragraph.h - a finding about the files of a dead job, as one paragraph.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SHOW_VERDICT_PARAGRAPH_H
#define LOCKSTEP_SHOW_VERDICT_PARAGRAPH_H

#include <stdio.h>

#include "show/style.h"
#include "wire/verdict.h"

/* The cause, where it stands, what followed from it, what to do, and what is missing to be sure. */
void verdict_paragraph(const struct verdict *verdict, const struct show_style *style, FILE *out);

#endif
