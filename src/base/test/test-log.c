/* test-log.c - one line a call, begun with the command's name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* stderr while a line is written. */
struct scene {
    int saved, read_end;
    char text[8192];
};

static void scene_begin(struct scene *scene)
{
    int end[2];

    assert_int_equal(pipe2(end, O_CLOEXEC), 0);
    scene->saved = dup(STDERR_FILENO);
    scene->read_end = end[0];
    assert_true(dup2(end[1], STDERR_FILENO) >= 0);
    close(end[1]);
}

static void scene_end(struct scene *scene)
{
    ssize_t size;

    assert_true(dup2(scene->saved, STDERR_FILENO) >= 0);
    close(scene->saved);
    size = read(scene->read_end, scene->text, sizeof(scene->text) - 1);
    close(scene->read_end);
    assert_true(size >= 0);
    scene->text[size] = '\0';
}

static void a_line_begins_with_the_command(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene);
    log_name(NULL);
    log_error("no command %d", 7);
    log_name("bench probe");
    errno = ENOENT;
    log_info("ring: %m");
    assert_int_equal(errno, ENOENT);
    scene_end(&scene);
    assert_string_equal(scene.text, "lockstep: no command 7\n"
                                    "lockstep bench probe: ring: No such file or directory\n");
}

static void quiet_leaves_the_errors(void **state)
{
    struct scene scene;

    (void)state;
    scene_begin(&scene);
    log_name("run");
    log_quiet(1);
    log_info("unheard");
    log_error("heard");
    log_quiet(0);
    scene_end(&scene);
    assert_string_equal(scene.text, "lockstep run: heard\n");
}

static void a_long_line_is_cut_visibly_and_still_one_line(void **state)
{
    struct scene scene;
    char big[5000];
    size_t size;

    (void)state;
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    scene_begin(&scene);
    log_error("%s", big);
    scene_end(&scene);
    size = strlen(scene.text);
    assert_true(size > 1000 && size < 3000);
    assert_string_equal(scene.text + size - 4, "...\n");
    assert_ptr_equal(strchr(scene.text, '\n'), scene.text + size - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_begins_with_the_command),
        cmocka_unit_test(quiet_leaves_the_errors),
        cmocka_unit_test(a_long_line_is_cut_visibly_and_still_one_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
