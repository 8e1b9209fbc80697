/* agent.c - `lockstep agent`: watches the ranks of one node. */
#include <errno.h>
#include <stddef.h>

#include "agent/agent.h"
#include "base/log.h"
#include "cmd/lockstep.h"
#include "core/time.h"

static const struct opt agent_opts[] = {
    { "run-dir", 0, OPT_TEXT, offsetof(struct agent_settings, run_dir), "DIR",
      "the run's directory, with its run.json; the spool goes there", NULL, false },
    { "node", 0, OPT_TEXT, offsetof(struct agent_settings, node), "NAME",
      "the node this agent speaks for", "LOCKSTEP_NODE", false },
    { "rings", 0, OPT_TEXT, offsetof(struct agent_settings, rings), "DIR",
      "where the rings are, if not where run.json says", NULL, false },
    { "tick", 0, OPT_DURATION, offsetof(struct agent_settings, tick_ns), "TIME",
      "how often rings are read (50ms)", NULL, false },
    { "control", 0, OPT_TEXT, offsetof(struct agent_settings, control.url), "URL",
      "the site's controller, to which the spool is sent", "LOCKSTEP_CONTROL", false },
    { "control-ca", 0, OPT_TEXT, offsetof(struct agent_settings, control.ca_file), "FILE",
      "certificate to trust, in PEM", "LOCKSTEP_CONTROL_CA", false },
    { "control-pin", 0, OPT_TEXT, offsetof(struct agent_settings, control.pin), "PIN",
      "trust the controller with this key, as it prints it: sha256//...", "LOCKSTEP_CONTROL_PIN",
      false },
    { "spool-max", 0, OPT_U64, offsetof(struct agent_settings, spool_max), "BYTES",
      "a spool that is sent is shrunk beyond that, default 268435456", "LOCKSTEP_SPOOL_MAX",
      false },
    { .name = NULL },
};

static int agent_main(int argc, char **argv)
{
    struct agent_settings settings = { .tick_ns = 50 * NS_PER_MS,
                                       .control.timeout_ns = 30 * NS_PER_S,
                                       .spool_max = 256u << 20 };
    int first = opt_parse(&command_agent, argc, argv, &settings);
    struct agent *agent;
    struct err err = { 0 };
    int result;

    if (first < 0)
        return OPT_EXIT(first);
    if (first < argc) {
        log_error("unexpected operand '%s'", argv[first]);
        return 2;
    }
    if (!settings.run_dir || !settings.node) {
        log_error("%s is needed", settings.run_dir ? "--node NAME" : "--run-dir DIR");
        return 2;
    }
    result = agent_open(&settings, &agent, &err);
    if (result < 0) {
        log_error("%s", err.text);
        return result == -EINVAL || result == -ENOENT ? 2 : 3;
    }
    result = agent_run(agent, &err);
    if (result < 0)
        log_error("%s", err.text);
    agent_close(agent);
    return result < 0 ? 3 : 0;
}

const struct command command_agent = {
    .name = "agent",
    .operands = "",
    .summary = "watch the ranks of one node: rings and /proc in, frames out",
    .details = "Runs until SIGTERM, or until the launcher that started it is gone.  One a node; "
               "'lockstep run' starts\nand restarts it.  It may be killed at any moment: the next "
               "one goes on where the spool ends.",
    .opt = agent_opts,
    .run = agent_main,
};
