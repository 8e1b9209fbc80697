/* relay_event.c - frames and lines of the audit trail as events.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/relay/relay_event.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/text.h"
#include "core/time.h"
#include "show/record_view.h"
#include "show/style.h"
#include "show/verdict_view.h"
#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/verdict.h"

#define SCHEMA 1
#define OVER " (over)"
#define FACILITY_AUDIT 13 /* log audit */
#define FACILITY_EVENT 16 /* local0 */
#define PARAM_MAX 200     /* bytes of a value in structured data */

void relay_event_fini(struct relay_event *event)
{
    json_object_put(event->body);
    *event = (struct relay_event){ 0 };
}

static void relay_event_begin(struct relay_event *event, const char *type, const char *run,
                              const void *content, size_t size)
{
    uint64_t hash = hash64(0, type, strlen(type));

    *event = (struct relay_event){ .type = type, .severity = RELAY_NOTICE };
    snprintf(event->run, sizeof(event->run), "%s", run);
    event->id = hash64(hash64(hash, run, strlen(run)), content, size) | 1;
}

/* ---- frames ---- */

static bool relay_verdict(struct reader in, struct relay_event *event)
{
    struct verdict verdict;

    if (verdict_get(in, &verdict) < 0)
        return false;
    event->real_ns = verdict.until_real_ns ? verdict.until_real_ns : verdict.decided_real_ns;
    event->severity = verdict.until_real_ns ? RELAY_NOTICE
                      : verdict.kind >= VERDICT_HANG && verdict.kind != VERDICT_REGRESSION
                          ? RELAY_ERROR
                          : RELAY_WARNING;
    verdict_sentence(&verdict, event->text, sizeof(event->text) - strlen(OVER));
    if (verdict.until_real_ns)
        strcat(event->text, OVER);
    event->body = verdict_json(&verdict);
    return true;
}

static bool relay_finding(struct reader in, struct relay_event *event)
{
    static const unsigned severity[] = { [FINDING_INFO] = RELAY_INFO,
                                         [FINDING_WARN] = RELAY_WARNING,
                                         [FINDING_ERROR] = RELAY_ERROR,
                                         [FINDING_FATAL] = RELAY_CRITICAL };
    struct finding finding;

    if (finding_get(in, &finding) < 0)
        return false;
    event->real_ns = finding.real_ns;
    event->severity = severity[finding.severity];
    snprintf(event->text, sizeof(event->text), "node %s%s%s: %s", finding.node,
             finding.device[0] ? " " : "", finding.device, finding.text);
    event->body = finding_json(&finding);
    return true;
}

static bool relay_decision(struct reader in, struct relay_event *event)
{
    struct decision decision;

    if (decision_get(in, &decision) < 0)
        return false;
    event->real_ns = decision.decided_real_ns;
    snprintf(event->text, sizeof(event->text), "%s %s%s%s", action_name(decision.action),
             decision_state_name(decision.state), decision.why[0] ? ": " : "", decision.why);
    event->body = decision_json(&decision);
    return true;
}

static bool relay_outcome(struct reader in, struct relay_event *event)
{
    struct outcome outcome;

    if (outcome_get(in, &outcome) < 0)
        return false;
    event->real_ns = outcome.ended_real_ns ? outcome.ended_real_ns : outcome.began_real_ns;
    if (outcome.result == OUTCOME_FAILED)
        event->severity = RELAY_ERROR;
    snprintf(event->text, sizeof(event->text), "decision %s: %s %s%s%s", outcome.decision,
             outcome.part, outcome_result_name(outcome.result), outcome.text[0] ? ": " : "",
             outcome.text);
    event->body = outcome_json(&outcome);
    return true;
}

static const struct relay_kind {
    uint16_t frame;
    bool own_only; /* what only the controller may say */
    const char *type;
    bool (*read)(struct reader in, struct relay_event *event);
} relay_kinds[] = {
    { FRAME_VERDICT, true, "verdict", relay_verdict },
    { FRAME_DECISION, true, "decision", relay_decision },
    { FRAME_FINDING, false, "finding", relay_finding },
    { FRAME_OUTCOME, false, "outcome", relay_outcome },
};

int relay_event_of_frame(const struct frame *frame, bool own, const char *run,
                         struct relay_event *ret)
{
    for (size_t i = 0; i < COUNT(relay_kinds); i++) {
        const struct relay_kind *kind = &relay_kinds[i];

        if (kind->frame != frame->type || (kind->own_only && !own))
            continue;
        relay_event_begin(ret, kind->type, run, frame->payload, frame->payload_bytes);
        return kind->read(reader_of(frame->payload, frame->payload_bytes), ret);
    }
    return 0;
}

/* ---- the audit trail ---- */

static const char *relay_member(struct json_object *root, const char *name, const char *none)
{
    struct json_object *value = NULL;

    return json_object_object_get_ex(root, name, &value) &&
                   json_object_is_type(value, json_type_string)
               ? json_object_get_string(value)
               : none;
}

static struct json_object *relay_parse(const char *line, size_t size)
{
    struct json_tokener *tokener = json_tokener_new_ex(4);
    struct json_object *root = NULL;

    if (tokener && size <= INT32_MAX)
        root = json_tokener_parse_ex(tokener, line, (int)size);
    if (tokener)
        json_tokener_free(tokener);
    if (root && json_object_is_type(root, json_type_object))
        return root;
    json_object_put(root);
    return NULL;
}

static void relay_audit_text(struct relay_event *event)
{
    struct json_object *root = event->body, *count = NULL;
    const char *who = relay_member(root, "who", ""), *method = relay_member(root, "method", ""),
               *what = relay_member(root, "what", "");
    int64_t times =
        json_object_object_get_ex(root, "count", &count) ? json_object_get_int64(count) : 1;
    char more[48] = "";

    if (times > 1)
        snprintf(more, sizeof(more), ", %" PRId64 " more times", times);
    snprintf(event->text, sizeof(event->text), "%s: %s%s%s by %s%s%s%s%s",
             relay_member(root, "result", "unknown"), method[0] ? method : what,
             method[0] ? " " : "", method[0] ? relay_member(root, "path", "") : "",
             who[0] ? who : "a client without a known token", method[0] ? " from " : "",
             method[0] ? relay_member(root, "from", "unknown") : "",
             method[0] && what[0] ? ": " : "", method[0] ? what : "");
    strncat(event->text, more, sizeof(event->text) - strlen(event->text) - 1);
}

int relay_event_of_audit(const char *line, size_t size, const char *run, struct relay_event *ret,
                         uint64_t *number)
{
    struct json_object *root = relay_parse(line, size), *n = NULL;
    const char *of = root ? relay_member(root, "run", run) : run;

    if (!root || !json_object_object_get_ex(root, "n", &n) ||
        !json_object_is_type(n, json_type_int) || json_object_get_uint64(n) == 0) {
        json_object_put(root);
        return -EPROTO;
    }
    relay_event_begin(ret, "audit", run[0] ? run : of, line, size);
    *number = json_object_get_uint64(n);
    ret->body = root;
    ret->severity =
        strcmp(relay_member(root, "result", ""), "refused") == 0 ? RELAY_WARNING : RELAY_INFO;
    relay_audit_text(ret);
    return 0;
}

void relay_event_gap(uint64_t after, uint64_t missing, const char *run, struct relay_event *ret)
{
    uint64_t content[2] = { after, missing };

    relay_event_begin(ret, "gap", run, content, sizeof(content));
    ret->real_ns = time_real_ns();
    ret->severity = RELAY_ERROR;
    ret->body = json_object_new_object();
    json_object_object_add(ret->body, "after", json_object_new_uint64(after));
    json_object_object_add(ret->body, "missing", json_object_new_uint64(missing));
    snprintf(ret->text, sizeof(ret->text),
             "%" PRIu64 " records of the audit trail were overwritten before they could be sent",
             missing);
}

/* ---- as bytes ---- */

static const char *relay_time(const struct relay_event *event, char out[static 32])
{
    const char *text = relay_member(event->body, "time", "");

    if (event->real_ns)
        time_format_utc(event->real_ns, out);
    else /* of the audit trail: as time_format_utc() wrote it, or none */
        snprintf(out, 32, "%s",
                 strlen(text) == strlen("2026-03-01T10:42:07.123Z") &&
                         strspn(text, "0123456789-T:.Z") == strlen(text)
                     ? text
                     : "-");
    return out;
}

void relay_event_json(const struct relay_event *event, struct buf *out)
{
    static const char *const severity[] = { [RELAY_CRITICAL] = "critical",
                                            [RELAY_ERROR] = "error",
                                            [RELAY_WARNING] = "warning",
                                            [RELAY_NOTICE] = "notice",
                                            [RELAY_INFO] = "info" };
    struct json_object *root = json_object_new_object();
    size_t begin = out->size;
    char id[20], when[32];
    const char *text;

    snprintf(id, sizeof(id), "%016" PRIx64, event->id);
    json_object_object_add(root, "schema", json_object_new_int(SCHEMA));
    json_object_object_add(root, "event", json_object_new_string(id));
    json_object_object_add(root, "type", json_object_new_string(event->type));
    relay_time(event, when);
    json_object_object_add(root, "time", when[0] == '-' ? NULL : show_string(when));
    json_object_object_add(root, "run", show_string_or_null(event->run));
    json_object_object_add(root, "severity", json_object_new_string(severity[event->severity]));
    json_object_object_add(root, "text", show_string(event->text));
    json_object_object_add(root, event->type, json_object_get(event->body));
    text = json_object_to_json_string_ext(root,
                                          JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    buf_put(out, text, strlen(text));
    json_object_put(root);
    if (!out->failed)
        out->size = begin + text_clean((char *)out->data + begin, out->size - begin, false);
    buf_put(out, "\n", 1);
}

/* '"', '\' and ']' are escaped (RFC 5424, 6.3.3); a value that is too long ends at a whole character. */
static void relay_param(FILE *out, const char *name, const char *value)
{
    size_t left = strlen(value), used = 0, size;

    if (!value[0])
        return;
    fprintf(out, " %s=\"", name);
    for (; left; value += size, left -= size) {
        size = text_char(value, left);
        if (used + MAX(size, 1u) > PARAM_MAX)
            break;
        used += MAX(size, 1u);
        if (!size) {
            fputc('?', out);
            size = 1;
            continue;
        }
        if (*value == '"' || *value == '\\' || *value == ']')
            fputc('\\', out);
        fwrite(value, 1, size, out);
    }
    fputc('"', out);
}

/* Scalars and lists of the body whose names are asked for, as far as they are there. */
static void relay_params(FILE *out, struct json_object *body)
{
    static const char *const names[] = {
        "id",     "kind",    "layer",      "cause",      "ranks",      "nodes",      "node",
        "device", "code",    "since_step", "since_time", "until_time", "confidence", "action",
        "state",  "answers", "decision",   "part",       "n",          "who",        "from",
        "method", "path",    "what",       "status",     "result",     "count",      "missing"
    };

    for (size_t i = 0; i < COUNT(names); i++) {
        struct json_object *value = NULL;

        if (!json_object_object_get_ex(body, names[i], &value) || !value ||
            json_object_is_type(value, json_type_object))
            continue;
        relay_param(out, names[i],
                    json_object_is_type(value, json_type_string)
                        ? json_object_get_string(value)
                        : json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN));
    }
}

void relay_event_syslog(const struct relay_event *event, const char *host, const char *sd_id,
                        struct buf *out)
{
    CLEAN(free_clean) char *text = NULL;
    unsigned facility = strcmp(event->type, "audit") == 0 ? FACILITY_AUDIT : FACILITY_EVENT;
    char id[20], when[32], sentence[RELAY_TEXT], length[24];
    size_t size = 0;
    FILE *line = open_memstream(&text, &size);

    if (!line) {
        out->failed = true;
        return;
    }
    snprintf(id, sizeof(id), "%016" PRIx64, event->id);
    fprintf(line, "<%u>1 %s %s lockstep - %s [%s", facility * 8 + event->severity,
            relay_time(event, when), host, event->type, sd_id);
    relay_param(line, "event", id);
    relay_param(line, "run", event->run);
    relay_params(line, event->body);
    fprintf(line, "] \xef\xbb\xbf%s", show_clean(event->text, sentence, sizeof(sentence)));
    if (fclose(line) != 0) {
        out->failed = true;
        return;
    }
    snprintf(length, sizeof(length), "%zu ", size);
    buf_put(out, length, strlen(length));
    buf_put(out, text, size);
}
