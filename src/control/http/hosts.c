/* hosts.c - checks Host and Origin of a request against the names of this controller.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/http/hosts.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "control/http/reply.h"

static int hosts_add(struct hosts *hosts, const char *text, size_t size, struct err *err)
{
    struct address address;

    if (hosts->count == HOSTS_MAX)
        return err_set(err, -E2BIG, "more than %d host names", HOSTS_MAX);
    if (address_parse(text, size, &address) < 0 || address.has_port)
        return err_set(err, -EINVAL,
                       "'%.*s': expected a host name or an address without a port, such as "
                       "controller.example or [2001:db8::1]",
                       (int)size, text);
    strcpy(hosts->name[hosts->count++], address.host);
    return 0;
}

int hosts_init(struct hosts *hosts, const char *listen, const struct opt_list *list,
               struct err *err)
{
    struct address own;

    *hosts = (struct hosts){ 0 };
    if (address_parse(listen, strlen(listen), &own) == 0)
        strcpy(hosts->listen, own.host);
    for (unsigned i = 0; i < list->count; i++) {
        for (const char *at = list->item[i];; at++) {
            size_t size = strcspn(at, ",");
            int result = hosts_add(hosts, at, size, err);

            if (result < 0)
                return result;
            at += size;
            if (!*at)
                break;
        }
    }
    return 0;
}

/* A name that was given to it; in lower case. */
static bool hosts_has(const struct hosts *hosts, const char *host)
{
    for (size_t i = 0; i < hosts->count; i++) {
        if (strcmp(hosts->name[i], host) == 0)
            return true;
    }
    return false;
}

/* An address in numbers cannot be made to point elsewhere; the one that was connected to is as good as a name. */
static bool host_is_ours(const struct hosts *hosts, const struct http_exchange *exchange,
                         const char *text)
{
    struct sockaddr_storage local;
    struct address address;

    if (address_parse(text, strlen(text), &address) < 0)
        return false;
    return strcmp(address.host, "localhost") == 0 || strcmp(address.host, "127.0.0.1") == 0 ||
           strcmp(address.host, "::1") == 0 || strcmp(address.host, hosts->listen) == 0 ||
           hosts_has(hosts, address.host) ||
           (http_local(exchange, &local) &&
            address_is(address.host, (const struct sockaddr *)&local));
}

/* "http://HOST:PORT"; the scheme may differ where something before us speaks TLS. */
static bool origin_is_host(const char *origin, const char *host)
{
    const char *rest = strstr(origin, "://");

    return rest && strcasecmp(rest + 3, host) == 0;
}

bool hosts_admit(const struct hosts *hosts, struct http_exchange *exchange)
{
    const char *host = http_header(exchange, "Host"), *origin = http_header(exchange, "Origin");
    unsigned given = http_header_count(exchange, "Host"),
             origins = http_header_count(exchange, "Origin");

    if (given > 1 || (given == 0 && !http_is_1_0(exchange)) || (given && (!host || !host[0]))) {
        reply_error(exchange, 400, "expected one Host header with the controller's name");
        return false;
    }
    if (given && !host_is_ours(hosts, exchange, host)) {
        reply_error(exchange, 403,
                    "'%.200s' is not a host name of this controller; the operator can add it with "
                    "--host-name",
                    host);
        return false;
    }
    if (origins && (origins > 1 || !origin || !host || !origin_is_host(origin, host))) {
        reply_error(
            exchange, 403,
            "Origin does not match Host; requests from web pages of another origin are refused");
        return false;
    }
    return true;
}
