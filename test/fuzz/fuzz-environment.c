/* fuzz-environment.c - what a rank's process shows of itself: environ, maps and the ELF images in its memory.
 *
 * The first byte selects the parser; mounts and routes are divided by the first tab.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clean.h"
#include "sense/build_id.h"
#include "sense/environment/environment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A variable of such a name is a secret; a mount point may be called anything. */
static void check_pairs(const struct environment *environment, bool variables)
{
    if (environment->count > ENVIRONMENT_PAIRS)
        abort();
    for (uint32_t i = 0; i < environment->count; i++) {
        const struct environment_pair *pair = &environment->pair[i];

        if (strnlen(pair->name, sizeof(pair->name)) == sizeof(pair->name) ||
            strnlen(pair->value, sizeof(pair->value)) == sizeof(pair->value) ||
            (variables && strcasestr(pair->name, "token")) ||
            (pair->digest && strlen(pair->value) != 5))
            abort();
    }
}

/* The image lies at address 0 of a file, as it would lie in memory. */
static void elf(const uint8_t *data, size_t size)
{
    CLEAN(fd_clean) int fd = memfd_create("elf", MFD_CLOEXEC);
    char id[BUILD_ID_TEXT];

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        return;
    build_id_read(fd, 0, id);
    if (strlen(id) % 2 || strspn(id, "0123456789abcdef") != strlen(id))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEAN(free_clean) struct environment_pair *pair = calloc(ENVIRONMENT_PAIRS, sizeof(*pair));
    CLEAN(free_clean) char *text = malloc(size + 1);
    struct environment environment = { .pair = pair };

    if (!size || !pair || !text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = text[size] = '\0';
    if (data[0] == 'e')
        environment_add_variables(&environment, text, size - 1);
    else if (data[0] == 's' && strchr(text, '\t'))
        environment_add_storage(&environment, "/nowhere", text, strchr(text, '\t') + 1);
    else if (data[0] == 'm')
        environment_add_libraries(&environment, -1, text);
    else
        elf(data + 1, size - 1);
    check_pairs(&environment, data[0] == 'e');
    return 0;
}
