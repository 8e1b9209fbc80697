/* orders.c - `lockstep orders`: waits for the orders of a run, as a child of its launcher.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "act/orders/order_fetch.h"
#include "agent/runinfo.h"
#include "base/log.h"
#include "base/runfile.h"
#include "cmd/lockstep.h"
#include "core/time.h"

struct orders_options {
    const char *run_dir;
    struct client_settings control;
};

static const struct opt orders_opts[] = {
    { "run-dir", 0, OPT_TEXT, offsetof(struct orders_options, run_dir), "DIR",
      "directory of the run", NULL, false },
    { "control", 0, OPT_TEXT, offsetof(struct orders_options, control.url), "URL",
      "the site's controller, default the run's own", "LOCKSTEP_CONTROL", false },
    CLIENT_TRUST_OPTS(offsetof(struct orders_options, control.ca_file),
                      offsetof(struct orders_options, control.pin),
                      offsetof(struct orders_options, control.insecure_http)),
    { .name = NULL },
};

static int orders_serve(const struct orders_options *options, struct err *err)
{
    struct runfile file;
    int result = runinfo_check_owner(options->run_dir, err);

    if (result == 0)
        result = runfile_read(options->run_dir, &file, err);
    if (result < 0)
        return result;
    result = order_fetch_run(&(struct order_fetch_settings){ .run_dir = options->run_dir,
                                                             .run = file.id,
                                                             .control = options->control },
                             err);
    runfile_fini(&file);
    return result;
}

static int orders_main(int argc, char **argv)
{
    struct orders_options options = { .control.timeout_ns = 40 * NS_PER_S };
    int first = opt_parse(&command_orders, argc, argv, &options);
    struct err err = { "" };

    if (first < 0)
        return OPT_EXIT(first);
    if (!options.run_dir || first < argc) {
        log_error("this is started by 'lockstep run' alone");
        return 2;
    }
    if (orders_serve(&options, &err) == 0)
        return 0;
    log_error("%s", err.text);
    return 3;
}

const struct command command_orders = {
    .name = "orders",
    .operands = "",
    .summary = "waits for the orders of a run, started by 'lockstep run'",
    .opt = orders_opts,
    .run = orders_main,
    .hidden = true,
};
