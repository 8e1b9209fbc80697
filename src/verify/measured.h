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

/* Less is better: a latency.  More than good nodes have is limited, never failed: what others do on a shared file system decides it as
 * well.
 */
struct check *measured_latency(struct verify_report *report, const struct machine_profile *profile,
                               const char *name, const char *device, double value,
                               const char *unit);

/* Beside its peers, the GPUs of one model in this machine, which were measured in the same way and at the same time: one that is far
 * slower than their median is limited or failed.  Sorts `peer`; fewer than three are not compared.
 */
void measured_compare(struct check *result, double *peer, unsigned peers);

#endif
