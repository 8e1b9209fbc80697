/* fuzz-control-url.c - the file control.url: refused with a reason, or an address and perhaps a token.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/net/address.h"
#include "base/net/control_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct control_url value = { .url = "" };
    struct address_url address;
    struct err err = { "" };

    if (control_url_parse((const char *)data, size, &value, &err) == 0) {
        must(address_url_parse(value.url, &address) == 0);
        must(!value.token.text[0] || strlen(value.token.text) == TOKEN_SIZE);
    } else {
        must(err.text[0] && !value.url[0]);
    }
    return 0;
}
