/* logtext_private.h - shared by the files of the log reader.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_LOGTEXT_PRIVATE_H
#define LOCKSTEP_READ_LOGTEXT_PRIVATE_H

#include "read/logtext.h"

struct log_line {
    const char *text, *end; /* of the line, without its newline */
    const char *found;      /* the words that were looked for */
};

struct log_rule {
    const char *words;
    uint8_t kind, layer;
    const char *cause; /* NULL: the line itself */
    /* Reads more from the line; false: it is not what it seems.  NULL: nothing to read. */
    bool (*more)(const struct log_line *line, struct log_event *note);
};

extern const struct log_rule log_rules_kernel[]; /* words NULL ends a list */
extern const struct log_rule log_rules_job[];

/* logtext_when.c: when the line was written, as dmesg, journalctl, syslog or /dev/kmsg say it.  Without a year it is the
 * one nearest to `near_real_ns`; without a zone this machine's.  false: it does not say.
 */
bool log_when(const struct log_line *line, int64_t near_real_ns, struct log_event *note);

/* What an error's text means: a lost peer, a timeout, or an error of the rank's own with its layer. */
void log_classify(const char *text, struct log_event *note);
bool log_number(const char *at, const char *end,
                int64_t *ret); /* digits after blanks, perhaps a minus */
const char *log_find(const struct log_line *line, const char *words); /* NULL: not in the line */

#endif
