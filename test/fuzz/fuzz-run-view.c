/* fuzz-run-view.c - the log of a run as nobody would write it, in all that people look at: score card, incident, the state that
 * top shows, trace.
 *
 * The input is a list of frames as in fuzz-log.c.  It becomes a log in a directory of its own, with right checksums.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/log/spools.h"
#include "control/report/incident.h"
#include "control/report/live_run.h"
#include "control/report/score_card.h"
#include "control/report/trace_export.h"
#include "core/buf.h"
#include "core/time.h"

#define FRAMES_MAX 400
#define PEERS 3
#define RANKS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool next_frame(struct reader *in, uint64_t number, struct frame *ret)
{
    uint8_t type = reader_get_u8(in), sender = reader_get_u8(in);
    size_t size = reader_get_u16(in);

    if (in->bad)
        return false;
    size = size < reader_left(in) ? size : reader_left(in);
    *ret = (struct frame){
        .type = (uint16_t)(type % (FRAME_TYPE_COUNT + 1)),
        .version = FRAME_VERSION,
        .sender = sender % PEERS ? sender % PEERS : control_sender(),
        .boot = 1,
        .number = number,
        .payload = reader_get(in, size),
        .payload_bytes = size,
    };
    return true;
}

/* A world of thousands of ranks is slow, not wrong. */
static bool is_small(const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct fact_ring ring;
    struct fact_run run;

    if (frame->type == FRAME_RING && fact_ring_get(in, &ring) == 0)
        return ring.world <= RANKS_MAX && ring.rank < RANKS_MAX;
    if (frame->type == FRAME_RUN && fact_run_get(in, &run) == 0)
        return run.ranks <= RANKS_MAX;
    return true;
}

static void write_log(const char *path, const uint8_t *data, size_t size)
{
    struct reader in = reader_of(data, size);
    struct buf out = { 0 };
    struct frame frame;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    for (uint64_t i = 0; i < FRAMES_MAX && next_frame(&in, i, &frame); i++) {
        if (is_small(&frame))
            frame_put(&out, &frame);
    }
    if (fd < 0 || write(fd, out.data ? out.data : data, out.size) != (ssize_t)out.size)
        abort();
    close(fd);
    buf_fini(&out);
}

/* Nothing in it may steer a terminal. */
static void check_text(char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] < ' ' && text[i] != '\n')
            abort();
    }
    free(text);
}

static void view_score(const char *run_dir)
{
    static const struct score_question question = { .flop_per_token = 1,
                                                    .peak_flops = 1,
                                                    .price = 1 };
    static const struct show_style style = { .bars = true };
    static struct score_card card;
    char *text = NULL;
    size_t size;
    FILE *out;

    if (score_card_read(run_dir, &question, &card, NULL) < 0)
        return;
    out = open_memstream(&text, &size);
    score_text(&card, &style, out);
    fclose(out);
    check_text(text, size);
    json_object_put(score_json(&card));
}

static void view_incident(const char *run_dir, const char *id)
{
    static const struct show_style style = { .bars = true };
    static struct incident incident;
    char *text = NULL;
    size_t size;
    FILE *out;

    if (incident_read(run_dir, id, &incident, NULL) < 0)
        return;
    out = open_memstream(&text, &size);
    incident_text(&incident, &style, out);
    fclose(out);
    check_text(text, size);
    json_object_put(incident_json(&incident));
}

static void view_live(const char *run_dir)
{
    struct live_run *live;
    int64_t excess;

    if (live_run_open(run_dir, &live, NULL) < 0)
        abort();
    while (live_run_read(live, NS_PER_S, NULL) > 0)
        ;
    for (uint64_t back = 0; back < LIVE_STEPS; back++) {
        const struct live_step *step = live_run_step(live, back);

        for (size_t i = 0; step && i < live->ranks; i++)
            live_run_excess(live->rank[i], step, &excess);
    }
    live_run_verdicts_moved(live);
    for (size_t i = 0; i < live->verdicts && i < 4; i++)
        view_incident(run_dir, live->verdict[i].id);
    live_run_close(live);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct trace_choice all = { .step = { 0, UINT64_MAX } };
    char directory[40], run[64], log[80], trace[80];
    struct trace_counts counts;

    /* Not on a disk: each input makes and removes files, which wait there for whoever else writes. */
    snprintf(directory, sizeof(directory), "%s/lockstep-fuzz-XXXXXX",
             access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(directory))
        abort();
    snprintf(run, sizeof(run), "%s/r1", directory);
    snprintf(log, sizeof(log), "%s/log.lsf", run);
    snprintf(trace, sizeof(trace), "%s/t.json", directory);
    if (mkdir(run, 0700) < 0)
        abort();
    write_log(log, data, size);
    view_score(run);
    view_live(run);
    trace_export(run, &all, trace, &counts, NULL);
    unlink(trace);
    unlink(log);
    rmdir(run);
    rmdir(directory);
    return 0;
}
