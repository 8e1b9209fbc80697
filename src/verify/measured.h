/* measured.h - a measured value beside what the profile expects of it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_MEASURED_H
#define LOCKSTEP_VERIFY_MEASURED_H

#include "verify/verify.h"

/* More is better.  Without a profile, or one that has no such value, it is ok and says that it was compared with nothing.  Returns
 * the result.
 */
struct check *measured_result(struct verify_report *report, const struct machine_profile *profile,
                              const char *name, const char *device, double value, const char *unit);

#endif
