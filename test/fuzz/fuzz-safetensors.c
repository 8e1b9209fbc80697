/* fuzz-safetensors.c - a safetensors file: refused with a reason, or its tensors cover the data without holes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/seal/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors file = { .text = NULL };
    struct err err = { "" };
    uint64_t header = 0, at, nan = 0, inf = 0;
    char *text;

    if (size < 8)
        return 0;
    if (safetensors_header(data, size, &header, &err) < 0) {
        must(err.text[0] != '\0');
        return 0;
    }
    must(header <= size - 8);
    text = malloc(header + 1);
    must(text != NULL);
    memcpy(text, data + 8, header);
    if (safetensors_parse(text, header, size, &file, &err) < 0) {
        must(err.text[0] && !file.text && !file.tensor);
        return 0;
    }
    at = 8 + header;
    for (size_t i = 0; i < file.tensors; i++) {
        const struct safetensors_tensor *tensor = &file.tensor[i];

        must(tensor->begin == at && tensor->end <= size);
        must((tensor->end - at) % floats_bytes(tensor->floats) == 0);
        floats_count(tensor->floats, data + at, tensor->end - at, &nan, &inf);
        at = tensor->end;
    }
    must(at == size);
    safetensors_fini(&file);
    return 0;
}
