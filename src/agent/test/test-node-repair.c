/* test-node-repair.c - a repair that does not end, not even by a kill, is given up.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/node/node_repair.h"
#include "core/clean.h"
#include "core/time.h"

static const struct decision order = { .action = ACTION_RESET_GPU, .argument = 0x3b00 };

static void a_repair_that_survives_its_kill_is_given_up(void **state)
{
    struct node_repair repair = { 0 };
    enum outcome_result result = 0;
    char text[200] = "";
    int status;
    pid_t pid;

    (void)state;
    assert_int_equal(node_repair_begin(&repair, "n1", &order, 0), 0);
    pid = repair.pid;
    assert_false(node_repair_turn(&repair, 239 * NS_PER_S, &result, text, sizeof(text)));
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    assert_false(node_repair_turn(&repair, 240 * NS_PER_S, &result, text, sizeof(text)));
    assert_int_equal(waitpid(pid, &status, 0), pid); /* of which the repair is not told yet */
    assert_true(WIFSIGNALED(status));
    assert_false(node_repair_turn(&repair, 245 * NS_PER_S, &result, text, sizeof(text)));
    assert_true(node_repair_turn(&repair, 251 * NS_PER_S, &result, text, sizeof(text)));
    assert_int_equal(result, OUTCOME_UNKNOWN);
    assert_non_null(strstr(text, "does not end"));
    assert_false(node_repair_turn(&repair, 252 * NS_PER_S, &result, text, sizeof(text)));

    /* Another one beside it is not begun. */
    assert_int_equal(node_repair_begin(&repair, "n1", &order, 0), -EBUSY);
    node_repair_reaped(&repair, pid, status);
    assert_int_equal(node_repair_begin(&repair, "n1", &order, 0), 0);
    pid = repair.pid;
    assert_false(node_repair_turn(&repair, 240 * NS_PER_S, &result, text, sizeof(text)));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    node_repair_reaped(&repair, pid, status);
    assert_true(node_repair_turn(&repair, 240 * NS_PER_S, &result, text, sizeof(text)));
    assert_int_equal(result, OUTCOME_UNKNOWN);
    assert_non_null(strstr(text, "killed by signal 9"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repair_that_survives_its_kill_is_given_up),
    };

    if (argc > 1 && strcmp(argv[1], "node-repair") == 0) { /* the repair that was begun */
        sleep(60);
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
