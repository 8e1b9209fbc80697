/* place.c - where a run lives: its directory, its lock, its rings. */
#include "act/place.h"

#include <ctype.h>
#include <errno.h>
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
#include "wire/ring.h"

#define PLACE_WAIT_NS (120 * NS_PER_S)
#define PLACE_UNRANKED 16 /* rings to make room for when we do not know how many will come */

/* The host's name is part of file names and a word in sentences. */
static void place_host(char ret[static 64])
{
    if (gethostname(ret, 64) < 0 || !ret[0])
        snprintf(ret, 64, "localhost");
    ret[63] = '\0';
    for (char *at = ret; *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '.' && *at != '_')
            *at = '-';
}

int launch_check(const struct launch_plan *plan, struct err *err)
{
    if (!plan->command || !plan->command[0])
        return err_set(err, -EINVAL, "no command; write it after --");
    if (plan->ranks > LAYOUT_RANKS_MAX)
        return err_set(err, -EINVAL, "-n %u: at most %d ranks", plan->ranks, LAYOUT_RANKS_MAX);
    if (plan->nodes > 1 && !plan->ranks)
        return err_set(err, -EINVAL, "--nodes %u: needs -n, which says how many ranks there are",
                       plan->nodes);
    if (plan->nodes < 1 || (plan->nodes > 1 && plan->nodes > plan->ranks))
        return err_set(err, -EINVAL, "--nodes %u: expected 1 to the number of ranks, %u",
                       plan->nodes, plan->ranks);
    return plan->name ? paths_check_run(plan->name, err) : 0;
}

int place_plan(const struct launch_plan *plan, struct place *ret, struct err *err)
{
    struct place place = { .lock = -1 };
    int r = launch_check(plan, err);
    uint64_t random = (uint64_t)getpid();

    if (r < 0)
        return r;
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
        random ^= (uint64_t)time_mono_ns();
    place.file.started_real_ns = time_real_ns();
    if (plan->name)
        snprintf(place.file.id, sizeof(place.file.id), "%s", plan->name);
    else if (!plan->directory)
        paths_name_run(place.file.started_real_ns, random, place.file.id);
    r = plan->directory ? path_join(&place.directory, plan->directory, ".", &place.trouble)
                        : paths_run(place.file.id, &place.directory, &place.trouble);
    if (r < 0)
        place.directory.text[0] = '\0'; /* no home directory: place_take() finds another */
    if (!place.file.id[0]) /* the directory may be of a run that goes on: place_take() looks */
        paths_name_run(place.file.started_real_ns, random, place.file.id);
    place.file.layout.ranks = plan->ranks;
    place.file.layout.nodes = plan->nodes;
    place_host(place.file.layout.host);
    place.file.max_restarts = plan->max_restarts;
    place.file.command = plan->command;
    place.file.pid = getpid();
    *ret = place;
    return 0;
}

static int place_absolute(struct path *path, struct err *err)
{
    struct path whole;

    if (!realpath(path->text, whole.text))
        return err_set(err, -errno, "%s: %m", path->text);
    *path = whole;
    return 0;
}

static bool place_launcher_lives(const char *directory)
{
    struct runfile file;
    bool lives;

    if (runfile_read(directory, &file, NULL) < 0)
        return true; /* somebody holds the lock and has not written yet: just starting */
    lives = file.pid > 0 && (kill(file.pid, 0) == 0 || errno == EPERM);
    runfile_fini(&file);
    return lives;
}

static int place_lock(struct place *place, struct err *err)
{
    const struct timespec pause = time_spec(50 * NS_PER_MS);
    int64_t until = time_mono_ns() + PLACE_WAIT_NS;

    for (;;) {
        int fd = runfile_lock(place->directory.text, err);

        if (fd >= 0) {
            place->lock = fd;
            return 0;
        }
        if (fd != -EBUSY)
            return fd;
        if (place_launcher_lives(place->directory.text))
            return err_set(err, -EBUSY, "%s: this run is running", place->directory.text);
        if (time_mono_ns() > until)
            return err_set(err, -EBUSY, "%s: the ranks of a former start do not end",
                           place->directory.text);
        nanosleep(&pause, NULL); /* its keeper is ending the ranks; locks cannot be polled */
    }
}

static bool command_equal(char *const *a, char *const *b)
{
    for (; *a && *b; a++, b++)
        if (strcmp(*a, *b) != 0)
            return false;
    return !*a && !*b;
}

/* Slurm says so to a job that it starts again.  Its script is the same, but may count ranks or find its checkpoint
 * anew.
 */
static bool place_requeued(void)
{
    const char *count = getenv("SLURM_RESTART_COUNT");

    return count && strtoul(count, NULL, 10) > 0;
}

/* A name that was taken by mistake would mix the facts and the output of two jobs. */
static int place_same(const struct place *place, const struct runfile *old, struct err *err)
{
    char command[160];

    if (place_requeued())
        return 0;
    if (old->layout.ranks != place->file.layout.ranks)
        return err_set(err, -EINVAL,
                       "run %s has %u ranks, not %u, and goes on only as it was; another run needs "
                       "another --name or --dir",
                       old->id, old->layout.ranks, place->file.layout.ranks);
    if (command_equal(old->command, place->file.command))
        return 0;
    launcher_log_command_text(old->command, command, sizeof(command));
    return err_set(err, -EINVAL,
                   "run %s has another command, and goes on only as it was; another run needs "
                   "another --name or --dir; its command: %s",
                   old->id, command);
}

static int place_may_go_on(const struct place *place, const struct runfile *old, bool named,
                           struct err *err)
{
    int r;

    if (named && strcmp(old->id, place->file.id) != 0)
        return err_set(err, -EINVAL, "%s: is the directory of run %s, not %s",
                       place->directory.text, old->id, place->file.id);
    if (old->ended && old->exit == 0)
        return err_set(err, -EEXIST, "%s: run %s has ended well; a new run needs a new name",
                       place->directory.text, old->id);
    r = paths_check_run(old->id, err);
    return r < 0 ? r : place_same(place, old, err);
}

/* What a former start left: its name, rings and attempts are ours, too. */
static int place_former(struct place *place, bool named, struct err *err)
{
    struct runfile old;
    int r = runfile_read(place->directory.text, &old, err);

    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return r == -EINVAL ? -EBADMSG : r; /* it is damaged; nobody asked for that */
    r = place_may_go_on(place, &old, named, err);
    runfile_fini(&old);
    if (r < 0)
        return r;
    snprintf(place->file.id, sizeof(place->file.id), "%s", old.id);
    snprintf(place->file.rings, sizeof(place->file.rings), "%s", old.rings);
    place->file.attempt = old.attempt + 1;
    place->goes_on = true;
    return 0;
}

/* Where other users have their rings, too. */
static int place_rings_usual(struct place *place, struct err *err)
{
    uint32_t rings = place->file.layout.ranks ? place->file.layout.ranks : PLACE_UNRANKED;
    uint64_t need = rings * ring_file_bytes(RING_LANES_DEFAULT, RING_RECORDS_DEFAULT);
    char name[64];
    int r = -EEXIST;

    if (place_has_rings(place) && rings_make(place->file.rings, 0, NULL) == 0)
        return 0;
    /* A run of that name in another state directory may have its rings there. */
    for (int i = 0; i < 100 && r == -EEXIST; i++) {
        struct path path;

        snprintf(name, sizeof(name), i ? "%.58s.%d" : "%s", place->file.id, i + 1);
        r = paths_rings(name, need, &path, err);
        if (r < 0)
            return r;
        r = rings_make(path.text, 1, err);
        snprintf(place->file.rings, sizeof(place->file.rings), "%s", path.text);
    }
    return r;
}

static int place_rings_below(struct place *place, const char *base)
{
    struct path parent, path;
    int r = base ? rings_private(base, &parent, NULL) : -ENOENT;

    if (r < 0)
        return r;
    r = path_join(&path, parent.text, place->file.id, NULL);
    if (r == 0)
        r = rings_make(path.text, 1, NULL);
    if (r < 0)
        rmdir(parent.text);
    else
        snprintf(place->file.rings, sizeof(place->file.rings), "%s", path.text);
    return r;
}

/* Memory first: pages of a file on a disk are written back again and again. */
static void place_rings(struct place *place)
{
    const char *const bases[] = { "/dev/shm", getenv("XDG_RUNTIME_DIR"), place->directory.text,
                                  getenv("TMPDIR"), "/tmp" };
    struct err why = { "" };

    if (place_rings_usual(place, &why) == 0) {
        if (!place->goes_on && strncmp(place->file.rings, "/dev/shm/", 9) != 0)
            err_set(&place->rings_trouble, 0,
                    "/dev/shm has no room for the rings of this run; they are in %s",
                    place->file.rings);
        return;
    }
    for (size_t i = 0; i < COUNT(bases); i++) {
        if (place_rings_below(place, bases[i]) < 0)
            continue;
        err_set(&place->rings_trouble, 0, "%s; rings are in %s", why.text, place->file.rings);
        return;
    }
    place->file.rings[0] = '\0';
    err_set(&place->rings_trouble, 0, "%s; no rings can be made, so the ranks are not watched",
            why.text);
}

/* Whoever else can write to it could put a lock, a FIFO or the record of another run there.  Members of its group are
 * trusted by whoever gave it to the group.
 */
static int place_is_ours(const struct place *place, struct err *err)
{
    struct stat st;

    if (stat(place->directory.text, &st) < 0)
        return err_set(err, -errno, "%s: %m", place->directory.text);
    if (st.st_uid != geteuid())
        return err_set(err, -EPERM, "%s: belongs to user %u", place->directory.text, st.st_uid);
    if (st.st_mode & S_IWOTH)
        return err_set(err, -EPERM, "%s: mode %04o lets everybody write to it",
                       place->directory.text, st.st_mode & 07777);
    return 0;
}

static int place_make(struct place *place, struct err *err)
{
    int r = path_make(place->directory.text, err);

    if (r == 0)
        r = place_absolute(&place->directory, err);
    if (r == 0)
        r = place_is_ours(place, err);
    if (r == 0)
        r = path_join(&place->out, place->directory.text, "out", err);
    if (r == 0)
        r = path_join(&place->spool, place->directory.text, "spool", err);
    return r;
}

/* Takes the directory as it is named, up to a file that can be written there. */
static int place_try(struct place *place, bool named, struct err *err)
{
    int r = place_make(place, err);

    if (r == 0)
        r = place_lock(place, err);
    if (r == 0)
        r = place_former(place, named, err);
    if (r == 0)
        r = path_make(place->out.text, err);
    if (r == 0)
        r = path_make(place->spool.text, err);
    if (r == 0)
        r = runfile_write(place->directory.text, &place->file, err);
    if (r < 0 && place->lock >= 0)
        close(TAKE_FD(place->lock));
    return r;
}

/* A directory that we made and cannot use. */
static void place_leave(const struct place *place)
{
    struct path lock;

    if (path_join(&lock, place->directory.text, "lock", NULL) == 0)
        unlink(lock.text);
    rmdir(place->out.text);
    rmdir(place->spool.text);
    rmdir(place->directory.text);
}

/* Disks first: the run's files stay. */
static void place_elsewhere(struct place *place, const struct err *why)
{
    const char *const bases[] = { getenv("TMPDIR"), "/tmp", "/var/tmp", getenv("XDG_RUNTIME_DIR"),
                                  "/dev/shm" };

    for (size_t i = 0; i < COUNT(bases); i++) {
        if (!bases[i] || rings_private(bases[i], &place->directory, NULL) < 0)
            continue;
        if (place_try(place, false, NULL) == 0) {
            err_set(&place->trouble, 0, "%s; this run is recorded in %s instead", why->text,
                    place->directory.text);
            return;
        }
        place_leave(place);
    }
    place->directory.text[0] = '\0';
    err_set(
        &place->trouble, 0,
        "%s, nor can any other directory; nothing is watched or recorded; set LOCKSTEP_STATE to a "
        "directory that can be written",
        why->text);
}

int place_take(struct place *place, bool named, struct err *err)
{
    struct err why = place->trouble;
    int r = place_is_somewhere(place) ? place_try(place, named, &why) : -ENOENT;

    if (r == -EBUSY || r == -EEXIST || r == -EINVAL)
        return err_set(err, r, "%s", why.text);
    if (r < 0)
        place_elsewhere(place, &why);
    if (place_is_somewhere(place))
        place_rings(place);
    return 0;
}
