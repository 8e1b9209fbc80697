/* regress.h - how long steps took, kind by kind of step, over the whole run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_SLOW_REGRESS_H
#define LOCKSTEP_JUDGE_SLOW_REGRESS_H

struct regress;

int regress_create(struct regress **ret);
void regress_destroy(struct regress *regress);

#endif
