/* job_disks.c - from /proc/PID/fd and /proc/PID/maps by mounts and stacked devices to whole disks.
 *
 * The maps of a process that waits for a file system may block their reader, so a child process looks and sends what it found.
 * It is held by a pidfd, as in gpu_child.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sense/job/job_disks.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "sense/job/job_mounts.h"

#define LOOK_NS (30 * NS_PER_S)
#define DEADLINE_NS (20 * NS_PER_S)
#define CHILD_FD 3 /* the only descriptor of the child beside the standard ones */
#define USED_NS (3600 * NS_PER_S)
#define DISKS_MAX 64
#define DEVICES_MAX 64
#define PROCESSES_MAX 128 /* in one look; the next one goes on behind them */
#define FILES_MAX 512     /* of a process */
#define MAPS_BYTES (4 << 20)
#define MOUNTS_BYTES (1 << 20)
#define CHILDREN_BYTES 16384
#define STACKED_MAX 64 /* devices below one */
#define NAME_ROOM 32
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

struct used_disk {
    char name[NAME_ROOM];
    int64_t seen_ns;
};

struct disks_answer { /* of the child */
    char name[DISKS_MAX][NAME_ROOM];
    uint32_t disks, jobs; /* jobs: processes of jobs that were looked at */
    bool unclear;         /* there are files that cannot be followed to disks, or too many */
};

struct disks_look { /* in the child */
    const struct tree *tree;
    struct disks_answer answer;
    uint32_t pid, listed; /* of the process at hand, and of the one whose mounts were read last */
    unsigned files, processes;
    unsigned device[DEVICES_MAX][2]; /* major and minor numbers that were followed already */
    size_t devices;
    char mounts[MOUNTS_BYTES]; /* mountinfo of the process at hand; "": not read yet */
    char place[64];            /* the namespace that these mounts are of */
    struct job_mounts index;
};

struct job_disks {
    struct used_disk disk[DISKS_MAX];
    size_t disks;
    int64_t unclear_ns; /* 0: never */
    int64_t look_ns;    /* when the newest child started */
    size_t next;        /* process of the next look */
    size_t asked;       /* how many there were at the newest look */
    size_t round;       /* how many were looked at since all were */
    bool whole;         /* each of them was looked at once */
    int fd, pidfd;      /* of the child; -1: there is none */
};

/* ---- from a device to disks ---- */

static void disks_note(struct disks_look *look, const char *name)
{
    struct disks_answer *answer = &look->answer;

    for (uint32_t i = 0; i < answer->disks; i++) {
        if (strcmp(answer->name[i], name) == 0)
            return;
    }
    if (answer->disks == DISKS_MAX || strlen(name) >= NAME_ROOM)
        answer->unclear = true;
    else
        snprintf(answer->name[answer->disks++], NAME_ROOM, "%s", name);
}

struct disks_queue { /* block devices that are still to be followed */
    char name[STACKED_MAX][NAME_ROOM];
    unsigned count;
    bool cut; /* there are more */
};

static void disks_enqueue(void *user, const char *name)
{
    struct disks_queue *queue = user;

    if (queue->count < STACKED_MAX && strlen(name) < NAME_ROOM)
        snprintf(queue->name[queue->count++], NAME_ROOM, "%s", name);
    else
        queue->cut = true;
}

/* "nvme0n1p2" is a part of "nvme0n1", which is the folder above it. */
static void disks_whole(struct disks_look *look, const char *name)
{
    char path[PATH_MAX], target[PATH_MAX], *slash;
    int64_t part;
    ssize_t bytes;

    if (!tree_number(look->tree, &part, "/sys/class/block/%s/partition", name)) {
        disks_note(look, name);
        return;
    }
    snprintf(path, sizeof(path), "%s/sys/class/block/%s", look->tree->root, name);
    bytes = readlink(path, target, sizeof(target) - 1);
    target[MAX(bytes, 0)] = '\0';
    slash = strrchr(target, '/');
    if (!slash) {
        look->answer.unclear = true;
        return;
    }
    *slash = '\0';
    slash = strrchr(target, '/');
    disks_note(look, slash ? slash + 1 : target);
}

/* A device of LVM or RAID lies on others. */
static void disks_block(struct disks_look *look, const char *name)
{
    struct disks_queue queue = { .count = 0 };

    disks_enqueue(&queue, name);
    for (unsigned i = 0; i < queue.count; i++) {
        char folder[96];
        unsigned before = queue.count;

        snprintf(folder, sizeof(folder), "/sys/class/block/%s/slaves", queue.name[i]);
        tree_list(look->tree, folder, disks_enqueue, &queue);
        if (queue.count == before)
            disks_whole(look, queue.name[i]);
    }
    if (queue.cut)
        look->answer.unclear = true;
}

/* ---- mounts ---- */

/* An overlay, as containers have it, lies on the file system of its upper directory, as the first process sees it. */
static bool disks_overlay(struct disks_look *look, const struct job_mount *mount,
                          struct job_mount *ret)
{
    CLEAN(free_clean) char *text = malloc(sizeof(look->mounts));
    char path[PATH_MAX];

    return text && job_mount_upper(mount, path, sizeof(path)) &&
           tree_read(look->tree, text, sizeof(look->mounts), "/proc/1/mountinfo") > 0 &&
           job_mounts_of_path(text, path, ret) && strcmp(ret->type, "overlay") != 0;
}

static void disks_mounted(struct disks_look *look, const struct job_mount *mount)
{
    char path[PATH_MAX], target[PATH_MAX];
    const char *name = NULL;

    if (mount->major) {
        ssize_t bytes;

        snprintf(path, sizeof(path), "%s/sys/dev/block/%u:%u", look->tree->root, mount->major,
                 mount->minor);
        bytes = readlink(path, target, sizeof(target) - 1);
        target[MAX(bytes, 0)] = '\0';
        name = strrchr(target, '/');
    } else if (strncmp(mount->source, "/dev/", 5) == 0) { /* btrfs */
        name = strrchr(mount->source, '/');
    } else if (job_mount_is_elsewhere(mount->type)) {
        return;
    }
    if (name)
        disks_block(look, name + 1);
    else
        look->answer.unclear = true;
}

static void disks_mount_follow(struct disks_look *look, const struct job_mount *mount)
{
    struct job_mount below;

    for (size_t i = 0; i < look->devices; i++) {
        if (look->device[i][0] == mount->major && look->device[i][1] == mount->minor)
            return;
    }
    if (look->devices < DEVICES_MAX) {
        look->device[look->devices][0] = mount->major;
        look->device[look->devices++][1] = mount->minor;
    }
    if (strcmp(mount->type, "overlay") != 0)
        disks_mounted(look, mount);
    else if (disks_overlay(look, mount, &below))
        disks_mounted(look, &below);
    else
        look->answer.unclear = true;
}

/* Processes of one job mostly share their mounts, so these are read once for all of them. */
static bool disks_mounts_read(struct disks_look *look)
{
    char path[PATH_MAX], place[sizeof(look->place)] = "";
    ssize_t bytes;
    int size;

    if (look->listed == look->pid)
        return look->mounts[0];
    look->listed = look->pid;
    snprintf(path, sizeof(path), "%s/proc/%u/ns/mnt", look->tree->root, look->pid);
    bytes = readlink(path, place, sizeof(place) - 1);
    place[MAX(bytes, 0)] = '\0';
    if (place[0] && look->mounts[0] && strcmp(place, look->place) == 0)
        return true;
    memcpy(look->place, place, sizeof(place));
    size =
        tree_read(look->tree, look->mounts, sizeof(look->mounts), "/proc/%u/mountinfo", look->pid);
    job_mounts_index(&look->index, look->mounts);
    if (size >= (int)sizeof(look->mounts) - 1 || look->index.cut || size == -EACCES)
        look->answer.unclear = true;
    return size > 0;
}

static void disks_mount_find(struct disks_look *look, int id, unsigned minor)
{
    struct job_mount mount;

    /* Mounts that are not in the list are the kernel's own, of memory that processes share. */
    if (disks_mounts_read(look) && job_mounts_find(&look->index, id, minor, &mount))
        disks_mount_follow(look, &mount);
}

/* ---- processes ---- */

static void disks_file(void *user, const char *name)
{
    struct disks_look *look = user;
    char path[PATH_MAX], target[16], text[256];
    ssize_t bytes;
    int id;

    snprintf(path, sizeof(path), "%s/proc/%u/fd/%s", look->tree->root, look->pid, name);
    bytes = readlink(path, target, sizeof(target) - 1);
    target[MAX(bytes, 0)] = '\0';
    if (target[0] != '/' || strncmp(target, "/dev/", 5) == 0 || strncmp(target, "/proc/", 6) == 0)
        return; /* a socket, a device */
    if (tree_read(look->tree, text, sizeof(text), "/proc/%u/fdinfo/%s", look->pid, name) > 0 &&
        (id = job_fdinfo_mount(text)) > 0)
        disks_mount_find(look, id, 0);
}

static void disks_map_line(struct disks_look *look, const char *line)
{
    struct job_mount mount = { .id = 0 };

    if (!job_map_read(line, &mount.major, &mount.minor))
        return;
    if (mount.major)
        disks_mount_follow(look, &mount);
    else
        disks_mount_find(look, 0, mount.minor);
}

static void disks_maps(struct disks_look *look)
{
    char path[PATH_MAX], line[512];
    size_t left = MAPS_BYTES;
    FILE *file;

    snprintf(path, sizeof(path), "%s/proc/%u/maps", look->tree->root, look->pid);
    file = fopen(path, "re");
    while (file && left && fgets(line, sizeof(line), file)) {
        disks_map_line(look, line);
        left -= MIN(left, strlen(line));
    }
    if (!left)
        look->answer.unclear = true;
    if (file)
        fclose(file);
}

static void disks_process(struct disks_look *look, uint32_t pid)
{
    char folder[64];

    look->pid = pid;
    look->processes++;
    snprintf(folder, sizeof(folder), "/proc/%u/fd", pid);
    if (tree_list_some(look->tree, folder, FILES_MAX, disks_file, look) == -E2BIG)
        look->answer.unclear = true;
    disks_maps(look);
}

/* Its loaders of data read for it.  False: not all of them were looked at. */
static bool disks_family(struct disks_look *look, uint32_t pid)
{
    char text[CHILDREN_BYTES], *at = text, *end;
    int size;

    disks_process(look, pid);
    size = tree_read(look->tree, text, sizeof(text), "/proc/%u/task/%u/children", pid, pid);
    if (size <= 0)
        return true;
    if (size >= (int)sizeof(text) - 1)
        look->answer.unclear = true;
    for (unsigned long child; (child = strtoul(at, &end, 10)) > 0 && end != at; at = end) {
        if (look->processes == PROCESSES_MAX)
            return false;
        if (child <= UINT32_MAX)
            disks_process(look, (uint32_t)child);
    }
    return true;
}

/* As many as one look may take.  The next one begins with the first that was left out, or not looked at completely. */
static void disks_look_at(struct disks_look *look, const struct sense_jobs *jobs, size_t first)
{
    for (size_t i = 0; i < jobs->count && look->processes < PROCESSES_MAX; i++) {
        bool whole = disks_family(look, jobs->pid[(first + i) % jobs->count]);

        if (!whole && i)
            return;
        if (!whole)
            look->answer.unclear = true; /* it has too many for any look */
        look->answer.jobs++;
    }
}

/* ---- the child ---- */

__attribute__((noreturn)) static void disks_child(int fd, const struct tree *tree,
                                                  const struct sense_jobs *jobs, size_t first)
{
    struct disks_look *look = calloc(1, sizeof(*look));
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!look || dup2(fd, CHILD_FD) != CHILD_FD || close_range(CHILD_FD + 1, ~0u, 0) < 0)
        _exit(1);
    look->tree = tree;
    look->answer.unclear = jobs->cut;
    disks_look_at(look, jobs, first);
    send(CHILD_FD, &look->answer, sizeof(look->answer), MSG_NOSIGNAL);
    _exit(0);
}

static void disks_start(struct job_disks *disks, const struct tree *tree,
                        const struct sense_jobs *jobs)
{
    int fd[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) < 0)
        return;
    pid = fork();
    if (pid == 0)
        disks_child(fd[1], tree, jobs, disks->next);
    close(fd[1]);
    disks->pidfd = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
    disks->fd = fd[0];
    disks->asked = jobs->count;
    if (pid > 0 && disks->pidfd < 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0); /* it has hardly begun */
    }
    if (disks->pidfd < 0) {
        fd_clean(&disks->fd);
        disks->fd = -1;
    }
}

/* Is no child left?  One that is stuck in the kernel outlives SIGKILL. */
static bool disks_child_gone(struct job_disks *disks)
{
    struct pollfd ended = { .fd = disks->pidfd, .events = POLLIN };
    siginfo_t info;

    if (disks->pidfd < 0)
        return true;
    if (poll(&ended, 1, 0) <= 0)
        return false;
    waitid(P_PIDFD, (id_t)disks->pidfd, &info, WEXITED | WNOHANG); /* unless the parent did */
    fd_clean(&disks->pidfd);
    disks->pidfd = -1;
    return true;
}

/* ---- in the parent ---- */

struct job_disks *job_disks_create(void)
{
    struct job_disks *disks = calloc(1, sizeof(*disks));

    if (disks)
        disks->fd = disks->pidfd = -1;
    return disks;
}

void job_disks_destroy(struct job_disks *disks)
{
    if (!disks)
        return;
    if (disks->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, disks->pidfd, SIGKILL, NULL, 0);
    disks_child_gone(disks);
    fd_clean(&disks->fd);
    fd_clean(&disks->pidfd);
    free(disks);
}

static void disks_used(struct job_disks *disks, const char *name, int64_t now_ns)
{
    struct used_disk *oldest = &disks->disk[0];

    for (size_t i = 0; i < disks->disks; i++) {
        if (disks->disk[i].seen_ns < oldest->seen_ns)
            oldest = &disks->disk[i];
        if (strcmp(disks->disk[i].name, name) == 0) {
            disks->disk[i].seen_ns = now_ns;
            return;
        }
    }
    if (disks->disks < DISKS_MAX)
        oldest = &disks->disk[disks->disks++];
    snprintf(oldest->name, NAME_ROOM, "%s", name);
    oldest->seen_ns = now_ns;
}

/* Many processes take several looks.  Before all of them were seen, what jobs do not use is not known. */
static void disks_advance(struct job_disks *disks, uint32_t looked)
{
    disks->next += looked;
    disks->round += looked;
    if (disks->round >= disks->asked) {
        disks->whole = true;
        disks->round = 0;
    }
}

/* No answer: what jobs use is not known. */
static void disks_receive(struct job_disks *disks, int64_t now_ns)
{
    struct disks_answer answer;
    ssize_t bytes = recv(disks->fd, &answer, sizeof(answer), MSG_DONTWAIT);

    if (bytes < 0 && errno == EAGAIN && now_ns - disks->look_ns < DEADLINE_NS)
        return;
    fd_clean(&disks->fd);
    disks->fd = -1;
    if (bytes != sizeof(answer) || answer.disks > DISKS_MAX || answer.unclear)
        disks->unclear_ns = now_ns;
    if (bytes != sizeof(answer) || answer.disks > DISKS_MAX) {
        syscall(SYS_pidfd_send_signal, disks->pidfd, SIGKILL, NULL, 0);
        return;
    }
    for (uint32_t i = 0; i < answer.disks; i++) {
        answer.name[i][NAME_ROOM - 1] = '\0';
        disks_used(disks, answer.name[i], now_ns);
    }
    disks_advance(disks, answer.jobs);
}

void job_disks_look(struct job_disks *disks, const struct tree *tree, const struct sense_jobs *jobs,
                    int64_t now_ns)
{
    if (disks->fd >= 0)
        disks_receive(disks, now_ns);
    if (disks->fd >= 0 || !disks_child_gone(disks) || !jobs->count ||
        (disks->look_ns && now_ns - disks->look_ns < LOOK_NS))
        return;
    disks->look_ns = now_ns;
    disks_start(disks, tree, jobs);
}

bool job_disks_has(const struct job_disks *disks, const char *name, int64_t now_ns)
{
    bool known = false;

    if (!disks->whole || (disks->unclear_ns && now_ns - disks->unclear_ns < USED_NS))
        return true;
    for (size_t i = 0; i < disks->disks; i++) {
        bool used = now_ns - disks->disk[i].seen_ns < USED_NS;

        if (used && strcmp(disks->disk[i].name, name) == 0)
            return true;
        known |= used;
    }
    return !known;
}
