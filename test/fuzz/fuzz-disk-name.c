/* fuzz-disk-name.c - a line of mountinfo, whose names a user may choose: the name of the disk is short and printable.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/disk_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *exact = malloc(size + 1), out[DISK_NAME]; /* exactly as large, for the sanitizer */

    if (!exact)
        abort();
    memcpy(exact, data, size);
    exact[size] = '\0';
    if (disk_name_line(exact, 8, 1, out)) {
        for (const char *at = out; *at; at++) {
            if (*at < ' ' || *at > '~')
                abort();
        }
        if (strlen(out) >= sizeof(out))
            abort();
    }
    free(exact);
    return 0;
}
