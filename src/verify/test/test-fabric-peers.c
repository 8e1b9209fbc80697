/* test-fabric-peers.c - what others may do to a fabric test: workers that lie, strangers that connect, programs that hang.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/time.h"
#include "verify/fabric/fabric_run.h"

#define WAIT_NS (20 * NS_PER_S) /* for what comes at once on an idle machine */

static const struct token shared = { "lst_one" };

/* ---- workers that lie ---- */

struct fake_worker {
    uint16_t port;
    pid_t pid;
};

/* A process that accepts one connection and answers with `said`, with the key of the session or before there is one. */
static struct fake_worker fake_worker(const struct fabric_message *said, bool keyed)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct fake_worker worker;

    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    worker = (struct fake_worker){ ntohs(address.sin_port), fork() };
    if (worker.pid == 0) {
        int64_t until = time_mono_ns() + WAIT_NS;
        struct fabric_channel channel;
        struct fabric_message next;

        channel_init(&channel, accept4(fd, NULL, NULL, SOCK_CLOEXEC), true);
        if (!keyed || channel_greet(&channel, &shared, until, NULL) == 0)
            channel_send(&channel, said, until, NULL);
        channel_wait(&channel, until, &next, NULL); /* until the test hangs up */
        _exit(0);
    }
    close(fd);
    return worker;
}

/* Connects to it and leaves it as the test saw it. */
static struct fabric_node fake_worker_met(const struct fabric_message *said, bool keyed)
{
    struct fake_worker worker = fake_worker(said, keyed);
    const struct fabric_run_settings settings = { .token = shared };
    struct fabric_node met;
    struct fabric_run run;

    fabric_run_init(&run, &settings);
    assert_int_equal(fabric_run_add(&run, "127.0.0.1", worker.port, NULL), 0);
    assert_true(fabric_run_connect(&run, NULL) >= 0);
    met = run.node[0];
    fabric_run_fini(&run);
    waitpid(worker.pid, NULL, 0);
    return met;
}

static void a_refusal_of_a_stranger_is_not_shown(void **state)
{
    const struct fabric_message said = { .type = FABRIC_REFUSED, .text = "\033]0;mine\007call me" };
    struct fabric_node met = fake_worker_met(&said, false);

    (void)state;
    assert_int_equal(met.state, NODE_SKIPPED);
    assert_null(strstr(met.why, "call me"));
}

static void a_refusal_has_no_escape_sequences(void **state)
{
    const struct fabric_message said = { .type = FABRIC_REFUSED, .text = "busy\033[2J\n\302\233m" };
    struct fabric_node met = fake_worker_met(&said, true);

    (void)state;
    assert_int_equal(met.state, NODE_SKIPPED);
    assert_string_equal(met.why, "busy?[2J??m");
}

static void a_rate_without_bounds_is_cut(void **state)
{
    const struct fabric_message said = { .type = FABRIC_NODE, .rate = UINT64_MAX, .flows = 1 };
    struct fabric_node met = fake_worker_met(&said, true);

    (void)state;
    assert_int_equal(met.state, NODE_READY);
    assert_true(met.rate == UINT64_C(1250000000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_of_a_stranger_is_not_shown),
        cmocka_unit_test(a_refusal_has_no_escape_sequences),
        cmocka_unit_test(a_rate_without_bounds_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
