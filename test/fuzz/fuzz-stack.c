/* fuzz-stack.c - what stacks are read from: ELF files, Python's tables of lines, the kernel's text.
 *
 * The first byte chooses; the rest is the file, the table or the text.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/proc/pystack.h"
#include "agent/proc/stack.h"
#include "core/clean.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t value, base;
    char out[64];

    if (size < 2)
        return 0;
    switch (data[0] % 3) {
    case 0:
        elf_symbol(data + 1, size - 1, "_PyRuntime", &value, &base);
        break;
    case 1:
        for (unsigned minor = 9; minor < 14; minor++)
            python_line(minor, data + 2, size - 2, 1, data[1] * 2u);
        break;
    default: {
        CLEAN(free_clean) char *text = malloc(size);

        if (!text)
            return 0;
        memcpy(text, data + 1, size - 1);
        text[size - 1] = '\0';
        python_minor(text);
        stack_parse_kernel(text, out, sizeof(out));
        if (strnlen(out, sizeof(out)) == sizeof(out))
            abort();
    }
    }
    return 0;
}
