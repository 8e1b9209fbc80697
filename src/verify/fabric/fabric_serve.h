/* fabric_serve.h - the worker on a node: takes part in fabric tests of whoever has the token.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_FABRIC_FABRIC_SERVE_H
#define LOCKSTEP_VERIFY_FABRIC_FABRIC_SERVE_H

#include "base/loop.h"
#include "verify/fabric/fabric_message.h"

struct fabric_serve_settings {
    const char *listen; /* ADDRESS:PORT */
    struct token token;
    char node[FABRIC_NAME];
    char rail[FABRIC_RAILS][ADDRESS_NUMBER]; /* in numbers */
    uint32_t rails;                          /* 0: one, the address that a test connects to */
    uint64_t rate;                           /* bytes a second of all flows together, at most */
    int64_t time_ns;                         /* of a flow, at most */
    char perftest[256];                      /* directory of its programs; "": they are not run */
    bool nccl;                               /* tests may use NCCL on the GPUs of this node */
    bool shared_gpus;                        /* also on those that others use */
    uint64_t bytes;                          /* of a test, sent and received, at most */
};

struct fabric_server;

/* One process for each connection; one test at a time. */
int fabric_serve_open(struct loop *loop, const struct fabric_serve_settings *settings,
                      struct fabric_server **ret, struct err *err);
void fabric_serve_close(struct fabric_server *server); /* ends a test that is under way */
unsigned fabric_serve_port(const struct fabric_server *server);
void fabric_serve_child_ended(struct fabric_server *server); /* upon SIGCHLD */

#endif
