/* What users can cause without end does not displace what the hardware says.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/node_sensors.h"
#include "wire/finding.h"

#define CRASHES 900

struct stage {
    unsigned crashes, gpus;
};

static int on_finding(void *user, const struct finding *finding)
{
    struct stage *stage = user;

    stage->crashes += finding->kind == FINDING_SEGFAULT;
    stage->gpus += finding->kind == FINDING_XID;
    return 0;
}

static void crashes_without_end_do_not_hide_a_lost_gpu(void **state)
{
    char path[] = "/tmp/test-node-sensors-XXXXXX";
    struct stage stage = { 0 };
    struct node_sensors *sensors;
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

    (void)state;
    assert_non_null(file);
    for (int i = 0; i < CRASHES; i++)
        fprintf(file, "6,%d,%d,-;python3[%d]: segfault at 0 ip 7f error 4 in libc.so.6[7f+1]\n", i,
                1000000 + i, 5000 + i);
    fprintf(file, "3,%d,9000000,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n",
            CRASHES);
    fclose(file);
    sensors = node_sensors_create(&(struct node_sensors_settings){
        .node = "n1", .kmsg = path, .put = on_finding, .user = &stage });
    assert_non_null(sensors);
    node_sensors_turn(sensors, 1);
    assert_int_equal(stage.gpus, 1);
    assert_in_range(stage.crashes, 1, CRASHES - 1);
    node_sensors_destroy(sensors);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crashes_without_end_do_not_hide_a_lost_gpu),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
