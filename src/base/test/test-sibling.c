/* test-sibling.c - programs are found beside the one that runs, and nowhere else.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/remove_tree.h"
#include "base/sibling.h"
#include "core/clean.h"

/* Where a copy of this test, `asked` to find a program, says that it is; NULL: nowhere. */
static const char *answer_of(const char *program, const char *asked, char ret[static PATH_MAX])
{
    char line[2 * PATH_MAX];
    FILE *out;
    size_t size;

    snprintf(line, sizeof(line), "%s %s", program, asked);
    out = popen(line, "r");
    assert_non_null(out);
    size = fread(ret, 1, PATH_MAX - 1, out);
    ret[size] = '\0';
    return WEXITSTATUS(pclose(out)) == 0 ? ret : NULL;
}

static void make_program(const char *path, int mode)
{
    CLEAN(fd_clean) int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, mode);

    assert_true(fd >= 0);
}

static void finds_what_lies_beside_the_real_file(void **state)
{
    char directory[] = "/tmp/lockstep-sibling-XXXXXX", line[2 * PATH_MAX], answer[PATH_MAX];
    char path[PATH_MAX], link_path[PATH_MAX], here[PATH_MAX];

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/bin", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(line, sizeof(line), "cp /proc/%d/exe %s/bin/self", (int)getpid(), directory);
    assert_int_equal(system(line), 0);
    snprintf(here, sizeof(here), "%s/bin/other", directory);
    make_program(here, 0700);
    snprintf(path, sizeof(path), "%s/bin/data", directory);
    make_program(path, 0600);

    /* Called by a link from elsewhere, it is still that directory. */
    snprintf(path, sizeof(path), "%s/bin/self", directory);
    snprintf(link_path, sizeof(link_path), "%s/link", directory);
    assert_int_equal(symlink(path, link_path), 0);
    assert_string_equal(answer_of(link_path, "other", answer), here);
    assert_null(answer_of(link_path, "link", answer)); /* beside the link only */
    assert_null(answer_of(link_path, "data", answer)); /* no program */
    tree_remove(directory);
}

static void does_not_search_the_path(void **state)
{
    struct err err = { "" };
    struct path path = { "as it was" };

    (void)state;
    assert_int_equal(system("sh -c :"), 0);
    assert_int_equal(sibling_find("sh", &path, &err), -ENOENT);
    assert_string_equal(path.text, "as it was");
    assert_non_null(strstr(err.text, "/sh: No such file"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_lies_beside_the_real_file),
        cmocka_unit_test(does_not_search_the_path),
    };
    struct path path;

    if (argc == 2) {
        if (sibling_find(argv[1], &path, NULL) < 0)
            return 1;
        fputs(path.text, stdout);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
