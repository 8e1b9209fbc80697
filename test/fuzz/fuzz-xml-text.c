/* fuzz-xml-text.c - an answer of an object store: elements lie inside the text, values fit.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/tiers/xml_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "Part", "ETag", "Size", "Key", "Prefix" };
    char *exact = malloc(size ? size : 1), value[16]; /* exactly as large, for the sanitizer */

    must(exact != NULL);
    memcpy(exact, data, size);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct xml_text text = { exact, exact + size }, element;
        const char *before = text.at;

        while (xml_element(&text, names[i], &element)) {
            must(element.at >= before && element.at <= element.end && element.end <= text.at);
            must(text.at > before && text.at <= exact + size);
            before = text.at;
        }
        if (xml_value((struct xml_text){ exact, exact + size }, names[i], value, sizeof(value)))
            must(strlen(value) < sizeof(value));
    }
    free(exact);
    return 0;
}
