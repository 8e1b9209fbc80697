/* conf.h - settings files: YAML of sections with keys, each value with its place.
 *
 *     control:
 *       tick: 100ms
 *     run:
 *       fault: [slow, kill]     # a list gives its key several times
 *
 * What the sections and keys are is the option tables' business (opt.h); here is only the form.  Read by
 * libyaml's events: libcyaml, which sits on it, tells places only inside sentences of its own log, and wants a
 * schema of its own beside the option table.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_CONF_H
#define LOCKSTEP_BASE_CONF_H

#include <stddef.h>

#include "base/paths.h"
#include "core/err.h"

#define CONF_BYTES_MAX (1u << 20)
#define CONF_ENTRIES_MAX 4096

struct conf_place {
    unsigned line, column; /* from 1 */
};

struct conf_entry {
    const char *section, *key, *value; /* key NULL: the section itself, to be checked */
    struct conf_place at, value_at;    /* of the key (or section), and of its value */
};

struct conf {
    char *file; /* as errors name it */
    struct conf_entry *entry;
    size_t count, room;
};

/* -ENOENT: no such file; -EINVAL: "FILE:LINE:COLUMN: what is wrong". */
int conf_read(const char *path, struct conf *ret, struct err *err);
int conf_parse(const char *file, const void *text, size_t size, struct conf *ret, struct err *err);
void conf_fini(struct conf *conf);

/* "FILE:LINE:COLUMN: " and a sentence; returns -EINVAL. */
int conf_error(const struct conf *conf, struct conf_place at, struct err *err, const char *format,
               ...) __attribute__((format(printf, 4, 5)));

/* Where settings files are, weakest first: `given` alone, else $LOCKSTEP_CONFIG alone, else
 * /etc/lockstep/lockstep.yaml and $XDG_CONFIG_HOME/lockstep/lockstep.yaml (~/.config).
 * Returns how many; *must says that one which is not there is an error.
 */
#define CONF_FILES_MAX 2
size_t conf_files(const char *given, struct path ret[static CONF_FILES_MAX], int *must);

#endif
