/* pystack_parse.c - symbols of ELF files and Python's tables of lines: untrusted bytes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/proc/pystack.h"
#include "core/clean.h"

/* ---- ELF ---- */

struct elf {
    const unsigned char *data;
    size_t size;
};

/* Copies a piece out, since it need not be aligned. */
static bool elf_get(const struct elf *elf, uint64_t offset, void *ret, size_t size)
{
    if (offset > elf->size || size > elf->size - offset)
        return false;
    memcpy(ret, elf->data + offset, size);
    return true;
}

static bool elf_name_is(const struct elf *elf, const Elf64_Shdr *strings, uint32_t at,
                        const char *name)
{
    size_t size = strlen(name) + 1;

    return at < strings->sh_size && size <= strings->sh_size - at &&
           strings->sh_offset <= elf->size && at <= elf->size - strings->sh_offset &&
           size <= elf->size - strings->sh_offset - at &&
           memcmp(elf->data + strings->sh_offset + at, name, size) == 0;
}

static bool pystack_table_find(const struct elf *elf, const Elf64_Shdr *table,
                               const Elf64_Shdr *strings, const char *name, uint64_t *ret)
{
    uint64_t count = MIN(table->sh_size, (uint64_t)elf->size) / sizeof(Elf64_Sym);

    for (uint64_t i = 0; i < count; i++) {
        Elf64_Sym symbol;

        if (!elf_get(elf, table->sh_offset + i * sizeof(symbol), &symbol, sizeof(symbol)))
            return false;
        if (symbol.st_shndx != SHN_UNDEF && elf_name_is(elf, strings, symbol.st_name, name)) {
            *ret = symbol.st_value;
            return true;
        }
    }
    return false;
}

/* Where the first byte of the file is loaded, as linked. */
static bool elf_base(const struct elf *elf, const Elf64_Ehdr *head, uint64_t *ret)
{
    for (unsigned i = 0; i < head->e_phnum; i++) {
        Elf64_Phdr program;

        if (!elf_get(elf, head->e_phoff + (uint64_t)i * sizeof(program), &program, sizeof(program)))
            return false;
        if (program.p_type == PT_LOAD && program.p_offset < 4096) {
            *ret = program.p_vaddr - program.p_offset;
            return true;
        }
    }
    return false;
}

int elf_symbol(const unsigned char *data, size_t size, const char *name, uint64_t *ret_value,
               uint64_t *ret_base)
{
    const struct elf elf = { data, size };
    Elf64_Ehdr head;

    if (!elf_get(&elf, 0, &head, sizeof(head)) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB ||
        head.e_shentsize != sizeof(Elf64_Shdr) || head.e_phentsize != sizeof(Elf64_Phdr))
        return -EPROTO;
    if (!elf_base(&elf, &head, ret_base))
        return -EPROTO;
    for (unsigned i = 0; i < head.e_shnum; i++) {
        Elf64_Shdr table, strings;

        if (!elf_get(&elf, head.e_shoff + (uint64_t)i * sizeof(table), &table, sizeof(table)))
            return -EPROTO;
        if ((table.sh_type != SHT_DYNSYM && table.sh_type != SHT_SYMTAB) ||
            !elf_get(&elf, head.e_shoff + (uint64_t)table.sh_link * sizeof(strings), &strings,
                     sizeof(strings)))
            continue;
        if (pystack_table_find(&elf, &table, &strings, name, ret_value))
            return 0;
    }
    return -ENOENT;
}

/* ---- lines ---- */

static int pystack_line_39(const unsigned char *table, size_t size, int first, uint64_t offset)
{
    uint64_t at = 0;
    int line = first;

    for (size_t i = 0; i + 1 < size; i += 2) {
        at += table[i];
        if (at > offset)
            break;
        line += (signed char)table[i + 1];
    }
    return line;
}

static int pystack_line_310(const unsigned char *table, size_t size, int first, uint64_t offset)
{
    uint64_t end = 0;
    int line = first, best = first;

    for (size_t i = 0; i + 1 < size; i += 2) {
        int delta = (int8_t)table[i + 1];

        end += table[i];
        if (delta != -128) {
            line += delta;
            best = line;
        }
        if (offset < end)
            break;
    }
    return best;
}

/* Six bits a byte, low ones first; 0x40 says that more follow. */
static uint32_t pystack_linetable_varint(const unsigned char *table, size_t size, size_t *at)
{
    uint32_t value = 0;
    unsigned shift = 0;
    unsigned char byte = 0x40;

    while (byte & 0x40 && *at < size && shift < 30) {
        byte = table[(*at)++];
        value |= (uint32_t)(byte & 0x3f) << shift;
        shift += 6;
    }
    return value;
}

static int32_t pystack_linetable_svarint(const unsigned char *table, size_t size, size_t *at)
{
    uint32_t value = pystack_linetable_varint(table, size, at);

    return value & 1 ? -(int32_t)(value >> 1) : (int32_t)(value >> 1);
}

/* An entry: 0x80 | code << 3 | length - 1, in units of two bytes of code; then columns, which have no 0x80. */
static int pystack_line_311(const unsigned char *table, size_t size, int first, uint64_t offset)
{
    uint64_t end = 0;
    int64_t line = first, best = first;

    for (size_t at = 0; at < size;) {
        unsigned code = table[at] >> 3 & 15, length = (table[at] & 7u) + 1;
        size_t inside = ++at;

        if (code == 13 || code == 14)
            line += pystack_linetable_svarint(table, size, &inside);
        else if (code >= 10 && code <= 12)
            line += code - 10;
        if (code != 15)
            best = line;
        while (at < size && !(table[at] & 0x80))
            at++;
        end += 2ull * length;
        if (offset < end)
            break;
    }
    return best > 0 && best < INT32_MAX ? (int)best : first;
}

int python_line(unsigned minor, const unsigned char *table, size_t size, int first, uint64_t offset)
{
    if (minor <= 9)
        return pystack_line_39(table, size, first, offset);
    return minor == 10 ? pystack_line_310(table, size, first, offset)
                       : pystack_line_311(table, size, first, offset);
}

unsigned python_minor(const char *path)
{
    const char *name = strrchr(path, '/');
    unsigned long minor;
    char *end;

    name = name ? name + 1 : path;
    if (strncmp(name, "lib", 3) == 0)
        name += 3;
    if (strncmp(name, "python3.", 8) != 0 || name[8] < '0' || name[8] > '9')
        return 0;
    minor = strtoul(name + 8, &end, 10);
    return minor < 100 && (*end == '\0' || *end == '.' || *end == ' ') ? (unsigned)minor : 0;
}
