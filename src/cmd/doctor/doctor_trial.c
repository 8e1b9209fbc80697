/* doctor_trial.c - a run's directory and rings, made by the launcher's code and removed again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/doctor/doctor_trial.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "act/rings.h"
#include "act/run_directory.h"
#include "base/remove_tree.h"
#include "core/clean.h"

void doctor_trial_existing(struct path *path)
{
    while (access(path->text, F_OK) < 0 && strcmp(path->text, "/") != 0 &&
           strcmp(path->text, ".") != 0) {
        struct path above;

        snprintf(above.text, sizeof(above.text), "%s", path->text);
        snprintf(path->text, sizeof(path->text), "%s", dirname(above.text));
    }
}

/* Removes empty directories from `from` up to, and without, the one that existed before. */
static void trial_remove_up_to(const char *from, const struct path *existed)
{
    struct path at;
    size_t keep = strlen(existed->text);

    snprintf(at.text, sizeof(at.text), "%s", from);
    while (strlen(at.text) > keep && strncmp(at.text, existed->text, keep) == 0 &&
           rmdir(at.text) == 0) {
        struct path above = at;

        snprintf(at.text, sizeof(at.text), "%s", dirname(above.text));
    }
}

int doctor_trial_directory(const char *directory, struct err *err)
{
    struct path existed, file;
    int r;

    snprintf(existed.text, sizeof(existed.text), "%s", directory);
    doctor_trial_existing(&existed);
    r = path_make(directory, err);
    if (r == 0)
        r = path_join(&file, directory, ".lockstep-doctor.XXXXXX", err);
    if (r == 0 && !mkdtemp(file.text))
        r = err_set(err, -errno, "%s: %m", directory);
    if (r == 0)
        rmdir(file.text);
    trial_remove_up_to(directory, &existed);
    return r;
}

/* The launcher's sentence ends with what it did instead; here only the cause is wanted. */
static void trial_cause(const struct err *sentence, struct err *ret)
{
    static const char *const ends[] = { "; this run is recorded in ", ", nor can any other",
                                        "; rings are in ", "; no rings can be made",
                                        "; they are in " };

    *ret = *sentence;
    for (size_t i = 0; i < COUNT(ends); i++) {
        char *end = strstr(ret->text, ends[i]);

        if (end)
            *end = '\0';
    }
}

static void trial_parent(const char *of, struct path *ret)
{
    struct path path;

    snprintf(path.text, sizeof(path.text), "%s", of);
    snprintf(ret->text, sizeof(ret->text), "%s", of[0] ? dirname(path.text) : "");
}

static void trial_remove(struct run_directory *run_dir)
{
    if (run_directory_has_rings(run_dir))
        rings_remove(run_dir->file.rings);
    if (run_dir->lock >= 0)
        close(TAKE_FD(run_dir->lock));
    if (run_directory_is_somewhere(run_dir))
        tree_remove(run_dir->directory.text);
}

/* STATE/runs/.doctor-PID: a name with a dot is no run's, so no other command lists it meanwhile. */
static bool trial_place(struct path *ret)
{
    struct path state;
    char name[64];

    snprintf(name, sizeof(name), "runs/.doctor-%d", (int)getpid());
    return paths_state(&state, NULL) == 0 && path_join(ret, state.text, name, NULL) == 0;
}

int doctor_trial_run(struct doctor_trial *ret, struct err *err)
{
    char word[] = "true", *command[] = { word, NULL };
    struct launch_plan plan = { .nodes = 1, .command = command };
    struct path place = { "" }, existed = { "" }, parent;
    struct run_directory run_dir;
    int r;

    if (trial_place(&place)) {
        plan.directory = place.text;
        existed = place;
        doctor_trial_existing(&existed);
    }
    r = run_directory_plan(&plan, &run_dir, err);
    if (r == 0)
        r = run_directory_take(&run_dir, false, err);
    if (r == 0) {
        trial_parent(run_dir.directory.text, &ret->directory);
        trial_cause(&run_dir.trouble, &ret->directory_trouble);
        trial_parent(run_dir.file.rings, &ret->rings);
        trial_cause(&run_dir.rings_trouble, &ret->rings_trouble);
        trial_remove(&run_dir);
    }
    if (place.text[0]) {
        trial_parent(place.text, &parent);
        trial_remove_up_to(parent.text, &existed);
    }
    return r;
}
