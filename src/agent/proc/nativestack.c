/* nativestack.c - libdw's unwinder on a thread that we hold for a moment.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/proc/nativestack.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <elfutils/libdwfl.h>

#include "core/clean.h"

#define FRAMES_MAX 32

/* What we use of libdw; one that is not there makes the whole library so. */
struct dw {
    __typeof__(dwfl_begin) *begin;
    __typeof__(dwfl_end) *end;
    __typeof__(dwfl_linux_proc_find_elf) *find_elf;
    __typeof__(dwfl_linux_proc_report) *report;
    __typeof__(dwfl_report_end) *report_end;
    __typeof__(dwfl_linux_proc_attach) *attach;
    __typeof__(dwfl_getthread_frames) *frames;
    __typeof__(dwfl_frame_pc) *pc;
    __typeof__(dwfl_addrmodule) *module;
    __typeof__(dwfl_module_addrname) *name;
};

struct stack_walk {
    const struct dw *dw;
    Dwfl *dwfl;
    char *text;
    size_t room, used;
    int frames;
};

static bool dw_load(struct dw *dw)
{
    static const char *const names[] = {
        "dwfl_begin",
        "dwfl_end",
        "dwfl_linux_proc_find_elf",
        "dwfl_linux_proc_report",
        "dwfl_report_end",
        "dwfl_linux_proc_attach",
        "dwfl_getthread_frames",
        "dwfl_frame_pc",
        "dwfl_addrmodule",
        "dwfl_module_addrname",
    };
    void *library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    void **place = (void **)dw;

    _Static_assert(sizeof(*dw) == COUNT(names) * sizeof(void *), "one place a name");
    for (size_t i = 0; library && i < COUNT(names); i++) {
        place[i] = dlsym(library, names[i]);
        if (!place[i]) {
            dlclose(library);
            return false;
        }
    }
    return library != NULL;
}

/* Names come from the symbol tables of what is loaded: no search for debug files, least of all by network. */
/* NOLINTNEXTLINE(readability-function-size): the signature is libdwfl's */
static int nativestack_no_debuginfo(Dwfl_Module *module, void **user, const char *name,
                                    Dwarf_Addr base, const char *file, const char *link,
                                    GElf_Word crc, char **ret)
{
    (void)module, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)ret;
    return -1;
}

static int nativestack_on_frame(Dwfl_Frame *frame, void *arg)
{
    struct stack_walk *walk = arg;
    const char *name = NULL;
    Dwfl_Module *module;
    Dwarf_Addr pc;
    bool activation;

    if (walk->frames++ >= FRAMES_MAX || !walk->dw->pc(frame, &pc, &activation))
        return DWARF_CB_ABORT;
    module = walk->dw->module(walk->dwfl, activation ? pc : pc - 1);
    if (module)
        name = walk->dw->name(module, activation ? pc : pc - 1);
    if (!name)
        name = "?";
    if (walk->used + strlen(name) + 2 > walk->room)
        return DWARF_CB_ABORT;
    walk->used += (size_t)snprintf(walk->text + walk->used, walk->room - walk->used, "%s%s",
                                   walk->used ? "\n" : "", name);
    return DWARF_CB_OK;
}

/* A seized thread runs on, and its pid is nobody else's any more: if the process is still the one that was asked for,
 * it is the one that we hold, and only then is it stopped.  Else it is let go when we end.
 */
static int nativestack_thread_hold(const struct proc_ref *proc, struct err *err)
{
    pid_t tid = proc->pid;
    int status, result = proc_ref_check(proc);

    if (result == 0 && ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
        return err_set(err, -errno, "may not be traced: %m");
    if (result == 0)
        result = proc_ref_check(proc);
    if (result < 0)
        return err_set(err, result, "no process of the ring's owner");
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0 || waitpid(tid, &status, __WALL) != tid ||
        !WIFSTOPPED(status))
        return err_set(err, -ESRCH, "does not stop");
    return 0;
}

static int walk_thread(const struct dw *dw, const struct proc_ref *proc, char *ret, size_t room,
                       struct err *err)
{
    pid_t pid = proc->pid;
    const Dwfl_Callbacks callbacks = { .find_elf = dw->find_elf,
                                       .find_debuginfo = nativestack_no_debuginfo };
    struct stack_walk walk = { .dw = dw, .text = ret, .room = room };
    int result;

    walk.dwfl = dw->begin(&callbacks);
    if (!walk.dwfl)
        return err_set(err, -ENOMEM, "libdw does not begin");
    if (dw->report(walk.dwfl, pid) != 0 || dw->report_end(walk.dwfl, NULL, NULL) != 0) {
        dw->end(walk.dwfl);
        return err_set(err, -ENOENT, "what it has loaded cannot be read");
    }
    result = nativestack_thread_hold(proc, err);
    if (result == 0) {
        ret[0] = '\0';
        if (dw->attach(walk.dwfl, pid, true) == 0)
            dw->frames(walk.dwfl, pid, nativestack_on_frame, &walk);
        ptrace(PTRACE_DETACH, pid, NULL, NULL);
        if (!walk.used)
            result = err_set(err, -EPROTO, "no frame could be identified");
    }
    dw->end(walk.dwfl);
    return result;
}

int nativestack_read(const struct proc_ref *proc, char *ret, size_t room, struct err *err)
{
    struct dw dw;

    if (!dw_load(&dw))
        return err_set(err, -ENOSYS, "libdw.so.1 (elfutils) is not installed");
    return walk_thread(&dw, proc, ret, room, err);
}
