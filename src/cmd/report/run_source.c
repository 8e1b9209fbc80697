/* run_source.c - finds or fetches the files of a run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/report/run_source.h"

#include "core/clean.h"

static void run_source_ask_clean(struct site_ask **ask)
{
    site_ask_close(*ask);
}

int run_source_open(const char *run, const struct site_options *site, struct run_source *ret,
                    struct err *err)
{
    CLEAN(run_source_ask_clean) struct site_ask *ask = NULL;
    struct run_source source = { .fetched = site_ask_is_run(site, run) };
    char name[64];
    int result;

    if (!source.fetched)
        result = paths_find(run, &source.directory, err);
    else
        result = site_ask_open(site, &ask, err);
    if (result == 0 && source.fetched)
        result = site_ask_run(ask, run, name, err);
    if (result == 0 && source.fetched)
        result = site_ask_fetch(ask, name, &source.directory, err);
    if (result < 0)
        return result;
    *ret = source;
    return 0;
}

void run_source_close(struct run_source *source)
{
    if (source->fetched)
        site_ask_drop(&source->directory);
    source->fetched = false;
}
