/* launch_show.c - what a launch would start, and where.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/launch.h"

#include <stdlib.h>
#include <string.h>

#include "act/attach.h"
#include "act/launcher_log.h"
#include "act/rank_environment.h"
#include "act/run_directory.h"

static void show_env(const struct layout *layout, const struct layout_start *start, uint32_t rank,
                     FILE *out)
{
    struct buf env = { 0 };

    layout_env(layout, start, rank, &env);
    for (size_t at = 0; at < env.size; at += strlen((const char *)env.data + at) + 1)
        fprintf(out, " %s", (const char *)env.data + at);
    buf_fini(&env);
}

int launch_show(const struct launch_plan *plan, FILE *out, struct err *err)
{
    struct run_directory run_dir;
    struct layout_start start = { .max_restarts = plan->max_restarts };
    struct attach attach;
    struct path rings;
    char command[1024];
    int r = run_directory_plan(plan, &run_dir, err);

    if (r == 0)
        r = paths_rings(run_dir.file.id, 0, &rings, err);
    if (r == 0 && plan->ranks)
        r = layout_port(&start.port, err);
    if (r < 0)
        return r;
    start.run = run_dir.file.id;
    start.rings = rings.text;
    start.omp_threads = getenv("OMP_NUM_THREADS") != NULL;
    attach_find(&attach);
    start.python_path = attach.python_path;
    start.nccl_plugin = attach.nccl_plugin;
    launcher_log_command_text(plan->command, command, sizeof(command));
    fprintf(out, "run %s in %s\n", run_dir.file.id,
            run_directory_is_somewhere(&run_dir) ? run_dir.directory.text : run_dir.trouble.text);
    for (uint32_t rank = 0; rank < (plan->ranks ? plan->ranks : 1); rank++) {
        if (plan->ranks)
            fprintf(out, "rank %u:", rank);
        show_env(&run_dir.file.layout, &start, rank, out);
        fprintf(out, " %s\n", command);
    }
    return 0;
}
