/* run_directory.c - where a run lives: its directory, its lock, its rings.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/run_directory.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "act/launcher_log.h"
#include "act/rings.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/member.h"
#include "wire/ring.h"

#define RUN_DIRECTORY_WAIT_NS (120 * NS_PER_S)
#define RUN_DIRECTORY_UNRANKED                                                                     \
    16 /* rings to make room for when we do not know how many will come */

/* The host's name is part of file names and a word in sentences. */
static void run_directory_host(char ret[static 64])
{
    if (gethostname(ret, 64) < 0 || !ret[0])
        snprintf(ret, 64, "localhost");
    ret[63] = '\0';
    for (char *at = ret; *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '.' && *at != '_')
            *at = '-';
}

/* One of several launchers. */
static int run_directory_check_crew(const struct launch_plan *plan, struct err *err)
{
    if (!plan->ranks || plan->nodes > 1)
        return err_set(err, -EINVAL, "--nnodes: needs -n, the ranks of each node, and no --nodes");
    if (!plan->name)
        return err_set(err, -EINVAL, "--nnodes: needs --name, the same on all nodes");
    if (!plan->watch)
        return err_set(err, -EINVAL, "--nnodes: needs agents; leave out --no-watch");
    if (!plan->remote)
        return err_set(err, -EINVAL,
                       "--nnodes: needs --rdzv-endpoint HOST:PORT, an address of one of the nodes, "
                       "or --control, where they meet");
    if (plan->nodes_max > MEMBER_NODES_MAX || plan->nodes_min < 1 ||
        plan->nodes_min > plan->nodes_max)
        return err_set(err, -EINVAL, "--nnodes: expected NODES or MIN:MAX, 1 to %d",
                       MEMBER_NODES_MAX);
    if ((uint64_t)plan->ranks * plan->nodes_max > LAYOUT_RANKS_MAX)
        return err_set(err, -EINVAL, "--nnodes %u: more than %d ranks", plan->nodes_max,
                       LAYOUT_RANKS_MAX);
    if (plan->lease_ns < 3 * NS_PER_S)
        return err_set(err, -EINVAL, "--lease: expected at least 3s");
    return 0;
}

/* A name that may stand in a path and in a sentence. */
static int run_directory_check_node(const char *node, struct err *err)
{
    size_t size = strlen(node);

    for (size_t i = 0; i < size; i++) {
        if (!isalnum((unsigned char)node[i]) && (!i || !strchr("._-", node[i])))
            size = 0;
    }
    return size && size < 48 ? 0
                             : err_set(err, -EINVAL,
                                       "--node: expected a name of letters, digits, . _ -, up to "
                                       "47 characters");
}

int launch_check(const struct launch_plan *plan, struct err *err)
{
    if (!plan->command || !plan->command[0])
        return err_set(err, -EINVAL, "no command; give it after --");
    if (plan->ranks > LAYOUT_RANKS_MAX)
        return err_set(err, -EINVAL, "-n %u: expected at most %d ranks", plan->ranks,
                       LAYOUT_RANKS_MAX);
    if (plan->nodes > 1 && !plan->ranks)
        return err_set(err, -EINVAL, "--nodes %u: needs -n, the number of ranks", plan->nodes);
    if (plan->nodes < 1 || (plan->nodes > 1 && plan->nodes > plan->ranks))
        return err_set(err, -EINVAL, "--nodes %u: expected 1 to the number of ranks, %u",
                       plan->nodes, plan->ranks);
    if (plan->node && run_directory_check_node(plan->node, err) < 0)
        return -EINVAL;
    if (plan->nodes_max && run_directory_check_crew(plan, err) < 0)
        return -EINVAL;
    return plan->name ? paths_check_run(plan->name, err) : 0;
}

/* 0, or why this file cannot be executed.  What only the kernel finds out (no interpreter, say) is found when it is. */
static int run_program_check(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return -EACCES;
    return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

/* As execvp() looks for it. */
static int run_program_find(const char *name)
{
    char usual[256] = "", path[PATH_MAX];
    const char *from = getenv("PATH");
    int found = -ENOENT;

    if (!from && confstr(_CS_PATH, usual, sizeof(usual)) > 0)
        from = usual;
    for (size_t size; from; from += size + 1) {
        int r;

        size = strcspn(from, ":");
        if (snprintf(path, sizeof(path), "%.*s%s%s", (int)size, from, size ? "/" : "", name) <
            (int)sizeof(path)) {
            r = run_program_check(path);
            if (r == 0)
                return 0;
            if (r == -EACCES)
                found = r;
        }
        if (!from[size])
            break;
    }
    return found;
}

int launch_check_executable(const char *name, struct err *err)
{
    int r = strchr(name, '/') ? run_program_check(name)
            : name[0]         ? run_program_find(name)
                              : -ENOENT;
    char text[1024];

    if (r == 0)
        return 0;
    launcher_log_word_text(name, text, sizeof(text));
    return err_set(err, r, "%s: %s%s", text, strerror(-r),
                   r == -ENOENT && !strchr(name, '/') ? "; it is not in PATH" : "");
}

int launch_check_program(const struct launch_plan *plan, struct err *err)
{
    return launch_check_executable(plan->command[0], err);
}

/* Nodes may have one home directory. */
static int run_directory_of_node(struct run_directory *run_dir, struct err *err)
{
    struct path nodes;
    int r = path_join(&nodes, run_dir->directory.text, "nodes", err);

    return r < 0 ? r : path_join(&run_dir->directory, nodes.text, run_dir->file.layout.host, err);
}

int run_directory_plan(const struct launch_plan *plan, struct run_directory *ret, struct err *err)
{
    struct run_directory run_dir = { .lock = -1 };
    int r = launch_check(plan, err);
    uint64_t random = (uint64_t)getpid();

    if (r < 0)
        return r;
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
        random ^= (uint64_t)time_mono_ns();
    run_dir.file.started_real_ns = time_real_ns();
    if (plan->name)
        snprintf(run_dir.file.id, sizeof(run_dir.file.id), "%s", plan->name);
    else if (!plan->directory)
        paths_name_run(run_dir.file.started_real_ns, random, run_dir.file.id);
    r = plan->directory ? path_join(&run_dir.directory, plan->directory, ".", &run_dir.trouble)
                        : paths_run(run_dir.file.id, &run_dir.directory, &run_dir.trouble);
    if (r < 0)
        run_dir.directory.text[0] =
            '\0'; /* no home directory: run_directory_take() finds another */
    if (!run_dir.file
             .id[0]) /* the directory may be of a run that goes on: run_directory_take() looks */
        paths_name_run(run_dir.file.started_real_ns, random, run_dir.file.id);
    run_dir.file.layout.ranks = plan->ranks;
    run_dir.file.layout.nodes = plan->nodes;
    run_directory_host(run_dir.file.layout.host);
    if (plan->node)
        snprintf(run_dir.file.layout.host, sizeof(run_dir.file.layout.host), "%s", plan->node);
    if (plan->nodes_max && r == 0 && !plan->directory)
        r = run_directory_of_node(&run_dir, err);
    if (r < 0 && plan->nodes_max)
        return r;
    run_dir.file.max_restarts = plan->max_restarts;
    run_dir.file.drill = plan->drill;
    run_dir.file.command = plan->command;
    run_dir.file.pid = getpid();
    *ret = run_dir;
    return 0;
}

static int run_directory_absolute(struct path *path, struct err *err)
{
    struct path resolved;

    if (!realpath(path->text, resolved.text))
        return err_set(err, -errno, "%s: %m", path->text);
    *path = resolved;
    return 0;
}

static bool run_directory_launcher_lives(const char *directory)
{
    struct runfile file;
    bool lives;

    if (runfile_read(directory, &file, NULL) < 0)
        return true; /* somebody holds the lock and has not written yet: just starting */
    lives = file.pid > 0 && (kill(file.pid, 0) == 0 || errno == EPERM);
    runfile_fini(&file);
    return lives;
}

static int run_directory_lock(struct run_directory *run_dir, struct err *err)
{
    const struct timespec pause = time_spec(50 * NS_PER_MS);
    int64_t until = time_mono_ns() + RUN_DIRECTORY_WAIT_NS;

    for (;;) {
        int fd = runfile_lock(run_dir->directory.text, err);

        if (fd >= 0) {
            run_dir->lock = fd;
            return 0;
        }
        if (fd != -EBUSY)
            return fd;
        if (run_directory_launcher_lives(run_dir->directory.text))
            return err_set(err, -EBUSY, "%s: this run is still running", run_dir->directory.text);
        if (time_mono_ns() > until)
            return err_set(err, -EBUSY, "%s: the ranks of the previous launch have not ended",
                           run_dir->directory.text);
        nanosleep(&pause, NULL); /* its keeper is ending the ranks; locks cannot be polled */
    }
}

static bool directory_command_equal(char *const *a, char *const *b)
{
    for (; *a && *b; a++, b++)
        if (strcmp(*a, *b) != 0)
            return false;
    return !*a && !*b;
}

/* Slurm says so to a job that it starts again.  Its script is the same, but may count ranks or find its checkpoint
 * anew.
 */
static bool run_directory_requeued(void)
{
    const char *count = getenv("SLURM_RESTART_COUNT");

    return count && strtoul(count, NULL, 10) > 0;
}

/* A name that was taken by mistake would mix the facts and the output of two jobs. */
static int run_directory_same(const struct run_directory *run_dir, const struct runfile *old,
                              struct err *err)
{
    char command[160];

    if (run_directory_requeued())
        return 0;
    if (old->layout.ranks != run_dir->file.layout.ranks)
        return err_set(
            err, -EINVAL,
            "run %s has %u rank%s, not %u, and can only continue unchanged; for another run use "
            "another --name or --dir",
            old->id, old->layout.ranks, old->layout.ranks == 1 ? "" : "s",
            run_dir->file.layout.ranks);
    if (directory_command_equal(old->command, run_dir->file.command))
        return 0;
    launcher_log_command_text(old->command, command, sizeof(command));
    return err_set(
        err, -EINVAL,
        "run %s has another command, and can only continue unchanged; for another run use "
        "another --name or --dir; its command: %s",
        old->id, command);
}

static int run_directory_may_go_on(const struct run_directory *run_dir, const struct runfile *old,
                                   bool named, struct err *err)
{
    int r;

    if (named && strcmp(old->id, run_dir->file.id) != 0)
        return err_set(err, -EINVAL, "%s: is the directory of run %s, not %s",
                       run_dir->directory.text, old->id, run_dir->file.id);
    if (old->ended && old->exit == 0)
        return err_set(err, -EEXIST,
                       "%s: run %s has ended successfully; use another name for a new run",
                       run_dir->directory.text, old->id);
    r = paths_check_run(old->id, err);
    return r < 0 ? r : run_directory_same(run_dir, old, err);
}

/* What a former start left: its name, rings and attempts are ours, too. */
static int run_directory_former(struct run_directory *run_dir, bool named, struct err *err)
{
    struct runfile old;
    int r = runfile_read(run_dir->directory.text, &old, err);

    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return r == -EINVAL ? -EBADMSG : r; /* it is damaged; nobody asked for that */
    r = run_directory_may_go_on(run_dir, &old, named, err);
    runfile_fini(&old);
    if (r < 0)
        return r;
    snprintf(run_dir->file.id, sizeof(run_dir->file.id), "%s", old.id);
    snprintf(run_dir->file.rings, sizeof(run_dir->file.rings), "%s", old.rings);
    run_dir->file.attempt = old.attempt + 1;
    run_dir->goes_on = true;
    return 0;
}

/* Where other users have their rings, too. */
static int run_directory_rings_usual(struct run_directory *run_dir, struct err *err)
{
    uint32_t rings =
        run_dir->file.layout.ranks ? run_dir->file.layout.ranks : RUN_DIRECTORY_UNRANKED;
    uint64_t need =
        rings * ring_file_bytes(RING_LANES_DEFAULT, RING_RECORDS_DEFAULT, RING_STAMPS_DEFAULT);
    char name[64];
    int r = -EEXIST;

    if (run_directory_has_rings(run_dir) && rings_make(run_dir->file.rings, 0, NULL) == 0)
        return 0;
    /* A run of that name in another state directory may have its rings there. */
    for (int i = 0; i < 100 && r == -EEXIST; i++) {
        struct path path;

        snprintf(name, sizeof(name), i ? "%.58s.%d" : "%s", run_dir->file.id, i + 1);
        r = paths_rings(name, need, &path, err);
        if (r < 0)
            return r;
        r = rings_make(path.text, 1, err);
        snprintf(run_dir->file.rings, sizeof(run_dir->file.rings), "%s", path.text);
    }
    return r;
}

static int run_directory_rings_below(struct run_directory *run_dir, const char *base)
{
    struct path parent, path;
    int r = base ? rings_private(base, &parent, NULL) : -ENOENT;

    if (r < 0)
        return r;
    r = path_join(&path, parent.text, run_dir->file.id, NULL);
    if (r == 0)
        r = rings_make(path.text, 1, NULL);
    if (r < 0)
        rmdir(parent.text);
    else
        snprintf(run_dir->file.rings, sizeof(run_dir->file.rings), "%s", path.text);
    return r;
}

/* Memory first: pages of a file on a disk are written back again and again. */
static void run_directory_rings(struct run_directory *run_dir)
{
    const char *const bases[] = { "/dev/shm", getenv("XDG_RUNTIME_DIR"), run_dir->directory.text,
                                  getenv("TMPDIR"), "/tmp" };
    struct err why = { "" };

    if (run_directory_rings_usual(run_dir, &why) == 0) {
        if (!run_dir->goes_on && strncmp(run_dir->file.rings, "/dev/shm/", 9) != 0)
            err_set(&run_dir->rings_trouble, 0,
                    "/dev/shm has no room for the rings of this run; they are in %s",
                    run_dir->file.rings);
        return;
    }
    for (size_t i = 0; i < COUNT(bases); i++) {
        if (run_directory_rings_below(run_dir, bases[i]) < 0)
            continue;
        err_set(&run_dir->rings_trouble, 0, "%s; rings are in %s", why.text, run_dir->file.rings);
        return;
    }
    run_dir->file.rings[0] = '\0';
    err_set(&run_dir->rings_trouble, 0,
            "%s; no rings can be created, so the ranks are not observed", why.text);
}

/* Whoever else can write to it could put a lock, a FIFO or the record of another run there.  Members of its group are
 * trusted by whoever gave it to the group.
 */
static int run_directory_is_ours(const struct run_directory *run_dir, struct err *err)
{
    struct stat st;

    if (stat(run_dir->directory.text, &st) < 0)
        return err_set(err, -errno, "%s: %m", run_dir->directory.text);
    if (st.st_uid != geteuid())
        return err_set(err, -EPERM, "%s: belongs to user %u", run_dir->directory.text, st.st_uid);
    if (st.st_mode & S_IWOTH)
        return err_set(err, -EPERM, "%s: mode %04o lets every user write to it",
                       run_dir->directory.text, st.st_mode & 07777);
    return 0;
}

static int run_directory_make(struct run_directory *run_dir, struct err *err)
{
    int r = path_make(run_dir->directory.text, err);

    if (r == 0)
        r = run_directory_absolute(&run_dir->directory, err);
    if (r == 0)
        r = run_directory_is_ours(run_dir, err);
    if (r == 0)
        r = path_join(&run_dir->out, run_dir->directory.text, "out", err);
    if (r == 0)
        r = path_join(&run_dir->spool, run_dir->directory.text, "spool", err);
    return r;
}

/* Takes the directory as it is named, up to a file that can be written there. */
static int run_directory_try(struct run_directory *run_dir, bool named, struct err *err)
{
    int r = run_directory_make(run_dir, err);

    if (r == 0)
        r = run_directory_lock(run_dir, err);
    if (r == 0)
        r = run_directory_former(run_dir, named, err);
    if (r == 0)
        r = path_make(run_dir->out.text, err);
    if (r == 0)
        r = path_make(run_dir->spool.text, err);
    if (r == 0)
        r = runfile_write(run_dir->directory.text, &run_dir->file, err);
    if (r < 0 && run_dir->lock >= 0)
        close(TAKE_FD(run_dir->lock));
    return r;
}

/* A directory that we made and cannot use. */
static void run_directory_leave(const struct run_directory *run_dir)
{
    struct path lock;

    if (path_join(&lock, run_dir->directory.text, "lock", NULL) == 0)
        unlink(lock.text);
    rmdir(run_dir->out.text);
    rmdir(run_dir->spool.text);
    rmdir(run_dir->directory.text);
}

/* Disks first: the run's files stay. */
static void run_directory_elsewhere(struct run_directory *run_dir, const struct err *why)
{
    const char *const bases[] = { getenv("TMPDIR"), "/tmp", "/var/tmp", getenv("XDG_RUNTIME_DIR"),
                                  "/dev/shm" };

    for (size_t i = 0; i < COUNT(bases); i++) {
        if (!bases[i] || rings_private(bases[i], &run_dir->directory, NULL) < 0)
            continue;
        if (run_directory_try(run_dir, false, NULL) == 0) {
            err_set(&run_dir->trouble, 0, "%s; this run is recorded in %s instead", why->text,
                    run_dir->directory.text);
            return;
        }
        run_directory_leave(run_dir);
    }
    run_dir->directory.text[0] = '\0';
    err_set(&run_dir->trouble, 0,
            "%s, and no other directory can be used; nothing is observed or recorded; set "
            "LOCKSTEP_STATE to a "
            "writable directory",
            why->text);
}

int run_directory_take(struct run_directory *run_dir, bool named, struct err *err)
{
    struct err why = run_dir->trouble;
    int r = run_directory_is_somewhere(run_dir) ? run_directory_try(run_dir, named, &why) : -ENOENT;

    if (r == -EBUSY || r == -EEXIST || r == -EINVAL)
        return err_set(err, r, "%s", why.text);
    if (r < 0)
        run_directory_elsewhere(run_dir, &why);
    if (run_directory_is_somewhere(run_dir))
        run_directory_rings(run_dir);
    return 0;
}
