/* hosts.h - under which names the controller is reached; others are not answered.
 *
 * A web page that a user opens may send requests to loopback from his browser.  The browser's rules keep it from reading
 * the answers, unless the page's own name is made to point here (DNS rebinding); then Host is that name.  So Host must
 * be localhost, a loopback address, the address by which the connection came in, or a name that the operator configured, with any port,
 * since ports are forwarded; and an Origin must equal Host.
 */
#ifndef LOCKSTEP_CONTROL_HTTP_HOSTS_H
#define LOCKSTEP_CONTROL_HTTP_HOSTS_H

#include "base/address.h"
#include "base/http.h"
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
