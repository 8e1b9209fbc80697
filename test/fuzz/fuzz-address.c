/* fuzz-address.c - a Host header, a URL, an address to listen on: refused, or read back as it was.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/net/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct address at, again;
    struct address_url url;
    struct sockaddr_storage socket_address;
    socklen_t bytes;
    char text[ADDRESS_HOST + 16], *whole = malloc(size + 1);

    must(whole != NULL);
    memcpy(whole, data, size);
    whole[size] = '\0';
    if (address_parse(whole, size, &at) == 0) {
        bool v6 = strchr(at.host, ':') || strchr(at.host, '%');

        must(at.host[0] && strlen(at.host) < ADDRESS_HOST);
        snprintf(text, sizeof(text), "%s%s%s:%u", v6 ? "[" : "", at.host, v6 ? "]" : "", at.port);
        must(address_parse(text, strlen(text), &again) == 0);
        must(strcmp(at.host, again.host) == 0 && at.port == again.port);
        address_is_loopback(at.host);
    }
    if (address_url_parse(whole, &url) == 0)
        must(url.size <= size && url.at.host[0]);
    if (address_listen(whole, &socket_address, &bytes, NULL) == 0)
        must(bytes <= sizeof(socket_address));
    free(whole);
    return 0;
}
