/* http_listen.h - where the server of http.c listens. */
#ifndef LOCKSTEP_BASE_HTTP_LISTEN_H
#define LOCKSTEP_BASE_HTTP_LISTEN_H

#include "core/err.h"

/* A socket that listens at "ADDRESS:PORT", and the port that it got; -errno: -EINVAL, -EADDRINUSE. */
int http_listen(const char *listen_on, unsigned *port, struct err *err);

#endif
