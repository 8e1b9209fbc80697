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
#include "verify/fabric/flow.h"

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

/* ---- workers that measure what the test says ---- */

static int stranger_connect(uint16_t port)
{
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_port = htons(port),
                                         .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* A process that takes part in any number of transfers, and reports `done` for each, as sender and as receiver. */
static struct fake_worker scripted_worker(const struct fabric_flow *done)
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
        uint16_t worker_port = ntohs(address.sin_port);
        static struct fabric_message said, next;
        int64_t until = time_mono_ns() + WAIT_NS;
        struct fabric_channel channel;

        channel_init(&channel, accept4(fd, NULL, NULL, SOCK_CLOEXEC), true);
        channel_greet(&channel, &shared, until, NULL);
        said = (struct fabric_message){ .type = FABRIC_NODE, .rate = 1000000, .flows = 1 };
        snprintf(said.flow[0].address, sizeof(said.flow[0].address), "127.0.0.1");
        channel_send(&channel, &said, until, NULL);
        while (channel_wait(&channel, until, &next, NULL) == 0) {
            said = (struct fabric_message){ .type = FABRIC_READY, .flows = 1 };
            said.flow[0].port = worker_port;
            if (next.type == FABRIC_STOP)
                continue;
            if (next.type == FABRIC_RECEIVE) {
                channel_send(&channel, &said, until, NULL);
                close(accept4(fd, NULL, NULL, SOCK_CLOEXEC)); /* the sender was asked, too */
            } else {
                close(stranger_connect(next.flow[0].port));
            }
            said.type = FABRIC_DONE;
            said.flow[0] = *done;
            channel_send(&channel, &said, until, NULL);
        }
        _exit(0);
    }
    close(fd);
    return worker;
}

/* What a test of two such workers has measured: 0 to 2 transfers, and how many it misses. */
static size_t scripted_missing(const struct fabric_flow *done, size_t *measured)
{
    struct fake_worker worker[2] = { scripted_worker(done), scripted_worker(done) };
    const struct fabric_run_settings settings = {
        .token = shared, .time_ns = 10 * NS_PER_MS, .wait_ns = WAIT_NS, .gbps = 1, .streams = 1
    };
    struct fabric_run run;
    size_t missing;

    fabric_run_init(&run, &settings);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fabric_run_add(&run, "127.0.0.1", worker[i].port, NULL), 0);
    assert_int_equal(fabric_run_connect(&run, NULL), 2);
    assert_int_equal(fabric_run_plan(&run, false), 0);
    assert_int_equal(fabric_run_measure(&run, NULL), 0);
    missing = fabric_run_missing(&run);
    *measured = run.paths;
    fabric_run_fini(&run);
    for (int i = 0; i < 2; i++)
        waitpid(worker[i].pid, NULL, 0);
    return missing;
}

static void bytes_that_came_at_once_have_no_rate(void **state)
{
    size_t measured;

    (void)state;
    assert_int_equal(
        scripted_missing(&(struct fabric_flow){ .bytes = 4096, .ns = 1000 }, &measured), 0);
    assert_int_equal(measured, 2);
    assert_int_equal(scripted_missing(&(struct fabric_flow){ .bytes = 4096, .ns = 0 }, &measured),
                     2);
    assert_int_equal(measured, 0); /* not two transfers of rate 0 */
    assert_int_equal(scripted_missing(&(struct fabric_flow){ .error = EMFILE }, &measured), 2);
}

/* ---- strangers ---- */

/* A transfer to a receiver to which `strangers` connected before the sender did; the last one talks nonsense.  Returns the bytes
 * that were charged to the receiver.
 */
static uint64_t flow_beside(unsigned strangers, struct fabric_message *got)
{
    char own[1][ADDRESS_NUMBER] = { "127.0.0.1" };
    struct fabric_message asked = { .flows = 1,
                                    .time_ns = 50 * NS_PER_MS,
                                    .wait_ns = WAIT_NS,
                                    .rate = 100000000,
                                    .bytes = 100000000,
                                    .pings = 4 };
    struct flows in = { .flow = NULL }, out = { .flow = NULL };
    int fd[32], stop[2];
    uint64_t charged;
    pid_t sender;

    memset(in.key, 7, sizeof(in.key));
    memset(out.key, 7, sizeof(out.key));
    assert_true(strangers < COUNT(fd));
    assert_int_equal(pipe(stop), 0);
    assert_int_equal(flows_listen(&in, &asked, own, 1, NULL), 0);
    for (unsigned i = 0; i < strangers; i++)
        fd[i] = stranger_connect(asked.flow[0].port);
    if (strangers)
        assert_int_equal(send(fd[strangers - 1], own, sizeof(own), 0), sizeof(own));
    snprintf(asked.flow[0].address, sizeof(asked.flow[0].address), "127.0.0.1");
    sender = fork();
    if (sender == 0) {
        static struct fabric_message sent;

        flows_connect(&out, &asked, own, 1, NULL);
        flows_run(&out, stop[0], &sent);
        _exit(0);
    }
    assert_int_equal(flows_run(&in, stop[0], got), 0);
    charged = flows_bytes(&in);
    flows_close(&in);
    waitpid(sender, NULL, 0);
    for (unsigned i = 0; i < strangers; i++)
        close(fd[i]);
    close(stop[0]);
    close(stop[1]);
    return charged;
}

static void a_stranger_who_connects_first_is_not_the_sender(void **state)
{
    static const unsigned strangers[] = { 0, 1, 3, 20 };
    static struct fabric_message got;

    (void)state;
    for (size_t i = 0; i < COUNT(strangers); i++) {
        uint64_t charged = flow_beside(strangers[i], &got);

        assert_int_equal(got.flow[0].error, 0);
        assert_true(got.flow[0].bytes > 0);
        assert_true(charged >= got.flow[0].bytes); /* also what came before time counts */
    }
}

/* ---- silences ---- */

#define STALL_TIME_NS (400 * NS_PER_MS)

/* Says who it is, sends a little, nothing for a while, and then all the rest at once. */
static void silent_sender(uint16_t port, const unsigned char *key, int64_t silence_ns, size_t bytes)
{
    unsigned char challenge[FABRIC_NONCE], own[FABRIC_NONCE] = { 1 }, proof[FABRIC_MAC];
    static unsigned char zero[1 << 20];
    const struct timespec silence = time_spec(silence_ns);
    int fd = stranger_connect(port);

    assert_true(bytes <= sizeof(zero));
    recv(fd, challenge, sizeof(challenge), MSG_WAITALL);
    fabric_proof(key, "sender", challenge, own, proof);
    send(fd, own, sizeof(own), MSG_NOSIGNAL);
    send(fd, proof, sizeof(proof), MSG_NOSIGNAL);
    recv(fd, proof, sizeof(proof), MSG_WAITALL);
    send(fd, zero, 1000, MSG_NOSIGNAL);
    nanosleep(&silence, NULL);
    send(fd, zero, bytes, MSG_NOSIGNAL);
    pause();
}

/* The rate that the receiver reports, in bytes per second. */
static double flow_after_silence(int64_t silence_ns, uint64_t bytes)
{
    char own[1][ADDRESS_NUMBER] = { "127.0.0.1" };
    struct fabric_message asked = { .flows = 1, .time_ns = STALL_TIME_NS, .wait_ns = WAIT_NS };
    static struct fabric_message got;
    struct flows in = { .flow = NULL };
    int stop[2];
    pid_t sender;

    asked.rate = asked.bytes = UINT64_C(1) << 40;
    memset(in.key, 7, sizeof(in.key));
    assert_int_equal(pipe(stop), 0);
    assert_int_equal(flows_listen(&in, &asked, own, 1, NULL), 0);
    sender = fork();
    if (sender == 0)
        silent_sender(asked.flow[0].port, in.key, silence_ns, bytes);
    assert_int_equal(flows_run(&in, stop[0], &got), 0);
    flows_close(&in);
    kill(sender, SIGKILL);
    waitpid(sender, NULL, 0);
    close(stop[0]);
    close(stop[1]);
    assert_int_equal(got.flow[0].error, 0);
    assert_true(got.flow[0].ns > 0);
    return (double)got.flow[0].bytes * 1e9 / (double)got.flow[0].ns;
}

static void what_came_after_a_silence_is_not_the_rate_of_the_link(void **state)
{
    const double bytes = 1 << 20, seconds = (double)STALL_TIME_NS / 1e9;

    (void)state;
    /* In all of the time came this much; no link carried more. */
    assert_true(flow_after_silence(STALL_TIME_NS / 2, 1 << 20) <= 1.1 * bytes / seconds);
    assert_true(flow_after_silence(STALL_TIME_NS / 4 * 3, 1 << 20) <= 1.1 * bytes / seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_came_at_once_have_no_rate),
        cmocka_unit_test(a_stranger_who_connects_first_is_not_the_sender),
        cmocka_unit_test(what_came_after_a_silence_is_not_the_rate_of_the_link),
        cmocka_unit_test(a_refusal_of_a_stranger_is_not_shown),
        cmocka_unit_test(a_refusal_has_no_escape_sequences),
        cmocka_unit_test(a_rate_without_bounds_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
