/* hosts.h - the names under which the controller is reached; requests with other names are refused.
 *
 * A web page that a user opens may send requests to loopback from the user's browser.  The browser prevents the page
 * from reading the responses, unless the name of the page is made to point here (DNS rebinding); Host is then that
 * name.  So Host must be localhost, a loopback address, the local address of the connection, or a configured name,
 * with any port, because ports may be forwarded; and Origin must equal Host.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_HTTP_HOSTS_H
#define LOCKSTEP_CONTROL_HTTP_HOSTS_H

#include "base/net/address.h"
#include "base/net/http.h"
#include "base/opt.h"
#include "core/err.h"

#define HOSTS_MAX 64

struct hosts {
    char name[HOSTS_MAX][ADDRESS_HOST];
    size_t count;
    char
        listen[ADDRESS_HOST]; /* the address that it listens on, also 0.0.0.0: control.url has it */
};

/* Names and addresses without a port, each item one or several with commas between.  -EINVAL, -E2BIG. */
int hosts_init(struct hosts *hosts, const char *listen, const struct opt_list *list,
               struct err *err);
/* True: go on.  False: it was answered 400 or 403. */
bool hosts_admit(const struct hosts *hosts, struct http_exchange *exchange);

#endif
