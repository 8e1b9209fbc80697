/* test-burst.c - which kernel events are one finding.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/time.h"
#include "sense/burst.h"
#include "wire/decision.h"

#define GPU "NVRM: Xid (PCI:0000:3b:00): "
#define FOUND_MAX 16

struct stage {
    struct bursts *bursts;
    struct kernel_reader reader;
    struct finding found[FOUND_MAX];
    uint32_t line[FOUND_MAX];
    size_t count;
    uint32_t lines;
};

static void stage_begin(struct stage *stage)
{
    *stage = (struct stage){ .count = 0 };
    kernel_reader_init(&stage->reader);
    assert_int_equal(bursts_create(&stage->bursts), 0);
}

static void feed(struct stage *stage, int64_t second, const char *text)
{
    struct kernel_event event;
    struct burst_line line = { .event = &event,
                               .raw = text,
                               .raw_bytes = strlen(text),
                               .mono_ns = second * NS_PER_S,
                               .line = ++stage->lines };

    if (kernel_line_read(&stage->reader, text, strlen(text), &event))
        bursts_add(stage->bursts, &line);
}

static size_t take(struct stage *stage)
{
    stage->count = 0;
    while (stage->count < FOUND_MAX &&
           bursts_take(stage->bursts, &stage->found[stage->count], &stage->line[stage->count]))
        stage->count++;
    return stage->count;
}

static void stage_end(struct stage *stage)
{
    bursts_destroy(stage->bursts);
}

static void a_chain_of_one_gpu_is_one_finding(void **state)
{
    struct stage stage;

    (void)state;
    stage_begin(&stage);
    feed(&stage, 100, GPU "48, pid=77, name=python3, DBE");
    feed(&stage, 101, GPU "63, pid=77, Row Remapper: New row marked for remapping");
    feed(&stage, 101, GPU "94, pid=77, name=python3, Contained: SM (0x1)");
    feed(&stage, 102, GPU "154, GPU recovery action changed from 0x0 (None) to 0x2 (x)");
    assert_int_equal(take(&stage), 1);
    assert_int_equal(stage.found[0].code, 48);
    assert_int_equal(stage.found[0].count, 4);
    assert_int_equal(stage.found[0].severity, FINDING_FATAL);
    assert_int_equal(stage.found[0].action, ACTION_REBOOT); /* as the driver directs */
    assert_int_equal(stage.line[0], 1);
    assert_non_null(strstr(stage.found[0].text, "then Xid 63, 94, 154"));
    stage_end(&stage);
}

static void the_root_comes_first_even_if_its_line_does_not(void **state)
{
    struct stage stage;

    (void)state;
    stage_begin(&stage);
    feed(&stage, 100, GPU "45, pid=77, name=python3, Ch 00000008");
    feed(&stage, 100, GPU "149, NETIR_LINK_EVT Fatal XC0 i0 Link 09 (0x025525c6 0x0)");
    feed(&stage, 101, GPU "45, pid=78, name=python3, Ch 00000009");
    assert_int_equal(take(&stage), 1);
    assert_int_equal(stage.found[0].code, 149);
    assert_int_equal(stage.line[0], 2);
    assert_int_equal(stage.found[0].count, 3);
    stage_end(&stage);
}

static void three_minutes_of_silence_end_a_burst(void **state)
{
    struct stage stage;

    (void)state;
    stage_begin(&stage);
    feed(&stage, 100, GPU "79, GPU has fallen off the bus.");
    feed(&stage, 279, GPU "79, GPU has fallen off the bus.");
    feed(&stage, 460, GPU "79, GPU has fallen off the bus.");
    assert_int_equal(take(&stage), 2);
    assert_int_equal(stage.found[0].count, 2);
    assert_int_equal(stage.found[1].count, 1);
    stage_end(&stage);
}

static void other_devices_and_other_processes_are_other_findings(void **state)
{
    struct stage stage;

    (void)state;
    stage_begin(&stage);
    feed(&stage, 100, GPU "13, pid=77, name=a, Graphics Exception");
    feed(&stage, 100, GPU "31, pid=78, name=b, MMU Fault");
    feed(&stage, 100, "NVRM: Xid (PCI:0000:86:00): 13, pid=77, name=a, Graphics Exception");
    feed(&stage, 100, "Out of memory: Killed process 11 (a) total-vm:1kB");
    feed(&stage, 100, "Out of memory: Killed process 12 (b) total-vm:1kB");
    assert_int_equal(take(&stage), 5);
    stage_end(&stage);
}

static void an_announced_kill_is_one_finding(void **state)
{
    struct stage stage;

    (void)state;
    stage_begin(&stage);
    feed(&stage, 100, "perl invoked oom-killer: gfp_mask=0x280da, order=0, oom_score_adj=0");
    feed(&stage, 100, "Out of memory: Kill process 18694 (perl) score 246 or sacrifice child");
    feed(&stage, 100, "Killed process 18694 (perl) total-vm:1972392kB");
    assert_int_equal(take(&stage), 1);
    assert_int_equal(stage.found[0].pid, 18694);
    assert_int_equal(stage.line[0], 2);
    assert_int_equal(stage.found[0].count, 1);
    feed(&stage, 110, "perl invoked oom-killer: gfp_mask=0x280da, order=0, oom_score_adj=0");
    feed(&stage, 110, "oom-kill:constraint=CONSTRAINT_NONE,task=perl,pid=18700,uid=0");
    assert_int_equal(take(&stage), 1);
    assert_int_equal(stage.found[0].pid, 18700);
    stage_end(&stage);
}

static void a_line_of_a_program_never_joins_one_of_the_kernel(void **state)
{
    struct stage stage;

    (void)state;
    stage_begin(&stage);
    feed(&stage, 100, "6,1,100000000,-;" GPU "48, pid=77, name=python3, DBE");
    feed(&stage, 100,
         "12,2,100000000,-;" GPU "154, GPU recovery action changed from 0x0 to 0x2 (x)");
    assert_int_equal(take(&stage), 2);
    assert_int_equal(stage.found[0].action, ACTION_RESET_GPU);
    assert_int_equal(stage.found[1].origin, FINDING_FROM_USER);
    assert_int_equal(stage.found[1].action, ACTION_NONE);
    stage_end(&stage);
}

static void a_storm_is_one_finding_and_its_count_grows(void **state)
{
    struct stage stage;

    (void)state;
    stage_begin(&stage);
    for (int i = 0; i < 800000; i++)
        feed(&stage, 100, "pcieport 0000:00:1d.0: AER: Corrected error received: 0000:00:1d.0");
    assert_int_equal(take(&stage), 1);
    assert_int_equal(stage.found[0].count, 800000);
    assert_int_equal(take(&stage), 0);
    feed(&stage, 101, "pcieport 0000:00:1d.0: AER: Corrected error received: 0000:00:1d.0");
    assert_int_equal(take(&stage), 1);
    assert_int_equal(stage.found[0].count, 800001);
    stage_end(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_of_one_gpu_is_one_finding),
        cmocka_unit_test(the_root_comes_first_even_if_its_line_does_not),
        cmocka_unit_test(three_minutes_of_silence_end_a_burst),
        cmocka_unit_test(other_devices_and_other_processes_are_other_findings),
        cmocka_unit_test(an_announced_kill_is_one_finding),
        cmocka_unit_test(a_line_of_a_program_never_joins_one_of_the_kernel),
        cmocka_unit_test(a_storm_is_one_finding_and_its_count_grows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
