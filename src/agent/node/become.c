/* become.c - the order matters: at each step the kernel refuses the user's debugger for at least one reason.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/node/become.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/clean.h"

#define MEMORY_BYTES (UINT64_C(2) << 30) /* of addresses; libraries alone take some 100 MB */
#define FILES 16384                      /* a few for each thread of each rank */

/* Sanitizers reserve terabytes of addresses. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ADDRESSES_BOUNDED false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ADDRESSES_BOUNDED false
#endif
#endif
#ifndef ADDRESSES_BOUNDED
#define ADDRESSES_BOUNDED true
#endif

static int become_limit_set(int what, uint64_t value)
{
    struct rlimit limit;

    if (getrlimit((__rlimit_resource_t)what, &limit) < 0)
        return -errno;
    limit.rlim_max = MIN(limit.rlim_max, (rlim_t)value);
    limit.rlim_cur = limit.rlim_max;
    return setrlimit((__rlimit_resource_t)what, &limit) < 0 ? -errno : 0;
}

/* The daemon's own protection from the kernel's killer is not its children's. */
static void become_score_reset(void)
{
    CLEAN(fd_clean) int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, "0", 1) != 1)
        return; /* as high as it is, which is no danger to others */
}

int become_limited(uint64_t file_bytes, struct err *err)
{
    int result = become_limit_set(RLIMIT_CORE, 0);

    signal(SIGXFSZ, SIG_IGN); /* the write fails, as on a full disk */
    if (result == 0)
        result = become_limit_set(RLIMIT_FSIZE, file_bytes);
    if (result == 0)
        result = become_limit_set(RLIMIT_NOFILE, FILES);
    if (result == 0 && ADDRESSES_BOUNDED)
        result = become_limit_set(RLIMIT_AS, MEMORY_BYTES);
    become_score_reset();
    return result < 0 ? err_set(err, result, "limits: %s", strerror(-result)) : 0;
}

static int become_capabilities_drop(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

    return (int)syscall(SYS_capset, &header, none);
}

static bool become_is_user(uid_t uid, gid_t gid)
{
    uid_t user[3];
    gid_t group[3];

    if (getresuid(&user[0], &user[1], &user[2]) < 0 ||
        getresgid(&group[0], &group[1], &group[2]) < 0 || getgroups(0, NULL) != 0)
        return false;
    for (int i = 0; i < 3; i++) {
        if (user[i] != uid || group[i] != gid)
            return false;
    }
    return (uid == 0 || setresuid(0, 0, 0) < 0) && prctl(PR_GET_DUMPABLE) == 0;
}

/* setresuid() sets the dumpable flag to fs.suid_dumpable, which may be 1: until it is cleared again, capabilities that
 * the user does not have keep his debugger away.
 */
int become_user(uid_t uid, gid_t gid, struct err *err)
{
    if (uid == (uid_t)-1 || gid == (gid_t)-1) /* to the kernel: leave it as it is */
        return err_set(err, -EINVAL, "user or group id -1 is not valid");
    if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_KEEPCAPS, 1) < 0 || setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
        setresuid(uid, uid, uid) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
        become_capabilities_drop() < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) /* a change of user has cleared it */
        return err_set(err, -errno, "becoming user %u: %m", uid);
    if (!become_is_user(uid, gid))
        return err_set(err, -EPERM, "cannot change to user %u: only some of the ids changed", uid);
    return 0;
}
