/* test-node.c - what the daemon of a node finds, keeps, and allows each user.
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
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/node/node_private.h"
#include "base/remove_tree.h"
#include "core/clean.h"
#include "wire/ring.h"

struct place {
    char root[64], user[96];
    struct scan *scan;
    unsigned found;
    char names[512];
};

static int place_setup(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    strcpy(place->root, "/tmp/lockstep-test-node-XXXXXX");
    assert_non_null(mkdtemp(place->root));
    snprintf(place->user, sizeof(place->user), "%s/lockstep-%u", place->root, geteuid());
    assert_int_equal(mkdir(place->user, 0700), 0);
    assert_int_equal(scan_create(place->root, &place->scan, NULL), 0);
    *state = place;
    return 0;
}

static int place_teardown(void **state)
{
    struct place *place = *state;

    scan_destroy(place->scan);
    assert_int_equal(tree_remove(place->root), 0);
    free(place);
    return 0;
}

static void run_make(const struct place *place, const char *name)
{
    char path[160];

    snprintf(path, sizeof(path), "%s/%s", place->user, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void ring_make(const struct place *place, const char *run, const char *name, uint64_t magic)
{
    char path[200];
    CLEAN(fd_clean) int fd = -1;

    snprintf(path, sizeof(path), "%s/%s/%s", place->user, run, name);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, &magic, sizeof(magic)), sizeof(magic));
}

static bool is_known(void *arg, uid_t uid, const char *name)
{
    (void)arg;
    (void)uid;
    return strncmp(name, "known", 5) == 0;
}

static void on_found(void *arg, uid_t uid, gid_t gid, const char *name)
{
    struct place *place = arg;
    size_t used = strlen(place->names);

    (void)gid;
    assert_int_equal(uid, geteuid());
    place->found++;
    snprintf(place->names + used, sizeof(place->names) - used, "%s ", name);
}

static void turn(struct place *place)
{
    const struct scan_sink sink = { .is_known = is_known, .found = on_found, .arg = place };

    place->found = 0;
    place->names[0] = '\0';
    scan_turn(place->scan, &sink);
}

static void a_run_begins_with_a_ring(void **state)
{
    struct place *place = *state;

    run_make(place, "empty");
    run_make(place, "making");
    ring_make(place, "making", "rank-0.0.ring", 0);
    run_make(place, "other");
    ring_make(place, "other", "rank-0.0.ring", 4711);
    run_make(place, "misnamed");
    ring_make(place, "misnamed", "rank-0.ring", RING_MAGIC);
    turn(place);
    assert_string_equal(place->names, "");
    ring_make(place, "making", "rank-7.0.ring", RING_MAGIC);
    turn(place);
    assert_string_equal(place->names, "making ");
}

static void what_is_not_the_users_own_is_not_followed(void **state)
{
    struct place *place = *state;
    char path[160];

    run_make(place, "real");
    ring_make(place, "real", "rank-0.0.ring", RING_MAGIC);
    snprintf(path, sizeof(path), "%s/link", place->user);
    assert_int_equal(symlink("real", path), 0);
    run_make(place, "open");
    ring_make(place, "open", "rank-0.0.ring", RING_MAGIC);
    snprintf(path, sizeof(path), "%s/open", place->user);
    assert_int_equal(chmod(path, 0777), 0);
    run_make(place, "known-1");
    ring_make(place, "known-1", "rank-0.0.ring", RING_MAGIC);
    run_make(place, "ring-link");
    snprintf(path, sizeof(path), "%s/ring-link/rank-0.0.ring", place->user);
    assert_int_equal(symlink("../real/rank-0.0.ring", path), 0);
    run_make(place, "ring-fifo");
    snprintf(path, sizeof(path), "%s/ring-fifo/rank-0.0.ring", place->user);
    assert_int_equal(mkfifo(path, 0600), 0);
    turn(place);
    assert_string_equal(place->names, "real ");
    assert_int_equal(scan_open_run(place->scan, geteuid(), "open"), -EPERM);
    assert_true(scan_open_run(place->scan, geteuid(), "link") < 0);
    assert_int_equal(scan_open_run(place->scan, geteuid(), ".."), -EXDEV);
    assert_int_equal(scan_open_run(place->scan, geteuid() + 1, "real"), -ENOENT);
}

static void one_that_has_an_agent_is_left_alone(void **state)
{
    struct place *place = *state;
    CLEAN(fd_clean) int fd = -1;

    run_make(place, "run");
    ring_make(place, "run", "rank-0.0.ring", RING_MAGIC);
    turn(place);
    assert_int_equal(place->found, 1);
    fd = scan_open_run(place->scan, geteuid(), "run");
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_SH | LOCK_NB), 0);
    turn(place);
    assert_int_equal(place->found, 0);
}

/* Each turn goes on where the last one stopped, and all are found in the end. */
static void a_turn_does_a_bounded_part_of_the_work(void **state)
{
    struct place *place = *state;
    unsigned all = 0, turns = 0;
    char name[32];

    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "run-%d", i);
        run_make(place, name);
        ring_make(place, name, "rank-0.0.ring", RING_MAGIC);
    }
    while (all < 300 && turns++ < 100) {
        turn(place);
        assert_true(place->found <= 64);
        all += place->found;
    }
    assert_int_equal(all, 300);
    assert_int_equal(turns, 5);
}

/* ---- shares ---- */

static void nobody_takes_what_is_left_for_others(void **state)
{
    struct node_settings settings = { .runs_per_user = 4, .runs_max = 6 }; /* eight times known */
    struct node node = { .settings = &settings };
    char name[32];
    unsigned first = 0, second = 0;

    (void)state;
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "run-%d", i);
        first += node_add(&node, 1, 1, name) != NULL;
    }
    assert_int_equal(first, 24); /* as much as it leaves */
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "run-%d", i);
        second += node_add(&node, 2, 2, name) != NULL;
    }
    assert_int_equal(second, 12);
    assert_non_null(node_add(&node, 3, 3, "run")); /* there is room for one who has none */
    assert_non_null(node_find(&node, 2, "run-0"));
    assert_null(node_find(&node, 4, "run-0"));
    assert_int_equal(node_user(&node, 1)->runs, 24);
    for (size_t i = 0; i < node.runs; i++)
        node.run[i]->over = node.run[i]->uid == 1;
    node_drop_over(&node);
    assert_null(node_user(&node, 1));
    assert_int_equal(node.runs, 13);
    node_table_fini(&node);
}

static void names_that_are_no_runs_are_refused(void **state)
{
    struct node_settings settings = { .runs_per_user = 4, .runs_max = 6 };
    struct node node = { .settings = &settings };

    (void)state;
    assert_null(node_add(&node, 1, 1, "a b"));
    assert_null(node_add(&node, 1, 1, "-x"));
    assert_null(node_add(&node, 1, 1, "\033[2J"));
    assert_null(
        node_add(&node, 1, 1, "sixty-two-characters-are-too-many-with-the-number-of-the-user-1"));
    node_table_fini(&node);
}

static void who_has_fewest_is_never_refused_for_who_has_most(void **state)
{
    (void)state;
    assert_false(node_is_full(0, 32, 511, 512));
    assert_true(node_is_full(1, 32, 511, 512));
    assert_true(node_is_full(32, 32, 100, 512));
    assert_false(node_is_full(31, 32, 100, 512));
    assert_true(node_is_full(0, 32, 512, 512));
    assert_true(node_is_full(0, 32, 600, 512)); /* what an earlier daemon left */
}

/* ---- the store ---- */

static void on_left(void *arg, const char *id, uid_t uid, gid_t gid)
{
    (void)gid;
    assert_int_equal(uid, geteuid());
    strcat(arg, id);
}

static void spools_are_kept_and_removed_when_they_are_empty(void **state)
{
    const struct place *place = *state;
    struct store store, other;
    char names[256] = "";
    int fd;

    assert_int_equal(store_open(&store, place->root, NULL), 0);
    assert_int_equal(store_open(&other, place->root, NULL), -EBUSY);
    fd = store_open_spool(&store, "run.u7", geteuid(), getegid(), NULL);
    assert_true(fd >= 0);
    close(openat(fd, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    close(store_open_spool(&store, "run.u7", geteuid(), getegid(), NULL)); /* again */
    store_list(&store, on_left, names);
    assert_string_equal(names, "run.u7");
    assert_int_equal(store_remove(&store, "run.u7"), -ENOTEMPTY);
    assert_int_equal(unlinkat(fd, "file", 0), 0);
    assert_int_equal(store_remove(&store, "run.u7"), 0);
    assert_int_equal(store_remove(&store, "run.u7"), 0);
    close(fd);
    store_close(&store);
}

static void a_state_directory_of_another_user_is_refused(void **state)
{
    const struct place *place = *state;
    struct store store;

    if (geteuid() != 0)
        skip();
    assert_int_equal(chown(place->root, 4711, 4711), 0);
    assert_int_equal(store_open(&store, place->root, NULL), -EPERM);
}

/* ---- processes ---- */

#define TABLE 24 /* descriptors that a process may have here */
#define CHILD_HAS_SPOOL 41
#define CHILD_HAS_NONE 42

/* What this program is when child_start() has executed it. */
static int child_main(void)
{
    return fcntl(CHILD_SPOOL_FD, F_GETFD) < 0 ? CHILD_HAS_NONE : CHILD_HAS_SPOOL;
}

/* All descriptors are in use but so many. */
static void table_fill(int from, int spare)
{
    int fd;

    while ((fd = fcntl(from, F_DUPFD_CLOEXEC, 0)) >= 0)
        ;
    assert_int_equal(errno, EMFILE);
    for (fd = TABLE - spare; fd < TABLE; fd++)
        close(fd);
}

static int child_status(int spool_fd)
{
    const struct client_settings control = { .url = "http://127.0.0.1:1" };
    const struct child_settings settings = { .kind = CHILD_AGENT,
                                             .run = "r",
                                             .node = "n",
                                             .control = &control,
                                             .spool_fd = spool_fd,
                                             .rings_fd = -1 };
    int token_fd, status;
    pid_t pid;

    assert_int_equal(child_start(&settings, &pid, &token_fd), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(token_fd);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* With no room for the copies of its descriptors it would serve a run without a spool. */
static void a_process_that_cannot_have_its_descriptors_does_not_start(void **state)
{
    CLEAN(fd_clean) int spool = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct rlimit old, limit;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    limit = old;
    limit.rlim_cur = TABLE;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(child_status(spool), CHILD_HAS_SPOOL);
    table_fill(spool, 3); /* a pipe, /dev/null, and none more */
    assert_int_equal(child_status(spool), 127);
    close_range((unsigned)spool + 1, ~0u, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_run_begins_with_a_ring, place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(what_is_not_the_users_own_is_not_followed, place_setup,
                                        place_teardown),
        cmocka_unit_test_setup_teardown(one_that_has_an_agent_is_left_alone, place_setup,
                                        place_teardown),
        cmocka_unit_test_setup_teardown(a_turn_does_a_bounded_part_of_the_work, place_setup,
                                        place_teardown),
        cmocka_unit_test(nobody_takes_what_is_left_for_others),
        cmocka_unit_test(names_that_are_no_runs_are_refused),
        cmocka_unit_test(who_has_fewest_is_never_refused_for_who_has_most),
        cmocka_unit_test_setup_teardown(spools_are_kept_and_removed_when_they_are_empty,
                                        place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(a_state_directory_of_another_user_is_refused, place_setup,
                                        place_teardown),
        cmocka_unit_test(a_process_that_cannot_have_its_descriptors_does_not_start),
    };

    if (argc > 1 && strcmp(argv[1], "node-agent") == 0)
        return child_main();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
