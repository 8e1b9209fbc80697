/* advice.h - what to do about a verdict, by its kind and layer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SHOW_ADVICE_H
#define LOCKSTEP_SHOW_ADVICE_H

#include "wire/verdict.h"

/* One or two sentences, never NULL or empty.  man/lockstep-faults.7.scd says more. */
const char *verdict_advice(const struct verdict *verdict);

#endif
