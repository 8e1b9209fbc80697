/* verdict_view.h - a verdict for people and for programs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SHOW_VERDICT_VIEW_H
#define LOCKSTEP_SHOW_VERDICT_VIEW_H

#include <stdio.h>

#include <json-c/json.h>

#include "show/style.h"
#include "wire/verdict.h"

/* The caller puts it.  What is not known is null; man/lockstep-why.1.scd lists the fields. */
struct json_object *verdict_json(const struct verdict *verdict);
/* The lists of it alone. */
struct json_object *verdict_ranks_json(const struct verdict *verdict);
struct json_object *verdict_nodes_json(const struct verdict *verdict);

/* A sentence that says what, which and so-what, then indented lines: why, what was ruled out, what it costs, what to
 * do, how sure we are.
 */
void verdict_text(const struct verdict *verdict, const struct show_style *style, FILE *out);

/* Three lines, for whoever is told while it happens: what, the strongest evidence, what to do. */
void verdict_brief(const struct verdict *verdict, FILE *out);

/* The first line alone, without colours and cut to the room; returns `out`. */
const char *verdict_sentence(const struct verdict *verdict, char *out, size_t room);

/* For qsort(): what ended the job or stops it, wrong numbers, what it recovered from, then what slows it, the costliest
 * first; then the one that was decided first.
 */
int verdict_by_importance(const void *a, const void *b);

/* "rank 5 (node n2)", "ranks 0-3 7 (nodes n1 n2)"; returns `out`. */
const char *verdict_who(const struct verdict *verdict, char *out, size_t room);

#endif
