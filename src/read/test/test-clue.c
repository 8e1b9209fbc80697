/* test-clue.c - lines of programs that nobody knows: what they tell about a failure, and what they do not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"
#include "read/log/clue.h"
#include "wire/verdict.h"

static enum clue clue_of(const char *text, struct log_event *event)
{
    struct log_line line;

    *event = (struct log_event){ .rank = LOG_EVENT_NO_RANK };
    line_read(&line, text, text + strlen(text), 0);
    return clue_line(&line, event);
}

static void knows_the_forms_of_failure(void **state)
{
    static const struct {
        const char *text;
        enum clue clue;
        uint8_t kind, layer;
    } cases[] = {
        { "step 7 loss_net: nan lr 0.1", CLUE_NAMED, LOG_EVENT_WRONG, LAYER_UNKNOWN },
        { "{'eval_loss': nan, 'epoch': 0.1}", CLUE_NAMED, LOG_EVENT_WRONG, LAYER_UNKNOWN },
        { "worker: got ValueError: bad shape", CLUE_NAMED, LOG_EVENT_ERROR, LAYER_USER_CODE },
        { "\"message\": \"MemoryError: std::oops\"", CLUE_NAMED, LOG_EVENT_ERROR,
          LAYER_HOST_MEMORY },
        { "Caught SIGBUS in worker", CLUE_NAMED, LOG_EVENT_SIGNAL, LAYER_HOST_MEMORY },
        { "all_gather timed out on this host", CLUE_NAMED, LOG_EVENT_TIMEOUT, LAYER_UNKNOWN },
        { "Mismatched collective at and around rank 39", CLUE_NAMED, LOG_EVENT_DESYNC,
          LAYER_USER_CODE },
        { "+[05:25:15] rc=137", CLUE_NAMED, LOG_EVENT_EXIT, LAYER_UNKNOWN },
        { "   Exit Code:    3", CLUE_STATUS, LOG_EVENT_EXIT, LAYER_UNKNOWN },
        { "frobnicator: fatal: no widget", CLUE_ERROR, LOG_EVENT_ERROR, LAYER_UNKNOWN },
        { "Reason: Evicted", CLUE_ERROR, LOG_EVENT_ERROR, LAYER_UNKNOWN },
        { "Could not save model. Check your disk space!", CLUE_HINT, LOG_EVENT_ERROR,
          LAYER_STORAGE },
    };
    struct log_event event;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (clue_of(cases[i].text, &event) != cases[i].clue || event.kind != cases[i].kind ||
            event.layer != cases[i].layer)
            fail_msg("%s", cases[i].text);
    }
}

static void is_not_told_by_words_alone(void **state)
{
    static const char *const texts[] = {
        "grad_norm 1.03 (nan) mem 4814MB",     /* the mean holds an old one */
        "number of nan iterations: 0",         /* a count */
        "best loss: nan",                      /* before the first */
        "fail_fast=False max-failures=3",      /* settings */
        "tests: 40 passed, 0 failed",          /* a count */
        "error rate 0.25",                     /* a measure */
        "this may cause an error later",       /* it did not */
        "missing iommu=pt can lead to a hang", /* it did not */
        "This can potentially cause a hang if the ranks differ",
        "a barrier without devices could then block NCCL, stuck",
        "sub-process 1 got exception: None",   /* there was none */
        "***************** ERROR *",           /* an ornament */
        "ValueError: the table has seen this", /* an exception at the margin */
    };
    struct log_event event;

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        if (clue_of(texts[i], &event) != CLUE_NOTHING)
            fail_msg("%s", texts[i]);
    }
}

static void names_the_rank_whose_end_is_reported(void **state)
{
    struct log_event event;

    (void)state;
    clue_of("Rank 2 crashed with exit code -7.", &event);
    assert_int_equal(event.rank, 2);
    assert_int_equal(event.value, -7);
    clue_of("Global rank 0 (PID 208865) exited with code -11", &event);
    assert_int_equal(event.rank, 0);
    clue_of("the trainer process with rank=[5] was aborted", &event);
    assert_int_equal(event.rank, 5);
    assert_false(event.local);
    clue_of("local_rank 1 died", &event);
    assert_int_equal(event.rank, 1);
    assert_true(event.local);
    clue_of("failed to reach rank 3", &event);
    assert_int_equal(event.rank, LOG_EVENT_NO_RANK); /* whoever failed, it was not rank 3 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_the_forms_of_failure),
        cmocka_unit_test(is_not_told_by_words_alone),
        cmocka_unit_test(names_the_rank_whose_end_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
