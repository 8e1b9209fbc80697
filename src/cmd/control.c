/* control.c - the embedded controller as a process of its own. */
#include <errno.h>
#include <stddef.h>

#include "base/log.h"
#include "cmd/lockstep.h"
#include "cmd/settings.h"
#include "control/server.h"
#include "core/time.h"

struct control_settings {
    const char *run_dir;
    int64_t tick_ns;
};

static const struct opt control_opts[] = {
    { "run-dir", 0, OPT_TEXT, offsetof(struct control_settings, run_dir), "DIR",
      "directory of the run", NULL, false },
    { "tick", 0, OPT_DURATION, offsetof(struct control_settings, tick_ns), "TIME",
      "how often to look at the spools when nothing comes; default 50ms", NULL, false },
    { .name = NULL },
};

static int control_run(int argc, char **argv)
{
    struct control_settings settings = { .tick_ns = 50 * NS_PER_MS };
    struct thresholds limits;
    struct err err = { "" };
    int first = opt_parse(&command_control, argc, argv, &settings);
    int result;

    if (first < 0)
        return OPT_EXIT(first);
    if (first < argc) {
        log_error("unexpected operand '%s'", argv[first]);
        return 2;
    }
    if (!settings.run_dir || settings.tick_ns < NS_PER_MS || settings.tick_ns > 10 * NS_PER_S) {
        log_error(settings.run_dir ? "--tick: expected 1ms to 10s"
                                   : "--run-dir DIR: expected the directory of a run");
        return 2;
    }
    if (settings_thresholds(&command_control, argc, argv, &limits, &err) < 0) {
        log_error("%s", err.text);
        return 2;
    }
    result = server_run(&(struct server_settings){ .run_dir = settings.run_dir,
                                                   .tick_ns = settings.tick_ns,
                                                   .thresholds = &limits },
                        &err);
    if (result == 0)
        return 0;
    log_error("%s", err.text);
    return result == -ENOENT || result == -ENOTDIR || result == -EBUSY ? 2 : 1;
}

const struct command command_control = {
    .name = "control",
    .operands = "",
    .summary = "gathers the facts of a run into its log and judges them",
    .details = "lockstep run starts it.  It may be killed and started again at any moment.",
    .opt = control_opts,
    .run = control_run,
};
