/* fuzz-token.c - the header of a request as a token: refused, or read back as it was.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/net/token.h"
#include "control/http/auth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct token token = { "" }, again;
    struct err err = { "" };
    char *text = malloc(size + 1);

    must(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    if (token_parse(text, size, &token, &err) == 0) {
        must(strlen(token.text) == TOKEN_SIZE);
        must(token_parse(token.text, TOKEN_SIZE, &again, &err) == 0);
        must(token_equal(&token, &again));
    } else {
        must(err.text[0] && !token.text[0]);
    }
    token.text[0] = '\0';
    if (auth_bearer(text, &token) == 0)
        must(strlen(token.text) == TOKEN_SIZE);
    free(text);
    return 0;
}
