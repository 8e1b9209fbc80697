/* rank_environment.c - the environment variables of a rank.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/rank_environment.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/rand.h"
#include "core/time.h"

__attribute__((format(printf, 2, 3))) static void env_put(struct buf *out, const char *format, ...)
{
    char text[2 * 4096 + 64];
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof(text))
        out->failed = true;
    else
        buf_put(out, text, (size_t)length + 1);
}

static struct layout_place environment_place(const struct layout *layout,
                                             const struct layout_start *start, uint32_t rank)
{
    if (start->place)
        return *start->place;
    return (struct layout_place){ .world = layout->ranks,
                                  .node = layout_node(layout, rank),
                                  .nodes = layout->nodes,
                                  .host = "127.0.0.1",
                                  .port = start->port };
}

static void env_put_rank(const struct layout *layout, const struct layout_start *start,
                         uint32_t rank, struct buf *out)
{
    struct layout_place place = environment_place(layout, start, rank);
    uint32_t node = layout_node(layout, rank);

    env_put(out, "RANK=%u", place.first + rank);
    env_put(out, "LOCAL_RANK=%u", rank - layout_first(layout, node));
    env_put(out, "WORLD_SIZE=%u", place.world);
    env_put(out, "LOCAL_WORLD_SIZE=%u", layout_count(layout, node));
    env_put(out, "GROUP_RANK=%u", place.node);
    env_put(out, "GROUP_WORLD_SIZE=%u", place.nodes);
    env_put(out, "ROLE_RANK=%u", place.first + rank);
    env_put(out, "ROLE_WORLD_SIZE=%u", place.world);
    env_put(out, "ROLE_NAME=default");
    env_put(out, "MASTER_ADDR=%s", place.host);
    env_put(out, "MASTER_PORT=%u", place.port);
    env_put(out, "TORCHELASTIC_RESTART_COUNT=%u", start->attempt);
    env_put(out, "TORCHELASTIC_MAX_RESTARTS=%u", start->max_restarts);
    env_put(out, "TORCHELASTIC_RUN_ID=%s", start->run);
    if (!start->omp_threads)
        env_put(out, "OMP_NUM_THREADS=1");
}

void layout_env(const struct layout *layout, const struct layout_start *start, uint32_t rank,
                struct buf *out)
{
    char name[64];

    if (layout->ranks)
        env_put_rank(layout, start, rank, out);
    layout_name(layout, layout->ranks ? layout_node(layout, rank) : 0, name);
    env_put(out, "LOCKSTEP_RUN=%s", start->run);
    if (start->rings && start->rings[0]) {
        env_put(out, "LOCKSTEP_DIR=%s", start->rings);
    } else { /* no directory: the probe makes no ring, and none in another place that nobody would remove */
        env_put(out, "LOCKSTEP_DIR=/dev/null");
        env_put(out, "LOCKSTEP_QUIET=1");
    }
    env_put(out, "LOCKSTEP_RESTART=%u", start->attempt);
    if (start->arena_hold_s)
        env_put(out, "LOCKSTEP_ARENA_HOLD=%u", start->arena_hold_s);
    env_put(out, "LOCKSTEP_NODE=%s", name);
    if (start->python_path && start->python_path[0])
        env_put(out, "PYTHONPATH=%s", start->python_path);
    if (start->nccl_plugin && start->nccl_plugin[0])
        env_put(out, "NCCL_PROFILER_PLUGIN=%s", start->nccl_plugin);
    if (start->nccl_next)
        env_put(out, "LOCKSTEP_NCCL_NEXT=%s", start->nccl_next);
    if (start->resume)
        env_put(out, "LOCKSTEP_RESUME=%s", start->resume);
    if (start->warm_modules)
        env_put(out, "LOCKSTEP_WARM=%s", start->warm_modules);
    if (start->library && start->library[0])
        env_put(out, "LOCKSTEP_LAUNCHER_LIB=%s", start->library);
}

static int environment_port_try(uint16_t port, uint16_t *ret)
{
    CLEAN(fd_clean) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    socklen_t size = sizeof(address);

    if (fd < 0)
        return -errno;
    /* The store of rank 0 listens on all addresses, so that all must be free. */
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    if (bind(fd, (const struct sockaddr *)&address, size) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        return -errno;
    *ret = ntohs(address.sin_port);
    return 0;
}

static uint32_t environment_port_ephemeral(void)
{
    CLEAN(file_clean) FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    unsigned low = 32768;

    if (file && fscanf(file, "%u", &low) != 1)
        low = 32768;
    return low;
}

int layout_port(uint16_t *ret, struct err *err)
{
    struct rand rand = { .state = (uint64_t)time_mono_ns() ^ (uint64_t)getpid() << 32 };
    uint32_t end = environment_port_ephemeral();
    int r;

    for (int i = 0; i < 64 && end > 12000; i++)
        if (environment_port_try((uint16_t)(10000 + rand_below(&rand, end - 10000)), ret) == 0)
            return 0;
    r = environment_port_try(0, ret);
    return r < 0 ? err_set(err, r, "no free port for MASTER_PORT: %s", strerror(-r)) : 0;
}
