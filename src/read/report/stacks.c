/* stacks.c - where the main thread of each rank is: py-spy dump, faulthandler, torch.distributed.debug.
 *
 * py-spy names the main thread; faulthandler prints it last.  Frames come with the newest first.  A thread that is in a
 * collective, or waits for the device, waits as most do in a hang; where a thread is otherwise tells why others wait.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "read/report/report_private.h"
#include "wire/verdict.h"

#define HTTP_TIMEOUT 408
#define FRAMES 24 /* newest ones of a thread that are looked at */

struct stack_frame {
    char function[64], file[96];
    unsigned line;
};

struct report_stack {
    struct report_reader *reader;
    struct stack_frame frame[FRAMES];
    size_t frames;
    uint32_t rank, number; /* of the process, and the line at which the thread begins */
    bool main_seen;        /* by name: what follows of this process is another thread */
    bool active;           /* a thread is being read */
};

static bool frame_waits(const struct stack_frame *frame)
{
    static const char *const functions[] = { "synchronize", "item",    "tolist",
                                             "wait_tensor", "barrier", "block_until_ready" };

    if (strstr(frame->file, "distributed_c10d.py") || strstr(frame->file, "c10d_logger.py") ||
        strstr(frame->file, "_functional_collectives"))
        return true;
    for (size_t i = 0; i < COUNT(functions); i++) {
        if (strcmp(frame->function, functions[i]) == 0)
            return true;
    }
    return false;
}

static const struct {
    const char *part; /* of a file's name or a function */
    uint8_t layer;
} places[] = {
    { "dataloader.py", LAYER_DATA },
    { "data/_utils", LAYER_DATA },
    { "torch/serialization.py", LAYER_CHECKPOINT },
    { "save_checkpoint", LAYER_CHECKPOINT },
    { "distributed/checkpoint", LAYER_CHECKPOINT },
    { "torch/_inductor", LAYER_FRAMEWORK },
    { "torch/_dynamo", LAYER_FRAMEWORK },
    { "triton/", LAYER_FRAMEWORK },
};

static uint8_t stack_layer(const struct report_stack *stack)
{
    for (size_t i = 0; i < stack->frames; i++) {
        for (size_t k = 0; k < COUNT(places); k++) {
            if (strstr(stack->frame[i].file, places[k].part) ||
                strstr(stack->frame[i].function, places[k].part))
                return places[k].layer;
        }
    }
    return LAYER_USER_CODE;
}

/* The newest frame outside of Python's own library says most. */
static const struct stack_frame *stack_place(const struct report_stack *stack)
{
    for (size_t i = 0; i < stack->frames; i++) {
        const char *file = stack->frame[i].file;

        if (!strstr(file, "threading.py") && !strstr(file, "queue.py") &&
            !strstr(file, "selectors.py") && !strstr(file, "multiprocessing/"))
            return &stack->frame[i];
    }
    return &stack->frame[0];
}

static int stack_put(struct report_stack *stack)
{
    struct report report = { .kind = REPORT_ELSEWHERE, .rank = stack->rank, .line = stack->number };
    const struct stack_frame *place;

    if (!stack->frames || stack->rank == REPORT_NO_RANK)
        return 0;
    place = stack_place(stack);
    for (size_t i = 0; i < stack->frames; i++) {
        if (frame_waits(&stack->frame[i]))
            report.kind = REPORT_WAITING;
    }
    report.layer = report.kind == REPORT_WAITING ? LAYER_UNKNOWN : stack_layer(stack);
    snprintf(report.what, sizeof(report.what), "%s (%.64s:%u)", place->function, place->file,
             place->line);
    stack->frames = 0;
    return report_put(stack->reader, report);
}

/* "    all_reduce (torch/distributed/distributed_c10d.py:2806)", or '  File "/a/b.py", line 3 in f'. */
static void stack_frame_read(struct report_stack *stack, const char *text)
{
    struct stack_frame frame = { .line = 0 };

    if (stack->frames == FRAMES ||
        (sscanf(text, "File \"%95[^\"]\", line %u in %63s", frame.file, &frame.line,
                frame.function) != 3 &&
         sscanf(text, "%63s (%95[^:)]:%u)", frame.function, frame.file, &frame.line) != 3))
        return;
    stack->frame[stack->frames++] = frame;
}

/* "Error: 408": the rank did not answer in time, which a stopped process does not.  Other numbers are other failures. */
static int stack_unanswered(struct report_stack *stack, unsigned status)
{
    struct report report = { .kind = REPORT_ELSEWHERE,
                             .layer = LAYER_UNKNOWN,
                             .rank = stack->rank };

    if (status != HTTP_TIMEOUT || stack->rank == REPORT_NO_RANK)
        return 0;
    snprintf(report.what, sizeof(report.what), "did not answer torch's debug server in time");
    return report_put(stack->reader, report);
}

static int stack_line(struct report_stack *stack)
{
    const char *text = report_text(stack->reader);
    unsigned rank, status;
    int result = 0;

    if (sscanf(text, "=== Rank %u:", &rank) == 1) {
        result = stack_put(stack);
        stack->rank = rank;
        stack->main_seen = stack->active = false;
    } else if (!stack->active && sscanf(text, "Error: %u", &status) == 1) {
        result = stack_unanswered(stack, status);
    } else if (strncmp(text, "Thread ", 7) == 0 || strncmp(text, "Current thread ", 15) == 0) {
        if (stack->main_seen) {
            stack->active = false;
        } else { /* the last one of a process counts, unless one is named */
            stack->main_seen = strstr(text, "\"MainThread\"") != NULL;
            stack->active = true;
            stack->frames = 0;
            stack->number = stack->reader->number;
        }
    } else if (stack->active) {
        stack_frame_read(stack, text);
    }
    return result;
}

int report_stacks(struct report_reader *reader)
{
    CLEAN(free_clean) struct report_stack *stack = calloc(1, sizeof(*stack));
    int result = stack ? 0 : -ENOMEM;

    if (!stack)
        return result;
    stack->reader = reader;
    stack->rank = reader->rank;
    while (result == 0 && report_next(reader))
        result = stack_line(stack);
    return result == 0 ? stack_put(stack) : result;
}
