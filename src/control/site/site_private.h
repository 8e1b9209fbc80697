/* site_private.h - shared by the files of the site's controller.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_SITE_SITE_PRIVATE_H
#define LOCKSTEP_CONTROL_SITE_SITE_PRIVATE_H

#include "base/loop.h"
#include "base/net/http.h"
#include "base/net/rate.h"
#include "base/net/tls.h"
#include "base/net/token.h"
#include "base/notify.h"
#include "control/http/audit.h"
#include "control/http/auth.h"
#include "control/http/events.h"
#include "control/http/hosts.h"
#include "control/http/session.h"
#include "control/index/agent_traffic.h"
#include "control/index/index.h"
#include "control/log/rundir.h"
#include "control/log/runlog.h"
#include "control/log/seen.h"
#include "control/nodes/site_log.h"
#include "control/orders/run_decisions.h"
#include "control/report/report_builder.h"
#include "control/site/feed.h"
#include "control/site/index_catchup.h"
#include "control/site/life_watch.h"
#include "control/site/local.h"
#include "control/site/rank_presence.h"
#include "control/site/site.h"
#include "core/map.h"
#include "core/sketch.h"

#define SITE_ORDER_WAITERS_RUN                                                                     \
    16 /* clients that wait for orders of one run, beside its launchers */
#define SITE_BODY_MAX (8u << 20)
#define SITE_CHARGE_MAX (128u << 20) /* of bodies of one run that are under way */

struct waiter { /* an acknowledgement that waits for the disk */
    struct waiter *next;
    struct site_run *run;
    struct http_exchange *exchange; /* NULL: the peer is gone */
    struct buf answer;
    int64_t since_ns;
};

struct site_run {
    struct site *site;
    struct rundir dir;
    struct feed feed;   /* its spools, where they are on this machine */
    struct token agent; /* "": not registered */
    char owner[64];
    struct runlog *log;     /* NULL: not open */
    struct runlog *loading; /* its log while it is read, a little at a time; NULL: it is not */
    struct err refused;     /* why its facts are not taken (RUN/refused); "": they are */
    bool has_facts;         /* for certain; else it is looked for when it is old enough */
    int64_t made_real_ns;   /* when it was registered */
    struct seen seen;
    struct rank_presence presence;        /* who has begun, and who is gone: too */
    struct traffic traffic;               /* its agents: of the log as it is, too */
    struct report_builder builder;        /* counts, open verdicts, ledger: of the log as it is */
    bool clock_known;                     /* by the launcher's hello */
    int64_t hello_mono_ns, hello_real_ns; /* whose clock is the run's; 0: none yet */
    bool ended;                           /* reported by the launcher */
    bool finish;                          /* and that nothing follows */
    size_t finishes;                      /* how many senders said that */
    uint64_t judged;                      /* whole steps, as listeners know */
    int64_t newest_ns;                    /* the newest fact, by our clock */
    bool
        deaf; /* since the last tick a sender was told that it was heard of, and its facts are not in the log */
    int64_t synced_ns;
    bool index_stale;             /* its log says more than the index */
    bool index_rebuild;           /* its rows were lost, and are read again: not to be shown yet */
    int64_t index_at_ns;          /* when to try again */
    int64_t index_turn_ns;        /* when its rows are due, if no request asks for them */
    bool version_logged;          /* a sender has another version, and this was logged */
    uint32_t lost[VERDICT_NODES]; /* lives of launchers whose loss the site's log has: a ring */
    uint32_t losts;
    uint64_t
        copied; /* findings of nodes below this one were looked at; UINT64_MAX: not known yet */
    struct waiter *waiting;
    struct run_decisions decisions; /* of the log as it is, too */
    struct order_waiter *order_waiters;
    size_t order_waiter_count;
};

struct site_counts {
    uint64_t bodies, bytes, frames, doubled, malformed, foreign, syncs, sync_failures, ticks;
    uint64_t compactions;    /* of logs */
    uint64_t over_limit;     /* bodies refused since a run has what it may have */
    struct sketch ingest_us; /* from a whole body to its acknowledgement */
    struct sketch sync_us;
    uint64_t ingest_sum_us, sync_sum_us;
};

#define SITE_VERDICTS 64 /* that wait for the site's log */

struct site_act { /* the child that changes a node for the scheduler */
    pid_t pid;    /* 0: none */
    int fd;       /* of what it prints */
    char id[DECISION_ID];
    char text[512];
    size_t size;
    int64_t until_ns, mode_at_ns;
};

struct site {
    struct site_settings settings;
    struct path state;
    int lock_fd;
    struct loop *loop;
    struct notify notify;
    struct http *http;
    struct tls tls;
    struct auth auth;
    struct audit audit;
    struct hosts hosts;
    struct sessions sessions; /* of the page in browsers */
    struct rate ingest;       /* bytes, by run */
    struct events events;
    struct index *index;    /* NULL: it cannot be used now */
    int64_t index_at_ns;    /* when to try again */
    bool index_rebuilds;    /* rows of runs are being read again */
    uint64_t index_makings; /* for which the runs' rows were asked for */
    struct site_log *nodes; /* the site's own log; NULL: none, or it cannot be used now */
    int64_t nodes_at_ns;    /* when to try again */
    struct site_act act;
    struct verdict
        *verdict; /* that name nodes, and are not in the site's log yet; NULL: none ever came */
    size_t verdicts;
    struct site_run **run;
    size_t runs, room;
    struct map run_by_name;
    struct loop_timer tick, sync, load, catchup;
    struct catchup *asking; /* questions that wait for the index, the first one first */
    size_t load_next;       /* the run whose turn it is to be read */
    size_t forget_next;     /* ... and to be looked at for facts */
    int64_t began_real_ns;
    int64_t crowd_at_ns;               /* when to say again that connections run short */
    struct site_run *local;            /* the only run, of --run-dir; NULL: a site */
    pid_t parent;                      /* of the controller of one run */
    struct life_watch *lives;          /* of --only: its launchers; NULL: nobody is watched */
    uint64_t lives_boot, lives_number; /* of the frames about them */
    int64_t leave_ns;   /* of --only: when it ends at the latest; 0: it was not told to */
    int64_t http_at_ns; /* when to try again to listen */
    bool http_missed;   /* and that it failed was logged */
    int failed;         /* -errno that ends the process, and why */
    struct err failure;
    struct err trouble; /* "": the logs can be written */
    int64_t trouble_ns;
    size_t order_waiters, order_waiters_max; /* clients that wait for orders of any run or node */
    struct order_waiter *node_waiters;
    char site_fault[CHECK_SITE_FAULTS][FACT_NAME]; /* names of checks, as of ... */
    size_t site_faults;
    int64_t site_faults_ns; /* ... this time; 0: never */
    struct site_counts counts;
};

/* site.c */
int site_listen(struct site *site, struct err *err); /* tokens, certificate, port */
/* Where tools find us: STATE/control.url, for the controller of one run with a token. */
int site_announce(struct site *site, const struct token *reader, struct err *err);

/* local.c */
void site_fail(struct site *site, int result, const struct err *why); /* ends the process */

/* site_runs.c */
struct site_run *site_find(struct site *site, const char *name); /* known ones; NULL */
/* Known, or found on disk; made when `make`.  -ENOENT, -ENOMEM. */
int site_get(struct site *site, const char *name, bool make, struct site_run **ret,
             struct err *err);
int site_add(struct site *site, const struct rundir *dir, struct site_run **ret, struct err *err);
void site_scan(struct site *site); /* runs of a former life */
/* Reads on in logs that are being read, one after the other, for a moment; true: there is more to read. */
bool site_load(struct site *site);
/* The log; 0 when it is open already.  -EAGAIN: it is being read; -EDQUOT: the run is refused. */
int run_open(struct site_run *run, struct err *err);
void site_remove(struct site *site, size_t at); /* a run: its directory, its rows, and all */
void run_shut(struct site_run *run, const char *why);
void run_read_again(struct site_run *run, const char *why); /* shut, and the index forgets it */
void run_wait(struct site_run *run, struct http_exchange *exchange, struct buf *answer);
/* Tick, close the books, let go.  -errno: the log cannot be written now. */
int run_turn(struct site_run *run, int64_t now_ns, struct err *err);
int run_sync(struct site_run *run, int64_t now_ns, struct err *err);
void run_destroy(struct site_run *run);
/* Reads on in its log, so far at most; returns how many frames that were, 0 also where it failed. */
size_t run_index(struct site_run *run, size_t frames);
bool run_has_room(const struct site_run *run); /* for the index of a local run */
bool run_index_is_behind(const struct site_run *run,
                         int64_t now_ns);                     /* run_index() may change it */
void site_index_mend(struct site *site);                      /* a damaged index is made again */
void site_index_rebuild(struct site *site, int64_t until_ns); /* rows that were lost, until then */
size_t site_index_lacks(const struct site *site);             /* runs whose rows are not back yet */
void site_trouble(struct site *site, int result, const struct err *err);

/* site_limits.c */
void run_refused_read(struct site_run *run);            /* RUN/refused, or its absence */
void run_refuse(struct site_run *run, const char *why); /* from now on; it leaves memory */
unsigned run_status(int result); /* of an answer, when run_open() or runlog_take() fails */
uint64_t run_log_limit(const struct site *site); /* of bytes; 0: none */
uint64_t run_log_max(const struct site *site);   /* beyond it a log is compacted; 0: never */
void site_forget(struct site *site); /* one run that never sent a fact, if there is one */

/* nodes.c: what nodes send with their own tokens, in the site's log */
void site_nodes_turn(struct site *site, int64_t now_ns); /* opens the log, ticks, copies */
void site_nodes_close(struct site *site);
void site_nodes_failed(struct site *site, int result, const struct err *err);
void site_nodes_verdict(struct site_run *run, const struct verdict *verdict); /* new or changed */

/* site_act.c: what the controller does to nodes itself */
void site_act_turn(struct site *site, int64_t now_ns);
void site_act_fini(struct site_act *act);
void ingest_node(struct site *site, const char *node, struct http_exchange *exchange);

/* ingest.c */
void ingest_frames(struct site_run *run, struct http_exchange *exchange);
/* Facts came and are not in the log: their sender, which keeps them, learns that it was heard of. */
void ingest_reply_unwritten(struct site_run *run, struct http_exchange *exchange, int result,
                            const char *text);
struct ingest {          /* what a body brought */
    struct frame *frame; /* the new ones */
    size_t count, room;
    uint64_t all, doubled;
    unsigned status; /* 0: good */
    struct seen here;
};
/* Looks at all before anything is taken.  -errno with the sentence and ret->status for the peer. */
int ingest_read(const struct seen *seen, const char *run, const void *data, size_t size,
                struct ingest *ret, struct err *err);
/* The same of a node: findings, checks, environments and hellos about that node, and nothing else. */
int ingest_read_node(const struct seen *seen, const char *node, const void *data, size_t size,
                     struct ingest *ret, struct err *err);
void ingest_fini(struct ingest *ingest);
/* {"taken", "doubled", "again_ms", "durable"}: up to where each origin of the body is in the log, and each of `sender`. */
void ingest_answer(const struct seen *seen, const struct ingest *ingest, const char *sender,
                   struct buf *answer);

/* api.c */
bool api_admit(void *arg, struct http_exchange *exchange);
void api_handle(void *arg, struct http_exchange *exchange);
void api_answered(void *arg, const struct http_exchange *exchange, unsigned status);

/* api_orders.c */
void orders_turn(struct site_run *run, int64_t now_ns); /* answers those who wait for orders */
void node_orders_turn(struct site *site, int64_t now_ns);

/* metrics.c */
void metrics_put(const struct site *site, struct buf *out);

#endif
