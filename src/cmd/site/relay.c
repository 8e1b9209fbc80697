/* relay.c - `lockstep relay`: sends what happened to a SIEM.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/paths.h"
#include "cmd/lockstep.h"
#include "cmd/site/site_ask.h"
#include "control/relay/relay.h"
#include "core/clean.h"
#include "core/time.h"

/* 32473 is the number that RFC 5612 sets aside for examples: lockstep has none of its own. */
#define SD_ID "lockstep@32473"

struct relay_options {
    const char *to, *state, *name, *ca, *cert, *key, *sd_id;
    int64_t timeout_ns;
    bool once, new_only;
};

static const struct opt relay_opts[] = {
    { "to", 0, OPT_TEXT, offsetof(struct relay_options, to), "DESTINATION",
      "file:PATH, unix:PATH, tcp://HOST:PORT or tls://HOST:PORT for JSON lines; "
      "syslog://HOST:PORT, syslog+tls://HOST:PORT or syslog+unix:PATH for RFC 5424; - for "
      "standard output",
      "LOCKSTEP_RELAY_TO", false },
    { "state", 0, OPT_TEXT, offsetof(struct relay_options, state), "DIR",
      "directory of the site, or of a user's own runs, default the state directory", NULL, false },
    { "name", 0, OPT_TEXT, offsetof(struct relay_options, name), "NAME",
      "name of the cursor, STATE/relay/NAME.cursor; each destination needs its own; default "
      "'relay'",
      NULL, false },
    { "ca", 0, OPT_TEXT, offsetof(struct relay_options, ca), "FILE",
      "certificates to trust, in PEM, default those of the system", NULL, false },
    { "cert", 0, OPT_TEXT, offsetof(struct relay_options, cert), "FILE",
      "certificate of this client in PEM, if the receiver asks for one", NULL, false },
    { "key", 0, OPT_TEXT, offsetof(struct relay_options, key), "FILE", "its key in PEM", NULL,
      false },
    { "sd-id", 0, OPT_TEXT, offsetof(struct relay_options, sd_id), "ID",
      "name of the structured data in syslog messages, with your enterprise number; default "
      "'" SD_ID "'",
      NULL, false },
    { "timeout", 0, OPT_DURATION, offsetof(struct relay_options, timeout_ns), "TIME",
      "how long to wait for a connection and for the delivery of what was sent, default 30s", NULL,
      false },
    { "new-only", 0, OPT_FLAG, offsetof(struct relay_options, new_only), NULL,
      "the first time: begin with what happens from now on, not with what the logs hold already",
      NULL, false },
    { "once", 0, OPT_FLAG, offsetof(struct relay_options, once), NULL,
      "send what is there, print how much that was, and exit", NULL, false },
    { .name = NULL },
};

/* RFC 5424, SD-NAME: 1 to 32 of printable ASCII, without '=', ']' and '"'. */
static bool relay_sd_id_is_good(const char *text)
{
    size_t size = strlen(text);

    if (size == 0 || size > 32)
        return false;
    for (; *text; text++) {
        if (*text <= ' ' || *text > '~' || strchr("=]\"", *text))
            return false;
    }
    return true;
}

static int relay_check(const struct relay_options *options, struct relay_settings *settings,
                       struct path *state, struct err *err)
{
    int result;

    if (!options->to)
        return err_set(err, -EINVAL, "needs --to DESTINATION or LOCKSTEP_RELAY_TO");
    result = relay_target_parse(options->to, &settings->target, err);
    if (result < 0)
        return err_wrap(err, result, "--to");
    if (paths_check_run(options->name, NULL) < 0)
        return err_set(err, -EINVAL, "--name '%s': expected letters, digits, '.', '-' and '_'",
                       options->name);
    if (!relay_sd_id_is_good(options->sd_id))
        return err_set(err, -EINVAL, "--sd-id '%s': expected NAME@NUMBER, 32 bytes at most",
                       options->sd_id);
    if (!options->cert != !options->key)
        return err_set(err, -EINVAL, "--cert and --key must be given together");
    if (!options->state)
        return paths_state(state, err);
    snprintf(state->text, sizeof(state->text), "%s", options->state);
    return 0;
}

static int relay_main(int argc, char **argv)
{
    struct relay_options options = { .name = "relay", .sd_id = SD_ID, .timeout_ns = 30 * NS_PER_S };
    int parsed = opt_parse_all(&command_relay, argc, argv, &options);
    struct relay_settings settings = { 0 };
    struct relay_counts counts = { 0 };
    struct err err = { "" };
    struct path state;
    int result;

    if (parsed < 0)
        return OPT_EXIT(parsed);
    settings.name = options.name;
    settings.sd_id = options.sd_id;
    settings.once = options.once;
    settings.new_only = options.new_only;
    settings.sink = (struct relay_sink_settings){
        .ca = options.ca, .cert = options.cert, .key = options.key, .timeout_ns = options.timeout_ns
    };
    settings.state = state.text;
    result = relay_check(&options, &settings, &state, &err);
    if (result == 0 && settings.target.kind == RELAY_TCP && !settings.target.tls &&
        !address_is_loopback(settings.target.at.host))
        log_info("events travel to %s without encryption; use %s:// if the receiver can",
                 settings.target.at.host, settings.target.syslog ? "syslog+tls" : "tls");
    if (result == 0)
        result = relay_run(&settings, &counts, &err);
    if (result < 0) {
        log_error("%s", err.text);
        return result == -EBUSY ? 2 : site_ask_exit(result);
    }
    if (options.once)
        log_info("%llu events of %llu sources", (unsigned long long)counts.events,
                 (unsigned long long)counts.sources);
    return 0;
}

const struct command command_relay = {
    .name = "relay",
    .operands = "",
    .summary = "send verdicts, findings, decisions and the audit trail to a SIEM",
    .details = "Each event is delivered at least once, those of a run in their order.  It may be "
               "killed and\nstarted again at any moment.",
    .opt = relay_opts,
    .run = relay_main,
};
