/* test-pickle.c - the opcodes, one by one, and what must not happen.  Real pickles of every protocol are read
 * by test/t/t5100-why-dumps.t and test/fuzz/seeds/pickle.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "read/pickle.h"

#define READ(tree, bytes, err) pickle_read(bytes, sizeof(bytes) - 1, tree, err)

static void numbers_are_what_they_were(void **state)
{
    struct value_tree tree = { .root = VALUE_NIL };
    int64_t value;
    double real;

    (void)state;
    assert_int_equal(READ(&tree, "\x80\x02K\xff.", NULL), 0);
    assert_true(value_integer(&tree, tree.root, &value) && value == 255);
    assert_int_equal(READ(&tree, "\x80\x02J\xfe\xff\xff\xff.", NULL), 0);
    assert_true(value_integer(&tree, tree.root, &value) && value == -2);
    assert_int_equal(READ(&tree, "\x80\x02\x8a\x00.", NULL), 0);
    assert_true(value_integer(&tree, tree.root, &value) && value == 0);
    assert_int_equal(READ(&tree, "\x80\x02\x8a\x02\x00\x80.", NULL), 0);
    assert_true(value_integer(&tree, tree.root, &value) && value == -32768);
    assert_int_equal(READ(&tree, "\x80\x02G\x3f\xf8\x00\x00\x00\x00\x00\x00.", NULL), 0);
    assert_true(value_real(&tree, tree.root, &real) && real == 1.5);
    value_fini(&tree);
}

static void containers_nest_and_share(void **state)
{
    /* a = []; {"a": a, "b": (a, a)}, then a.append(7) */
    static const char bytes[] = "\x80\x02}(U\x01"
                                "a]q\x05K\x07"
                                "aU\x01"
                                "bh\x05h\x05\x86u.";
    struct value_tree tree = { .root = VALUE_NIL };
    uint32_t a, pair;
    int64_t value;

    (void)state;
    assert_int_equal(READ(&tree, bytes, NULL), 0);
    a = value_get(&tree, tree.root, "a");
    pair = value_get(&tree, tree.root, "b");
    assert_true(value_is(&tree, pair, VALUE_TUPLE));
    assert_int_equal(value_item(&tree, pair, 1), a);
    assert_true(value_integer(&tree, value_item(&tree, a, 0), &value) && value == 7);
    assert_int_equal(value_item(&tree, a, 1), VALUE_NIL);
    assert_int_equal(value_get(&tree, tree.root, "c"), VALUE_NIL);
    value_fini(&tree);
}

static void what_is_wrong_is_refused_with_its_place(void **state)
{
#define BAD(bytes, words)                                                                          \
    {                                                                                              \
        bytes, sizeof(bytes) - 1, words                                                            \
    }
    static const struct {
        const char *bytes;
        size_t size;
        const char *words;
    } bad[] = {
        BAD("", "not a pickle"),
        BAD("\x80\x01N.", "not a pickle"),
        BAD("\x80\x02", "unexpected end of file at byte 2"),
        BAD("\x80\x02K", "unexpected end of file at byte 3"),
        BAD("\x80\x02X\xff\xff\xff\xff"
            "abc.",
            "longer than the file"),
        BAD("\x80\x02.", "does not end with exactly one value"),
        BAD("\x80\x02NN.", "does not end with exactly one value"),
        BAD("\x80\x02(N.", "does not end with exactly one value"),
        BAD("\x80\x02N(0.", "the stack is empty"),
        BAD("\x80\x02N\x86.", "the stack is empty"),
        BAD("\x80\x02]N\x90.", "no mark"),
        BAD("\x80\x02NNa.", "not a container of that kind"),
        BAD("\x80\x02}(Nu.", "a key without a value"),
        BAD("\x80\x02h\x01.", "a memo entry that does not exist"),
        BAD("\x80\x02Nr\xff\xff\xff\x7f.", "memo"),
        BAD("\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7fN.", "frame is longer"),
        BAD("\x80\x02"
            "cos\nsystem\nU\x04true\x85R.",
            "calls os.system"),
        BAD("\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.", "calls system"),
        BAD("\x80\x02"
            "cos\nsystem",
            "unterminated name"),
        BAD("\x80\x02NQ.", "opcode 0x51 is not allowed in plain data"),
        BAD("\x80\x02NNb.", "opcode 0x62 is not allowed in plain data"),
    };
    struct value_tree tree = { .root = VALUE_NIL };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = { "" };

        assert_int_equal(pickle_read(bad[i].bytes, bad[i].size, &tree, &err), -EPROTO);
        if (!strstr(err.text, bad[i].words))
            fail_msg("'%s' does not say '%s'", err.text, bad[i].words);
    }
    value_fini(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_what_they_were),
        cmocka_unit_test(containers_nest_and_share),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
