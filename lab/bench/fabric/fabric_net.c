/* fabric_net.c - makes the bridges, links and rates of a test network.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/fabric/fabric_net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sibling.h"
#include "core/buf.h"
#include "core/clean.h"
#include "core/time.h"
#include "lab/faults/net.h"

#define BURST 6000    /* bytes: a few packets */
#define DATAGRAM 1200 /* bytes */
#define TESTER_OCTET 250

__attribute__((format(printf, 2, 3))) static void fabric_net_line(struct buf *text,
                                                                  const char *format, ...)
{
    char line[256];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    buf_put(text, line, strlen(line));
}

static int fabric_net_batch(int space, const char *program, struct buf *text, struct err *err)
{
    int result;

    buf_put_u8(text, 0);
    result = text->failed ? err_nomem(err)
                          : net_space_batch(space, program, (const char *)text->data, err);
    buf_fini(text);
    *text = (struct buf){ .data = NULL };
    return result;
}

static void fabric_net_port(struct buf *text, int space, const char *name, const char *bridge)
{
    fabric_net_line(text, "link add %s type veth peer name eth0 netns /proc/%d/fd/%d\n", name,
                    (int)getpid(), space);
    fabric_net_line(text, "link set %s master %s\nlink set %s up\n", name, bridge, name);
}

static int fabric_net_bridges(const struct fabric_net *net, struct err *err)
{
    struct buf text = { .data = NULL };
    char name[32], leaf[32];

    fabric_net_line(&text, "link add spine type bridge\nlink set spine up\n");
    for (uint32_t l = 0; l < net->leafs; l++)
        fabric_net_line(&text,
                        "link add leaf%u type bridge\nlink set leaf%u up\n"
                        "link add u%u type veth peer name d%u\n"
                        "link set u%u master leaf%u\nlink set d%u master spine\n"
                        "link set u%u up\nlink set d%u up\n",
                        l, l, l, l, l, l, l, l, l);
    for (uint32_t n = 0; n < net->nodes; n++) {
        snprintf(name, sizeof(name), "p%u", n);
        snprintf(leaf, sizeof(leaf), "leaf%u", n / net->each);
        fabric_net_port(&text, net->node[n], name, leaf);
    }
    fabric_net_port(&text, net->tester, "tester", "spine");
    return fabric_net_batch(net->fabric, "ip", &text, err);
}

static int fabric_net_address(int space, unsigned octet, struct err *err)
{
    struct buf text = { .data = NULL };

    fabric_net_line(&text, "link set lo up\naddr add %s%u/24 dev eth0\nlink set eth0 up\n",
                    FABRIC_NET_PREFIX, octet);
    return fabric_net_batch(space, "ip", &text, err);
}

static void fabric_net_rate(struct buf *text, const char *device, double mbit)
{
    fabric_net_line(text, "qdisc replace dev %s root tbf rate %.0fkbit burst %d latency 40ms\n",
                    device, mbit * 1e3, BURST);
}

static int fabric_net_rates(const struct fabric_net *net, struct err *err)
{
    struct buf text = { .data = NULL };
    char name[32];
    int result;

    for (uint32_t l = 0; l < net->leafs; l++) {
        snprintf(name, sizeof(name), "u%u", l);
        fabric_net_rate(&text, name, net->up[l]);
        snprintf(name, sizeof(name), "d%u", l);
        fabric_net_rate(&text, name, net->down[l]);
    }
    for (uint32_t n = 0; n < net->nodes; n++) {
        snprintf(name, sizeof(name), "p%u", n);
        fabric_net_rate(&text, name, net->gets[n]);
    }
    result = fabric_net_batch(net->fabric, "tc", &text, err);
    for (uint32_t n = 0; n < net->nodes && result == 0; n++) {
        fabric_net_rate(&text, "eth0", net->sends[n]);
        result = fabric_net_batch(net->node[n], "tc", &text, err);
    }
    return result;
}

int fabric_net_open(struct fabric_net *net, struct err *err)
{
    int result;

    net->fabric = net->tester = -1;
    memset(net->node, 0xff, sizeof(net->node));
    result = net_space_make(&net->fabric, err);
    if (result == 0)
        result = net_space_make(&net->tester, err);
    for (uint32_t n = 0; n < net->nodes && result == 0; n++)
        result = net_space_make(&net->node[n], err);
    if (result == 0)
        result = fabric_net_bridges(net, err);
    for (uint32_t n = 0; n < net->nodes && result == 0; n++)
        result = fabric_net_address(net->node[n], n + 1, err);
    if (result == 0)
        result = fabric_net_address(net->tester, TESTER_OCTET, err);
    if (result == 0)
        result = fabric_net_rates(net, err);
    if (result < 0)
        fabric_net_close(net);
    return result;
}

void fabric_net_close(struct fabric_net *net)
{
    fd_clean(&net->fabric);
    fd_clean(&net->tester);
    for (uint32_t n = 0; n < FABRIC_NET_NODES; n++)
        fd_clean(&net->node[n]);
    net->fabric = net->tester = -1;
    memset(net->node, 0xff, sizeof(net->node));
}

int fabric_net_cut(const struct fabric_net *net, uint32_t a, uint32_t b, struct err *err)
{
    struct buf text = { .data = NULL };
    int result;

    fabric_net_line(&text, "route add blackhole %s%u/32\n", FABRIC_NET_PREFIX, b + 1);
    result = fabric_net_batch(net->node[a], "ip", &text, err);
    fabric_net_line(&text, "route add blackhole %s%u/32\n", FABRIC_NET_PREFIX, a + 1);
    return result < 0 ? (buf_fini(&text), result)
                      : fabric_net_batch(net->node[b], "ip", &text, err);
}

/* ---- processes in it ---- */

static bool fabric_net_child(int space)
{
    sigset_t none;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return setns(space, CLONE_NEWNET) == 0;
}

int fabric_net_start(int space, const char *program, const struct words *words, int out_fd,
                     pid_t *ret, struct err *err)
{
    struct path path;
    int result = words->full ? err_set(err, -E2BIG, "the command line of '%s' is too long", program)
                             : sibling_find(program, &path, err);
    pid_t pid;

    if (result < 0)
        return result;
    pid = fork();
    if (pid < 0)
        return err_set(err, -errno, "fork: %m");
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (!fabric_net_child(space))
            _exit(126);
        dup2(null, STDIN_FILENO);
        dup2(out_fd < 0 ? null : out_fd, STDOUT_FILENO);
        execv(path.text, words->argv);
        _exit(127);
    }
    *ret = pid;
    return 0;
}

/* Datagrams nobody waits for: they take their share of both adapters, whatever TCP does. */
static void fabric_net_flood(uint32_t to, double mbit)
{
    static const char datagram[DATAGRAM];
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(9) };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int64_t step_ns = (int64_t)(DATAGRAM * 8 * 1e3 / mbit), next_ns = time_mono_ns();
    char text[32];

    snprintf(text, sizeof(text), "%s%u", FABRIC_NET_PREFIX, to + 1);
    inet_pton(AF_INET, text, &address.sin_addr);
    for (;;) {
        struct timespec until;

        sendto(fd, datagram, sizeof(datagram), 0, (struct sockaddr *)&address, sizeof(address));
        next_ns = MAX(next_ns + step_ns, time_mono_ns() - 20 * NS_PER_MS);
        until = time_spec(next_ns);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
}

pid_t fabric_net_foreign(const struct fabric_net *net, uint32_t from, uint32_t to, double mbit)
{
    pid_t pid = fork();

    if (pid == 0) {
        if (fabric_net_child(net->node[from]))
            fabric_net_flood(to, mbit);
        _exit(1);
    }
    return pid;
}
