/* fuzz-save-note.c - a rank's note of a save: what is taken makes the same text again, and its disk is printable.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/save_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *exact = malloc(size + 1), again[1024]; /* exactly as large, for the sanitizer */
    struct save_note note;

    if (!exact)
        abort();
    memcpy(exact, data, size);
    exact[size] = '\0';
    if (save_note_parse(exact, &note) &&
        (!save_note_text(&note, again, sizeof(again)) || strcmp(exact, again) != 0))
        abort();
    free(exact);
    return 0;
}
