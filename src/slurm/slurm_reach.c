/* slurm_reach.c - connects, and says nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "slurm/slurm_reach.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "slurm/slurm_call.h"
#include "slurm/slurm_config.h"

#define REACH_TRIES 3
#define REACH_NS NS_PER_S /* one lost packet is sent again after a second */
#define REACH_PORT "6818" /* of slurmd by default */

static void reach_free(struct addrinfo **list)
{
    if (*list)
        freeaddrinfo(*list);
}

/* errno of a connection; 0: it was accepted. */
static int reach_connect(const struct addrinfo *at, int64_t until_ns)
{
    CLEAN(fd_clean) int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd out = { .fd = fd, .events = POLLOUT };
    socklen_t size = sizeof(int);
    int error = 0;

    if (fd < 0)
        return errno;
    if (connect(fd, at->ai_addr, at->ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    if (poll(&out, 1, time_poll_ms(until_ns, time_mono_ns())) <= 0)
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? errno : error;
}

static enum slurm_reach slurm_reach_address(const char *address, const char *port)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    CLEAN(reach_free) struct addrinfo *list = NULL;

    if (getaddrinfo(address, port, &hints, &list) != 0)
        return SLURM_REACH_UNKNOWN;
    for (int i = 0; i < REACH_TRIES; i++) {
        int64_t until_ns = time_mono_ns() + REACH_NS;
        int error = reach_connect(list, until_ns);
        struct timespec rest;

        if (error == 0 || error == ECONNREFUSED || error == ECONNRESET)
            return SLURM_REACH_ANSWERS;
        if (error != ETIMEDOUT && error != EHOSTUNREACH && error != EHOSTDOWN)
            return SLURM_REACH_UNKNOWN; /* our own network, say */
        rest = time_spec(MAX(until_ns - time_mono_ns(), INT64_C(0)));
        nanosleep(&rest, NULL);
    }
    return SLURM_REACH_SILENT;
}

static void reach_port(const struct slurm_node *node, char *ret, size_t room)
{
    CLEAN(free_clean) struct slurm_answer *answer = malloc(sizeof(*answer));
    char scontrol[] = "scontrol", show[] = "show", config[] = "config";
    char *const argv[] = { scontrol, show, config, NULL };

    snprintf(ret, room, "%s", node->port[0] ? node->port : REACH_PORT);
    if (!node->port[0] && answer && slurm_call(argv, SLURM_CALL_NS, answer, NULL) == 0 &&
        (slurm_config_value(answer->text, answer->size, "SlurmdPort", ret, room) < 0 || !ret[0]))
        snprintf(ret, room, REACH_PORT);
}

enum slurm_reach slurm_reach(const char *name, char *ret, size_t room)
{
    struct err err = { "" };
    struct slurm_node node;
    enum slurm_reach reach;
    char port[16];

    if (slurm_node_show(name, SLURM_CALL_NS, &node, &err) < 0) {
        snprintf(ret, room, "%s", err.text);
        return SLURM_REACH_UNKNOWN;
    }
    if (!node.address[0]) {
        snprintf(ret, room, "scontrol printed no address of %s", name);
        return SLURM_REACH_UNKNOWN;
    }
    reach_port(&node, port, sizeof(port));
    reach = slurm_reach_address(node.address, port);
    snprintf(ret, room, "%s %s at %.60s port %.8s", name,
             reach == SLURM_REACH_ANSWERS  ? "answers"
             : reach == SLURM_REACH_SILENT ? "does not answer"
                                           : "could not be asked",
             node.address, port);
    return reach;
}
