/* environment_image.c - which image a rank runs from: a container's, or that of its node.
 *
 * Names of images say little ("latest" is another one on each node that pulled it on another day), and what runtimes call
 * their layers differs between nodes.  So the content is compared: the name of the distribution, and a digest of the list of
 * installed packages.  Files are opened below the root directory of the process and nowhere else, whatever links are in it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/hash.h"
#include "sense/environment/environment.h"

#define PACKAGES_BYTES (16 << 20)
#define RELEASE_BYTES 4096

/* A plain file below `root_fd`.  A FIFO or a device is opened without waiting, and refused. */
static int image_open(int root_fd, const char *path)
{
    struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                            .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
    int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
    struct stat st;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return -EINVAL;
    }
    return fd;
}

/* PRETTY_NAME="Ubuntu 22.04.4 LTS" */
static void image_release(struct environment *environment, int root_fd)
{
    CLEAN(fd_clean) int fd = image_open(root_fd, "etc/os-release");
    char text[RELEASE_BYTES], *at;
    ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    text[MAX(bytes, 0)] = '\0';
    at = strstr(text, "PRETTY_NAME=");
    if (!at || (at > text && at[-1] != '\n'))
        return;
    at += strlen("PRETTY_NAME=");
    at += *at == '"';
    at[strcspn(at, "\"\n")] = '\0';
    environment_pair_add(environment, "image.os", at, false);
}

/* The whole of it, or nothing: a digest of a part would make different lists equal. */
static bool image_digest(int fd, uint64_t *ret)
{
    char text[65536];
    size_t left = PACKAGES_BYTES;
    ssize_t bytes;

    *ret = 0;
    while (left && (bytes = read(fd, text, MIN(sizeof(text), left))) > 0) {
        *ret = hash64(*ret, text, (size_t)bytes);
        left -= (size_t)bytes;
    }
    return left && bytes == 0;
}

static void image_packages(struct environment *environment, int root_fd)
{
    static const char *const lists[] = { "var/lib/dpkg/status", "usr/lib/sysimage/rpm/rpmdb.sqlite",
                                         "var/lib/rpm/rpmdb.sqlite", "lib/apk/db/installed" };

    for (size_t i = 0; i < COUNT(lists); i++) {
        CLEAN(fd_clean) int fd = image_open(root_fd, lists[i]);
        uint64_t digest;
        char text[20];

        if (fd < 0)
            continue;
        if (image_digest(fd, &digest)) {
            snprintf(text, sizeof(text), "%016llx", (unsigned long long)digest);
            environment_pair_add(environment, "image.packages", text, true);
        }
        return;
    }
}

/* "https://user:password@registry/image"; a digest behind "@" is none. */
static bool image_has_login(const char *value)
{
    const char *host = strstr(value, "://");

    return host && memchr(host + 3, '@', strcspn(host + 3, "/"));
}

/* What the runtime calls it, where it tells the process. */
static void image_name(struct environment *environment, const char *variables, size_t bytes)
{
    static const char *const names[] = { "APPTAINER_CONTAINER=", "SINGULARITY_CONTAINER=",
                                         "SLURM_CONTAINER=",     "PYXIS_CONTAINER_IMAGE=",
                                         "ENROOT_IMAGE=",        "SHIFTER_IMAGEREQUEST=",
                                         "CHARLIECLOUD_IMAGE=",  "NVIDIA_BUILD_ID=" };

    for (size_t i = 0; i < COUNT(names); i++) {
        for (size_t at = 0; at < bytes; at += strlen(variables + at) + 1) {
            size_t name = strlen(names[i]);

            if (strncmp(variables + at, names[i], name) != 0 || image_has_login(variables + at))
                continue;
            environment_pair_add(environment, "image", variables + at + name, false);
            return;
        }
    }
}

/* The type of the file system at "/": containers have an overlay or a squashed one. */
static void image_root(struct environment *environment, const char *mountinfo)
{
    for (const char *line = mountinfo; line && *line; line = strchr(line, '\n')) {
        char point[4], type[24];
        const char *dash;

        line += *line == '\n';
        dash = memmem(line, strcspn(line, "\n"), " - ", 3);
        if (!dash || sscanf(line, "%*d %*d %*s %*s %3s", point) != 1 || strcmp(point, "/") != 0 ||
            sscanf(dash, " - %23s", type) != 1)
            continue;
        environment_pair_add(environment, "image.root", type, false);
        return;
    }
}

void environment_add_image(struct environment *environment, int proc_fd,
                           const struct environment_texts *texts)
{
    CLEAN(fd_clean) int root_fd = openat(proc_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);

    image_name(environment, texts->variables, texts->variables_bytes);
    image_root(environment, texts->mountinfo);
    if (root_fd < 0)
        return;
    image_release(environment, root_fd);
    image_packages(environment, root_fd);
}
