/* cause_private.h - shared by the files of the pass that joins findings to verdicts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_CAUSE_PRIVATE_H
#define LOCKSTEP_JUDGE_CAUSE_PRIVATE_H

#include "judge/cause.h"

/* The layer of a verdict that such a finding explains; LAYER_UNKNOWN: it explains none. */
unsigned cause_layer(const struct finding *finding);
bool cause_suffices(const struct judge_state *judge, const struct tracked_verdict *tracked,
                    const struct cause_facts *facts, const struct finding *finding);
/* The text of a finding as a line of evidence, once. */
void cause_add_line(struct verdict_line *list, uint32_t *count, const struct finding *finding);

/* cause_fault.c: what hurts no rank is a verdict about the node. */
void cause_fault_judge(struct judge_state *judge, const struct cause_facts *facts);

#endif
