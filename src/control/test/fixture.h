/* A run's directory of its own for each test, with spools that tests write.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_TEST_FIXTURE_H
#define LOCKSTEP_CONTROL_TEST_FIXTURE_H

#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
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

#include "control/log/log_replay.h"
#include "control/log/rundir.h"
#include "control/log/spools.h"
#include "control/site/site.h"
#include "core/map.h"
#include "core/rand.h"
#include "core/time.h"
#include "wire/facts.h"
#include "wire/spool.h"

#define TEST_RUN "20260301-104207-3f9a"

struct fixture {
    char base[64];
    struct rundir dir;
};

static inline int fixture_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    char path[128];

    strcpy(fixture->base, "/tmp/lockstep-control-XXXXXX");
    if (!mkdtemp(fixture->base))
        return -1;
    snprintf(path, sizeof(path), "%s/" TEST_RUN, fixture->base);
    if (mkdir(path, 0700) < 0 || rundir_open(&fixture->dir, path, NULL) < 0 ||
        mkdir(fixture->dir.spool.text, 0700) < 0)
        return -1;
    *state = fixture;
    return 0;
}

static inline int fixture_remove(const char *path, const struct stat *st, int flag,
                                 struct FTW *walk)
{
    (void)st;
    (void)flag;
    (void)walk;
    return remove(path);
}

static inline int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    int result = nftw(fixture->base, fixture_remove, 8, FTW_DEPTH | FTW_PHYS);

    free(fixture);
    return result;
}

static inline struct spool_writer *fixture_spool(const struct fixture *fixture, const char *sender)
{
    struct spool_writer *writer;
    struct path path;
    char name[64];

    snprintf(name, sizeof(name), "%s.lsf", sender);
    assert_int_equal(path_join(&path, fixture->dir.spool.text, name, NULL), 0);
    assert_int_equal(spool_writer_open(path.text, sender, &writer, NULL), 0);
    return writer;
}

/* A frame of any type with some bytes, or a hello at this time. */
static inline void fixture_put(struct spool_writer *writer, uint16_t type, size_t bytes)
{
    struct buf payload = { 0 };

    for (size_t i = 0; i < bytes; i++)
        buf_put_u8(&payload, (uint8_t)i);
    assert_int_equal(spool_put(writer, type, &payload, NULL), 0);
    buf_fini(&payload);
}

static inline void fixture_hello(struct spool_writer *writer, int64_t mono_ns, int64_t real_ns)
{
    struct fact_hello hello = { .kind = SENDER_AGENT, .mono_ns = mono_ns, .real_ns = real_ns };
    struct buf payload = { 0 };

    strcpy(hello.run, TEST_RUN);
    fact_hello_put(&payload, &hello);
    assert_int_equal(spool_put(writer, FRAME_HELLO, &payload, NULL), 0);
    buf_fini(&payload);
}

static inline pid_t fixture_control(const struct fixture *fixture, int stop_at_once)
{
    struct site_settings settings = { .run_dir = fixture->dir.path.text,
                                      .tick_ns = NS_PER_MS,
                                      .listen = "127.0.0.1:0" };
    pid_t pid = fork();
    struct err err = { "" };
    sigset_t term;
    int result;

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    if (stop_at_once)
        kill(getpid(), SIGTERM);
    result = site_run(&settings, &err);
    if (result < 0)
        fprintf(stderr, "%s\n", err.text);
    _exit(result < 0 ? -result : 0);
}

static inline int fixture_wait(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Reads the whole log: no frame may be there twice, and the core must say again what was said.
 * Returns how many frames are not the controller's.
 */
static inline uint64_t fixture_check_log(const struct fixture *fixture, struct log_replay *replay)
{
    struct spool_reader *reader;
    struct map seen = { 0 };
    struct err err = { "" };
    struct frame frame;
    uint64_t facts = 0;

    log_replay_init(replay, "");
    assert_int_equal(spool_reader_open(fixture->dir.log.text, &reader, &err), 0);
    while (spool_next(reader, &frame, &err) == 1) {
        uint64_t *times = map_put(&seen, frame.sender * 31 + frame.number, 0);

        assert_int_equal((*times)++, 0);
        facts += frame.sender != control_sender();
        assert_int_equal(log_replay_frame(replay, &frame, &err), 0);
    }
    assert_int_equal(spool_reader_damaged(reader), 0);
    assert_int_equal(replay->different, 0);
    assert_int_equal(replay->missing, 0);
    assert_int_equal(replay->queue.count, 0);
    map_fini(&seen);
    spool_reader_close(reader);
    return facts;
}

#endif
