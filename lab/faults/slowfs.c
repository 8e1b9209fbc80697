/* slowfs.c - mounting it, and which requests wait how long.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/faults/slowfs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/faults/slowfs_private.h"

#define LOOK_NS (100 * NS_PER_MS) /* how often stuck callers are looked at */

struct late { /* a request that is carried out later, or never */
    struct late *next;
    int64_t due_ns;
    struct fuse_in_header head;
    size_t size;
    char body[];
};

/* ---- which requests are late ---- */

/* Batches are read, checkpoints are written. */
static bool slowfs_moves_data(uint32_t opcode, bool read)
{
    return (read && opcode == FUSE_READ) || opcode == FUSE_WRITE || opcode == FUSE_FSYNC ||
           opcode == FUSE_FSYNCDIR;
}

static bool slowfs_is_hit(const struct slowfs_order *order, const char *path)
{
    uint32_t rank = atomic_load(&order->rank), part = atomic_load(&order->part), of;
    const char *name = strrchr(path, '/');

    if (!(part & SLOWFS_IN_CHECKPOINTS && strncmp(path, SLOWFS_CHECKPOINTS, 11) == 0) &&
        !(part & SLOWFS_IN_DATA && strncmp(path, SLOWFS_DATA, 4) == 0))
        return false;
    return rank == SLOWFS_ANY || (name && sscanf(name, "/rank-%u", &of) == 1 && of == rank);
}

/* A process that is stuck, not all that come after it: the next attempt shall get through. */
static bool slowfs_is_the_one(struct slowfs_order *order, uint32_t caller)
{
    uint32_t nobody = 0;

    return atomic_compare_exchange_strong(&order->caller, &nobody, caller) || nobody == caller;
}

/* How much later than asked for; 0: at once. */
static int64_t slowfs_delay_of(struct slowfs_order *orders, const struct slowfs_server *server,
                               const struct fuse_in_header *head)
{
    const char *path = slowfs_path(server, head->nodeid);
    int64_t delay = 0;

    if (!path || !slowfs_moves_data(head->opcode, strncmp(path, SLOWFS_DATA, 4) == 0))
        return 0;
    for (uint32_t i = 0; i < SLOWFS_ORDERS; i++) {
        struct slowfs_order *order = &orders[i];
        int64_t own = atomic_load(&order->delay_ns), never = 0;

        if (own == 0 || !slowfs_is_hit(order, path))
            continue;
        if (own == SLOWFS_FOREVER && !slowfs_is_the_one(order, head->pid))
            continue;
        atomic_fetch_add(&order->hits, 1);
        atomic_compare_exchange_strong(&order->first_hit_ns, &never, time_mono_ns());
        delay = delay == SLOWFS_FOREVER || own == SLOWFS_FOREVER ? SLOWFS_FOREVER : delay + own;
    }
    return delay;
}

/* ---- callers that wait for ever ---- */

/* Who is to die may go: a real file server's clients stay in the kernel even then, and a demo that cannot end
 * its ranks has nothing more to show.  A tracer's interruption is none: the call must not fail of that.
 */
static bool slowfs_is_dying(pid_t pid)
{
    char path[64], line[256];
    unsigned long long fatal = 1ull << (SIGKILL - 1) | 1ull << (SIGTERM - 1), pending = 0, part;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    CLEAN(file_clean) FILE *file = fopen(path, "re");

    if (!file)
        return pid > 0; /* 0: of another pid namespace, not for us to see */
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "SigPnd: %llx", &part) == 1 || sscanf(line, "ShdPnd: %llx", &part) == 1)
            pending |= part;
    }
    return (pending & fatal) != 0;
}

static void slowfs_let_go(const struct slowfs_server *server, struct late **list)
{
    for (struct late **at = list; *at;) {
        struct late *late = *at;

        if (!slowfs_is_dying((pid_t)late->head.pid)) {
            at = &late->next;
            continue;
        }
        *at = late->next;
        slowfs_answer(server, late->head.unique, -EINTR, NULL, 0);
        free(late);
    }
}

/* ---- the loop ---- */

static void late_put(struct late **list, const struct slowfs_request *request, int64_t due_ns)
{
    struct late *late = malloc(sizeof(*late) + request->size + 1);

    if (!late)
        return; /* then it is stuck: the worst that this file system is for anyway */
    late->due_ns = due_ns;
    late->head = request->head;
    late->size = request->size;
    memcpy(late->body, request->body, request->size);
    late->body[request->size] = '\0';
    while (*list && (*list)->due_ns <= due_ns)
        list = &(*list)->next;
    late->next = *list;
    *list = late;
}

static void late_serve(struct slowfs_server *server, struct late **list, int64_t now_ns)
{
    while (*list && (*list)->due_ns <= now_ns) {
        struct late *late = *list;
        struct slowfs_request request = { late->head, late->body, late->size };

        *list = late->next;
        slowfs_serve(server, &request);
        free(late);
    }
}

static int slowfs_wait_ms(const struct late *list, int64_t now_ns)
{
    int64_t look_ns = now_ns + (list ? 1 : 10) * LOOK_NS;

    return time_poll_ms(list ? MIN(list->due_ns, look_ns) : look_ns, now_ns);
}

/* Reads one request.  False: unmounted, or the mount is broken. */
static bool slowfs_take_order(struct slowfs_server *server, struct slowfs_order *orders,
                              char *buffer, struct late **list)
{
    ssize_t size = read(server->fuse_fd, buffer, SLOWFS_BUFFER);
    struct slowfs_request request;
    int64_t delay;

    if (size < 0)
        return errno == EINTR || errno == EAGAIN || errno == ENOENT;
    if ((size_t)size < sizeof(request.head))
        return false;
    memcpy(&request.head, buffer, sizeof(request.head));
    buffer[size] = '\0';
    request.body = buffer + sizeof(request.head);
    request.size = (size_t)size - sizeof(request.head);
    delay = slowfs_delay_of(orders, server, &request.head);
    if (delay > 0)
        late_put(list, &request, delay == SLOWFS_FOREVER ? SLOWFS_FOREVER : time_mono_ns() + delay);
    else
        slowfs_serve(server, &request);
    return true;
}

static void slowfs_serve_forever(struct slowfs_server *server, struct slowfs_order *orders)
{
    CLEAN(free_clean) char *buffer = malloc(SLOWFS_BUFFER + 1);
    struct late *list = NULL;
    int64_t looked_ns = 0;

    while (buffer) {
        struct pollfd poll_fd = { .fd = server->fuse_fd, .events = POLLIN };
        int64_t now;

        poll(&poll_fd, 1, slowfs_wait_ms(list, time_mono_ns()));
        now = time_mono_ns();
        late_serve(server, &list, now);
        if (now - looked_ns >= LOOK_NS) {
            looked_ns = now;
            slowfs_let_go(server, &list);
        }
        if (poll_fd.revents & (POLLIN | POLLERR | POLLHUP) &&
            !slowfs_take_order(server, orders, buffer, &list))
            break;
    }
}

/* ---- begin and end ---- */

static int slowfs_directory_make(const char *path, const char *name, struct err *err)
{
    char full[4096];

    snprintf(full, sizeof(full), "%s%s%s", path, name ? "/" : "", name ? name : "");
    if (mkdir(full, 0700) < 0 && errno != EEXIST)
        return err_set(err, -errno, "%s: %m", full);
    return 0;
}

static int slowfs_namespace(struct err *err)
{
    if (unshare(CLONE_NEWNS) < 0)
        return err_set(err, -errno, "cannot create a mount namespace: %m");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return err_set(err, -errno, "cannot make mounts private: %m");
    return 0;
}

static int slowfs_mount_at(const char *at, int fuse_fd, struct err *err)
{
    char options[96];

    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
             fuse_fd);
    if (mount("lockstep", at, "fuse.lockstep", MS_NOSUID | MS_NODEV, options) < 0)
        return err_set(err, -errno, "%s: cannot mount: %m", at);
    return 0;
}

static int slowfs_server_start(struct slowfs_server *server, struct slowfs *fs, struct err *err)
{
    pid_t parent = getpid();

    fs->server = fork();
    if (fs->server < 0)
        return err_set(err, -errno, "fork: %m");
    if (fs->server > 0)
        return 0;
    signal(SIGINT, SIG_IGN); /* of a terminal: the demo ends us when its ranks are done */
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "slowfs");
    if (getppid() == parent)
        slowfs_serve_forever(server, fs->order);
    slowfs_server_fini(server);
    _exit(0);
}

int slowfs_mount(const char *backing, const char *at, struct slowfs *ret, struct err *err)
{
    struct slowfs_server server = { .fuse_fd = -1, .backing_fd = -1 };
    CLEAN(fd_clean) int fuse_fd = -1, backing_fd = -1;
    struct slowfs fs = { .order = mmap(NULL, SLOWFS_ORDERS * sizeof(*fs.order),
                                       PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) };
    int result = slowfs_directory_make(backing, NULL, err);

    if (fs.order == MAP_FAILED)
        return err_nomem(err);
    snprintf(fs.mounted, sizeof(fs.mounted), "%s", at);
    if (result == 0)
        result = slowfs_directory_make(backing, SLOWFS_CHECKPOINTS, err);
    if (result == 0)
        result = slowfs_directory_make(backing, SLOWFS_DATA, err);
    if (result == 0)
        result = slowfs_directory_make(at, NULL, err);
    if (result == 0) {
        backing_fd = open(backing, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        if (fuse_fd < 0 || backing_fd < 0)
            result = err_set(err, -errno, "%s: %m", backing_fd < 0 ? backing : "/dev/fuse");
    }
    if (result == 0)
        result = slowfs_mount_at(at, fuse_fd, err);
    server.fuse_fd = fuse_fd;
    server.backing_fd = backing_fd;
    if (result == 0)
        result = slowfs_server_start(&server, &fs, err);
    if (result < 0) {
        munmap(fs.order, SLOWFS_ORDERS * sizeof(*fs.order));
        return result;
    }
    *ret = fs;
    return 0;
}

int slowfs_begin(const char *backing, const char *at, struct slowfs *ret, struct err *err)
{
    int result = slowfs_namespace(err);

    return result < 0 ? result : slowfs_mount(backing, at, ret, err);
}

void slowfs_end(struct slowfs *fs)
{
    if (!fs->order)
        return;
    umount2(fs->mounted, MNT_DETACH);
    kill(fs->server, SIGKILL);
    while (waitpid(fs->server, NULL, 0) < 0 && errno == EINTR)
        ;
    munmap(fs->order, SLOWFS_ORDERS * sizeof(*fs->order));
    fs->order = NULL;
}
