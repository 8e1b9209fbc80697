/* probe_self.c - what /proc says about this process, so that the agent can find it.
 *
 * A pid alone names nobody: containers have pids of their own, and pids come again.  With
 * the namespace and the start time it does.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "probe/probe.h"

#define STAT_START_FIELD 22 /* proc(5); counted from 1, the name is field 2 */

static int self_read(const char *path, char *out, size_t room)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;

    if (fd < 0)
        return -1;
    got = read(fd, out, room - 1);
    if (got <= 0)
        return -1;
    out[got] = 0;
    return 0;
}

uint64_t probe_self_pid_ns(void) /* the link says "pid:[4026531836]" */
{
    char link[64];
    ssize_t size = readlink("/proc/self/ns/pid", link, sizeof(link) - 1);
    const char *open;

    if (size <= 0)
        return 0;
    link[size] = 0;
    open = strchr(link, '[');
    return open ? strtoull(open + 1, NULL, 10) : 0;
}

/* The program's name may hold blanks and parentheses, so fields are counted from the last ')'. */
uint64_t probe_self_start(void)
{
    char text[1024];
    const char *at;

    if (self_read("/proc/self/stat", text, sizeof(text)) < 0)
        return 0;
    at = strrchr(text, ')');
    for (int field = 2; at && field < STAT_START_FIELD; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

void probe_self_program(char *out, size_t room)
{
    char text[64];

    out[0] = 0;
    if (self_read("/proc/self/comm", text, sizeof(text)) < 0)
        return;
    text[strcspn(text, "\n")] = 0;
    snprintf(out, room, "%s", text);
}
