/* net.c - namespaces, links and what is done to them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/faults/net.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clean.h"

#define OCTET 100   /* 169.254.OCTET+K.0/30 is the link of node K: .1 the router, .2 the node */
#define BURST 4096  /* bytes, at least */
#define TICKS 100.0 /* a second: what a burst has to last for */

/* ---- commands inside of a namespace ---- */

static void net_child_run(int space, int text_fd, int err_fd, const char *program)
{
    if (setns(space, CLONE_NEWNET) < 0) {
        dprintf(err_fd, "setns: %s\n", strerror(errno));
        _exit(1);
    }
    dup2(text_fd, STDIN_FILENO);
    dup2(err_fd, STDOUT_FILENO);
    dup2(err_fd, STDERR_FILENO);
    execlp(program, program, "-batch", "-", (char *)NULL);
    dprintf(STDERR_FILENO, "%s: %s (iproute2)\n", program, strerror(errno));
    _exit(127);
}

int net_space_batch(int space, const char *program, const char *text, struct err *err)
{
    char message[160] = "";
    int in[2], out[2], status = 0;
    ssize_t size;
    pid_t pid;

    if (pipe2(in, O_CLOEXEC) < 0)
        return err_set(err, -errno, "pipe: %m");
    if (pipe2(out, O_CLOEXEC) < 0) {
        close(in[0]);
        close(in[1]);
        return err_set(err, -errno, "pipe: %m");
    }
    pid = fork();
    if (pid == 0)
        net_child_run(space, in[0], out[1], program);
    close(in[0]);
    close(out[1]);
    if (pid > 0 && write(in[1], text, strlen(text)) < 0) /* fits a pipe */
        status = -1;
    close(in[1]);
    size = pid > 0 ? read(out[0], message, sizeof(message) - 1) : 0;
    message[MAX(size, 0)] = '\0';
    message[strcspn(message, "\n")] = '\0';
    close(out[0]);
    if (pid < 0)
        return err_set(err, -EAGAIN, "fork failed");
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0)
        return err_set(err, -ENODEV, "cannot create a network: %s", message[0] ? message : program);
    return 0;
}

__attribute__((format(printf, 4, 5))) static int run_text(int space, const char *program,
                                                          struct err *err, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return net_space_batch(space, program, text, err);
}

/* ---- making it ---- */

int net_space_make(int *ret, struct err *err)
{
    CLEAN(fd_clean) int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int fd;

    if (home < 0 || unshare(CLONE_NEWNET) < 0)
        return err_set(err, -errno, "cannot create a network namespace: %m");
    fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (setns(home, CLONE_NEWNET) < 0 || fd < 0) {
        fd_clean(&fd);
        return err_set(err, -EPERM, "cannot leave a network namespace");
    }
    *ret = fd;
    return 0;
}

static int net_forward(int space, struct err *err)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        int fd = -1;

        if (setns(space, CLONE_NEWNET) == 0)
            fd = open("/proc/sys/net/ipv4/ip_forward", O_WRONLY | O_CLOEXEC);
        _exit(fd >= 0 && write(fd, "1", 1) == 1 ? 0 : 1);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        return err_set(err, -EPERM, "cannot enable forwarding in a network namespace");
    return 0;
}

static int net_link_make(const struct net *net, uint32_t node, struct err *err)
{
    unsigned octet = OCTET + node;
    int result =
        run_text(net->router, "ip", err,
                 "link add p%u type veth peer name eth0 netns /proc/%d/fd/%d\n"
                 "addr add 169.254.%u.1/30 dev p%u\nlink set p%u up\n"
                 "route add blackhole 169.254.%u.0/30 metric 1000\n", /* cut: no word of it */
                 node, (int)getpid(), net->node[node], octet, node, node, octet);

    if (result == 0)
        result = run_text(net->node[node], "ip", err,
                          "link set lo up\naddr add 169.254.%u.2/30 dev eth0\nlink set eth0 up\n"
                          "route add default via 169.254.%u.1\n",
                          octet, octet);
    return result;
}

static int net_node_make(struct net *net, const char *dir, uint32_t node, struct err *err)
{
    char path[4096], target[64];
    int result = net_space_make(&net->node[node], err);

    if (result < 0)
        return result;
    net->nodes = node + 1;
    snprintf(path, sizeof(path), "%s/n%u", dir, node);
    snprintf(target, sizeof(target), "/proc/%d/fd/%d", (int)getpid(), net->node[node]);
    if (symlink(target, path) < 0)
        return err_set(err, -errno, "%s: %m", path);
    return net_link_make(net, node, err);
}

int net_begin(uint32_t nodes, const char *dir, struct net *ret, struct err *err)
{
    struct net net = { .router = -1 };
    int result;

    if (nodes > NET_NODES)
        return err_set(err, -EINVAL, "network namespaces: expected at most %d nodes", NET_NODES);
    if (mkdir(dir, 0700) < 0)
        return err_set(err, -errno, "%s: %m", dir);
    result = net_space_make(&net.router, err);
    if (result == 0)
        result = net_forward(net.router, err);
    for (uint32_t node = 0; node < nodes && result == 0; node++)
        result = net_node_make(&net, dir, node, err);
    if (result < 0) {
        if (net.nodes == 0)
            fd_clean(&net.router);
        net_end(&net);
        return result;
    }
    *ret = net;
    return 0;
}

void net_end(struct net *net)
{
    for (uint32_t node = 0; node < net->nodes; node++)
        fd_clean(&net->node[node]);
    if (net->nodes)
        fd_clean(&net->router);
    net->nodes = 0;
}

int net_enter(const char *dir, uint32_t node, struct err *err)
{
    char path[4096];
    CLEAN(fd_clean) int fd = -1;

    snprintf(path, sizeof(path), "%s/n%u", dir, node);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
        return err_set(err, -errno, "%s: %m", path);
    return 0;
}

/* ---- faults ---- */

int net_limit(const struct net *net, uint32_t node, double bytes_per_s, struct err *err)
{
    double burst = MAX(bytes_per_s / TICKS, BURST);
    int result = run_text(net->node[node], "tc", err,
                          "qdisc replace dev eth0 root tbf rate %.0fbit burst %.0f latency 2s\n",
                          8 * bytes_per_s, burst);

    if (result == 0)
        result = run_text(net->router, "tc", err,
                          "qdisc replace dev p%u root tbf rate %.0fbit burst %.0f latency 2s\n",
                          node, 8 * bytes_per_s, burst);
    return result;
}

int net_link_down(const struct net *net, uint32_t node, struct err *err)
{
    return run_text(net->router, "ip", err, "link set p%u down\n", node);
}

void net_heal(const struct net *net, uint32_t node)
{
    (void)run_text(net->router, "ip", NULL, "link set p%u up\n", node);
    (void)run_text(net->router, "tc", NULL, "qdisc del dev p%u root\n", node);
    (void)run_text(net->node[node], "tc", NULL, "qdisc del dev eth0 root\n");
}
