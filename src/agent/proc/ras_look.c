/* ras_look.c - asks NCCL's RAS as its client ncclras does.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/proc/ras_look.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"

#define RAS_PORT 28028
#define RAS_LIMIT_NS (3 * NS_PER_S / 2)
#define RAS_BYTES 65536
/* It waits for processes that do not answer, but a second less than the timeout that it is given (seen with 2.28.9). */
#define RAS_REQUEST "CLIENT PROTOCOL 2\nTIMEOUT 2\nSTATUS\n"

/* ---- where ---- */

static size_t ras_file_read(int proc_fd, const char *name, char *ret, size_t room)
{
    CLEAN(fd_clean) int fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t size;

    while (fd >= 0 && used + 1 < room && (size = read(fd, ret + used, room - 1 - used)) > 0)
        used += (size_t)size;
    ret[used] = '\0';
    return used;
}

static const char *ras_variable(const char *environment, size_t size, const char *name)
{
    size_t length = strlen(name);

    for (size_t at = 0; at < size; at += strlen(environment + at) + 1) {
        if (strncmp(environment + at, name, length) == 0 && environment[at + length] == '=')
            return environment + at + length + 1;
    }
    return NULL;
}

/* 0: not to be asked. */
static uint16_t ras_port(int proc_fd)
{
    static char environment[RAS_BYTES];
    size_t size = ras_file_read(proc_fd, "environ", environment, sizeof(environment));
    const char *enabled = ras_variable(environment, size, "NCCL_RAS_ENABLE");
    const char *address = ras_variable(environment, size, "NCCL_RAS_ADDR"), *port;
    char *end;
    unsigned long number;

    if (enabled && strcmp(enabled, "0") == 0)
        return 0;
    if (!address)
        return RAS_PORT;
    port = strrchr(address, ':');
    if (!port ||
        (strncmp(address, "localhost:", 10) != 0 && strncmp(address, "127.0.0.1:", 10) != 0))
        return 0; /* somewhere else: that is nobody's to ask */
    number = strtoul(port + 1, &end, 10);
    return *end || end == port + 1 || number > UINT16_MAX ? 0 : (uint16_t)number;
}

/* As the process itself knows it: in a container that is another number than here. */
static uint32_t ras_pid(int proc_fd)
{
    char status[4096], *line, *end;
    unsigned long pid = 0;

    ras_file_read(proc_fd, "status", status, sizeof(status));
    line = strstr(status, "\nNSpid:");
    if (!line)
        return 0;
    for (line += strlen("\nNSpid:");; line = end) {
        unsigned long next = strtoul(line, &end, 10);

        if (end == line || strchr("\n", *line))
            return (uint32_t)pid;
        pid = next;
        if (*end != '\t' && *end != ' ')
            return (uint32_t)pid;
    }
}

/* ---- who answers there ---- */

/* Its loopback interface is ours, too. */
static bool ras_is_our_net(int proc_fd)
{
    struct stat its, ours;

    return fstatat(proc_fd, "ns/net", &its, 0) == 0 && stat("/proc/self/ns/net", &ours) == 0 &&
           its.st_dev == ours.st_dev && its.st_ino == ours.st_ino;
}

/* Whoever listens where we would connect to is this user, and somebody does. */
static bool ras_listens(uint16_t port, uid_t owner)
{
    CLEAN(file_clean) FILE *file = fopen("/proc/self/net/tcp", "re");
    char line[256];
    bool found = false;

    while (file && fgets(line, sizeof(line), file)) {
        unsigned address, at, state, uid;

        if (sscanf(line, " %*u: %8x:%4x %*8x:%*4x %2x %*x:%*x %*x:%*x %*x %u", &address, &at,
                   &state, &uid) != 4 ||
            state != 10 /* it listens */ || at != port ||
            (address != htonl(INADDR_LOOPBACK) && address != INADDR_ANY))
            continue;
        if (uid != owner)
            return false;
        found = true;
    }
    return found;
}

/* ---- asking ---- */

static bool ras_wait(int fd, short events, int64_t until_ns)
{
    int64_t left_ms = (until_ns - time_mono_ns()) / NS_PER_MS;
    struct pollfd one = { .fd = fd, .events = events };

    return left_ms > 0 && poll(&one, 1, (int)left_ms) == 1;
}

/* All that it answers until it closes, or until the time is over. */
static size_t ras_ask(uint16_t port, int64_t until_ns, char *ret, size_t room)
{
    CLEAN(fd_clean) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    size_t used = 0;
    ssize_t size;

    ret[0] = '\0';
    if (fd < 0 || (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS))
        return 0;
    if (!ras_wait(fd, POLLOUT, until_ns) ||
        send(fd, RAS_REQUEST, strlen(RAS_REQUEST), MSG_NOSIGNAL) < 0)
        return 0;
    while (used + 1 < room && ras_wait(fd, POLLIN, until_ns)) {
        size = read(fd, ret + used, room - 1 - used);
        if (size <= 0)
            break;
        used += (size_t)size;
    }
    ret[used] = '\0';
    return used;
}

void ras_look(const struct proc_ref *proc, int64_t until_ns, char *ret, size_t room)
{
    static char answer[RAS_BYTES];
    uint16_t port = ras_port(proc->dir_fd);
    uint32_t pid = ras_pid(proc->dir_fd);

    ret[0] = '\0';
    until_ns = MIN(until_ns, time_mono_ns() + RAS_LIMIT_NS);
    if (port == 0 || pid == 0 || !ras_is_our_net(proc->dir_fd) || !ras_listens(port, proc->owner) ||
        ras_ask(port, until_ns, answer, sizeof(answer)) == 0 || !ras_listens(port, proc->owner))
        return;
    if (strncmp(answer, "SERVER PROTOCOL ", 16) == 0)
        ras_parse(answer, pid, ret, room);
}

/* ---- whose it tells of ---- */

static bool ras_address_is(const struct sockaddr *address, const struct in_addr *four,
                           const struct in6_addr *six)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (address && four && address->sa_family == AF_INET) {
        memcpy(&v4, address, sizeof(v4));
        return v4.sin_addr.s_addr == four->s_addr;
    }
    if (address && six && address->sa_family == AF_INET6) {
        memcpy(&v6, address, sizeof(v6));
        return memcmp(&v6.sin6_addr, six, sizeof(*six)) == 0;
    }
    return false;
}

/* An address of this machine. */
static bool ras_is_here(const char *node)
{
    struct ifaddrs *all = NULL;
    struct in_addr four;
    struct in6_addr six;
    bool is_four = inet_pton(AF_INET, node, &four) == 1;
    bool is_six = inet_pton(AF_INET6, node, &six) == 1, is_here = false;

    if (is_four && ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET)
        return true;
    if ((!is_four && !is_six) || getifaddrs(&all) < 0)
        return false;
    for (const struct ifaddrs *at = all; at && !is_here; at = at->ifa_next)
        is_here = ras_address_is(at->ifa_addr, is_four ? &four : NULL, is_six ? &six : NULL);
    freeifaddrs(all);
    return is_here;
}

/* The node of a line that names this process: "" where it names another one. */
static void ras_node(const char *line, size_t size, uint32_t pid, char ret[static 64])
{
    static const char before[] = "rocess ", between[] = " on node ";
    char copy[256], *process, *end;

    ret[0] = '\0';
    snprintf(copy, sizeof(copy), "%.*s", (int)MIN(size, sizeof(copy) - 1), line);
    for (process = copy; (process = strstr(process, before));) {
        process += sizeof(before) - 1;
        if (strtoul(process, &end, 10) != pid || strncmp(end, between, sizeof(between) - 1) != 0)
            continue;
        end += sizeof(between) - 1;
        end[strcspn(end, " ,%\r")] = '\0'; /* % and an interface: of an address of version 6 */
        snprintf(ret, 64, "%.63s", end);
        return;
    }
}

/* The processes of all nodes are told of, and their pids can be the same: the only node of this one is this machine. */
static bool ras_is_ours(const char *text, uint32_t pid)
{
    char node[64] = "", one[64];

    while (*text) {
        size_t size = strcspn(text, "\n");

        ras_node(text, size, pid, one);
        if (one[0] && node[0] && strcmp(one, node) != 0)
            return false;
        if (one[0])
            memcpy(node, one, sizeof(node));
        text += size + (text[size] == '\n');
    }
    return node[0] && ras_is_here(node);
}

/* ---- the answer ---- */

static void ras_add(char *ret, size_t room, const char *text)
{
    size_t used = strlen(ret);

    if (strstr(ret, text) || used + strlen(text) + 3 > room)
        return;
    snprintf(ret + used, room - used, "%s%s", used ? "; " : "", text);
}

/* A sentence that NCCL has, and nothing else: this goes into a verdict. */
static bool ras_is_known(const char *text)
{
    static const char launched[] = "has launched up to operation ";
    static const char *const errors[] = {
        "Unhandled CUDA error", "System error",         "Internal error",   "Invalid argument",
        "Invalid usage",        "Remote process error", "Unexpected error",
    };

    if (strncmp(text, launched, sizeof(launched) - 1) == 0) {
        size_t digits = strspn(text + sizeof(launched) - 1, "0123456789");

        return digits > 0 && digits < 21 && !text[sizeof(launched) - 1 + digits];
    }
    if (strcmp(text, "has not launched any operations") == 0)
        return true;
    if (strncmp(text, "reported ", 9) != 0)
        return false;
    for (size_t i = 0; i < COUNT(errors); i++)
        if (strcmp(text + 9, errors[i]) == 0)
            return true;
    return false;
}

/* "Rank 3 reported Remote process error -- GPU 0 managed by process 3861 on node n1" of ours: what stands before the dashes. */
static void ras_line(const char *line, size_t size, bool silent, uint32_t pid, char *ret,
                     size_t room)
{
    char copy[256], node[64], *dashes, *text;

    snprintf(copy, sizeof(copy), "%.*s", (int)MIN(size, sizeof(copy) - 1), line);
    text = copy + strspn(copy, " ");
    dashes = strstr(text, " -- ");
    ras_node(line, size, pid, node);
    if (strncmp(text, "Rank ", 5) != 0 || !dashes || !node[0])
        return;
    *dashes = '\0';
    text += 5;
    text += strspn(text, "0123456789 ");
    if (!*text && silent)
        ras_add(ret, room, "does not answer");
    else if (ras_is_known(text))
        ras_add(ret, room, text);
}

void ras_parse(const char *text, uint32_t pid, char *ret, size_t room)
{
    bool silent = false; /* in the list of those that do not answer */

    ret[0] = '\0';
    if (!ras_is_ours(text, pid))
        return;
    while (*text) {
        size_t size = strcspn(text, "\n");

        if (*text == '#' || !size)
            silent = size > 10 &&
                     (memmem(text, size, " INCOMPLETE", 11) || memmem(text, size, " DEAD", 5));
        else
            ras_line(text, size, silent, pid, ret, room);
        text += size + (text[size] == '\n');
    }
}
