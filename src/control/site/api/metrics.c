/* metrics.c - metrics for Prometheus: names have units; the number of series per run is fixed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/site_private.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/text.h"
#include "core/time.h"
#include "show/verdict_view.h"
#include "wire/facts.h"
#include "wire/verdict.h"

static void metrics_format(struct buf *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void metrics_format(struct buf *out, const char *format, ...)
{
    char line[512];
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    buf_put(out, line, MIN((size_t)size, sizeof(line) - 1));
}

static void metrics_head(struct buf *out, const char *name, const char *type, const char *help)
{
    metrics_format(out, "# HELP lockstep_%s %s\n# TYPE lockstep_%s %s\n", name, help, name, type);
}

static void metrics_count(struct buf *out, const char *name, const char *help, uint64_t value)
{
    metrics_head(out, name, "counter", help);
    metrics_format(out, "lockstep_%s %" PRIu64 "\n", name, value);
}

static void metrics_gauge(struct buf *out, const char *name, const char *help, double value)
{
    metrics_head(out, name, "gauge", help);
    metrics_format(out, "lockstep_%s %.17g\n", name, value);
}

static void metrics_summary(struct buf *out, const char *name, const char *help,
                            const struct sketch *us, uint64_t sum_us)
{
    static const double quantile[] = { 0.5, 0.9, 0.99 };

    metrics_head(out, name, "summary", help);
    for (size_t i = 0; i < COUNT(quantile); i++)
        metrics_format(out, "lockstep_%s{quantile=\"%g\"} %.9g\n", name, quantile[i],
                       (double)sketch_quantile(us, quantile[i]) / 1e6);
    metrics_format(out, "lockstep_%s_sum %.9g\nlockstep_%s_count %" PRIu64 "\n", name,
                   (double)sum_us / 1e6, name, sketch_count(us));
}

static double metrics_resident_bytes(void)
{
    CLEAN(file_clean) FILE *file = fopen("/proc/self/statm", "re");
    unsigned long size, resident;

    if (!file || fscanf(file, "%lu %lu", &size, &resident) != 2)
        return 0;
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static size_t metrics_loading_of(const struct site *site)
{
    size_t runs = 0;

    for (size_t i = 0; i < site->runs; i++)
        runs += site->run[i]->loading != NULL;
    return runs;
}

static void put_site(const struct site *site, struct buf *out)
{
    const struct site_counts *counts = &site->counts;
    struct http_counts http;

    http_counts(site->http, &http);
    metrics_head(out, "build_info", "gauge", "Version of this controller.");
    metrics_format(out, "lockstep_build_info{version=\"%s\"} 1\n", LOCKSTEP_VERSION);
    metrics_gauge(out, "start_time_seconds", "Start time of the controller, in Unix seconds.",
                  (double)site->began_real_ns / 1e9);
    metrics_gauge(out, "resident_memory_bytes", "Resident memory of the controller.",
                  metrics_resident_bytes());
    metrics_gauge(out, "log_writable", "1 if the logs are writable, else 0.",
                  !site->trouble.text[0]);
    metrics_count(out, "http_requests_total", "HTTP requests received.", http.requests);
    metrics_count(out, "http_slow_total",
                  "Connections closed because the client sent or read too slowly.",
                  http.refused_slow);
    metrics_count(out, "http_large_total", "Requests refused because they were too large.",
                  http.refused_large);
    metrics_gauge(out, "index_rebuilding_runs",
                  "Runs whose index rows are being rebuilt from the log.",
                  (double)site_index_lacks(site));
    metrics_gauge(out, "http_connections", "Open connections.", (double)http.connections);
    metrics_gauge(out, "http_connections_max", "Maximum number of open connections.",
                  http.connections_max);
    metrics_count(out, "tokens_refused_total", "Requests refused because the token is not known.",
                  site->auth.refused);
    metrics_count(out, "ingest_bodies_total", "Request bodies with frames accepted.",
                  counts->bodies);
    metrics_count(out, "ingest_bytes_total", "Bytes in accepted request bodies.", counts->bytes);
    metrics_count(out, "ingest_frames_total", "New frames accepted.", counts->frames);
    metrics_count(out, "ingest_doubled_total",
                  "Frames dropped because the controller already had them.", counts->doubled);
    metrics_count(out, "ingest_malformed_total",
                  "Request bodies refused because they were malformed.", counts->malformed);
    metrics_count(out, "ingest_foreign_total",
                  "Request bodies refused because they contained frames of another run.",
                  counts->foreign);
    metrics_count(out, "log_syncs_total", "Log syncs to disk.", counts->syncs);
    metrics_count(out, "log_compactions_total", "Compactions of logs of active runs.",
                  counts->compactions);
    metrics_count(out, "log_sync_failures_total", "Log syncs to disk that failed.",
                  counts->sync_failures);
    metrics_summary(out, "ingest_seconds",
                    "Time from the complete request body to its acknowledgement.",
                    &counts->ingest_us, counts->ingest_sum_us);
    metrics_summary(out, "log_sync_seconds", "Duration of a log sync to disk.", &counts->sync_us,
                    counts->sync_sum_us);
    metrics_gauge(out, "event_listeners", "Open event streams.", (double)site->events.count);
    metrics_count(out, "events_total", "Events published.", site->events.next - 1);
    metrics_count(out, "event_listeners_dropped_total",
                  "Event streams closed because the client read too slowly.", site->events.dropped);
    metrics_gauge(out, "runs", "Runs known to the controller.", (double)site->runs);
    metrics_gauge(out, "runs_loading", "Runs whose log is being read.",
                  (double)metrics_loading_of(site));
    metrics_count(out, "ingest_over_limit_total",
                  "Request bodies refused because the run reached its memory or disk limit.",
                  counts->over_limit);
}

/* A node's name is its agent's word: nothing of it ends the label, or hides what is beside it.  `ret` has room for twice
 * the text.
 */
static void metrics_label_text(const char *text, char *ret)
{
    size_t size = 0;

    for (size_t left = strlen(text); left;) {
        size_t shown = text_char(text, left), step = shown ? shown : 1;

        if (*text == '\\' || *text == '"')
            ret[size++] = '\\';
        memcpy(ret + size, shown ? text : "_", step);
        size += step;
        text += step;
        left -= step;
    }
    ret[size] = '\0';
}

/* A family of one series a run; `value` gives NAN for a run that has none. */
static void metrics_put_runs(const struct site *site, struct buf *out, const char *name,
                             const char *type, const char *help,
                             double (*value)(const struct run_summary *summary))
{
    metrics_head(out, name, type, help);
    for (size_t i = 0; i < site->runs; i++) {
        const struct site_run *run = site->run[i];
        double is = run->log ? value(&run->builder.summary) : -1;

        if (is >= 0)
            metrics_format(out, "lockstep_%s{run=\"%s\"} %.17g\n", name, run->dir.run, is);
    }
}

static double metrics_frames_of(const struct run_summary *summary)
{
    return (double)summary->frames;
}

static double metrics_steps_of(const struct run_summary *summary)
{
    return (double)summary->steps;
}

static double metrics_ranks_of(const struct run_summary *summary)
{
    return summary->ranks;
}

static double metrics_ranks_seen_of(const struct run_summary *summary)
{
    return summary->ranks_seen;
}

static double metrics_gap_steps_of(const struct run_summary *summary)
{
    return (double)summary->gap_steps;
}

static double metrics_malformed_of(const struct run_summary *summary)
{
    return (double)summary->malformed;
}

static double metrics_goodput_of(const struct run_summary *summary)
{
    return summary->has_ledger ? ledger_goodput(&summary->ledger) : -1;
}

/* Of the newest checkpoint that all ranks of a run have noted: each a number of struct run_summary_save. */
static const struct save_family {
    const char *name, *help;
    size_t offset;
    double unit;
} save_families[] = {
    { "run_checkpoint_step", "Step of the newest checkpoint that all ranks of a run have saved.",
      offsetof(struct run_summary_save, step), 1 },
    { "run_checkpoint_bytes", "Bytes of the newest checkpoint, all ranks together.",
      offsetof(struct run_summary_save, bytes), 1 },
    { "run_checkpoint_arena_bytes", "Memory that the ranks hold for copies of checkpoints.",
      offsetof(struct run_summary_save, arena_bytes), 1 },
    { "run_checkpoint_skipped", "Saves that the ranks skipped since they began, up to it.",
      offsetof(struct run_summary_save, skipped), 1 },
    { "run_checkpoint_failed", "Saves of the ranks that failed since they began, up to it.",
      offsetof(struct run_summary_save, failed), 1 },
    { "run_checkpoint_snapshot_seconds",
      "Time for which the training waited for the newest checkpoint, of the slowest rank.",
      offsetof(struct run_summary_save, snapshot_us), 1e6 },
    { "run_checkpoint_write_seconds",
      "Time from the snapshot until the file is synced, digests included, of the slowest rank.",
      offsetof(struct run_summary_save, write_us), 1e6 },
    { "run_checkpoint_digest_seconds",
      "Part of the write time that digests took, of the slowest rank.",
      offsetof(struct run_summary_save, digest_us), 1e6 },
    { "run_checkpoint_commit_seconds",
      "Time from the synced file until all ranks have written theirs, of the slowest rank.",
      offsetof(struct run_summary_save, commit_us), 1e6 },
    { "run_checkpoint_verify_seconds", "Time to read the file back, of the slowest rank.",
      offsetof(struct run_summary_save, verify_us), 1e6 },
};

static void metrics_put_saves(const struct site *site, struct buf *out)
{
    for (size_t f = 0; f < COUNT(save_families); f++) {
        const struct save_family *family = &save_families[f];

        metrics_head(out, family->name, "gauge", family->help);
        for (size_t i = 0; i < site->runs; i++) {
            const struct run_summary_save *save = &site->run[i]->builder.summary.save;
            uint64_t value;

            if (!site->run[i]->log || !save->ranks)
                continue;
            memcpy(&value, (const char *)save + family->offset, sizeof(value));
            metrics_format(out, "lockstep_%s{run=\"%s\"} %.17g\n", family->name,
                           site->run[i]->dir.run, (double)value / family->unit);
        }
    }
}

static double metrics_replicate_of(const struct run_summary *summary)
{
    return summary->copied.replicate_us ? (double)summary->copied.replicate_us / 1e6 : -1;
}

static double metrics_upload_of(const struct run_summary *summary)
{
    return summary->copied.upload_us ? (double)summary->copied.upload_us / 1e6 : -1;
}

static double metrics_saves_of(const struct run_summary *summary)
{
    return (double)summary->saves;
}

/* What each run takes of what it may have. */
static void metrics_put_limits(const struct site *site, struct buf *out)
{
    metrics_head(
        out, "run_refused", "gauge",
        "1 if the controller refuses facts of the run until an administrator accepts them again.");
    for (size_t i = 0; i < site->runs; i++) {
        if (site->run[i]->refused.text[0])
            metrics_format(out, "lockstep_run_refused{run=\"%s\"} 1\n", site->run[i]->dir.run);
    }
    metrics_head(out, "run_memory_bytes", "gauge",
                 "Approximate memory used by the facts of a run.");
    for (size_t i = 0; i < site->runs; i++) {
        if (site->run[i]->log)
            metrics_format(out, "lockstep_run_memory_bytes{run=\"%s\"} %llu\n",
                           site->run[i]->dir.run,
                           (unsigned long long)runlog_memory(site->run[i]->log));
    }
    metrics_head(out, "run_log_bytes", "gauge",
                 "Bytes of a run's log, including a compacted log that is being written.");
    for (size_t i = 0; i < site->runs; i++) {
        if (site->run[i]->log)
            metrics_format(out, "lockstep_run_log_bytes{run=\"%s\"} %llu\n", site->run[i]->dir.run,
                           (unsigned long long)runlog_disk(site->run[i]->log));
    }
}

static void metrics_put_ledgers(const struct site *site, struct buf *out)
{
    metrics_head(out, "run_gpu_seconds", "gauge", "GPU-seconds of a run by ledger bucket.");
    for (size_t i = 0; i < site->runs; i++) {
        const struct run_summary *summary = &site->run[i]->builder.summary;

        if (!site->run[i]->log || !summary->has_ledger)
            continue;
        for (unsigned b = 0; b < LEDGER_BUCKETS; b++)
            metrics_format(out, "lockstep_run_gpu_seconds{run=\"%s\",bucket=\"%s\"} %.17g\n",
                           site->run[i]->dir.run, ledger_bucket_name(b),
                           summary->ledger.gpu_seconds[b]);
    }
}

static void metrics_put_verdicts(const struct site *site, struct buf *out)
{
    metrics_head(out, "run_verdicts_open", "gauge", "Open verdicts of a run by kind and layer.");
    for (size_t i = 0; i < site->runs; i++) {
        const struct run_summary *summary = &site->run[i]->builder.summary;
        unsigned open[VERDICT_KIND_COUNT][LAYER_COUNT] = { { 0 } };

        for (size_t v = 0; site->run[i]->log && v < summary->verdicts; v++)
            open[summary->verdict[v].kind % VERDICT_KIND_COUNT]
                [summary->verdict[v].layer % LAYER_COUNT] += summary->verdict[v].until_real_ns == 0;
        for (unsigned at = 0; at < VERDICT_KIND_COUNT * LAYER_COUNT; at++) {
            unsigned kind = at / LAYER_COUNT, layer = at % LAYER_COUNT;

            if (kind && open[kind][layer])
                metrics_format(
                    out, "lockstep_run_verdicts_open{run=\"%s\",kind=\"%s\",layer=\"%s\"} %u\n",
                    site->run[i]->dir.run, verdict_kind_name(kind), verdict_layer_name(layer),
                    open[kind][layer]);
        }
    }
}

#define INFO_VERDICTS 32  /* of a run: further open ones are only counted */
#define INFO_SENTENCE 200 /* bytes */

static void metrics_put_label(struct buf *out, const char *name, const char *text)
{
    char clean[2 * INFO_SENTENCE];

    metrics_label_text(text, clean);
    metrics_format(out, ",%s=\"%s\"", name, clean);
}

/* The first rank and node that it names; "" for none. */
static void metrics_put_verdict_info(struct buf *out, const char *run,
                                     const struct verdict *verdict)
{
    char rank[16] = "", sentence[INFO_SENTENCE];

    if (verdict->rank_count)
        snprintf(rank, sizeof(rank), "%u", verdict->rank[0]);
    metrics_format(out, "lockstep_run_verdict_info{run=\"%s\"", run);
    metrics_put_label(out, "id", verdict->id);
    metrics_put_label(out, "kind", verdict_kind_name(verdict->kind));
    metrics_put_label(out, "layer", verdict_layer_name(verdict->layer));
    metrics_put_label(out, "rank", rank);
    metrics_put_label(out, "node", verdict->node_count ? verdict->node[0] : "");
    metrics_put_label(out, "text", verdict_sentence(verdict, sentence, sizeof(sentence)));
    buf_put(out, "} 1\n", 4);
}

/* The core of a run leaves memory seconds after its end, sooner than most scrapes come.  What stopped it is shown for
 * a while longer: else nobody would be alerted of it.
 */
#define STOPPED_NS (15 * 60 * NS_PER_S)

static bool metrics_shows_verdict(const struct site_run *run, const struct verdict *verdict,
                                  int64_t now_ns)
{
    bool stops = verdict->kind == VERDICT_CRASH || verdict->kind == VERDICT_HANG ||
                 verdict->kind == VERDICT_DESYNC || verdict->kind == VERDICT_CORRUPTION;

    if (verdict->until_real_ns)
        return false;
    return run->log ||
           (stops && !run->builder.summary.stopped && now_ns - run->newest_ns < STOPPED_NS);
}

static void metrics_put_verdict_infos(const struct site *site, struct buf *out)
{
    int64_t now_ns = time_mono_ns();

    metrics_head(out, "run_verdict_info", "gauge",
                 "1 for each open verdict of a run: first rank and node, first sentence.  What "
                 "stopped a run "
                 "is shown for 15 minutes after its end.");
    for (size_t i = 0; i < site->runs; i++) {
        const struct run_summary *summary = &site->run[i]->builder.summary;

        for (size_t v = 0, put = 0; v < summary->verdicts; v++) {
            if (metrics_shows_verdict(site->run[i], &summary->verdict[v], now_ns) &&
                put++ < INFO_VERDICTS)
                metrics_put_verdict_info(out, site->run[i]->dir.run, &summary->verdict[v]);
        }
    }
}

/* What agents say of themselves, each a number of struct fact_traffic. */
static const struct agent_family {
    const char *name, *type, *help;
    size_t offset;
} agent_families[] = {
    { "agent_sent_bytes_total", "counter",
      "Bytes of frames that the controller accepted from an agent, counted by the agent since its "
      "start.",
      offsetof(struct fact_traffic, bytes) },
    { "agent_wire_bytes_total", "counter",
      "Bytes that TCP sent for these frames, including HTTP, TLS and retransmissions.",
      offsetof(struct fact_traffic, wire_bytes) },
    { "agent_sent_bodies_total", "counter", "Request bodies that contained these frames.",
      offsetof(struct fact_traffic, bodies) },
    { "agent_sent_frames_total", "counter", "Frames that the controller accepted from an agent.",
      offsetof(struct fact_traffic, frames) },
    { "agent_sent_rank_steps_total", "counter", "Steps of single ranks among these frames.",
      offsetof(struct fact_traffic, steps) },
    { "agent_send_failures_total", "counter", "Request bodies of an agent that failed.",
      offsetof(struct fact_traffic, failures) },
    { "agent_backlog_bytes", "gauge",
      "Bytes in an agent's spool that the controller has not acknowledged.",
      offsetof(struct fact_traffic, backlog_bytes) },
    { "agent_spool_bytes", "gauge", "Size of an agent's spool.",
      offsetof(struct fact_traffic, spool_bytes) },
};

/* -1: it is not known.  Where the kernel does not tell what TCP sent, that is 0. */
static double metrics_traffic_value(const struct traffic_agent *agent,
                                    const struct agent_family *family)
{
    uint64_t value;

    memcpy(&value, (const char *)&agent->now + family->offset, sizeof(value));
    if (!agent->has_traffic ||
        (family->offset == offsetof(struct fact_traffic, wire_bytes) && value == 0))
        return -1;
    return (double)value;
}

static double metrics_newest_value(const struct traffic_agent *agent,
                                   const struct agent_family *family)
{
    (void)family;
    return agent->newest_real_ns > 0 ? (double)agent->newest_real_ns / 1e9 : -1;
}

/* One series an agent. */
static void put_agents(const struct site *site, struct buf *out, const struct agent_family *family,
                       double (*value_of)(const struct traffic_agent *agent,
                                          const struct agent_family *family))
{
    metrics_head(out, family->name, family->type, family->help);
    for (size_t i = 0; i < site->runs; i++) {
        const struct site_run *run = site->run[i];

        for (size_t n = 0; run->log && n < run->traffic.count; n++) {
            const struct traffic_agent *agent = &run->traffic.agent[n];
            double value = value_of(agent, family);
            char node[2 * FACT_NAME];

            if (!agent->node[0] || value < 0)
                continue;
            metrics_label_text(agent->node, node);
            metrics_format(out, "lockstep_%s{run=\"%s\",node=\"%s\"} %.17g\n", family->name,
                           run->dir.run, node, value);
        }
    }
}

static void metrics_put_traffic(const struct site *site, struct buf *out)
{
    static const struct agent_family newest = {
        "agent_last_contact_timestamp_seconds", "gauge",
        "Time of the last contact with an agent, in Unix seconds.", 0
    };

    for (size_t i = 0; i < COUNT(agent_families); i++)
        put_agents(site, out, &agent_families[i], metrics_traffic_value);
    put_agents(site, out, &newest, metrics_newest_value);
}

static void metrics_put_findings(const struct finding_counts *counts, struct buf *out)
{
    char node[2 * FACT_NAME];

    metrics_head(out, "gpu_xid_errors_total", "counter",
                 "GPU errors in the kernel logs of nodes, by the Xid that began them: an error and "
                 "those that follow from it count once.");
    for (size_t i = 0; i < counts->rows; i++) {
        const struct finding_count *row = &counts->row[i];

        metrics_label_text(row->node, node);
        if (row->xid)
            metrics_format(out,
                           "lockstep_gpu_xid_errors_total{node=\"%s\",xid=\"%u\"} %" PRIu64 "\n",
                           node, row->xid, row->total);
    }
    metrics_head(out, "node_findings_total", "counter",
                 "What nodes observed about themselves, by kind; findings that grow count once.");
    for (size_t i = 0; i < counts->rows; i++) {
        const struct finding_count *row = &counts->row[i];

        metrics_label_text(row->node, node);
        if (!row->xid)
            metrics_format(out,
                           "lockstep_node_findings_total{node=\"%s\",kind=\"%s\"} %" PRIu64 "\n",
                           node, finding_kind_name(row->kind), row->total);
    }
}

/* Of whole stages; the results of single checks are in the API. */
static void metrics_put_checks(const struct site_core *core, struct buf *out)
{
    char node[2 * FACT_NAME], stage[2 * FACT_NAME];

    metrics_head(
        out, "node_check_time_seconds", "gauge",
        "When a stage of health checks was last completed on a node, and with which result.");
    for (size_t i = 0; i < site_core_nodes(core); i++) {
        const struct site_node *of = site_core_node(core, i);

        metrics_label_text(of->name, node);
        for (size_t k = 0; k < of->checks; k++) {
            const struct check *check = &of->check[k];

            if (strcmp(check->name, CHECK_NAME_ALL) != 0)
                continue;
            metrics_label_text(check->stage, stage);
            metrics_format(
                out,
                "lockstep_node_check_time_seconds{node=\"%s\",stage=\"%s\",state=\"%s\"} "
                "%.3f\n",
                node, stage, check_state_name(check->state), (double)check->real_ns / 1e9);
        }
    }
}

static void metrics_put_nodes(const struct site *site, struct buf *out)
{
    uint64_t count[CHECK_STATE_COUNT] = { 0 };
    const struct site_core *core = site->nodes ? site_log_core(site->nodes) : NULL;
    struct site_log_counts counts;

    if (!core)
        return;
    for (size_t i = 0; i < site_core_nodes(core); i++) {
        uint8_t state = site_core_node(core, i)->state;

        count[state ? state : CHECK_UNKNOWN]++;
    }
    site_log_counts(site->nodes, &counts);
    metrics_head(out, "nodes", "gauge", "Nodes that sent facts with their own token, by state.");
    for (unsigned state = 1; state < CHECK_STATE_COUNT; state++)
        metrics_format(out, "lockstep_nodes{state=\"%s\"} %" PRIu64 "\n", check_state_name(state),
                       count[state]);
    metrics_gauge(out, "site_log_bytes", "Size of the site's log.", (double)counts.bytes);
    metrics_gauge(out, "site_memory_bytes", "Approximate memory used by the facts of nodes.",
                  (double)site_core_bytes(core));
    metrics_put_findings(site_core_counts(core), out);
    metrics_put_checks(core, out);
}

void metrics_put(const struct site *site, struct buf *out)
{
    put_site(site, out);
    metrics_put_runs(site, out, "run_frames_total", "counter", "Frames in a run's log.",
                     metrics_frames_of);
    metrics_put_runs(site, out, "run_rank_steps_total", "counter",
                     "Steps of single ranks in a run's log.", metrics_steps_of);
    metrics_put_runs(site, out, "run_ranks", "gauge", "Expected ranks of a run.", metrics_ranks_of);
    metrics_put_runs(site, out, "run_ranks_seen", "gauge", "Observed ranks of a run.",
                     metrics_ranks_seen_of);
    metrics_put_runs(site, out, "run_gap_steps_total", "counter",
                     "Steps of single ranks that were lost.", metrics_gap_steps_of);
    metrics_put_runs(site, out, "run_malformed_total", "counter", "Malformed facts.",
                     metrics_malformed_of);
    metrics_put_runs(site, out, "run_checkpoint_saves_total", "counter",
                     "Saves of single ranks that were read back.", metrics_saves_of);
    metrics_put_saves(site, out);
    metrics_put_runs(site, out, "run_checkpoint_replicate_seconds", "gauge",
                     "Time that the newest copy of a checkpoint to another node took.",
                     metrics_replicate_of);
    metrics_put_runs(site, out, "run_checkpoint_upload_seconds", "gauge",
                     "Time that the newest copy of a checkpoint to an object store took.",
                     metrics_upload_of);
    metrics_put_runs(site, out, "run_goodput_ratio", "gauge",
                     "Productive share of all GPU-seconds of a run.", metrics_goodput_of);
    metrics_put_limits(site, out);
    metrics_put_ledgers(site, out);
    metrics_put_verdicts(site, out);
    metrics_put_verdict_infos(site, out);
    metrics_put_traffic(site, out);
    metrics_put_nodes(site, out);
}
