/* Whatever a file claims or unpacks to, reading it takes no more than the budget.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/budget.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"
#include "read/jsontext.h"
#include "read/kineto.h"
#include "read/log/log_reader.h"
#include "read/pickle.h"
#include "read/source/stream.h"

static void counts_what_is_taken_and_given(void **state)
{
    struct budget budget = { .limit = 100 };
    struct err err = { "" };

    (void)state;
    assert_true(budget_take(&budget, 60));
    assert_int_equal(budget_error(&budget, &err), -ENOMEM);
    assert_false(budget_take(&budget, 41));
    assert_int_equal(budget.used, 60);
    assert_int_equal(budget_error(&budget, &err), -EFBIG);
    budget_give(&budget, 20);
    assert_true(budget_take(&budget, 60));
    assert_false(budget_take(&budget, SIZE_MAX));
    assert_true(budget_take(NULL, SIZE_MAX));
}

static void bounds_values_of_json(void **state)
{
    struct budget budget = { .limit = 1 << 20 };
    struct value_tree tree = { .root = VALUE_NIL, .budget = &budget };
    size_t bytes = 1 << 18;
    char *text = malloc(bytes);
    struct err err = { "" };

    (void)state;
    assert_non_null(text);
    memset(text, '0', bytes);
    for (size_t i = 2; i < bytes; i += 2)
        text[i] = ',';
    text[0] = '[';
    text[bytes - 2] = '0';
    text[bytes - 1] = ']';
    text[bytes - 3] = '1';
    assert_int_equal(jsontext_read(text, bytes, &tree, &err), -EFBIG);
    assert_non_null(strstr(err.text, "1 MiB"));
    assert_true(budget.used <= budget.limit);
    value_fini(&tree);
    assert_int_equal(budget.used, 0);
    budget = (struct budget){ .limit = 64 << 20 };
    assert_int_equal(jsontext_read(text, bytes, &tree, &err), 0);
    value_fini(&tree);
    assert_int_equal(budget.used, 0);
    free(text);
}

static void bounds_values_of_pickles(void **state)
{
    static const char kinds[] = { 'N' /* none */, '(' /* mark */, ']' /* list */ };
    size_t bytes = 1 << 18;
    char *data = malloc(bytes);

    (void)state;
    assert_non_null(data);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct budget budget = { .limit = 1 << 19 };
        struct value_tree tree = { .root = VALUE_NIL, .budget = &budget };
        struct err err = { "" };

        memset(data, kinds[i], bytes);
        memcpy(data, "\x80\x02", 2);
        assert_int_equal(pickle_read(data, bytes, &tree, &err), -EFBIG);
        value_fini(&tree);
        assert_int_equal(budget.used, 0);
    }
    free(data);
}

static void bounds_what_a_trace_becomes(void **state)
{
    static const char event[] = "{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"name\":\"gloo:a\"},";
    size_t count = 4000, size = strlen(event);
    char *text = malloc(count * size + 3);
    struct lanes lanes = { 0 };
    struct budget budget = { .limit = SIZE_MAX };
    struct value_tree tree = { .root = VALUE_NIL, .budget = &budget };
    struct err err = { "" };

    (void)state;
    assert_non_null(text);
    text[0] = '[';
    for (size_t i = 0; i < count; i++)
        memcpy(text + 1 + i * size, event, size);
    strcpy(text + count * size, "]");
    assert_int_equal(jsontext_read(text, strlen(text), &tree, &err), 0);
    budget.limit = budget.used + (100 << 10); /* less than its events take */
    assert_int_equal(kineto_add(&lanes, 0, &tree, &err), -EFBIG);
    assert_int_equal(lanes.count, 0);
    budget.limit = SIZE_MAX;
    assert_int_equal(kineto_add(&lanes, 0, &tree, &err), 0);
    assert_int_equal(lanes.count, count);
    value_fini(&tree);
    assert_int_equal(budget.used, lanes.room * sizeof(*lanes.op));
    lanes_fini(&lanes);
    free(text);
}

static void bounds_events_of_a_log(void **state)
{
    static const char line[] =
        "n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nranks 8 cudaDev 0 busId 1000 - Init COMPLETE\n";
    struct budget budget = { .limit = 1 << 20 };
    struct log_reader reader = { .budget = &budget };
    const struct log_source source = { .name = "rank_0.log", .rank = 0 };
    size_t count = 20000, size = strlen(line);
    char *text = malloc(count * size);
    struct stream *stream;
    int result;

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * size, line, size);
    assert_int_equal(stream_open_memory(text, count * size, &stream), 0);
    result = log_reader_stream(&reader, &source, stream, NULL);
    stream_clean(&stream);
    assert_true(budget.used <= budget.limit);
    assert_true(result == 0 || (result == -ENOMEM && budget.refused));
    assert_true(reader.event_room * sizeof(*reader.logs.event) <= budget.limit);
    log_reader_fini(&reader);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_what_is_taken_and_given),
        cmocka_unit_test(bounds_values_of_json),
        cmocka_unit_test(bounds_values_of_pickles),
        cmocka_unit_test(bounds_what_a_trace_becomes),
        cmocka_unit_test(bounds_events_of_a_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
