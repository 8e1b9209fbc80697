/* drill_job.c - faults in a job of this machine that consented.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>

#include "core/clean.h"
#include "lab/cmd/drill/drill.h"

int drill_job(const struct drill_settings *settings, const char *run, struct drill_page *ret,
              struct err *err)
{
    (void)settings;
    (void)ret;
    return err_set(err, -EACCES, "run '%s' did not consent", run);
}

void drill_job_list(FILE *out)
{
    fputs("none\n", out);
}
