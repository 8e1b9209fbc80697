/* flight_make.c - writes pickles as PyTorch does: each text once, and a reference to it from then on.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/flight_make.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/buf.h"
#include "core/clean.h"

#define TP_IN_A_ROW 6 /* then one data-parallel op */
#define FRAMES 8
#define TEXTS 64

struct flight_pen {
    struct buf out;
    const char *text[TEXTS]; /* by pointer: constants only */
    uint32_t texts;
};

static void flight_make_put_text(struct flight_pen *pen, const char *text)
{
    buf_put_u8(&pen->out, 'X');
    buf_put_u32(&pen->out, (uint32_t)strlen(text));
    buf_put(&pen->out, text, strlen(text));
}

static void flight_put_word(struct flight_pen *pen, const char *word)
{
    for (uint32_t i = 0; i < pen->texts; i++) {
        if (pen->text[i] == word) {
            buf_put_u8(&pen->out, 'h');
            buf_put_u8(&pen->out, (uint8_t)i);
            return;
        }
    }
    flight_make_put_text(pen, word);
    if (pen->texts < TEXTS) {
        buf_put_u8(&pen->out, 'q');
        buf_put_u8(&pen->out, (uint8_t)pen->texts);
        pen->text[pen->texts++] = word;
    }
}

static void flight_put_integer(struct flight_pen *pen, int64_t value)
{
    if (value >= INT32_MIN && value <= INT32_MAX) {
        buf_put_u8(&pen->out, 'J');
        buf_put_u32(&pen->out, (uint32_t)value);
    } else {
        buf_put_u8(&pen->out, 0x8a);
        buf_put_u8(&pen->out, 8);
        buf_put_u64(&pen->out, (uint64_t)value);
    }
}

static void flight_put_op(struct flight_pen *pen, const char *ops)
{
    buf_put(&pen->out, ops, strlen(ops));
}

static void flight_put_pair(struct flight_pen *pen, const char *key, int64_t value)
{
    flight_put_word(pen, key);
    flight_put_integer(pen, value);
}

static void flight_put_words(struct flight_pen *pen, const char *key, const char *value)
{
    flight_put_word(pen, key);
    flight_put_word(pen, value);
}

static void flight_put_sizes(struct flight_pen *pen, const char *key, int64_t size)
{
    flight_put_word(pen, key);
    flight_put_op(pen, "]]K\x01"
                       "a"); /* [[1 */
    flight_put_integer(pen, size);
    flight_put_op(pen, "aa");
}

static void flight_put_frames(struct flight_pen *pen)
{
    static const char *const names[FRAMES] = {
        "all_reduce", "forward", "_call_impl", "backward", "step", "train_step", "main", "<module>"
    };

    flight_put_word(pen, "frames");
    flight_put_op(pen, "](");
    for (int i = 0; i < FRAMES; i++) {
        flight_put_op(pen, "}(");
        flight_put_words(pen, "name", names[i]);
        flight_put_words(pen, "filename",
                         "/opt/train/lib/python3/site-packages/torch/nn/modules/module.py");
        flight_put_pair(pen, "line", 100 + 7 * i);
        flight_put_op(pen, "u");
    }
    flight_put_op(pen, "e");
}

struct who {
    uint32_t rank, ranks, tp, dp; /* tp: which tensor-parallel group; dp: which data-parallel one */
};

/* Groups: 0 the world, then the tensor-parallel ones, then the data-parallel ones. */
static void flight_put_config(struct flight_pen *pen, const struct who *who)
{
    uint32_t tps = who->ranks / FLIGHT_TP, groups = 1 + tps + FLIGHT_TP;
    CLEAN(buf_fini) struct buf list = { 0 };

    flight_put_word(pen, "pg_config");
    flight_put_op(pen, "}(");
    for (uint32_t g = 0; g < groups; g++) {
        uint32_t first = g == 0 ? 0 : g <= tps ? (g - 1) * FLIGHT_TP : g - 1 - tps;
        uint32_t count = g == 0     ? who->ranks
                         : g <= tps ? FLIGHT_TP
                                    : tps,
                 step = g <= tps ? 1 : FLIGHT_TP;
        char text[16];

        list.size = 0;
        for (uint32_t i = 0; i < count; i++) {
            snprintf(text, sizeof(text), "%s%u", i ? ", " : "[", first + i * step);
            buf_put(&list, text, strlen(text));
        }
        buf_put(&list, "]", 2);
        snprintf(text, sizeof(text), "%u", g);
        flight_make_put_text(pen, text);
        flight_put_op(pen, "}(");
        flight_put_word(pen, "name");
        flight_make_put_text(pen, text);
        flight_put_words(pen, "desc",
                         g == 0     ? "default_pg"
                         : g <= tps ? "TENSOR_MODEL_PARALLEL_GROUP"
                                    : "DATA_PARALLEL_GROUP");
        flight_put_word(pen, "ranks");
        if (!list.failed)
            flight_make_put_text(pen, (const char *)list.data);
        flight_put_op(pen, "u");
    }
    flight_put_op(pen, "u");
}

static void flight_put_entry(struct flight_pen *pen, const struct who *who, uint32_t op, bool over)
{
    uint32_t tps = who->ranks / FLIGHT_TP, round = TP_IN_A_ROW + 1;
    bool is_dp = op % round == TP_IN_A_ROW;
    int64_t seq = is_dp ? op / round + 1 : op / round * TP_IN_A_ROW + op % round + 1;
    char name[16];

    snprintf(name, sizeof(name), "%u", is_dp ? 1 + tps + who->dp : 1 + who->tp);
    flight_put_op(pen, "}(");
    flight_put_frames(pen);
    flight_put_pair(pen, "record_id", op);
    flight_put_pair(pen, "pg_id", is_dp ? 2 : 1);
    flight_put_word(pen, "process_group");
    flight_make_put_text(pen, name);
    flight_put_word(pen, is_dp ? "DATA_PARALLEL_GROUP" : "TENSOR_MODEL_PARALLEL_GROUP");
    flight_put_op(pen, "\x86");
    flight_put_pair(pen, "collective_seq_id", seq);
    flight_put_pair(pen, "p2p_seq_id", 0);
    flight_put_pair(pen, "op_id", op);
    flight_put_words(pen, "profiling_name",
                     is_dp ? "nccl:_reduce_scatter_base" : "nccl:all_reduce");
    flight_put_pair(pen, "time_created_ns", INT64_C(1700000000000000000) + (int64_t)op * 1000000);
    flight_put_sizes(pen, "input_sizes", is_dp ? 4096 : 8192);
    flight_put_word(pen, "input_dtypes");
    flight_put_op(pen, "]");
    flight_put_word(pen, "BFloat16");
    flight_put_op(pen, "a");
    flight_put_sizes(pen, "output_sizes", is_dp ? 512 : 8192);
    flight_put_words(pen, "state", over ? "completed" : "scheduled");
    flight_put_word(pen, "time_discovered_started_ns");
    flight_put_op(pen, "N");
    flight_put_word(pen, "retired");
    flight_put_op(pen, over ? "\x88" : "\x89");
    flight_put_pair(pen, "timeout_ms", 600000);
    flight_put_word(pen, "is_p2p");
    flight_put_op(pen, "\x89u");
}

static void flight_put_status(struct flight_pen *pen, int64_t entered, int64_t over)
{
    flight_put_op(pen, "}(");
    flight_put_pair(pen, "last_enqueued_collective", entered);
    flight_put_pair(pen, "last_started_collective", -1);
    flight_put_pair(pen, "last_completed_collective", over);
    flight_put_op(pen, "u");
}

/* The op that the culprit does not enter is the last tensor-parallel one of the last round. */
static void flight_put_dump(struct flight_pen *pen, const struct who *who, uint32_t ops,
                            uint32_t culprit)
{
    uint32_t round = TP_IN_A_ROW + 1, rounds = ops / round,
             missed = rounds * round + TP_IN_A_ROW - 1;
    bool near = who->tp == culprit / FLIGHT_TP;
    uint32_t entered = who->rank == culprit ? missed : near ? missed + 1 : missed + 2;
    uint32_t over = near ? missed : missed + 1;

    flight_put_op(pen, "\x80\x02}(");
    flight_put_words(pen, "version", "2.9");
    flight_put_config(pen, who);
    flight_put_word(pen, "entries");
    flight_put_op(pen, "](");
    for (uint32_t op = 0; op < entered; op++)
        flight_put_entry(pen, who, op, op < over);
    flight_put_op(pen, "e");
    flight_put_word(pen, "pg_status");
    flight_put_op(pen, "}(");
    flight_make_put_text(pen, "1");
    flight_put_status(pen, (int64_t)(rounds + 1) * TP_IN_A_ROW - (who->rank == culprit),
                      (int64_t)(rounds + 1) * TP_IN_A_ROW - near);
    flight_make_put_text(pen, "2");
    flight_put_status(pen, rounds + !near, rounds);
    flight_put_op(pen, "uu.");
}

static int flight_write_dump(const char *directory, const struct who *who, const struct buf *out,
                             struct err *err)
{
    char path[4096];
    FILE *file;
    bool good;

    snprintf(path, sizeof(path), "%s/nccl_trace_rank_%u", directory, who->rank);
    file = fopen(path, "wbe");
    if (!file)
        return err_set(err, -errno, "%s: %m", path);
    good = fwrite(out->data, 1, out->size, file) == out->size;
    good = fclose(file) == 0 && good;
    return good ? 0 : err_set(err, -EIO, "%s: cannot write", path);
}

int64_t flight_make(const char *directory, uint32_t ranks, uint32_t ops, uint32_t culprit,
                    struct err *err)
{
    int64_t bytes = 0;

    if (!ranks || ranks % FLIGHT_TP || culprit >= ranks)
        return err_set(err, -EINVAL, "--ranks %u: expected a multiple of %d", ranks, FLIGHT_TP);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct who who = { rank, ranks, rank / FLIGHT_TP, rank % FLIGHT_TP };
        CLEAN(buf_fini) struct buf out = { 0 };
        struct flight_pen pen = { 0 };
        int result;

        flight_put_dump(&pen, &who, ops, culprit);
        out = pen.out;
        if (out.failed)
            return err_set(err, -ENOMEM, "no memory for a dump of %u ops", ops);
        result = flight_write_dump(directory, &who, &out, err);
        if (result < 0)
            return result;
        bytes += (int64_t)out.size;
    }
    return bytes;
}
