/* fuzz-conf.c - settings files as anyone might write them, read by a table.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/opt.h"
#include "core/clean.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct settings {
    bool quiet;
    uint32_t ranks;
    uint64_t seed;
    double factor;
    int64_t tick_ns;
    const char *name;
    struct opt_list fault;
};

static const struct opt opts[] = {
    { "quiet", 'q', OPT_FLAG, offsetof(struct settings, quiet), NULL, "", NULL, false },
    { "ranks", 'n', OPT_U32, offsetof(struct settings, ranks), "N", "", NULL, false },
    { "seed", 0, OPT_U64, offsetof(struct settings, seed), "N", "", NULL, false },
    { "factor", 0, OPT_F64, offsetof(struct settings, factor), "N", "", NULL, false },
    { "tick", 0, OPT_DURATION, offsetof(struct settings, tick_ns), "TIME", "", NULL, false },
    { "name", 0, OPT_TEXT, offsetof(struct settings, name), "NAME", "", NULL, false },
    { "fault", 'f', OPT_LIST, offsetof(struct settings, fault), "KIND", "", NULL, false },
    { .name = NULL },
};
static const struct command command = { .name = "try", .operands = "", .summary = "", .opt = opts };

/* Every entry has a section and a place; one with a key has a value. */
static void check(const struct conf *conf)
{
    for (size_t i = 0; i < conf->count; i++) {
        const struct conf_entry *entry = &conf->entry[i];

        if (!entry->section || !entry->at.line || !entry->at.column)
            abort();
        if (entry->key && (!entry->value || !entry->value_at.line))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEAN(conf_fini) struct conf conf = { 0 };
    struct settings settings = { 0 };
    struct err err = { "" };
    int checked;

    if (conf_parse("f", data, size, &conf, &err) < 0) {
        if (strncmp(err.text, "f:", 2) != 0)
            abort();
        return 0;
    }
    check(&conf);
    checked = opt_read_conf(&command, &conf, NULL, &err);
    if (opt_read_conf(&command, &conf, &settings, &err) == 0 && checked < 0)
        abort();
    return 0;
}
