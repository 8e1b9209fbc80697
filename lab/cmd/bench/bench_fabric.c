/* bench_fabric.c - how often `lockstep fabric test` names the part that is slow, and nothing else.
 *
 * Each case is a network of its own (lab/bench/fabric/fabric_net.h) with a worker in every node; the test runs beside them as a user
 * would run it, and its JSON is compared with what was made slow.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/json_member.h"
#include "base/log.h"
#include "base/net/token.h"
#include "base/remove_tree.h"
#include "cmd/lab/bench_options.h"
#include "core/buf.h"
#include "core/clean.h"
#include "core/time.h"
#include "lab/bench/fabric/fabric_case.h"
#include "lab/cmd/lab.h"

#define PORT 8791
#define LIMIT 0.95
#define ANSWER_NS (180 * NS_PER_S)
#define ANSWER_BYTES (8u << 20)
#define LISTEN_NS (20 * NS_PER_S)

struct bench_fabric {
    const struct bench_fabric_settings *settings;
    int signal_fd;
    char dir[256];
    uint32_t cases, named, right, expected, found;
    struct {
        uint32_t cases, right; /* right: exactly what was expected was named */
    } fault[FABRIC_FAULTS];
    struct json_object *wrong;
    bool stopped;
};

struct fabric_children {
    pid_t pid[FABRIC_NET_NODES + 1];
    size_t count;
};

static void fabric_children_end(struct fabric_children *children)
{
    for (size_t i = 0; i < children->count; i++) {
        kill(children->pid[i], SIGKILL);
        waitpid(children->pid[i], NULL, 0);
    }
    children->count = 0;
}

/* Waits for a file; false: a signal came, or the time is over. */
static bool bench_fabric_wait(struct bench_fabric *bench, int fd, int64_t until_ns)
{
    struct pollfd polls[2] = { { .fd = fd, .events = POLLIN },
                               { .fd = bench->signal_fd, .events = POLLIN } };
    int ready;

    do
        ready = poll(polls, COUNT(polls), time_poll_ms(until_ns, time_mono_ns()));
    while (ready < 0 && errno == EINTR);
    bench->stopped |= ready > 0 && polls[1].revents;
    return ready > 0 && !bench->stopped;
}

/* ---- workers ---- */

static int bench_fabric_worker(struct bench_fabric *bench, const struct fabric_case *one,
                               uint32_t node, struct fabric_children *children, struct err *err)
{
    CLEAN(free_clean) struct words *words = calloc(1, sizeof(*words));
    CLEAN(fd_clean) int in = -1;
    CLEAN(fd_clean) int out = -1;
    int64_t until = time_mono_ns() + LISTEN_NS;
    int pipe_fd[2], result;
    char line[256];

    if (!words || pipe2(pipe_fd, O_CLOEXEC) < 0)
        return err_nomem(err);
    in = pipe_fd[0];
    out = pipe_fd[1];
    words_add(words, "lockstep");
    words_add(words, "fabric");
    words_add(words, "serve");
    words_add(words, "--listen");
    words_add(words, "%s%u:%d", FABRIC_NET_PREFIX, node + 1, PORT);
    words_add(words, "--token-file");
    words_add(words, "%s/token", bench->dir);
    if (strcmp(bench->settings->with, "nccl") == 0)
        words_add(words, "--nccl");
    result = fabric_net_start(one->net.node[node], "lockstep", words, out,
                              &children->pid[children->count], err);
    if (result < 0)
        return result;
    children->count++;
    close(TAKE_FD(out));
    /* It prints a line once it listens. */
    if (!bench_fabric_wait(bench, in, until) || read(in, line, sizeof(line)) <= 0)
        return err_set(err, -EIO, "a worker did not start");
    return 0;
}

static int bench_fabric_topology(const struct bench_fabric *bench, const struct fabric_net *net,
                                 struct err *err)
{
    CLEAN(file_clean) FILE *file = NULL;
    char path[320];

    snprintf(path, sizeof(path), "%s/topology.conf", bench->dir);
    file = fopen(path, "we");
    if (!file)
        return err_set(err, -errno, "%s: %m", path);
    for (uint32_t l = 0; l < net->leafs; l++)
        fprintf(file, "SwitchName=leaf%u Nodes=%s[%u-%u]\n", l, FABRIC_NET_PREFIX,
                l * net->each + 1, (l + 1) * net->each);
    fprintf(file, "SwitchName=spine Switches=leaf[0-%u]\n", net->leafs - 1);
    return 0;
}

/* ---- the test itself ---- */

static void bench_fabric_words(const struct bench_fabric *bench, const struct fabric_case *one,
                               struct words *words)
{
    words_add(words, "lockstep");
    words_add(words, "fabric");
    words_add(words, "test");
    words_add(words, "--json");
    words_add(words, "--nodes");
    words_add(words, "%s[1-%u]", FABRIC_NET_PREFIX, one->net.nodes);
    words_add(words, "--topology");
    words_add(words, "%s/topology.conf", bench->dir);
    words_add(words, "--token-file");
    words_add(words, "%s/token", bench->dir);
    words_add(words, "--rate");
    words_add(words, "0.1");
    words_add(words, "--time");
    words_add(words, "250ms");
    words_add(words, "--timeout");
    words_add(words, "1s");
    words_add(words, "--with");
    words_add(words, "%s", bench->settings->with);
    if (one->cut) /* a single pair is found only where it is measured */
        words_add(words, "--full");
}

static int bench_fabric_answer(struct bench_fabric *bench, const struct fabric_case *one,
                               struct buf *answer, struct err *err)
{
    CLEAN(free_clean) struct words *words = calloc(1, sizeof(*words));
    CLEAN(fd_clean) int in = -1;
    int64_t until = time_mono_ns() + ANSWER_NS;
    int pipe_fd[2], result;
    char chunk[65536];
    ssize_t got = 1;
    pid_t pid;

    if (!words || pipe2(pipe_fd, O_CLOEXEC) < 0)
        return err_nomem(err);
    in = pipe_fd[0];
    bench_fabric_words(bench, one, words);
    result = fabric_net_start(one->net.tester, "lockstep", words, pipe_fd[1], &pid, err);
    close(pipe_fd[1]);
    if (result < 0)
        return result;
    while (got > 0 && answer->size < ANSWER_BYTES && bench_fabric_wait(bench, in, until)) {
        got = read(in, chunk, sizeof(chunk));
        if (got > 0)
            buf_put(answer, chunk, (size_t)got);
    }
    if (got > 0)
        kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return got > 0 ? err_set(err, -EIO, "the test did not end") : 0;
}

/* ---- the score ---- */

static bool bench_fabric_is_expected(const struct fabric_case *one, const char *name)
{
    for (uint32_t i = 0; i < one->expects; i++) {
        if (strcmp(one->expected[i], name) == 0)
            return true;
    }
    return false;
}

static void bench_fabric_wrong(struct bench_fabric *bench, const struct fabric_case *one,
                               struct json_object *named)
{
    struct json_object *object = json_object_new_object(), *expected = json_object_new_array();

    for (uint32_t i = 0; i < one->expects; i++)
        json_object_array_add(expected, json_object_new_string(one->expected[i]));
    json_object_object_add(object, "case", json_object_new_int64(bench->cases));
    json_object_object_add(object, "fault", json_object_new_string(fabric_fault_names[one->fault]));
    json_object_object_add(object, "nodes", json_object_new_int64(one->net.nodes));
    json_object_object_add(object, "expected", expected);
    json_object_object_add(object, "named", json_object_get(named));
    json_object_array_add(bench->wrong, object);
}

static int bench_fabric_score(struct bench_fabric *bench, const struct fabric_case *one,
                              struct buf *answer, struct err *err)
{
    CLEAN(json_clean) struct json_object *root = NULL;
    struct json_object *named;
    uint32_t right = 0, count;

    buf_put_u8(answer, 0);
    root = answer->failed ? NULL : json_tokener_parse((const char *)answer->data);
    named = root ? json_member(root, "named", json_type_array) : NULL;
    if (!named)
        return err_set(err, -EPROTO, "the test printed no answer");
    count = (uint32_t)json_object_array_length(named);
    for (uint32_t i = 0; i < count; i++) {
        struct json_object *item = json_object_array_get_idx(named, i);
        struct json_object *kind = json_member(item, "kind", json_type_string);
        struct json_object *name = json_member(item, "name", json_type_string);
        char text[256];

        snprintf(text, sizeof(text), "%s %s", json_object_get_string(kind),
                 json_object_get_string(name));
        right += bench_fabric_is_expected(one, text);
    }
    bench->cases++;
    bench->named += count;
    bench->right += right;
    bench->expected += one->expects;
    bench->fault[one->fault].cases++;
    if (right == one->expects && count == right)
        bench->fault[one->fault].right++;
    else
        bench_fabric_wrong(bench, one, named);
    return 0;
}

/* ---- cases ---- */

static int bench_fabric_inside(struct bench_fabric *bench, const struct fabric_case *one,
                               struct fabric_children *children, struct err *err)
{
    struct buf answer = { .data = NULL };
    int result = bench_fabric_topology(bench, &one->net, err);

    for (uint32_t n = 0; n < one->net.nodes && result == 0; n++)
        result = bench_fabric_worker(bench, one, n, children, err);
    if (result == 0 && one->cut)
        result = fabric_net_cut(&one->net, one->cut_a, one->cut_b, err);
    if (result == 0 && one->foreign) {
        pid_t pid =
            fabric_net_foreign(&one->net, one->foreign_from, one->foreign_to, one->foreign_mbit);

        if (pid > 0)
            children->pid[children->count++] = pid;
    }
    if (result == 0)
        result = bench_fabric_answer(bench, one, &answer, err);
    if (result == 0)
        result = bench_fabric_score(bench, one, &answer, err);
    buf_fini(&answer);
    return result;
}

static int bench_fabric_case(struct bench_fabric *bench, struct fabric_case *one, struct err *err)
{
    struct fabric_children children = { .count = 0 };
    int result = fabric_net_open(&one->net, err);

    if (result < 0)
        return result;
    result = bench_fabric_inside(bench, one, &children, err);
    fabric_children_end(&children);
    fabric_net_close(&one->net);
    return result;
}

/* -1: all of them in turn. */
static int bench_fabric_only(const char *name)
{
    for (int i = 0; name && i < FABRIC_FAULTS; i++) {
        if (strcmp(name, fabric_fault_names[i]) == 0)
            return i;
    }
    return -1;
}

static int bench_fabric_cases(struct bench_fabric *bench, struct err *err)
{
    struct rand rand = { bench->settings->seed };
    int only = bench_fabric_only(bench->settings->only), result = 0;

    for (uint32_t i = 0; i < bench->settings->cases && result == 0 && !bench->stopped; i++) {
        static const enum fabric_fault order[] = {
            FAULT_NIC,     FAULT_UPLINK, FAULT_PAIR,           FAULT_NIC_ONE_WAY, FAULT_TWO,
            FAULT_HEALTHY, FAULT_NIC,    FAULT_UPLINK_ONE_WAY, FAULT_TWO,         FAULT_HEALTHY,
        };
        enum fabric_fault fault = only >= 0 ? (enum fabric_fault)only : order[i % COUNT(order)];
        struct fabric_case one;

        fabric_case_draw(&rand, fault, bench->fault[fault].cases, bench->settings->nodes, &one);
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\r\033[Kcase %u of %u: %s, %u nodes", i + 1, bench->settings->cases,
                    fabric_fault_names[fault], one.net.nodes);
        result = bench_fabric_case(bench, &one, err);
    }
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    return result;
}

/* ---- the answer ---- */

static double bench_fabric_share(uint32_t part, uint32_t all)
{
    return all ? (double)part / (double)all : 1;
}

static void bench_fabric_json(const struct bench_fabric *bench, double precision, double recall)
{
    struct json_object *root = json_object_new_object(), *faults = json_object_new_object();

    json_object_object_add(root, "cases", json_object_new_int64(bench->cases));
    json_object_object_add(root, "precision", json_object_new_double(precision));
    json_object_object_add(root, "recall", json_object_new_double(recall));
    json_object_object_add(root, "named", json_object_new_int64(bench->named));
    json_object_object_add(root, "expected", json_object_new_int64(bench->expected));
    for (int i = 0; i < FABRIC_FAULTS; i++) {
        struct json_object *fault = json_object_new_object();

        json_object_object_add(fault, "cases", json_object_new_int64(bench->fault[i].cases));
        json_object_object_add(fault, "right", json_object_new_int64(bench->fault[i].right));
        json_object_object_add(faults, fabric_fault_names[i], fault);
    }
    json_object_object_add(root, "faults", faults);
    json_object_object_add(root, "wrong", json_object_get(bench->wrong));
    puts(json_object_to_json_string_ext(root,
                                        JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(root);
}

static int bench_fabric_print(const struct bench_fabric *bench)
{
    double precision = bench_fabric_share(bench->right, bench->named);
    double recall = bench_fabric_share(bench->right, bench->expected);

    if (bench->settings->json) {
        bench_fabric_json(bench, precision, recall);
    } else {
        for (int i = 0; i < FABRIC_FAULTS; i++)
            printf("%-16s %3u of %3u right\n", fabric_fault_names[i], bench->fault[i].right,
                   bench->fault[i].cases);
        printf("%u cases: precision %.3f, recall %.3f; limit %.2f: %s\n", bench->cases, precision,
               recall, LIMIT, precision >= LIMIT && recall >= LIMIT ? "met" : "missed");
    }
    return precision >= LIMIT && recall >= LIMIT ? 0 : 1;
}

static int bench_fabric_begin(struct bench_fabric *bench, struct err *err)
{
    const char *tmp = getenv("TMPDIR");
    struct token token;
    char path[320];
    sigset_t set;
    int result;

    if (geteuid() != 0)
        return err_set(err, -EPERM, "network namespaces need root");
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    bench->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    snprintf(bench->dir, sizeof(bench->dir), "%s/lockstep-fabric.XXXXXX",
             tmp && strlen(tmp) < sizeof(bench->dir) - 32 ? tmp : "/tmp");
    if (bench->signal_fd < 0 || !mkdtemp(bench->dir)) {
        bench->dir[0] = '\0';
        return err_set(err, -errno, "cannot create a directory: %m");
    }
    snprintf(path, sizeof(path), "%s/token", bench->dir);
    result = token_make(&token, err);
    return result < 0 ? result : token_write(path, &token, err);
}

int bench_fabric_main(int argc, char **argv)
{
    struct bench_fabric_settings settings = {
        .cases = 60, .nodes = FABRIC_NET_NODES, .seed = 1, .with = "tcp"
    };
    struct bench_fabric bench = { .settings = &settings, .signal_fd = -1 };
    struct err err = { "" };
    int result = opt_parse_all(&command_bench_fabric, argc, argv, &settings), status = 3;

    if (result < 0)
        return OPT_EXIT(result);
    if (settings.nodes < 8 || settings.nodes > FABRIC_NET_NODES || !settings.cases ||
        (settings.only && bench_fabric_only(settings.only) < 0) ||
        (strcmp(settings.with, "tcp") != 0 && strcmp(settings.with, "nccl") != 0)) {
        log_error("expected --cases above 0, --nodes from 8 to %d, --only with a fault and --with "
                  "tcp or nccl",
                  FABRIC_NET_NODES);
        return 2;
    }
    bench.wrong = json_object_new_array();
    result = bench_fabric_begin(&bench, &err);
    if (result == 0)
        result = bench_fabric_cases(&bench, &err);
    if (bench.stopped)
        log_error("interrupted");
    else if (result < 0)
        log_error("%s", err.text);
    else
        status = bench_fabric_print(&bench);
    if (bench.dir[0])
        tree_remove(bench.dir);
    fd_clean(&bench.signal_fd);
    json_object_put(bench.wrong);
    return status;
}
