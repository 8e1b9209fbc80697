/* build_id.c - ELF header, program headers, notes: all of them another process's bytes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sense/build_id.h"

#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"

#define SEGMENTS 64
#define NOTE_BYTES 512
#define ID_BYTES 20

static bool build_memory_read(int fd, uint64_t address, void *out, size_t bytes)
{
    return pread(fd, out, bytes, (off_t)address) == (ssize_t)bytes;
}

/* Returns whether it is there. */
static bool build_note_find(const unsigned char *note, size_t bytes, char *ret)
{
    for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= bytes;) {
        Elf64_Nhdr head;
        size_t name, desc;

        memcpy(&head, note + at, sizeof(head));
        name = ((size_t)head.n_namesz + 3) & ~(size_t)3;
        desc = ((size_t)head.n_descsz + 3) & ~(size_t)3;
        at += sizeof(head);
        if (name > bytes - at || desc > bytes - at - name)
            return false;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && head.n_descsz &&
            memcmp(note + at, "GNU", 4) == 0) {
            for (size_t i = 0; i < MIN((size_t)head.n_descsz, (size_t)ID_BYTES); i++)
                snprintf(ret + 2 * i, 3, "%02x", note[at + name + i]);
            return true;
        }
        at += name + desc;
    }
    return false;
}

void build_id_read(int fd, uint64_t base, char ret[static BUILD_ID_TEXT])
{
    Elf64_Phdr segment[SEGMENTS];
    unsigned char note[NOTE_BYTES];
    Elf64_Ehdr header;
    unsigned notes = 0;

    ret[0] = '\0';
    if (fd < 0 || !build_memory_read(fd, base, &header, sizeof(header)) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > SEGMENTS ||
        !build_memory_read(fd, base + header.e_phoff, segment, header.e_phnum * sizeof(segment[0])))
        return;
    for (unsigned i = 0; i < header.e_phnum && notes < BUILD_ID_NOTES; i++) {
        size_t bytes = MIN(segment[i].p_filesz, sizeof(note));

        if (segment[i].p_type != PT_NOTE)
            continue;
        notes++;
        if (build_memory_read(fd, base + segment[i].p_vaddr, note, bytes) &&
            build_note_find(note, bytes, ret))
            return;
    }
}
