/* api_why.c - a run for the command line: its summary, as `lockstep why` prints it, and its log in parts.
 *
 * The summary is the one that is kept while the log is written, so it costs no pass over the log.  Whoever needs all
 * facts (`lockstep diff`, `lockstep why --replay`) fetches the log and reads it elsewhere: the controller has one thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/api/api_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/http/reply.h"
#include "control/report/run_report.h"
#include "control/site/api/openapi.h"
#include "core/clean.h"
#include "show/run_summary.h"

#define LOG_PART (1u << 20)

/* {text, exit}: as the command prints it.  Without colours: whoever prints it removes escape sequences of others. */
static struct json_object *why_text_json(const struct run_summary *summary,
                                         const struct show_style *style)
{
    CLEAN(free_clean) char *text = NULL;
    struct json_object *root = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    run_summary_text(summary, style, out);
    if (fclose(out) == 0) {
        root = json_object_new_object();
        json_object_object_add(root, "text", json_object_new_string_len(text, (int)size));
        json_object_object_add(root, "exit", json_object_new_int(run_summary_exit(summary)));
    }
    return root;
}

static void why_put_costs(const struct site_run *run, struct run_summary *summary)
{
    for (size_t i = 0; i < summary->verdicts; i++) {
        struct verdict *verdict = &summary->verdict[i];
        double cost = verdict->until_real_ns ? -1 : runlog_verdict_cost(run->log, verdict->id);

        if (cost > verdict->gpu_seconds)
            verdict->gpu_seconds = cost;
    }
}

void api_get_why(struct api_call *call)
{
    CLEAN(run_report_fini) struct run_summary summary = { 0 };
    struct show_style style = { 0 };
    struct json_object *root;
    struct site_run *run;
    bool text = false;

    if (!call_flag(call, "text", &text) || !call_flag(call, "bars", &style.bars))
        return;
    run = call_open_run(call);
    if (!run)
        return;
    if (report_builder_copy(&run->builder, &summary) < 0) {
        reply_error(call->exchange, 503, "out of memory");
        return;
    }
    summary.alive = !runlog_is_closed(run->log);
    why_put_costs(run, &summary);
    root = text ? why_text_json(&summary, &style) : run_summary_json(&summary);
    if (!root)
        reply_error(call->exchange, 503, "out of memory");
    else
        reply_cached(call->exchange, root);
}

static void api_log_part(struct api_call *call, int fd, uint64_t from)
{
    CLEAN(free_clean) void *part = malloc(LOG_PART);
    ssize_t size = part ? pread(fd, part, LOG_PART, (off_t)from) : -ENOMEM;
    struct buf body = { 0 };

    if (size >= 0)
        buf_put(&body, part, (size_t)size);
    if (size < 0 || body.failed) {
        buf_fini(&body);
        reply_error(call->exchange, 503, "the log cannot be read now");
        return;
    }
    http_answer_header(call->exchange, "Cache-Control", "no-store");
    http_answer(call->exchange, 200, "application/octet-stream", &body);
}

/* {id, bytes}; with ?id=ID&from=N bytes of it from N on.  409: it was compacted since, and has another id. */
void api_get_log(struct api_call *call)
{
    const char *known = http_query(call->exchange, "id");
    CLEAN(fd_clean) int fd = -1;
    uint64_t from = 0;
    struct site_run *run = NULL;
    struct json_object *root;
    struct stat st;
    char id[40];

    if (!call_number(call, "from", INT64_MAX, &from))
        return;
    if (site_get(call->site, call->run, false, &run, NULL) == 0)
        fd = open(run->dir.log.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0) {
        reply_error(call->exchange, 404, "run '%s' has no log", call->run);
        return;
    }
    snprintf(id, sizeof(id), "%" PRIx64 "-%" PRIx64, (uint64_t)st.st_dev, (uint64_t)st.st_ino);
    if (known && strcmp(known, id) == 0) {
        api_log_part(call, fd, from);
    } else if (known) {
        reply_error(call->exchange, 409, "the log of run '%s' was compacted; begin again",
                    call->run);
    } else {
        root = json_object_new_object();
        json_object_object_add(root, "id", json_object_new_string(id));
        json_object_object_add(root, "bytes", json_object_new_uint64((uint64_t)st.st_size));
        reply_json(call->exchange, 200, root);
    }
}

void api_get_openapi(struct api_call *call)
{
    struct buf body = { 0 };

    buf_put(&body, openapi_json, openapi_json_size);
    http_answer(call->exchange, 200, "application/json", &body);
}
