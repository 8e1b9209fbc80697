/* kernel_line.c - finds the rule that a line matches.
 *
 * Phrases of rules begin at the begin of a word.  The reader has an index by their first two characters, so most words
 * of a line cost one look into 256 bytes, and the line is read once whatever the number of rules is.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/kernel/kernel_line.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/kernel/kernel_private.h"

static uint8_t kernel_slot_of(const char *at)
{
    return (uint8_t)((unsigned char)at[0] * 7 + (unsigned char)at[1]);
}

void kernel_reader_init(struct kernel_reader *reader)
{
    memset(reader, 0, sizeof(*reader));
    assert(kernel_rule_count <= KERNEL_RULES);
    kernel_grammar_index(reader);
    for (size_t i = kernel_rule_count; i-- > 0;) {
        uint8_t slot = kernel_slot_of(kernel_rules[i].words);

        reader->next[i] = reader->head[slot];
        reader->head[slot] = (uint16_t)(i + 1);
    }
}

const char *kernel_line_words(size_t n)
{
    return n < kernel_rule_count ? kernel_rules[n].words : NULL;
}

static inline bool kernel_is_word(char c)
{
    return (unsigned char)((c | 32) - 'a') < 26 || (unsigned char)(c - '0') < 10 || c == '_';
}

static bool kernel_apply(const struct kernel_rule *rule, const struct kernel_scan *scan,
                         struct kernel_event *ret)
{
    struct kernel_event event = { .kind = rule->kind,
                                  .class = rule->class,
                                  .severity = rule->severity,
                                  .action = rule->action,
                                  .layer = rule->layer,
                                  .what = rule->what,
                                  .boot_ns = scan->boot_ns };

    if (rule->read && !rule->read(scan, &event))
        return false;
    *ret = event;
    return true;
}

/* Rules about the machine and all that end it; the others speak of a process, whose name stands first. */
static bool kernel_is_grave(const struct kernel_rule *rule)
{
    return rule->severity == FINDING_FATAL ||
           (rule->class != FINDING_CLASS_APP && rule->class != FINDING_CLASS_HOST);
}

/* A rule that silences a line counts at its begin only, behind the name of a driver at most: what a process is called must
 * silence nothing.
 */
static bool kernel_may_begin(struct kernel_scan *scan, const struct kernel_rule *rule,
                             const char *at)
{
    static const char driver[] = "NVRM: ";
    const size_t driver_bytes = sizeof(driver) - 1;
    size_t before = (size_t)(at - scan->text);

    if (!rule->kind)
        return before == 0 ||
               (before == driver_bytes && memcmp(scan->text, driver, driver_bytes) == 0);
    if (scan->record && before && rule->bytes > driver_bytes &&
        memcmp(rule->words, driver, driver_bytes) == 0)
        return false; /* the driver names itself first */
    if (!scan->trust_to)
        kernel_trust(scan);
    if (at < scan->trust_from || at >= scan->trust_to)
        return false;
    /* In the middle of a record such words may be a name that a user chose. */
    return !scan->record || !before || !kernel_is_grave(rule) || kernel_speaker_is_known(scan);
}

/* The rule with the lowest index of those that match here, if it is below `best`; else `best`. */
static size_t kernel_match_at(struct kernel_scan *scan, const char *at, size_t best,
                              struct kernel_event *event)
{
    for (uint16_t one = scan->reader->head[kernel_slot_of(at)]; one;
         one = scan->reader->next[one - 1]) {
        const struct kernel_rule *rule = &kernel_rules[one - 1];

        if (one - 1u >= best)
            return best;
        if ((size_t)(scan->end - at) < rule->bytes || memcmp(at, rule->words, rule->bytes) != 0)
            continue;
        if (!kernel_may_begin(scan, rule, at))
            continue;
        scan->found = at;
        scan->after = at + rule->bytes;
        if (kernel_apply(rule, scan, event))
            return one - 1u;
    }
    return best;
}

/* "Aborting journal on device sda1-8.": the dot ends the sentence, not the name. */
static void kernel_trim_device(char *device)
{
    size_t bytes = strlen(device);

    while (bytes && strchr(".,;:", device[bytes - 1]))
        device[--bytes] = '\0';
}

static void kernel_finish(const struct kernel_prefix *prefix, struct kernel_event *event)
{
    kernel_trim_device(event->device);
    event->origin = prefix->user ? FINDING_FROM_USER : FINDING_FROM_KERNEL;
    if (prefix->user)
        event->action = ACTION_NONE;
    if (prefix->host)
        snprintf(event->node, sizeof(event->node), "%.*s",
                 (int)MIN(prefix->host_bytes, sizeof(event->node) - 1), prefix->host);
}

bool kernel_line_read(struct kernel_reader *reader, const char *line, size_t bytes,
                      struct kernel_event *ret)
{
    struct kernel_prefix prefix;
    struct kernel_scan scan = { .reader = reader };
    struct kernel_event event;
    size_t best = kernel_rule_count;
    bool inside = false;

    kernel_prefix_read(line, bytes, &prefix);
    scan.text = prefix.message;
    scan.end = prefix.message + prefix.message_bytes;
    scan.boot_ns = prefix.boot_ns;
    scan.record = prefix.raw;
    for (const char *at = scan.text; at + 1 < scan.end && best > 0; at++) {
        bool word = kernel_is_word(*at);

        if (word && !inside && reader->head[kernel_slot_of(at)])
            best = kernel_match_at(&scan, at, best, &event);
        inside = word;
    }
    if (best == kernel_rule_count && !words_unlisted(&scan, &event) &&
        !kernel_grammar(&scan, &event))
        return false;
    if (!event.kind)
        return false;
    kernel_finish(&prefix, &event);
    *ret = event;
    return true;
}

void kernel_event_cause(const struct kernel_event *event, char *out, size_t room)
{
    bool xid = event->kind == FINDING_XID, coded = xid || event->kind == FINDING_SXID;

    if (coded)
        snprintf(out, room, "%s %u: %s%s%s", xid ? "Xid" : "SXid", event->code, event->what,
                 event->more ? ", " : "", event->more ? event->more : "");
    else
        snprintf(out, room, "%s%s%s", event->what, event->more ? ": " : "",
                 event->more ? event->more : "");
}

static void kernel_add(char *out, size_t room, const char *before, const char *word,
                       const char *behind)
{
    size_t size = strlen(out);

    snprintf(out + size, room - size, "%s%s%s", before, word, behind);
}

void kernel_event_text(const struct kernel_event *event, char *out, size_t room)
{
    char number[48];

    kernel_event_cause(event, out, room);
    if (event->device[0])
        kernel_add(out, room, ", device ", event->device, "");
    if (event->link) {
        snprintf(number, sizeof(number), "%u", event->link - 1);
        kernel_add(out, room, ", link ", number, "");
    }
    if (event->pid) {
        snprintf(number, sizeof(number), "%u", event->pid);
        kernel_add(out, room, ", process ", number, "");
        if (event->process[0])
            kernel_add(out, room, " (", event->process, ")");
    }
    if (event->caused_by) {
        snprintf(number, sizeof(number), "%u", event->caused_by);
        kernel_add(out, room, ", caused by Xid ", number, "");
    }
    if (event->origin == FINDING_FROM_USER)
        kernel_add(out, room, "; a program wrote this line, not the kernel", "", "");
}
