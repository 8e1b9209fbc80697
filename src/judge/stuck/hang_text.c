/* hang_text.c - the text of verdicts on ranks that do not advance: each kind of hang has its own sentence.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "judge/stuck/hang.h"
#include "lockstep/probe.h"
#include "wire/names.h"

#define NAMED_LINES 3 /* culprits that get lines of their own; the rest are only listed */

static double hang_seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

static const char *hang_comm_name(const struct judge_state *judge, uint32_t comm)
{
    const char *name = comm < judge->model.comms ? judge->model.comm[comm].name : "";

    return name[0] ? name : "a communicator";
}

static const char *hang_node_name(const struct judge_state *judge, uint32_t rank)
{
    uint32_t node = rank < judge->model.world ? judge->model.rank[rank].node : MODEL_NONE;

    return node < judge->model.nodes ? judge->model.node[node].name : "?";
}

/* "all-reduce 12 of dp0 (4096 bytes of float32)". */
static const char *op_text(const struct judge_state *judge, const struct wait_op *op, char *out,
                           size_t room)
{
    int size = snprintf(out, room, "%s %llu of %s", name_of_op(op->what),
                        (unsigned long long)op->key, hang_comm_name(judge, op->comm));

    if (op->bytes && size > 0 && (size_t)size < room)
        snprintf(out + size, room - (size_t)size, " (%llu bytes%s%s)",
                 (unsigned long long)op->bytes, op->dtype ? " of " : "",
                 op->dtype ? name_of_dtype(op->dtype) : "");
    return out;
}

static const char *ranks_text(const uint32_t *rank, uint32_t count, char *out, size_t room)
{
    size_t used = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < MIN(count, WAIT_CULPRITS) && used + 16 < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%u", i ? ", " : "", rank[i]);
    if (used + 16 >= room || count > WAIT_CULPRITS)
        snprintf(out + MIN(used, room - 6), 6, ", ...");
    return out;
}

static const char *state_text(char state)
{
    switch (state) {
    case 'T':
        return VERDICT_STOPPED;
    case 't':
        return "stopped by a debugger";
    case 'D':
        return "in uninterruptible sleep in the kernel";
    case 'R':
        return "running";
    case 'S':
        return "sleeping";
    case 'Z':
    case 'X':
        return "ended";
    default:
        return "in an unknown state";
    }
}

/* ---- the layer ---- */

static bool hang_waits_for_storage(const struct judge_state *judge, uint32_t rank)
{
    struct fact_stack stack;

    return hang_stack_of(judge, rank, &stack) &&
           (name_is_storage_wait(stack.channel) || name_is_storage_wait(stack.kernel));
}

static unsigned hang_layer_of(const struct judge_state *judge, const struct wait_rank *at,
                              uint32_t rank, enum wait_cause cause)
{
    if (cause == WAIT_GONE)
        return judge_state_left_unseen(judge, rank) ? LAYER_UNKNOWN : /* killed, as likely as not */
                   LAYER_USER_CODE; /* it left while others still needed it */
    if (at->state == 'T')
        return LAYER_UNKNOWN; /* the ring does not show by whom */
    if (at->state == 't')
        return LAYER_USER_CODE;
    if (hang_waits_for_storage(judge, rank) || at->state == 'D')
        return LAYER_STORAGE;
    if (cause == WAIT_LAUNCHED || cause == WAIT_DEVICE)
        return LAYER_GPU;
    switch (at->phase) {
    case LOCKSTEP_PHASE_DATA:
        return LAYER_DATA;
    case LOCKSTEP_PHASE_CHECKPOINT:
        return LAYER_CHECKPOINT;
    case LOCKSTEP_PHASE_INIT:
    case LOCKSTEP_PHASE_COMM_INIT:
    case LOCKSTEP_PHASE_COMPILE:
        return LAYER_FRAMEWORK;
    default:
        return LAYER_USER_CODE;
    }
}

/* ---- ranks that block others ---- */

static void hang_root_cause(struct verdict *draft, const struct wait_rank *at,
                            enum wait_cause cause, bool late)
{
    const char *word = late || wait_is_named_phase(at) ? "late: " : "";

    if (cause == WAIT_GONE)
        snprintf(draft->cause, sizeof(draft->cause),
                 "its process ended while other ranks wait for it");
    else if (cause == WAIT_STOPPED)
        snprintf(draft->cause, sizeof(draft->cause), "%s%s", word, state_text(at->state));
    else if (cause == WAIT_LAUNCHED)
        snprintf(draft->cause, sizeof(draft->cause),
                 "%sits device does not reach the collective that its host launched", word);
    else if (cause == WAIT_DEVICE)
        snprintf(draft->cause, sizeof(draft->cause),
                 "%sits host waits for its device, which does not finish", word);
    else if (at->phase)
        snprintf(draft->cause, sizeof(draft->cause), "%snever returns from %s%s", word,
                 name_of_phase(at->phase), at->state == 'D' ? ", in the kernel" : "");
    else
        snprintf(draft->cause, sizeof(draft->cause), "%snever enters the collective%s", word,
                 at->state == 'D' ? ", stuck in the kernel" : "");
}

/* "load (/data/train.py:12)" without the directories. */
static void hang_frame_shorten(const char *text, size_t size, char *out, size_t room)
{
    const char *open = memchr(text, '(', size);
    const char *name = open ? open + 1 : text;

    for (const char *at = name; at < text + size; at++) {
        if (*at == '/')
            name = at + 1;
    }
    snprintf(out, room, "%.*s%.*s", open ? (int)(open + 1 - text) : 0, text,
             (int)(text + size - name), name);
}

/* The innermost line of Python says more than any phase. */
static void hang_cause_python(const struct judge_state *judge, struct verdict *draft, uint32_t rank)
{
    size_t used = strlen(draft->cause), size;
    char frame[sizeof(draft->cause)];
    struct fact_stack stack;

    size = hang_stack_of(judge, rank, &stack) ? strcspn(stack.python, "\n") : 0;
    if (!size)
        return;
    if (used + size + 6 < sizeof(draft->cause))
        snprintf(frame, sizeof(frame), "%.*s", (int)size, stack.python);
    else
        hang_frame_shorten(stack.python, size, frame, sizeof(frame));
    if (used + strlen(frame) + 6 < sizeof(draft->cause))
        snprintf(draft->cause + used, sizeof(draft->cause) - used, ": in %s", frame);
}

/* Where each of the first culprits is instead. */
static void hang_root_line(const struct judge_state *judge, struct verdict *draft, uint32_t rank,
                           const struct wait_rank *at, enum wait_cause cause,
                           const struct wait_op *missed)
{
    char text[160] = "", phase[64] = "";

    if (at->phase)
        snprintf(phase, sizeof(phase), " in %s for %.0f s,", name_of_phase(at->phase),
                 hang_seconds(at->phase_age_ns));
    if (missed->comm != MODEL_NONE)
        op_text(judge, missed, text, sizeof(text));
    switch (cause) {
    case WAIT_GONE:
        verdict_because(draft, "ring", "rank %u ended after step %llu and is missing from %s", rank,
                        (unsigned long long)at->step, text);
        break;
    case WAIT_LAUNCHED:
        verdict_because(draft, "ring",
                        "rank %u has launched %s, but its device has not reached it; its host is "
                        "%s; no progress for %.0f s",
                        rank, text, state_text(at->state), hang_seconds(at->stuck_ns));
        break;
    case WAIT_DEVICE:
        verdict_because(draft, "ring",
                        "rank %u has not launched %s: its host waits for its device; no progress "
                        "for %.0f s",
                        rank, text, hang_seconds(at->stuck_ns));
        break;
    case WAIT_STOPPED:
        verdict_because(draft, "kernel", "rank %u is %s;%s no progress for %.0f s", rank,
                        state_text(at->state), phase, hang_seconds(at->stuck_ns));
        if (at->state == 'T' && judge->model.rank[rank].pid)
            verdict_because(draft, "kernel",
                            "rank %u is process %u on node %s: 'kill -CONT %u' there lets it go on",
                            rank, judge->model.rank[rank].pid, hang_node_name(judge, rank),
                            judge->model.rank[rank].pid);
        break;
    default:
        verdict_because(draft, "ring",
                        "rank %u has not entered %s: it is%s %s; no progress for %.0f s", rank,
                        text[0] ? text : "any op", phase[0] ? phase : " in no phase,",
                        state_text(at->state), hang_seconds(at->stuck_ns));
    }
}

static void hang_first_frames(const char *text, char *out, size_t room)
{
    size_t used = 0;

    out[0] = '\0';
    while (*text && used + 4 < room) {
        size_t size = strcspn(text, "\n");

        if (used + size + 4 >= room)
            break;
        used +=
            (size_t)snprintf(out + used, room - used, "%s%.*s", used ? " < " : "", (int)size, text);
        text += size + (text[size] == '\n');
    }
    if (!used) /* one frame that is longer than the line */
        snprintf(out, room, "%.*s", (int)MIN(strcspn(text, "\n"), room - 1), text);
}

/* What it is doing now, as its agent saw from outside. */
static void hang_stack_lines(const struct judge_state *judge, struct verdict *draft, uint32_t rank)
{
    struct fact_stack stack;
    char frames[170];

    if (!hang_stack_of(judge, rank, &stack))
        return;
    if (stack.ras[0])
        verdict_because(draft, "NCCL's RAS", "rank %u: %.200s", rank, stack.ras);
    if (stack.python[0]) {
        hang_first_frames(stack.python, frames, sizeof(frames));
        verdict_because(draft, "python stack", "rank %u: %s", rank, frames);
    }
    if (stack.native[0]) {
        hang_first_frames(stack.native, frames, sizeof(frames));
        verdict_because(draft, "native stack", "rank %u: %s", rank, frames);
    }
    if (stack.kernel[0]) {
        hang_first_frames(stack.kernel, frames, sizeof(frames));
        verdict_because(draft, "kernel stack", "rank %u: %s", rank, frames);
    } else if (stack.channel[0]) {
        verdict_because(draft, "kernel", "rank %u waits in the kernel in %s", rank, stack.channel);
    }
}

static double hang_root_confidence(const struct wait_finding *finding)
{
    if (finding->cause[0] == WAIT_STOPPED || finding->cause[0] == WAIT_GONE)
        return 0.97;
    if (finding->op.comm == MODEL_NONE && finding->victims)
        return 0.6; /* the others' devices wait; that it is for these ranks is not observed */
    /* Its device may wait in a communicator that is not observed. */
    return finding->cause[0] == WAIT_DEVICE ? 0.7 : 0.92;
}

static void hang_draft_roots(const struct judge_state *judge, const struct wait_rank *rank,
                             const struct wait_finding *finding, bool late, struct verdict *draft)
{
    const struct wait_rank *first = &rank[finding->culprit[0]];
    char text[160];

    draft->kind = VERDICT_HANG;
    draft->layer = (uint8_t)hang_layer_of(judge, first, finding->culprit[0], finding->cause[0]);
    hang_root_cause(draft, first, finding->cause[0], late);
    hang_cause_python(judge, draft, finding->culprit[0]);
    if (finding->op.comm != MODEL_NONE)
        verdict_because(
            draft, "ring", "%u rank%s for %s in %s for %.0f s", finding->victims,
            finding->victims == 1 ? " waits" : "s wait", finding->culprits == 1 ? "it" : "them",
            op_text(judge, &finding->op, text, sizeof(text)), hang_seconds(finding->op.age_ns));
    else if (finding->victims)
        verdict_because(draft, "ring",
                        "no rank advances, and none of the other %u is seen in an operation",
                        finding->victims);
    for (uint32_t i = 0; i < MIN(finding->culprits, WAIT_CULPRITS); i++) {
        uint32_t who = finding->culprit[i];

        judge_state_add_rank(judge, draft, who);
        if (i >= NAMED_LINES)
            continue;
        hang_root_line(judge, draft, who, &rank[who], finding->cause[i], &finding->missed_op[i]);
        hang_stack_lines(judge, draft, who);
    }
    draft->confidence = hang_root_confidence(finding);
    if (first->cpus >= 0 && finding->cause[0] == WAIT_ABSENT)
        verdict_rule_out(draft, LAYER_CPU,
                         "it uses %.0f %% of a CPU: it waits and does not compute",
                         100 * first->cpus);
    if (finding->op.comm != MODEL_NONE && finding->cause[0] != WAIT_STOPPED)
        verdict_rule_out(draft, LAYER_FABRIC,
                         "a transfer cannot begin before all ranks have entered the op");
}

/* ---- ranks that disagree ---- */

static void hang_side_line(const struct judge_state *judge, struct verdict *draft,
                           const struct wait_side *side)
{
    char text[120], ranks[72];

    verdict_because(draft, "ring", "%u rank%s (%s) %s in %s", side->count,
                    side->count == 1 ? "" : "s",
                    ranks_text(side->rank, side->count, ranks, sizeof(ranks)),
                    side->count == 1 ? "is" : "are", op_text(judge, &side->op, text, sizeof(text)));
}

static void hang_draft_sides(const struct judge_state *judge, const struct wait_finding *finding,
                             struct verdict *draft)
{
    const struct wait_op *one = &finding->side[0].op, *other = &finding->side[1].op;
    bool order = finding->kind == WAIT_ORDER;

    draft->kind = order ? VERDICT_HANG : VERDICT_DESYNC;
    draft->layer = LAYER_USER_CODE;
    draft->confidence = finding->undecided ? 0.8 : 0.95;
    snprintf(draft->group, sizeof(draft->group), "%s", hang_comm_name(judge, finding->op.comm));
    if (order)
        snprintf(draft->cause, sizeof(draft->cause),
                 "communicators %s and %s are entered in opposite order",
                 hang_comm_name(judge, one->comm), hang_comm_name(judge, other->comm));
    else if (one->what != other->what)
        snprintf(draft->cause, sizeof(draft->cause),
                 "different collectives at the same place: "
                 "%s and %s",
                 name_of_op(one->what), name_of_op(other->what));
    else if (one->dtype && other->dtype && one->dtype != other->dtype)
        snprintf(draft->cause, sizeof(draft->cause),
                 "different element types in the same %s: %s and %s", name_of_op(one->what),
                 name_of_dtype(one->dtype), name_of_dtype(other->dtype));
    else
        snprintf(draft->cause, sizeof(draft->cause),
                 "different sizes of the same %s: %llu and "
                 "%llu bytes",
                 name_of_op(one->what), (unsigned long long)one->bytes,
                 (unsigned long long)other->bytes);
    for (uint32_t i = 0; i < MIN(finding->culprits, WAIT_CULPRITS); i++)
        judge_state_add_rank(judge, draft, finding->culprit[i]);
    if (finding->side[0].count)
        hang_side_line(judge, draft, &finding->side[0]);
    if (finding->side[1].count)
        hang_side_line(judge, draft, &finding->side[1]);
    if (finding->op.age_ns)
        verdict_because(draft, "ring", "no progress for %.0f s", hang_seconds(finding->op.age_ns));
    verdict_because(draft, "ring", "%s",
                    finding->undecided
                        ? "both sides have the same number of ranks, so both are named"
                    : finding->side[0].count == finding->side[1].count
                        ? "the side that never did this in earlier steps is named"
                        : "the smaller side is named");
    for (uint32_t i = 0; i < MIN(finding->culprits, 2u); i++)
        hang_stack_lines(judge, draft, finding->culprit[i]);
    verdict_rule_out(draft, LAYER_FABRIC,
                     "a transfer cannot begin before all ranks agree on the op");
}

/* ---- no culprit ---- */

static void hang_draft_link(const struct judge_state *judge, const struct wait_finding *finding,
                            struct verdict *draft)
{
    char text[160];

    draft->kind = VERDICT_HANG;
    draft->layer = LAYER_FABRIC;
    draft->confidence = 0.85;
    snprintf(draft->group, sizeof(draft->group), "%s", hang_comm_name(judge, finding->op.comm));
    snprintf(draft->cause, sizeof(draft->cause),
             "all ranks have entered the op and it does not progress");
    op_text(judge, &finding->op, text, sizeof(text));
    if (finding->op.p2p) {
        snprintf(draft->device, sizeof(draft->device), "link rank %u - rank %u", finding->op.from,
                 finding->op.to);
        verdict_because(draft, "ring",
                        "rank %u (node %s) and rank %u (node %s) have both been in %s for %.0f s",
                        finding->op.from, hang_node_name(judge, finding->op.from), finding->op.to,
                        hang_node_name(judge, finding->op.to), text,
                        hang_seconds(finding->op.age_ns));
    } else {
        verdict_because(
            draft, "ring",
            "%u of %u members are in %s, %u have left it, none is missing; no progress for %.0f s",
            finding->op.members - finding->op.left, finding->op.members, text, finding->op.left,
            hang_seconds(finding->op.age_ns));
    }
    for (uint32_t i = 0; i < MIN(finding->culprits, WAIT_CULPRITS); i++)
        judge_state_add_rank(judge, draft, finding->culprit[i]);
    if (finding->culprits) {
        draft->layer = LAYER_NIC;
        draft->device[0] = '\0';
        verdict_because(draft, "ring", "all blocked messages are between node %s and other nodes",
                        hang_node_name(judge, finding->culprit[0]));
    }
    verdict_rule_out(draft, LAYER_USER_CODE, "every member entered it with the same arguments");
}

static void hang_draft_unseen(const struct judge_state *judge, const struct wait_finding *finding,
                              struct verdict *draft)
{
    char text[160];

    draft->kind = VERDICT_HANG;
    draft->layer = LAYER_UNKNOWN;
    draft->confidence = 0.3;
    snprintf(draft->group, sizeof(draft->group), "%s", hang_comm_name(judge, finding->op.comm));
    snprintf(draft->cause, sizeof(draft->cause), "waiting for ranks that are not observed");
    verdict_because(draft, "ring",
                    "all observed members have been in %s for %.0f s; %u members are not observed",
                    op_text(judge, &finding->op, text, sizeof(text)),
                    hang_seconds(finding->op.age_ns), finding->op.unseen);
}

/* All hosts wait for their devices, and which device waits for which is not known. */
static void hang_draft_still(const struct wait_finding *finding, struct verdict *draft)
{
    draft->kind = VERDICT_HANG;
    draft->layer = LAYER_UNKNOWN;
    draft->confidence = 0.4;
    snprintf(draft->cause, sizeof(draft->cause), "all hosts wait for their devices");
    verdict_because(draft, "ring", "no rank has advanced for %.0f s",
                    hang_seconds(finding->op.age_ns));
    verdict_because(
        draft, "native stack",
        "the hosts of all %u observed ranks wait for their devices, and all have "
        "launched the same operations: the device that blocks the others is not observed",
        finding->victims);
}

void hang_draft(const struct judge_state *judge, const struct wait_rank *rank,
                const struct wait_finding *finding, int64_t limit_ns, bool late,
                struct verdict *draft)
{
    switch (finding->kind) {
    case WAIT_ROOTS:
        hang_draft_roots(judge, rank, finding, late, draft);
        break;
    case WAIT_MISMATCH:
    case WAIT_ORDER:
        hang_draft_sides(judge, finding, draft);
        break;
    case WAIT_UNSEEN:
        hang_draft_unseen(judge, finding, draft);
        break;
    case WAIT_STILL:
        hang_draft_still(finding, draft);
        break;
    default:
        hang_draft_link(judge, finding, draft);
    }
    if (limit_ns && late)
        verdict_because(draft, "ring",
                        "longer than the limit of %.0f s (before %.0f complete steps)",
                        hang_seconds(limit_ns), judge->limits.verdict_warm_up + 1);
    else if (limit_ns)
        verdict_because(
            draft, "ring", "longer than the limit of %.0f s (%.0f s, or %.3g times the p99 step)",
            hang_seconds(limit_ns), judge->limits.hang_least_limit, judge->limits.verdict_times);
}
