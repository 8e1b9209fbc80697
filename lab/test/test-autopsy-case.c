/* test-autopsy-case.c - answers about dead jobs that are right, vague, silent and wrong.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lab/bench/autopsy_case.h"

static enum autopsy_grade grade(const struct autopsy_case *at, const char *answer)
{
    struct json_object *object = answer ? json_tokener_parse(answer) : NULL;
    struct autopsy_ranks ranks = { 0 };
    char why[200];
    enum autopsy_grade result = autopsy_grade(at, object, &ranks, why, sizeof(why));

    json_object_put(object);
    return result;
}

#define ANSWER(kind, layer, ranks, cause)                                                          \
    "{\"verdicts\": [{\"kind\": \"" kind "\", \"layer\": \"" layer "\", \"ranks\": [" ranks        \
    "], \"cause\": \"" cause "\", \"because\": [], \"echoes\": [{\"what\": \"secret\"}]}]}"

static void a_wrong_kind_layer_or_rank_is_worse_than_silence(void **state)
{
    struct autopsy_case at = { .kind = "crash",
                               .layer = "gpu,gpu-memory",
                               .words = "out of memory",
                               .rank = { 3 },
                               .ranks = 1 };

    (void)state;
    assert_int_equal(grade(&at, ANSWER("crash", "gpu", "3", "CUDA out of memory")), GRADE_RIGHT);
    assert_int_equal(grade(&at, ANSWER("hang", "gpu", "3", "CUDA out of memory")), GRADE_WRONG);
    assert_int_equal(grade(&at, ANSWER("crash", "nic", "3", "CUDA out of memory")), GRADE_WRONG);
    assert_int_equal(grade(&at, ANSWER("crash", "gpu", "2", "CUDA out of memory")), GRADE_WRONG);
    assert_int_equal(grade(&at, ANSWER("crash", "gpu", "", "CUDA out of memory")), GRADE_VAGUE);
    assert_int_equal(grade(&at, ANSWER("crash", "gpu", "3", "an error")), GRADE_VAGUE);
    assert_int_equal(grade(&at, ANSWER("crash", "unknown", "3", "out of memory")), GRADE_VAGUE);
    assert_int_equal(grade(&at, "{\"verdicts\": []}"), GRADE_SILENT);
    assert_int_equal(grade(&at, NULL), GRADE_SILENT);
}

static void what_only_follows_does_not_count_as_an_answer(void **state)
{
    struct autopsy_case at = { .kind = "crash", .layer = "*", .words = "secret" };

    (void)state;
    assert_int_equal(grade(&at, ANSWER("crash", "gpu", "", "an error")), GRADE_VAGUE);
}

static void read_case(const char *line, struct autopsy_cases *cases)
{
    char directory[] = "/tmp/lockstep-cases.XXXXXX", path[64];
    FILE *file;

    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/cases.tsv", directory);
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "name\tcategory\tkind\tlayer\tranks\twords\tcause\tsource\n%s\n", line);
    fclose(file);
    assert_int_equal(autopsy_cases_read(directory, cases, NULL), 0);
    unlink(path);
    rmdir(directory);
}

static void any_kind_is_a_verdict_and_none_is_none(void **state)
{
    struct autopsy_cases cases = { 0 };

    (void)state;
    read_case("limit\tslurm\t*\t*\t-\ttime limit\tended\thttps://a", &cases);
    read_case("well\thealthy\tnone\t*\t-\t-\tnothing\thttps://a", &cases);
    read_case("some\tdumps\tnone,hang\t*\t?3,4\t-\tperhaps\thttps://a", &cases);
    assert_int_equal(cases.count, 3);
    assert_false(cases.list[0].none);
    assert_int_equal(grade(&cases.list[0], NULL), GRADE_SILENT);
    assert_int_equal(grade(&cases.list[1], NULL), GRADE_RIGHT);
    assert_int_equal(grade(&cases.list[1], ANSWER("hang", "gpu", "", "x")), GRADE_WRONG);
    assert_int_equal(grade(&cases.list[2], NULL), GRADE_RIGHT);
    assert_int_equal(grade(&cases.list[2], ANSWER("hang", "gpu", "4", "x")), GRADE_RIGHT);
    assert_int_equal(grade(&cases.list[2], ANSWER("hang", "gpu", "5", "x")), GRADE_WRONG);
    autopsy_cases_fini(&cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_kind_layer_or_rank_is_worse_than_silence),
        cmocka_unit_test(what_only_follows_does_not_count_as_an_answer),
        cmocka_unit_test(any_kind_is_a_verdict_and_none_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
