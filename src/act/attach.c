/* attach.c - where our sitecustomize and our library are: beside this program, as built or as installed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/attach.h"

#include <errno.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sibling.h"
#include "core/clean.h"

static const char *const attach_places[] = {
    "bindings/python/lockstep/site",         /* the build directory */
    "../share/lockstep/python/lockstep/site" /* PREFIX/bin */
};

static const char *const library_places[] = {
    "liblockstep.so.0", /* the build directory */
    "../" LOCKSTEP_LIBDIR "/liblockstep.so.0",
};

static bool attach_try(const char *beside, const char *run_dir, struct path *ret)
{
    struct path directory, file;

    return path_join(&directory, beside, run_dir, NULL) == 0 &&
           path_join(&file, directory.text, "sitecustomize.py", NULL) == 0 &&
           access(file.text, R_OK) == 0 && realpath(directory.text, ret->text);
}

static bool attach_directory(struct path *ret)
{
    struct path beside;

    if (sibling_directory(&beside, NULL) < 0)
        return false;
    for (size_t i = 0; i < COUNT(attach_places); i++)
        if (attach_try(beside.text, attach_places[i], ret))
            return true;
    return false;
}

/* Somebody who says "none" wants no plugin, and ours is one. */
static bool attach_nccl_is_wanted(void)
{
    const char *mode = getenv("LOCKSTEP_NCCL"), *other = getenv("NCCL_PROFILER_PLUGIN");

    return !(other && strcmp(other, "none") == 0) && !(mode && strcmp(mode, "off") == 0);
}

/* Another plugin is called behind ours, which is no other one. */
static const char *attach_nccl_next(void)
{
    const char *other = getenv("NCCL_PROFILER_PLUGIN"), *base;

    if (!other || !other[0] || strcmp(other, "none") == 0 || strcmp(other, "lockstep") == 0)
        return NULL;
    base = strrchr(other, '/');
    base = base ? base + 1 : other;
    if (strncmp(base, "liblockstep.so", strlen("liblockstep.so")) == 0 ||
        strcmp(base, "libnccl-profiler-lockstep.so") == 0)
        return NULL;
    return other;
}

static void attach_library(char ret[static PATH_MAX])
{
    struct path beside, file;

    ret[0] = '\0';
    if (sibling_directory(&beside, NULL) < 0)
        return;
    for (size_t i = 0; i < COUNT(library_places) && ret[0] == '\0'; i++)
        if (path_join(&file, beside.text, library_places[i], NULL) < 0 || !realpath(file.text, ret))
            ret[0] = '\0';
}

int attach_package_file(const char *name, struct path *ret)
{
    struct path site, file;
    char package[PATH_MAX];

    if (!attach_directory(&site))
        return -ENOENT;
    snprintf(package, sizeof(package), "%s", site.text);
    if (path_join(&file, dirname(package), name, NULL) < 0 || !realpath(file.text, ret->text))
        return -ENOENT;
    return 0;
}

static void attach_missing(struct err *ret)
{
    struct path beside;
    bool known = sibling_directory(&beside, NULL) == 0;

    err_set(ret, 0,
            "the lockstep Python package is not installed: expected %s/%s; Python programs are not "
            "observed. 'make install' installs it beside the program",
            known ? beside.text : "PREFIX/bin", attach_places[COUNT(attach_places) - 1]);
}

void attach_nothing(struct attach *ret)
{
    ret->nccl_next = NULL;
    ret->python_path[0] = ret->nccl_plugin[0] = ret->library[0] = '\0';
}

void attach_find(struct attach *ret)
{
    const char *mode = getenv("LOCKSTEP_ATTACH"), *before = getenv("PYTHONPATH");
    struct path directory;
    int length;

    attach_nothing(ret);
    ret->trouble.text[0] = '\0';
    if (mode && strcmp(mode, "0") == 0)
        return;
    attach_library(ret->library);
    if (attach_nccl_is_wanted()) {
        memcpy(ret->nccl_plugin, ret->library, sizeof(ret->nccl_plugin));
        ret->nccl_next = ret->nccl_plugin[0] ? attach_nccl_next() : NULL;
    }
    if (!attach_directory(&directory)) {
        attach_missing(&ret->trouble);
        return;
    }
    /* An empty part would be the working directory, which nobody asked for.  A colon in our own path
     * cannot be written in PYTHONPATH.
     */
    if (strchr(directory.text, ':')) {
        err_set(&ret->trouble, 0,
                "%s: a path with ':' cannot be in PYTHONPATH, so Python programs are not observed",
                directory.text);
        return;
    }
    length = snprintf(ret->python_path, sizeof(ret->python_path), "%s%s%s", directory.text,
                      before && before[0] ? ":" : "", before ? before : "");
    if (length < 0 || (size_t)length >= sizeof(ret->python_path) - 64)
        ret->python_path[0] = '\0'; /* a path that long stays as it is */
}
