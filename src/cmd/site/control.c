/* control.c - `lockstep control`: the controller of one run, or of a site.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "base/log.h"
#include "base/paths.h"
#include "cmd/lockstep.h"
#include "cmd/node/node_repair.h"
#include "cmd/settings.h"
#include "cmd/site/page_link.h"
#include "control/index/reindex.h"
#include "control/log/retention.h"
#include "control/nodes/node_lives.h"
#include "control/nodes/site_orders.h"
#include "control/site/site.h"
#include "core/clean.h"
#include "core/time.h"

struct control_settings {
    const char *verify_stage;
    struct opt_list repair;
    struct site_settings site;
    bool reindex, tidy, page;
    const char *node_token;
    uint64_t keep_mb;
    uint32_t drain_percent;
    int64_t keep_age_ns;
};

static const struct opt control_opts[] = {
    { "run-dir", 0, OPT_TEXT, offsetof(struct control_settings, site.run_dir), "DIR",
      "directory of the run", NULL, false },
    { "only", 0, OPT_TEXT, offsetof(struct control_settings, site.only), "RUN",
      "with --state, the directory of RUN: accept the facts of that run alone, and end with the "
      "process that started this one",
      NULL, false },
    { "tick", 0, OPT_DURATION, offsetof(struct control_settings, site.tick_ns), "TIME",
      "how often to read the spools, default 50ms", NULL, false },
    { "listen", 0, OPT_TEXT, offsetof(struct control_settings, site.listen), "ADDR:PORT",
      "address of a site's controller, which accepts the facts of many runs, default "
      "127.0.0.1:8787",
      "LOCKSTEP_LISTEN", false },
    { "state", 0, OPT_TEXT, offsetof(struct control_settings, site.state), "DIR",
      "directory of a site's runs, tokens and certificate, default the state directory", NULL,
      false },
    { "tls", 0, OPT_FLAG, offsetof(struct control_settings, site.tls), NULL,
      "use TLS on loopback, too; on other addresses TLS is always used", NULL, false },
    { "cert", 0, OPT_TEXT, offsetof(struct control_settings, site.cert), "FILE",
      "the site's certificate in PEM, default one that is created on first use", NULL, false },
    { "key", 0, OPT_TEXT, offsetof(struct control_settings, site.key), "FILE",
      "the certificate's key in PEM, mode 0600", NULL, false },
    { "host-name", 0, OPT_LIST, offsetof(struct control_settings, site.host_names), "NAME",
      "a host name of the controller, in addition to localhost and its addresses; may be given "
      "several times",
      "LOCKSTEP_HOST_NAMES", false },
    { "user-header", 0, OPT_TEXT, offsetof(struct control_settings, site.user_header), "NAME",
      "a reverse proxy that has a token tokens/proxy-NAME.token names its user in this header; the "
      "user may read",
      "LOCKSTEP_USER_HEADER", false },
    { "anonymous-reads", 0, OPT_FLAG, offsetof(struct control_settings, site.anonymous_reads), NULL,
      "on loopback: every user of this machine may read all runs without a token", NULL, false },
    { "log-max", 0, OPT_U64, offsetof(struct control_settings, site.log_max), "BYTES",
      "compact the log of a running run when it is larger, default 8589934592; 0: never",
      "LOCKSTEP_LOG_MAX", false },
    { "run-memory", 0, OPT_U64, offsetof(struct control_settings, site.run_memory), "BYTES",
      "memory limit of one run of a site; facts beyond it are refused, default 4294967296; 0: no "
      "limit",
      NULL, false },
    { "run-disk", 0, OPT_U64, offsetof(struct control_settings, site.run_disk), "BYTES",
      "disk limit of the log of one run of a site; facts beyond it are refused, default "
      "34359738368; 0: no limit",
      NULL, false },
    { "forget-after", 0, OPT_DURATION, offsetof(struct control_settings, site.forget_ns), "TIME",
      "a run that was registered at a site and never reported anything is removed after this time; "
      "default 1h, 0: never",
      NULL, false },
    { "close-after", 0, OPT_DURATION, offsetof(struct control_settings, site.close_ns), "TIME",
      "a site's run without a launcher is over when all of its ranks are gone and no message "
      "about it arrived for this time; default 60s",
      NULL, false },
    { "inspections", 0, OPT_U32, offsetof(struct control_settings, site.inspections), "N",
      "how many inspections of nodes a site orders in an hour, default 60", NULL, false },
    { "act", 0, OPT_FLAG, offsetof(struct control_settings, site.act), NULL,
      "a site's controller drains nodes that are proven faulty and gives them back, by scontrol; "
      "default: a dry run",
      NULL, false },
    { "drains", 0, OPT_U32, offsetof(struct control_settings, site.drains), "N",
      "with --act: how many nodes a site drains in an hour, default 4", NULL, false },
    { "drain-share", 0, OPT_U32, offsetof(struct control_settings, drain_percent), "PERCENT",
      "with --act: how many of its nodes may be out by lockstep's doing, default 5; one node "
      "always may",
      NULL, false },
    { "repair", 0, OPT_LIST, offsetof(struct control_settings, repair), "ACTION",
      "with --act: order reset-gpu or reboot for a node that is drained because of a finding that "
      "calls for it; may be given twice, default neither",
      NULL, false },
    { "verify-age", 0, OPT_DURATION, offsetof(struct control_settings, site.verify_age_ns), "TIME",
      "nodes whose last complete health check is older are checked while no job uses them; default "
      "0: "
      "only nodes that are out",
      NULL, false },
    { "verify-stage", 0, OPT_TEXT, offsetof(struct control_settings, verify_stage), "STAGE",
      "with --verify-age: what is a complete check: quick, prolog, deep (default) or burn", NULL,
      false },
    { "verify-at-once", 0, OPT_U32, offsetof(struct control_settings, site.verify_at_once), "N",
      "how many nodes a site checks at a time, default 4; 0: none, also none that are out", NULL,
      false },
    { "tidy", 0, OPT_FLAG, offsetof(struct control_settings, tidy), NULL,
      "compact the logs of runs that are over, as far as --keep-age and --keep-mb ask, and exit",
      NULL, false },
    { "keep-age", 0, OPT_DURATION, offsetof(struct control_settings, keep_age_ns), "TIME",
      "with --tidy: logs older than this are compacted; default 30d, 0: whatever their age", NULL,
      false },
    { "keep-mb", 0, OPT_U64, offsetof(struct control_settings, keep_mb), "N",
      "with --tidy: the oldest are compacted while all are larger than this; default 0: no limit",
      NULL, false },
    { "node-token", 0, OPT_TEXT, offsetof(struct control_settings, node_token), "NODE",
      "print the file with the token of that node, after creating it if it is missing, and exit",
      NULL, false },
    { "page", 0, OPT_FLAG, offsetof(struct control_settings, page), NULL,
      "print a one-time link to the page of the controller that is running, and exit", NULL,
      false },
    { "reindex", 0, OPT_FLAG, offsetof(struct control_settings, reindex), NULL,
      "rebuild the index and the matrices from the logs, and exit", NULL, false },
    { .name = NULL },
};

static int control_run_site(const struct control_settings *settings,
                            const struct thresholds *limits)
{
    struct site_settings site = settings->site;
    struct err err = { "" };
    int result;

    site.thresholds = limits;
    site.drain_share = MIN(settings->drain_percent, 100u) / 100.0;
    if (site.run_dir || site.only)
        site.act = false;
    if (site.run_dir) { /* the user's own run has no limits but the log's */
        site.listen = "127.0.0.1:0";
        site.tls = site.anonymous_reads = false;
        site.cert = site.key = NULL;
        site.host_names = (struct opt_list){ 0 };
        site.user_header = NULL;
        site.run_memory = site.run_disk = 0;
        site.forget_ns = 0;
    }
    if (site.only)
        site.forget_ns = 0;
    if (site.only && (site.run_dir || !site.state))
        result = err_set(&err, -EINVAL, "--only: needs --state, and no --run-dir");
    else if (site.only && paths_check_run(site.only, &err) < 0)
        result = -EINVAL;
    else
        result = site_run(&site, &err);
    if (result == 0)
        return 0;
    log_error("%s", err.text);
    return result == -EINVAL || result == -EBUSY || result == -EADDRINUSE || result == -EACCES ||
                   (site.run_dir && (result == -ENOENT || result == -ENOTDIR))
               ? 2
               : 1;
}

static int control_state(const struct control_settings *settings, struct path *ret, struct err *err)
{
    if (!settings->site.state)
        return paths_state(ret, err);
    snprintf(ret->text, sizeof(ret->text), "%s", settings->site.state);
    return 0;
}

static int control_run_tidy(const struct control_settings *settings)
{
    struct retention keep = { .bytes = MIN(settings->keep_mb, UINT64_MAX >> 20) << 20,
                              .age_ns = settings->keep_age_ns };
    struct retention_counts counts;
    struct path state;
    struct err err = { "" };
    int result = control_state(settings, &state, &err);

    if (result == 0)
        result = retention_apply(state.text, &keep, time_real_ns(), &counts, &err);
    if (result < 0) {
        log_error("%s", err.text);
        return result == -ENOENT || result == -ENOTDIR ? 2 : 1;
    }
    printf("%llu runs, %llu compacted, %.1f MB before, %.1f MB now\n",
           (unsigned long long)counts.runs, (unsigned long long)counts.compacted,
           (double)counts.bytes_before / 1e6, (double)counts.bytes_after / 1e6);
    if (counts.still_above)
        log_error("%.1f MB more than --keep-mb; verdicts, ledgers and exits are never dropped, nor "
                  "runs that go on",
                  (double)counts.still_above / 1e6);
    return counts.still_above ? 1 : 0;
}

static int control_run_reindex(const struct control_settings *settings)
{
    struct reindex_counts counts;
    struct path state;
    struct err err = { "" };
    int result = 0;

    if (settings->site.run_dir) {
        result = reindex_run(settings->site.run_dir, &counts, &err);
    } else {
        result = control_state(settings, &state, &err);
        if (result == 0)
            result = reindex_state(state.text, &counts, &err);
    }
    if (result < 0) {
        log_error("%s", err.text);
        return result == -ENOENT || result == -ENOTDIR ? 2 : 1;
    }
    printf("%llu runs, %llu frames, %llu steps\n", (unsigned long long)counts.runs,
           (unsigned long long)counts.frames, (unsigned long long)counts.steps);
    return 0;
}

/* The name of the file and never the token: terminals and logs keep what is printed. */
static int control_run_node_token(const struct control_settings *settings)
{
    struct path state, path;
    struct token token;
    struct err err = { "" };
    int result = control_state(settings, &state, &err);

    if (result == 0)
        result = site_node_token(state.text, settings->node_token, true, &path, &token, &err);
    if (result < 0) {
        log_error("%s", err.text);
        return result == -EINVAL ? 2 : 1;
    }
    puts(path.text);
    return 0;
}

static int control_run_page(const struct control_settings *settings)
{
    char address[512];
    struct path state;
    struct err err = { "" };
    int result = 0;

    if (settings->site.run_dir)
        snprintf(state.text, sizeof(state.text), "%s", settings->site.run_dir);
    else
        result = control_state(settings, &state, &err);
    if (result == 0)
        result = page_link_ask(state.text, address, &err);
    if (result < 0) {
        log_error("%s", err.text);
        return result == -ENOENT || result == -EINVAL ? 2 : 3;
    }
    page_link_print(address, stdout);
    return 0;
}

static int control_run(int argc, char **argv)
{
    struct control_settings settings = { .site.tick_ns = 50 * NS_PER_MS,
                                         .site.log_max = UINT64_C(8) << 30,
                                         .site.run_memory = UINT64_C(4) << 30,
                                         .site.run_disk = UINT64_C(32) << 30,
                                         .site.forget_ns = 3600 * NS_PER_S,
                                         .site.close_ns = 60 * NS_PER_S,
                                         .site.inspections = SITE_BUDGET_DEFAULT,
                                         .site.drains = SITE_DRAINS_DEFAULT,
                                         .site.verify_at_once = SITE_VERIFY_AT_ONCE_DEFAULT,
                                         .verify_stage = "deep",
                                         .drain_percent = (uint32_t)(100 * SITE_SHARE_DEFAULT),
                                         .keep_age_ns = 30 * 86400 * NS_PER_S,
                                         .site.listen = "127.0.0.1:8787" };
    struct thresholds limits;
    struct err err = { "" };
    uint32_t bits = 0;
    int parsed = opt_parse_all(&command_control, argc, argv, &settings);

    if (parsed < 0)
        return OPT_EXIT(parsed);
    if (settings.site.tick_ns < NS_PER_MS || settings.site.tick_ns > 10 * NS_PER_S) {
        log_error("--tick: expected 1ms to 10s");
        return 2;
    }
    settings.site.verify_stage = node_stage_rank(settings.verify_stage);
    if (!settings.site.verify_stage) {
        log_error("--verify-stage %s: expected quick, prolog, deep or burn", settings.verify_stage);
        return 2;
    }
    if (repair_bits(&settings.repair, &bits, &err) < 0) {
        log_error("%s", err.text);
        return 2;
    }
    settings.site.repair = (bits >> ACTION_RESET_GPU & 1 ? SITE_REPAIR_RESET_GPU : 0) |
                           (bits >> ACTION_REBOOT & 1 ? SITE_REPAIR_REBOOT : 0);
    if (settings_thresholds(&command_control, argc, argv, &limits, &err) < 0) {
        log_error("%s", err.text);
        return 2;
    }
    if (settings.node_token)
        return control_run_node_token(&settings);
    if (settings.page)
        return control_run_page(&settings);
    if (settings.tidy)
        return control_run_tidy(&settings);
    if (settings.reindex)
        return control_run_reindex(&settings);
    return control_run_site(&settings, &limits);
}

const struct command command_control = {
    .name = "control",
    .operands = "",
    .summary = "collect the facts of a run, or of all runs of a site, and judge them",
    .details =
        "With --run-dir it is the controller of one run; lockstep run starts that one.  "
        "Without, it is the\ncontroller of a site and takes facts over HTTP.  It may be killed "
        "and started again at any moment.",
    .opt = control_opts,
    .run = control_run,
};
