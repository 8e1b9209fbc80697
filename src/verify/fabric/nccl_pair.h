/* nccl_pair.h - transfers between the GPUs of two workers by NCCL's send and receive: the path that training takes.
 *
 * GPU r of each node is that of rail r.  The receiver makes NCCL's id and decides how much is sent; both go to the sender as a text, by
 * way of the test.  All of it happens in a child process, since NCCL and the driver may wait for ever: what has arrived when the time is
 * over counts.  NCCL's own connections know no token, as those of perftest.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_FABRIC_NCCL_PAIR_H
#define LOCKSTEP_VERIFY_FABRIC_NCCL_PAIR_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/time.h"
#include "verify/fabric/fabric_message.h"

#define NCCL_PAIR_START_NS (20 * NS_PER_S) /* driver and NCCL take seconds on a large machine */

struct nccl_transfer {
    pid_t pid;
    int fd; /* what the child reports; -1: closed */
    uint32_t rails;
    bool done; /* it ends by itself */
};

/* `shared`: also GPUs that other processes use.  `asked` is what the test asks for, within the limits of this node. */
int nccl_pair_start(const struct fabric_message *asked, bool shared, struct nccl_transfer *ret,
                    struct err *err);
/* Of the receiver: the text for the sender.  -ECANCELED: it cannot take part, with the reason; or `stop_fd` is readable. */
int nccl_pair_id(struct nccl_transfer *pair, int stop_fd, int64_t until_ns, char *ret, size_t room,
                 struct err *err);
/* Until all has been sent, the time of the transfer is over or `stop_fd` is readable.  -ECANCELED as above. */
int nccl_pair_measure(struct nccl_transfer *pair, const struct fabric_message *asked, int stop_fd,
                      struct fabric_message *results, struct err *err);
void nccl_pair_end(struct nccl_transfer *pair);

#endif
