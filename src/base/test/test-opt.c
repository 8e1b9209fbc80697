/* test-opt.c - what people type, and what a command then sees.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/opt.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"

struct settings {
    bool quiet, color;
    uint32_t ranks;
    uint64_t seed;
    double factor;
    int64_t wait_ns;
    const char *run;
    struct opt_list fault;
};

static const struct opt opts[] = {
    { "quiet", 'q', OPT_FLAG, offsetof(struct settings, quiet), NULL, "say less", NULL, false },
    { "color", 'c', OPT_FLAG, offsetof(struct settings, color), NULL, "paint", "T_COLOR", false },
    { "ranks", 'n', OPT_U32, offsetof(struct settings, ranks), "N", "how many", "T_RANKS", false },
    { "seed", 0, OPT_U64, offsetof(struct settings, seed), "N", "for luck", NULL, false },
    { "factor", 0, OPT_F64, offsetof(struct settings, factor), "F", "how slow", NULL, false },
    { "wait", 0, OPT_DURATION, offsetof(struct settings, wait_ns), "TIME", "how long", NULL,
      false },
    { "run", 0, OPT_TEXT, offsetof(struct settings, run), "NAME", "which one", NULL, false },
    { "fault", 'f', OPT_LIST, offsetof(struct settings, fault), "KIND", "what", "T_FAULT", false },
    { "secret", 0, OPT_FLAG, offsetof(struct settings, color), NULL, "unsaid", NULL, true },
    { .name = NULL },
};

static const struct command command = {
    .name = "try", .operands = "[FILE]", .summary = "a command for this test", .opt = opts
};

/* Words up to the first NULL become the command line. */
static int read_words(struct settings *settings, struct err *err, ...)
{
    char *argv[16] = { (char *)"try" };
    int argc = 1;
    va_list args;

    va_start(args, err);
    for (char *word; (word = va_arg(args, char *));)
        argv[argc++] = word;
    va_end(args);
    err->text[0] = '\0';
    return opt_read(&command, argc, argv, settings, err);
}

#define READ(...) read_words(&s, &err, __VA_ARGS__, (char *)NULL)

static void values_come_after_equals_or_as_the_next_word(void **state)
{
    struct settings s = { 0 };
    struct err err;

    (void)state;
    assert_int_equal(READ("--ranks=8", "--seed", "18446744073709551615", "--run", "a=b"), 6);
    assert_int_equal(s.ranks, 8);
    assert_true(s.seed == UINT64_MAX);
    assert_string_equal(s.run, "a=b");
    assert_int_equal(READ("-n4", "-q"), 3);
    assert_int_equal(s.ranks, 4);
    assert_true(s.quiet);
    assert_int_equal(READ("-n", "5", "-qc"), 4);
    assert_int_equal(s.ranks, 5);
    assert_true(s.color);
}

static void options_end_at_the_first_operand_or_after_two_dashes(void **state)
{
    struct settings s = { 0 };
    struct err err;

    (void)state;
    assert_int_equal(READ("-q", "file", "--ranks=2"), 2);
    assert_int_equal(s.ranks, 0);
    assert_int_equal(READ("--", "-q"), 2);
    assert_int_equal(READ("-", "-q"), 1); /* a lone dash is an operand */
}

static void a_flag_is_unset_by_no(void **state)
{
    struct settings s = { .color = true };
    struct err err;

    (void)state;
    assert_int_equal(READ("--no-color"), 2);
    assert_false(s.color);
    assert_int_equal(READ("--no-ranks"), -EINVAL); /* not a flag */
    assert_int_equal(READ("--no-color=1"), -EINVAL);
    assert_int_equal(READ("--color=1"), -EINVAL);
}

static void numbers_are_whole_or_refused(void **state)
{
    static const char *const bad[] = {
        "", "-1", "+1", " 1", "1 ", "1x", "4294967296", "0x10", "1e3"
    };
    struct settings s = { .ranks = 7 };
    struct err err;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(READ("--ranks", bad[i]), -EINVAL);
        assert_int_equal(s.ranks, 7);
    }
    assert_non_null(strstr(err.text, "--ranks 1e3: expected a whole number"));
    assert_int_equal(READ("--seed", "18446744073709551616"), -EINVAL);
    assert_int_equal(READ("--factor", "1.25"), 3);
    assert_true(s.factor == 1.25);
    assert_int_equal(READ("--factor", "nan"), -EINVAL);
    assert_int_equal(READ("--factor", "1.2.3"), -EINVAL);
}

static void times_need_a_unit(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        { "250ms", 250000000 },    { "10s", 10000000000 }, { "5m", 300000000000 }, { "0", 0 },
        { "1.5h", 5400000000000 }, { "3us", 3000 },
    };
    static const char *const bad[] = { "", "10", "s", "-1s", "10 s", "1w", "1e300d", "nans" };
    int64_t ns = -1;

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        assert_int_equal(opt_duration(good[i].text, &ns), 0);
        assert_true(ns == good[i].ns);
    }
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(opt_duration(bad[i], &ns), -EINVAL);
}

static void the_flag_is_stronger_than_the_environment(void **state)
{
    struct settings s = { .ranks = 1 };
    struct err err;

    (void)state;
    setenv("T_RANKS", "3", 1);
    setenv("T_COLOR", "yes", 1);
    setenv("T_FAULT", "slow:rank=1,factor=2", 1);
    assert_int_equal(READ("-q"), 2);
    assert_int_equal(s.ranks, 3);
    assert_true(s.color);
    assert_int_equal(s.fault.count, 1);
    assert_int_equal(READ("--ranks", "9", "--no-color", "-f", "kill", "-fstop"), 7);
    assert_int_equal(s.ranks, 9);
    assert_false(s.color);
    assert_int_equal(s.fault.count, 2);
    assert_string_equal(s.fault.item[1], "stop");
    setenv("T_RANKS", "many", 1);
    assert_int_equal(READ("-q"), -EINVAL);
    assert_non_null(strstr(err.text, "T_RANKS many: expected a whole number"));
    setenv("T_RANKS", "", 1); /* empty is as good as unset */
    assert_int_equal(READ("-q"), 2);
    unsetenv("T_RANKS");
    unsetenv("T_COLOR");
    unsetenv("T_FAULT");
}

static void a_list_has_an_end(void **state)
{
    struct settings s = { 0 };
    struct err err;
    char *argv[OPT_LIST_MAX + 3] = { (char *)"try" };

    (void)state;
    for (int i = 1; i < OPT_LIST_MAX + 2; i++)
        argv[i] = (char *)"--fault=x";
    assert_int_equal(opt_read(&command, OPT_LIST_MAX + 1, argv, &s, &err), OPT_LIST_MAX + 1);
    assert_int_equal(s.fault.count, OPT_LIST_MAX);
    assert_int_equal(opt_read(&command, OPT_LIST_MAX + 2, argv, &s, &err), -EINVAL);
}

static void an_unknown_option_gets_the_nearest_name(void **state)
{
    struct settings s = { 0 };
    struct err err;

    (void)state;
    assert_int_equal(READ("--rnaks=3"), -EINVAL);
    assert_string_equal(err.text, "unknown option --rnaks; did you mean --ranks?");
    assert_int_equal(READ("--zzzzzz"), -EINVAL);
    assert_string_equal(err.text, "unknown option --zzzzzz; see --help");
    assert_int_equal(READ("--secre"), -EINVAL);
    assert_null(strstr(err.text, "secret")); /* hidden ones are not offered */
    assert_int_equal(READ("-x"), -EINVAL);
    assert_string_equal(err.text, "unknown option -x; see --help");
}

static void a_missing_value_is_said(void **state)
{
    struct settings s = { 0 };
    struct err err;

    (void)state;
    assert_int_equal(READ("--ranks"), -EINVAL);
    assert_string_equal(err.text, "--ranks needs a value: --ranks N");
    assert_int_equal(READ("-n"), -EINVAL);
    assert_string_equal(err.text, "-n needs a value: -n N");
}

static void help_cancels_and_shows_every_row_but_the_hidden(void **state)
{
    struct settings s = { 0 };
    struct err err;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    assert_int_equal(READ("--help"), -ECANCELED);
    assert_int_equal(READ("-qh"), -ECANCELED);
    opt_help(&command, out);
    fclose(out);
    for (const struct opt *opt = opts; opt->name; opt++) {
        if (opt->hidden)
            assert_null(strstr(text, opt->name));
        else
            assert_non_null(strstr(text, opt->help));
    }
    assert_non_null(strstr(text, "usage: lockstep try [OPTION...] [FILE]"));
    assert_non_null(strstr(text, "-n, --ranks N"));
    assert_non_null(strstr(text, "[T_RANKS]"));
    free(text);
}

static void a_flag_stays_stronger_when_words_behind_an_operand_are_read(void **state)
{
    char *argv[] = { (char *)"try", (char *)"-n4", (char *)"FILE", (char *)"-q" };
    struct settings s = { 0 };
    struct err err = { "" };

    (void)state;
    setenv("T_RANKS", "3", 1);
    assert_int_equal(opt_read(&command, 4, argv, &s, &err), 2);
    assert_int_equal(opt_parse_more(&command, 2, argv + 2, &s), 2);
    assert_int_equal(s.ranks, 4);
    assert_true(s.quiet);
    unsetenv("T_RANKS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_after_equals_or_as_the_next_word),
        cmocka_unit_test(options_end_at_the_first_operand_or_after_two_dashes),
        cmocka_unit_test(a_flag_is_unset_by_no),
        cmocka_unit_test(numbers_are_whole_or_refused),
        cmocka_unit_test(times_need_a_unit),
        cmocka_unit_test(the_flag_is_stronger_than_the_environment),
        cmocka_unit_test(a_flag_stays_stronger_when_words_behind_an_operand_are_read),
        cmocka_unit_test(a_list_has_an_end),
        cmocka_unit_test(an_unknown_option_gets_the_nearest_name),
        cmocka_unit_test(a_missing_value_is_said),
        cmocka_unit_test(help_cancels_and_shows_every_row_but_the_hidden),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
