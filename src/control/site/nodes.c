/* nodes.c - facts that nodes send with their own tokens, and their copies in the logs of runs.
 *
 * A node's token is held by its root daemon only, so its facts are evidence that no user of the node can forge.  They are
 * accepted for that node alone, written to the site's log (STATE/site.lsf) and acknowledged when they are on disk.
 *
 * A finding that touches ranks is copied into the log of each run concerned, so that a run's log replays alone.  The copy
 * has the sender "site" and the finding's number in the site's log.  Numbers grow, so the log of a run says which findings
 * it has: after a kill the rest is copied, and none twice.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/site_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/paths.h"
#include "control/http/reply.h"
#include "control/log/spools.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"

#define OPEN_AGAIN_NS (10 * NS_PER_S)
#define LOG_MAX (64u << 20) /* reading it at a start takes a moment of everybody's time */
#define BODY_FINDINGS 1024  /* the site's core keeps some thousand until they are copied */
#define ORIGINS_MAX (1 << 18)
#define COPIED_UNKNOWN UINT64_MAX
#define VERDICT_NEWS_NS (600 * NS_PER_S) /* one that goes on is told again */

int site_node_token(const char *state, const char *node, bool make, struct path *path,
                    struct token *ret, struct err *err)
{
    struct path directory;
    char file[80];
    int result = paths_check_run(node, NULL);

    if (result < 0)
        return err_set(err, result,
                       "'%.63s' is not a node name: expected letters, digits, '.', '-' and '_'",
                       node);
    snprintf(file, sizeof(file), "%s.token", node);
    result = path_join(&directory, state, "nodes", err);
    if (result == 0 && make)
        result = path_make(directory.text, err);
    if (result == 0)
        result = path_join(path, directory.text, file, err);
    if (result < 0)
        return result;
    return make ? token_read_or_make(path->text, ret, err) : token_read(path->text, ret, err);
}

/* ---- the log ---- */

static void nodes_open(struct site *site, int64_t now_ns)
{
    struct err err = { "" };
    struct path path;

    if (site->nodes || site->local || now_ns < site->nodes_at_ns)
        return;
    site->nodes_at_ns = now_ns + OPEN_AGAIN_NS;
    if (path_join(&path, site->state.text, "site.lsf", &err) < 0 ||
        site_log_open(path.text, &site->nodes, &err) < 0)
        log_error("the site's log cannot be used now, facts of nodes are refused: %s", err.text);
    if (site->nodes && site_log_set(site->nodes, SITE_BUDGET, site->settings.inspections, &err) < 0)
        log_error("the budget of inspections stays as it was: %s", err.text);
    for (size_t i = 0; i < site->runs; i++)
        site->run[i]->copied = COPIED_UNKNOWN;
}

void site_nodes_close(struct site *site)
{
    site_log_close(TAKE(site->nodes));
}

/* After an error that only a new reading of the log can repair. */
void site_nodes_failed(struct site *site, int result, const struct err *err)
{
    if (result == -ESTALE) {
        log_error("reading the site's log again: %s", err->text);
        site_nodes_close(site);
        site->nodes_at_ns = 0;
    }
}

/* ---- verdicts ---- */

/* Of what its nodes are suspected: what grows with each step, such as its cost, is no news. */
static bool nodes_verdict_is_news(const struct site *site, const struct verdict *verdict)
{
    const struct site_core *core = site_log_core(site->nodes);

    for (uint32_t i = 0; i < MIN(verdict->node_count, VERDICT_NODES); i++) {
        const struct site_node *node = site_core_find(core, verdict->node[i]);
        bool known = !node || !node_owners_has_run(&node->owners, verdict->run);

        for (size_t k = 0; k < NODE_VERDICTS && !known; k++) {
            const struct node_verdict *at = &node->verdict[k];

            known = strcmp(at->id, verdict->id) == 0 && at->open == !verdict->until_real_ns &&
                    at->layer == verdict->layer &&
                    strncmp(at->cause, verdict->cause, sizeof(at->cause) - 1) == 0 &&
                    verdict->decided_real_ns - at->news_real_ns < VERDICT_NEWS_NS;
        }
        if (!known)
            return true;
    }
    return false;
}

void site_nodes_verdict(struct site_run *run, const struct verdict *verdict)
{
    struct site *site = run->site;
    struct verdict *place = NULL;

    if (site->local || !verdict->node_count || !verdict->because_count)
        return;
    if (!site->verdict)
        site->verdict = calloc(SITE_VERDICTS, sizeof(*site->verdict));
    for (size_t i = 0; i < site->verdicts && !place; i++) {
        if (strcmp(site->verdict[i].id, verdict->id) == 0 &&
            strcmp(site->verdict[i].run, run->dir.run) == 0)
            place = &site->verdict[i];
    }
    if (!place && site->verdict && site->verdicts < SITE_VERDICTS)
        place = &site->verdict[site->verdicts++];
    if (!place)
        return;
    *place = *verdict;
    snprintf(place->run, sizeof(place->run), "%s", run->dir.run); /* not as it calls itself */
}

static bool nodes_is_lost_already(struct site_run *run, uint32_t life)
{
    for (size_t i = 0; i < COUNT(run->lost); i++) {
        if (run->lost[i] == life)
            return true;
    }
    run->lost[run->losts++ % COUNT(run->lost)] = life;
    return false;
}

/* A launcher is lost once: it has another life when it comes back. */
static void nodes_take_losses(struct site_run *run)
{
    const struct policy *policy = runlog_policy(run->log);
    struct policy_lost lost[VERDICT_NODES];
    size_t count = policy ? policy_lost(policy, lost, COUNT(lost)) : 0;
    int64_t now_ns = time_real_ns();

    for (size_t i = 0; i < count; i++) {
        struct verdict verdict = { .kind = VERDICT_NODE_FAULT,
                                   .layer = LAYER_UNKNOWN,
                                   .cause = NODE_LOST,
                                   .node_count = 1,
                                   .confidence = 1,
                                   .since_real_ns = now_ns,
                                   .decided_real_ns = now_ns };

        if (nodes_is_lost_already(run, lost[i].life))
            continue;
        memcpy(verdict.node[0], lost[i].node, sizeof(verdict.node[0]));
        snprintf(verdict.id, sizeof(verdict.id), "lost-%08" PRIx32, lost[i].life);
        verdict_because(&verdict, "launcher", "no sign of life of the launcher on node %s",
                        lost[i].node);
        site_nodes_verdict(run, &verdict);
    }
}

static void nodes_take_verdicts(struct site *site)
{
    struct err err = { "" };

    for (size_t i = 0; i < site->verdicts && site->nodes; i++) {
        int result = nodes_verdict_is_news(site, &site->verdict[i])
                         ? site_log_verdict(site->nodes, &site->verdict[i], &err)
                         : 0;

        site_nodes_failed(site, result, &err);
    }
    site->verdicts = 0;
}

/* ---- copies ---- */

static bool nodes_are_loading(const struct site *site)
{
    for (size_t i = 0; i < site->runs; i++) {
        if (site->run[i]->loading)
            return true;
    }
    return false;
}

/* Where its ranks are, and with which pids, a run says itself, and any user can let a run say that of another's process.  So
 * root's daemon must have seen the run on that node, and the process as one of the run's user.
 */
static enum core_touch nodes_touch(const struct site_run *run, struct finding *finding)
{
    const struct site_node *node = site_core_find(site_log_core(run->site->nodes), finding->node);
    enum core_touch touch = node && node_owners_has_run(&node->owners, run->dir.run)
                                ? runlog_touch(run->log, finding)
                                : CORE_TOUCH_NONE;

    if (touch == CORE_TOUCH_PID &&
        !node_owners_has_process(&node->owners, run->dir.run, finding->pid))
        return CORE_TOUCH_NONE;
    return touch;
}

/* A sensor saw it at a process, such as the limit of its cgroup: of no other user's concern, nor to be read by one. */
static bool nodes_is_of_user(const struct finding *finding)
{
    return finding->origin == FINDING_FROM_SENSOR && finding->class == FINDING_CLASS_HOST &&
           finding->pid && (finding->kind == FINDING_OOM || finding->kind == FINDING_HOST_PRESSURE);
}

/* Which runs a finding concerns.  If it names the process of a rank, that rank's run and no other.  Otherwise all runs on
 * the node; but what it says about a program that is no rank may be another user's, and stays in the site's log.  The cgroup
 * of a process is one of its user's runs on the node.
 */
static bool nodes_copy_is_due(const struct site_run *run, const struct finding *finding,
                              enum core_touch touch)
{
    const struct site *site = run->site;

    if (touch == CORE_TOUCH_PID)
        return true;
    if (touch == CORE_TOUCH_NODE && nodes_is_of_user(finding)) {
        const struct site_node *node = site_core_find(site_log_core(site->nodes), finding->node);

        return node && node_owners_has_process(&node->owners, run->dir.run, finding->pid);
    }
    if (touch == CORE_TOUCH_NONE || (finding->pid && finding->class == FINDING_CLASS_APP))
        return false;
    for (size_t i = 0; i < site->runs && finding->pid; i++) {
        struct finding other = *finding;

        if (site->run[i]->log && nodes_touch(site->run[i], &other) == CORE_TOUCH_PID)
            return false;
    }
    return true;
}

static int nodes_copy_write(struct site_run *run, const struct finding *finding, uint64_t ordinal,
                            struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct frame frame = { .type = FRAME_FINDING,
                           .version = FRAME_VERSION,
                           .sender = site_sender(),
                           .boot = site_log_id(run->site->nodes),
                           .number = ordinal };
    int result;

    finding_put(&payload, finding);
    if (payload.failed)
        return err_nomem(err);
    frame.payload = payload.data;
    frame.payload_bytes = payload.size;
    result = runlog_take(run->log, &frame, 1, err);
    if (result == -ENOMEM || result == -ESTALE)
        run_read_again(run, err->text);
    if (result == -EDQUOT)
        run_refuse(run, err->text);
    return result;
}

/* 0: this one is done with; -errno: it is tried again. */
static int nodes_copy_one(struct site_run *run, uint64_t ordinal)
{
    const struct finding *kept = site_core_finding(site_log_core(run->site->nodes), ordinal);
    struct finding finding;
    struct err err = { "" };
    int result = 0;

    if (!kept)
        return 0;
    finding = *kept;
    if (nodes_copy_is_due(run, kept, nodes_touch(run, &finding)))
        result = nodes_copy_write(run, &finding, ordinal, &err);
    if (result < 0)
        log_error("run %s: finding %s of node %s is not in its log%s: %s", run->dir.run, finding.id,
                  finding.node, result == -EFBIG ? "" : " yet", err.text);
    return result == -EFBIG ? 0 : result; /* its log has all that it may have */
}

static void nodes_copy_to(struct site_run *run)
{
    const struct site_core *core = site_log_core(run->site->nodes);
    uint64_t all = site_core_findings(core);

    if (run->copied == COPIED_UNKNOWN)
        run->copied = seen_next(&run->seen, site_sender(), site_log_id(run->site->nodes));
    if (all - MIN(all, run->copied) > SITE_FINDINGS)
        run->copied = all - SITE_FINDINGS;
    while (run->log && run->copied < all && nodes_copy_one(run, run->copied) == 0)
        run->copied++;
}

/* When every run has its findings. */
static void nodes_rotate(struct site *site)
{
    uint64_t all = site_core_findings(site_log_core(site->nodes));
    struct err err = { "" };

    for (size_t i = 0; i < site->runs; i++) {
        if (site->run[i]->log && site->run[i]->copied < all)
            return;
    }
    site_nodes_failed(site, site_log_rotate(site->nodes, LOG_MAX, &err), &err);
}

void site_nodes_turn(struct site *site, int64_t now_ns)
{
    struct err err = { "" };
    int result;

    nodes_open(site, now_ns);
    for (size_t i = 0; i < site->runs && site->nodes && !site->local; i++) {
        if (site->run[i]->log && !site->run[i]->ended)
            nodes_take_losses(site->run[i]);
    }
    if (site->nodes)
        nodes_take_verdicts(site);
    if (!site->nodes)
        return;
    result = site_log_turn(site->nodes, &err);
    if (result < 0) {
        site_nodes_failed(site, result, &err);
        return;
    }
    if (nodes_are_loading(site)) /* whose process it names is not known yet */
        return;
    for (size_t i = 0; i < site->runs; i++) {
        if (site->run[i]->log)
            nodes_copy_to(site->run[i]);
    }
    nodes_rotate(site);
}

/* ---- a body ---- */

static size_t nodes_findings_in(const struct ingest *ingest)
{
    size_t count = 0;

    for (size_t i = 0; i < ingest->count; i++)
        count += ingest->frame[i].type == FRAME_FINDING;
    return count;
}

static int nodes_node_take(struct site *site, struct ingest *ingest, struct err *err)
{
    int result = 0;

    if (nodes_findings_in(ingest) > BODY_FINDINGS ||
        site_log_seen(site->nodes)->count > ORIGINS_MAX) {
        ingest->status = 413;
        return err_set(err, -EFBIG, "a body may have %d findings, and a site %d senders",
                       BODY_FINDINGS, ORIGINS_MAX);
    }
    ingest->status = 503;
    if (ingest->count)
        result = site_log_take(site->nodes, ingest->frame, ingest->count, err);
    site_nodes_failed(site, result, err);
    return result;
}

void ingest_node(struct site *site, const char *node, struct http_exchange *exchange)
{
    CLEAN(ingest_fini) struct ingest ingest = { 0 };
    const struct buf *body = http_body(exchange);
    struct err err = { "" };
    struct buf answer = { 0 };
    int result;

    if (!site->nodes) {
        reply_error(exchange, site->local ? 404 : 503, "%s",
                    site->local ? "this controller serves one run; nodes have no tokens here"
                                : "the site's log cannot be used now; try again");
        return;
    }
    result =
        ingest_read_node(site_log_seen(site->nodes), node, body->data, body->size, &ingest, &err);
    if (result == 0)
        result = nodes_node_take(site, &ingest, &err);
    if (result < 0) {
        site->counts.malformed += ingest.status == 400;
        site->counts.foreign += ingest.status == 403;
        reply_error(exchange, ingest.status, "%s", err.text);
        return;
    }
    ingest_answer(site_log_seen(site->nodes), &ingest, http_query(exchange, "sender"), &answer);
    http_answer(exchange, 200, "application/json", &answer);
}
