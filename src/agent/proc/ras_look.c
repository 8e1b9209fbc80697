/* ras_look.c - asks NCCL's RAS as its client ncclras does.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/proc/ras_look.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

    if (enabled && strcmp(enabled, "0") == 0)
        return 0;
    if (!address)
        return RAS_PORT;
    port = strrchr(address, ':');
    if (!port ||
        (strncmp(address, "localhost:", 10) != 0 && strncmp(address, "127.0.0.1:", 10) != 0))
        return 0; /* somewhere else: that is nobody's to ask */
    return (uint16_t)strtoul(port + 1, NULL, 10);
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

/* ---- asking ---- */

static bool ras_wait(int fd, short events, int64_t until_ns)
{
    int64_t left_ms = (until_ns - time_mono_ns()) / NS_PER_MS;
    struct pollfd one = { .fd = fd, .events = events };

    return left_ms > 0 && poll(&one, 1, (int)left_ms) == 1;
}

/* All that it answers until it closes, or until the time is over. */
static size_t ras_ask(uint16_t port, char *ret, size_t room)
{
    CLEAN(fd_clean) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int64_t until_ns = time_mono_ns() + RAS_LIMIT_NS;
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

void ras_look(int proc_fd, char *ret, size_t room)
{
    static char answer[RAS_BYTES];
    uint16_t port = ras_port(proc_fd);
    uint32_t pid = ras_pid(proc_fd);

    ret[0] = '\0';
    if (port == 0 || pid == 0 || ras_ask(port, answer, sizeof(answer)) == 0)
        return;
    if (strncmp(answer, "SERVER PROTOCOL ", 16) == 0)
        ras_parse(answer, pid, ret, room);
}

/* ---- the answer ---- */

static void ras_add(char *ret, size_t room, const char *text, size_t size)
{
    size_t used = strlen(ret);
    char part[160];

    snprintf(part, sizeof(part), "%.*s", (int)MIN(size, sizeof(part) - 1), text);
    for (char *at = part; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr(" ,.'_/-", *at))
            *at = '?';
    }
    if (strstr(ret, part) || used + strlen(part) + 3 > room)
        return;
    snprintf(ret + used, room - used, "%s%s", used ? "; " : "", part);
}

/* "Rank 3 reported Remote process error -- GPU 0 managed by process 3861 on node n1" of ours: what stands before the dashes. */
static void ras_line(const char *line, size_t size, bool silent, uint32_t pid, char *ret,
                     size_t room)
{
    char copy[256], *dashes, *process, *text;

    snprintf(copy, sizeof(copy), "%.*s", (int)MIN(size, sizeof(copy) - 1), line);
    text = copy + strspn(copy, " ");
    if (strncmp(text, "Rank ", 5) != 0)
        return;
    dashes = strstr(text, " -- ");
    process = strstr(text, "managed by process ");
    if (!dashes || !process || strtoul(process + strlen("managed by process "), NULL, 10) != pid)
        return;
    *dashes = '\0';
    text += 5;
    text += strspn(text, "0123456789 ");
    if (*text)
        ras_add(ret, room, text, strlen(text));
    else if (silent)
        ras_add(ret, room, "does not answer", strlen("does not answer"));
}

void ras_parse(const char *text, uint32_t pid, char *ret, size_t room)
{
    bool silent = false; /* in the list of those that do not answer */

    ret[0] = '\0';
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
