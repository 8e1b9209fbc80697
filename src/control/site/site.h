/* site.h - the controller of a site: many runs of many users, over HTTP.
 *
 * One process, one thread, one core per run.  Facts arrive by POST and are acknowledged when they are on disk.  Each
 * run has its log in STATE/runs/RUN/log.lsf, in the format of the controller of a single run.  It may be killed at
 * any time and started again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_SITE_SITE_H
#define LOCKSTEP_CONTROL_SITE_SITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/opt.h"
#include "core/err.h"

struct thresholds; /* judge/thresholds.h */

struct site_settings {
    const char *state;          /* NULL: the user's state directory */
    const char *listen;         /* ADDRESS:PORT; off loopback TLS is on */
    const char *key, *cert;     /* files; NULL: made on first use, in STATE/tls */
    bool tls;                   /* also on loopback */
    bool anonymous_reads;       /* reading needs no token; loopback only */
    struct opt_list host_names; /* by which it is reached, besides localhost and its addresses */
    uint64_t log_max;    /* bytes of a run's log, beyond which what is old is merged; 0: no limit */
    uint64_t run_memory; /* bytes that a run's facts may take; more: it is refused.  0: no limit */
    uint64_t run_disk;   /* bytes of a run's log, with one in the making; 0: no limit */
    int64_t forget_ns;   /* a run that never reported anything is removed after so long; 0: never */
    int64_t close_ns; /* a run without a launcher, whose ranks are all gone: over after so long */
    const struct thresholds *thresholds; /* of the judges, as settings files say; NULL: defaults */
};

/* Until SIGTERM or SIGINT.  -EBUSY: another controller has STATE; -EINVAL: settings; -errno with a sentence. */
int site_run(const struct site_settings *settings, struct err *err);

#endif
