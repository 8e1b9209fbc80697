/* site.h - the controller: of a site with many runs of many users, or of one run.
 *
 * One process, one thread, one core per run.  Facts arrive by POST and are acknowledged when they are on disk.  Each
 * run has its log in STATE/runs/RUN/log.lsf.  It may be killed at any time and started again.
 *
 * With `only` it is the controller of one job that has a launcher on each node: one of them starts it, and it ends, some
 * seconds later, with that launcher.
 *
 * With `run_dir` it serves that run alone (local.h): facts also come from the spools in the run's directory, and all
 * files of the controller are there, too.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_SITE_SITE_H
#define LOCKSTEP_CONTROL_SITE_SITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/net/token.h"
#include "base/opt.h"
#include "base/paths.h"
#include "core/err.h"

struct thresholds; /* judge/thresholds.h */

struct site_settings {
    const char *run_dir;    /* the only run; NULL: a site */
    const char *only;       /* a site whose state directory is that of this run; NULL: of many */
    int64_t tick_ns;        /* of the only run: how long it sleeps when nothing came */
    const char *state;      /* NULL: the user's state directory */
    const char *listen;     /* ADDRESS:PORT; off loopback TLS is on */
    const char *key, *cert; /* files; NULL: made on first use, in STATE/tls */
    bool tls;               /* also on loopback */
    bool anonymous_reads;   /* reading needs no token; loopback only */
    struct opt_list host_names; /* by which it is reached, besides localhost and its addresses */
    const char *user_header;    /* in which a proxy with a token names the user; NULL: none */
    uint64_t log_max;    /* bytes of a run's log, beyond which what is old is merged; 0: no limit */
    uint64_t run_memory; /* bytes that a run's facts may take; more: it is refused.  0: no limit */
    uint64_t run_disk;   /* bytes of a run's log, with one in the making; 0: no limit */
    int64_t forget_ns;   /* a run that never reported anything is removed after so long; 0: never */
    int64_t close_ns; /* a run without a launcher, whose ranks are all gone: over after so long */
    uint32_t inspections;                  /* of nodes that a site orders in an hour */
    bool act;                              /* nodes are drained and given back; else a dry run */
    uint32_t drains;                       /* in an hour */
    double drain_share;                    /* of the nodes, that may be out by us */
    int64_t verify_age_ns;                 /* whole checks of nodes count so long; 0: for ever */
    uint32_t repair;                       /* SITE_REPAIR */
    uint32_t verify_stage, verify_at_once; /* 1 to 4; nodes at a time, 0: none */
    const struct thresholds *thresholds; /* of the judges, as settings files say; NULL: defaults */
};

/* The token of a node, STATE/nodes/NODE.token: it allows findings and checks of that node alone.  -ENOENT: there is none, and
 * `make` is false; -EINVAL: not a name.
 */
int site_node_token(const char *state, const char *node, bool make, struct path *path,
                    struct token *ret, struct err *err);

/* Until SIGTERM or SIGINT, and for one run until SIGHUP or the end of the parent.  -EBUSY: another controller has STATE or
 * the run; -EINVAL: settings; -errno with a sentence.
 */
int site_run(const struct site_settings *settings, struct err *err);

#endif
