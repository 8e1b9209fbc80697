/* host_wait.c - changes where torch's libraries call the CUDA runtime's waits.
 *
 * A library calls another one's function through a word of its own, which the dynamic loader filled in (a JUMP_SLOT or GLOB_DAT
 * relocation).  Where the loader made these words read-only afterwards, their page is writable for the moment of the change.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/host_wait.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "probe/python.h"
#include "probe/stamp.h"

#if defined(__x86_64__)
#define HOST_WAIT_SLOT R_X86_64_JUMP_SLOT
#define HOST_WAIT_DATA R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define HOST_WAIT_SLOT R_AARCH64_JUMP_SLOT
#define HOST_WAIT_DATA R_AARCH64_GLOB_DAT
#else
#define HOST_WAIT_SLOT (-1)
#define HOST_WAIT_DATA (-1)
#endif

#define HOST_WAIT_ON_DEVICE 3 /* cudaMemcpyDeviceToDevice */

typedef int host_wait_call(void *of);
typedef int host_wait_copy_call(void *to, const void *from, size_t bytes, int kind);
typedef int host_wait_copy_async_call(void *to, const void *from, size_t bytes, int kind,
                                      void *stream);

static host_wait_call *host_wait_stream_original, *host_wait_event_original;
static int (*host_wait_device_original)(void);
static host_wait_copy_call *host_wait_copy_original;
static host_wait_copy_async_call *host_wait_copy_async_original;

/* ---- what is called instead ---- */

/* torch waits for its stream right after a copy, which was stamped. */
#define HOST_WAIT_SAME_NS INT64_C(30000)
static _Atomic int64_t host_wait_copied_ns;  /* when the newest such copy was over */
static _Atomic uint64_t host_wait_copied_at; /* stamps given by then */

static bool host_wait_is_copys(void)
{
    return stamps_given() == atomic_load_explicit(&host_wait_copied_at, memory_order_relaxed) &&
           time_mono_ns() - atomic_load_explicit(&host_wait_copied_ns, memory_order_relaxed) <
               HOST_WAIT_SAME_NS;
}

static int host_wait_stream(void *stream)
{
    if (!host_wait_is_copys())
        python_host_wait(stream);
    return host_wait_stream_original(stream);
}

static int host_wait_event(void *event)
{
    python_host_wait(stamps_stream());
    return host_wait_event_original(event);
}

static int host_wait_device(void)
{
    python_host_wait(stamps_stream());
    return host_wait_device_original();
}

/* Whether it waits depends on the host's memory, which only the driver knows: pageable memory is copied when the stream gets there. */
static int host_wait_copy_async(void *to, const void *from, size_t bytes, int kind, void *stream)
{
    int result;

    if (kind == HOST_WAIT_ON_DEVICE || !python_host_wait(stream))
        return host_wait_copy_async_original(to, from, bytes, kind, stream);
    result = host_wait_copy_async_original(to, from, bytes, kind, stream);
    atomic_store_explicit(&host_wait_copied_at, stamps_given(), memory_order_relaxed);
    atomic_store_explicit(&host_wait_copied_ns, time_mono_ns(), memory_order_relaxed);
    return result;
}

static int host_wait_copy(void *to, const void *from, size_t bytes, int kind)
{
    python_host_wait(stamps_stream());
    return host_wait_copy_original(to, from, bytes, kind);
}

/* Addresses of functions as numbers: their types differ. */
#define HOST_WAIT(of, name)                                                                        \
    {                                                                                              \
        of, (void *)&host_wait_##name##_original, (void *)host_wait_##name                         \
    }

static const struct host_wait {
    const char *name;
    void *original; /* the pointer that keeps it */
    void *ours;
} host_waits[] = {
    HOST_WAIT("cudaStreamSynchronize", stream),
    HOST_WAIT("cudaEventSynchronize", event),
    HOST_WAIT("cudaDeviceSynchronize", device),
    HOST_WAIT("cudaMemcpyAsync", copy_async),
    HOST_WAIT("cudaMemcpy", copy),
};

static uintptr_t host_wait_original(const struct host_wait *wait)
{
    uintptr_t original;

    memcpy(&original, wait->original, sizeof(original));
    return original;
}

/* ---- where it is called ---- */

struct host_wait_object { /* a loaded library */
    ElfW(Addr) base, read_only, read_only_end;
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * slots, *others;
    size_t slot_count, other_count;
    ElfW(Addr) begin, end; /* of all that is loaded */
};

static bool host_wait_is_torchs(const char *path)
{
    const char *name = strrchr(path, '/');

    name = name ? name + 1 : path;
    return strncmp(name, "libtorch", 8) == 0 || strncmp(name, "libc10", 6) == 0;
}

/* The words of the table are addresses already where the loader changed them, as glibc does; musl leaves them relative. */
static const void *host_wait_pointer(const struct host_wait_object *object, ElfW(Addr) address)
{
    if (address < object->base)
        address += object->base;
    return (const void *)address; /* NOLINT(performance-no-int-to-ptr): as the loader has it */
}

static void host_wait_table_read(struct host_wait_object *object, const ElfW(Dyn) * dynamic)
{
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        const void *pointer = host_wait_pointer(object, dynamic->d_un.d_ptr);

        if (dynamic->d_tag == DT_SYMTAB)
            object->symbols = pointer;
        else if (dynamic->d_tag == DT_STRTAB)
            object->names = pointer;
        else if (dynamic->d_tag == DT_JMPREL)
            object->slots = pointer;
        else if (dynamic->d_tag == DT_RELA)
            object->others = pointer;
        else if (dynamic->d_tag == DT_PLTRELSZ)
            object->slot_count = dynamic->d_un.d_val / sizeof(*object->slots);
        else if (dynamic->d_tag == DT_RELASZ)
            object->other_count = dynamic->d_un.d_val / sizeof(*object->others);
    }
}

/* False: not a library whose tables are as we know them. */
static bool host_wait_object_read(struct host_wait_object *object, const struct dl_phdr_info *info)
{
    const ElfW(Dyn) *dynamic = NULL;

    *object = (struct host_wait_object){ .base = info->dlpi_addr, .begin = UINTPTR_MAX };
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        ElfW(Addr) at = info->dlpi_addr + part->p_vaddr;

        if (part->p_type == PT_LOAD) {
            object->begin = MIN(object->begin, at);
            object->end = MAX(object->end, at + part->p_memsz);
        } else if (part->p_type == PT_DYNAMIC) {
            dynamic =
                (const void *)at; /* NOLINT(performance-no-int-to-ptr): as the loader has it */
        } else if (part->p_type == PT_GNU_RELRO) {
            object->read_only = at;
            object->read_only_end = at + part->p_memsz;
        }
    }
    if (!dynamic)
        return false;
    host_wait_table_read(object, dynamic);
    return object->symbols && object->names;
}

/* What was changed, to be put back. */
#define HOST_WAIT_CHANGES 64
static struct host_wait_changed {
    struct host_wait_object object;
    _Atomic(uintptr_t) *word;
    uintptr_t before;
} host_wait_changed[HOST_WAIT_CHANGES];
static unsigned host_wait_changes;

static bool host_wait_write(const struct host_wait_object *object, _Atomic(uintptr_t) *word,
                            uintptr_t value)
{
    uintptr_t at = (uintptr_t)word, page = (uintptr_t)sysconf(_SC_PAGESIZE),
              from = at & ~(page - 1);
    bool closed = at >= (object->read_only & ~(page - 1)) &&
                  at < (object->read_only_end & ~(page - 1)); /* whole pages, as the loader does */
    void *place = (void *)from; /* NOLINT(performance-no-int-to-ptr): the word's page */

    if (closed && mprotect(place, page, PROT_READ | PROT_WRITE) < 0)
        return false;
    atomic_store(word, value);
    if (closed)
        mprotect(place, page, PROT_READ);
    return true;
}

/* A word that leads elsewhere than to the runtime is somebody else's change, or not bound yet: then only the loader knows which runtime
 * it is for, where two of them are loaded.
 */
static bool host_wait_change(const struct host_wait_object *object, ElfW(Addr) offset,
                             const struct host_wait *wait)
{
    ElfW(Addr) at = object->base + offset;
    _Atomic(uintptr_t) *word =
        (void *)at; /* NOLINT(performance-no-int-to-ptr): as the loader has it */

    if (at < object->begin || at > object->end - sizeof(*word) || at % sizeof(*word))
        return false;
    if (atomic_load(word) != host_wait_original(wait) || host_wait_changes == HOST_WAIT_CHANGES ||
        !host_wait_write(object, word, (uintptr_t)wait->ours))
        return false;
    host_wait_changed[host_wait_changes++] =
        (struct host_wait_changed){ *object, word, host_wait_original(wait) };
    return true;
}

static int host_wait_rows(const struct host_wait_object *object, const ElfW(Rela) * row,
                          size_t count)
{
    int changed = 0;

    for (size_t i = 0; row && i < count; i++) {
        int64_t type = (int64_t)ELF64_R_TYPE(row[i].r_info);
        const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(row[i].r_info)];

        if (type != HOST_WAIT_SLOT && type != HOST_WAIT_DATA)
            continue;
        for (size_t w = 0; w < COUNT(host_waits); w++)
            if (host_wait_original(&host_waits[w]) &&
                strcmp(object->names + symbol->st_name, host_waits[w].name) == 0)
                changed += host_wait_change(object, row[i].r_offset, &host_waits[w]);
    }
    return changed;
}

static int host_wait_visit(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct host_wait_object object;
    int *changed = arg;

    (void)size;
    if (!info->dlpi_name || !host_wait_is_torchs(info->dlpi_name) ||
        !host_wait_object_read(&object, info))
        return 0;
    *changed += host_wait_rows(&object, object.slots, object.slot_count);
    *changed += host_wait_rows(&object, object.others, object.other_count);
    return 0;
}

static int host_waits_leave(void)
{
    int changed = 0;

    while (host_wait_changes > 0) {
        const struct host_wait_changed *at = &host_wait_changed[--host_wait_changes];

        changed += host_wait_write(&at->object, at->word, at->before);
    }
    return changed;
}

int host_waits_watch(symbol_find *find)
{
    int changed = 0;

    if (!find)
        return host_waits_leave();
    if (sizeof(void *) != sizeof(uint64_t) || host_wait_changes > 0)
        return 0;
    for (size_t i = 0; i < COUNT(host_waits); i++) {
        void *found = find(NULL, host_waits[i].name); /* of those that the program itself sees */

        memcpy(host_waits[i].original, &found, sizeof(found));
    }
    dl_iterate_phdr(host_wait_visit, &changed);
    return changed;
}
