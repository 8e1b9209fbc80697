/* test-conf.c - settings files: what is in them, and where it is wrong.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/conf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/opt.h"
#include "core/clean.h"

struct settings {
    bool quiet;
    uint32_t ranks;
    int64_t tick_ns;
    const char *name;
    struct opt_list fault;
};

static const struct opt opts[] = {
    { "quiet", 'q', OPT_FLAG, offsetof(struct settings, quiet), NULL, "say less", NULL, false },
    { "ranks", 'n', OPT_U32, offsetof(struct settings, ranks), "N", "how many", "T_RANKS", false },
    { "tick", 0, OPT_DURATION, offsetof(struct settings, tick_ns), "TIME", "how long", NULL,
      false },
    { "name", 0, OPT_TEXT, offsetof(struct settings, name), "NAME", "which one", NULL, false },
    { "fault", 'f', OPT_LIST, offsetof(struct settings, fault), "KIND", "what", NULL, false },
    { "secret", 0, OPT_FLAG, offsetof(struct settings, quiet), NULL, "unsaid", NULL, true },
    { .name = NULL },
};
static const struct command command = {
    .name = "try", .operands = "", .summary = "a command for this test", .opt = opts
};

static int parse(const char *text, struct conf *ret, struct err *err)
{
    err->text[0] = '\0';
    return conf_parse("f.yaml", text, strlen(text), ret, err);
}

static void entries_have_their_places(void **state)
{
    CLEAN(conf_fini) struct conf conf = { 0 };
    struct err err;

    (void)state;
    assert_int_equal(
        parse("# words\ntry:\n  tick: 5s\n  fault: [a,\n    b]\nother: {x: 'y z'}\n", &conf, &err),
        0);
    assert_int_equal(conf.count, 6);
    assert_null(conf.entry[0].key);
    assert_string_equal(conf.entry[0].section, "try");
    assert_int_equal(conf.entry[1].at.line, 3);
    assert_int_equal(conf.entry[1].at.column, 3);
    assert_int_equal(conf.entry[1].value_at.column, 9);
    assert_string_equal(conf.entry[2].value, "a");
    assert_string_equal(conf.entry[3].value, "b");
    assert_string_equal(conf.entry[3].key, "fault");
    assert_int_equal(conf.entry[3].value_at.line, 5);
    assert_string_equal(conf.entry[5].section, "other");
    assert_string_equal(conf.entry[5].value, "y z");
}

static void an_empty_file_is_one(void **state)
{
    static const char *const texts[] = { "", "# only words\n", "---\n", "try:\n", "try: {}\n" };
    struct err err;

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        CLEAN(conf_fini) struct conf conf = { 0 };

        assert_int_equal(parse(texts[i], &conf, &err), 0);
        assert_int_equal(conf.count, i >= 3);
    }
}

static void what_is_wrong_is_said_with_its_place(void **state)
{
    static const struct {
        const char *text, *said;
    } bad[] = {
        { "try:\n  tick: 1s\n  tick: 2s\n",
          "f.yaml:3:3: key 'tick' is there twice, first in line 2" },
        { "try:\n  tick:\n", "f.yaml:2:3: key 'tick' has no value" },
        { "try:\n  fault: []\n", "f.yaml:2:11: the list of key 'fault' is empty" },
        { "try: 5\n", "f.yaml:1:6: expected keys below section 'try'" },
        { "just words\n", "f.yaml:1:1: expected sections, such as 'control:'" },
        { "- a\n", "f.yaml:1:1: a list is not expected here" },
        { "try:\n  a:\n    b: c\n", "f.yaml:3:5: a mapping is not expected here" },
        { "try:\n  a: &x 1\n  b: *x\n", "f.yaml:2:6: anchors and tags" },
        { "try:\n\ta: 1\n", "f.yaml:2:1: " },
        { "try: {}\n---\nb: {}\n", "a second document" },
        { "try: {}\ntry: {}\n", "f.yaml:2:1: section 'try' is there twice, first in line 1" },
        { "try:\n  a: \"x\\0y\"\n", "f.yaml:2:6: a NUL byte" },
    };
    struct err err;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct conf conf = { 0 };

        assert_int_equal(parse(bad[i].text, &conf, &err), -EINVAL);
        if (!strstr(err.text, bad[i].said))
            fail_msg("'%s' is not in '%s'", bad[i].said, err.text);
    }
}

static void the_table_says_which_keys_there_are(void **state)
{
    static const struct {
        const char *text, *said;
    } bad[] = {
        { "try:\n  tikc: 5s\n",
          "f.yaml:2:3: unknown key 'tikc' in section 'try'; did you mean 'tick'?" },
        { "try:\n  zzzzzzzz: 5s\n", "f.yaml:2:3: unknown key 'zzzzzzzz' in section 'try'; see" },
        { "try:\n  secret: yes\n", "f.yaml:2:3: unknown key 'secret'" },
        { "try:\n  tick: soon\n", "f.yaml:2:9: key 'tick', value 'soon': expected a time" },
        { "try:\n  tick: [1s, 2s]\n", "f.yaml:2:14: key 'tick' takes one value, not a list" },
    };
    struct err err;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        CLEAN(conf_fini) struct conf conf = { 0 };
        struct settings s = { 0 };

        assert_int_equal(parse(bad[i].text, &conf, &err), 0);
        assert_int_equal(opt_read_conf(&command, &conf, &s, &err), -EINVAL);
        if (!strstr(err.text, bad[i].said))
            fail_msg("'%s' is not in '%s'", bad[i].said, err.text);
        assert_int_equal(opt_read_conf(&command, &conf, NULL, &err), -EINVAL);
    }
}

static void flag_beats_environment_beats_file(void **state)
{
    CLEAN(conf_fini) struct conf conf = { 0 };
    char *argv[] = { (char *)"try", (char *)"--ranks=3", (char *)"-f", (char *)"c" };
    struct settings s = { .ranks = 9, .fault = { .item = { "z" }, .count = 1 } };
    struct err err;

    (void)state;
    assert_int_equal(
        parse("try:\n  ranks: 1\n  tick: 5s\n  fault: [a, b]\n  quiet: yes\nelse: {a: b}\n", &conf,
              &err),
        0);
    assert_int_equal(opt_read_conf(&command, &conf, &s, &err), 0);
    assert_int_equal(s.ranks, 1);
    assert_int_equal(s.tick_ns, 5000000000);
    assert_true(s.quiet);
    assert_int_equal(s.fault.count, 2);
    setenv("T_RANKS", "2", 1);
    assert_int_equal(opt_read(&command, 1, argv, &s, &err), 1);
    assert_int_equal(s.ranks, 2);
    assert_int_equal(opt_read(&command, 4, argv, &s, &err), 4);
    unsetenv("T_RANKS");
    assert_int_equal(s.ranks, 3);
    assert_int_equal(s.fault.count, 1); /* a list is replaced, not added to */
    assert_string_equal(s.fault.item[0], "c");
}

static void the_file_that_is_given_is_found_by_the_table(void **state)
{
    char *value[] = { (char *)"try", (char *)"--name", (char *)"--config", (char *)"x" };
    char *given[] = { (char *)"try", (char *)"-q", (char *)"--config=a.yaml", (char *)"x" };
    char *after[] = { (char *)"try", (char *)"--", (char *)"--config=a.yaml" };

    (void)state;
    assert_null(opt_config(&command, 4, value)); /* it is the name */
    assert_string_equal(opt_config(&command, 4, given), "a.yaml");
    assert_null(opt_config(&command, 3, after));
}

static void files_are_looked_for_weakest_first(void **state)
{
    struct path path[CONF_FILES_MAX];
    int must;

    (void)state;
    unsetenv("LOCKSTEP_CONFIG");
    setenv("XDG_CONFIG_HOME", "/x", 1);
    assert_int_equal(conf_files(NULL, path, &must), 2);
    assert_false(must);
    assert_string_equal(path[0].text, "/etc/lockstep/lockstep.yaml");
    assert_string_equal(path[1].text, "/x/lockstep/lockstep.yaml");
    setenv("LOCKSTEP_CONFIG", "e.yaml", 1);
    assert_int_equal(conf_files(NULL, path, &must), 1);
    assert_string_equal(path[0].text, "e.yaml");
    assert_int_equal(conf_files("f.yaml", path, &must), 1);
    assert_true(must);
    assert_string_equal(path[0].text, "f.yaml");
    unsetenv("LOCKSTEP_CONFIG");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_have_their_places),
        cmocka_unit_test(an_empty_file_is_one),
        cmocka_unit_test(what_is_wrong_is_said_with_its_place),
        cmocka_unit_test(the_table_says_which_keys_there_are),
        cmocka_unit_test(flag_beats_environment_beats_file),
        cmocka_unit_test(the_file_that_is_given_is_found_by_the_table),
        cmocka_unit_test(files_are_looked_for_weakest_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
