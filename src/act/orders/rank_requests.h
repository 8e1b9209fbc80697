/* rank_requests.h - one request to every rank of a ring directory, and the ranks' answers.
 *
 * The rings belong to ranks that may be stopped, dead or hostile: files are read and written with pread() and
 * pwrite(), links are not followed, and nothing here waits for a rank.
 *
 *     rank_requests_begin(dir_fd, attempt, &request, &requests, &err);
 *     while (!rank_requests_are_over(requests))
 *         do other work, then rank_requests_look(requests);
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_ORDERS_RANK_REQUESTS_H
#define LOCKSTEP_ACT_ORDERS_RANK_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "wire/ring.h"

enum rank_request_state {
    RANK_REQUEST_WAITS,     /* written, not answered yet */
    RANK_REQUEST_DONE,      /* as requested */
    RANK_REQUEST_PAST,      /* the rank has begun that step or the one before, or a later one */
    RANK_REQUEST_REFUSED,   /* the program cannot do it */
    RANK_REQUEST_NOT_ASKED, /* another rank is past that step, so nothing was written */
    RANK_REQUEST_UNABLE,    /* the ring cannot be written, or belongs to an older probe */
    RANK_REQUEST_ENDED,     /* the rank closed its ring without an answer */
};

struct rank_request {
    uint32_t rank, ring; /* number of its newest ring in this attempt */
    enum rank_request_state state;
    uint64_t step; /* DONE, REFUSED: that was open when it answered; PAST: that is open */
};

struct rank_requests;

/* Writes the request to the newest ring of each rank in this attempt.  Where some rank is in the step before
 * it already, or further, nothing is written: ranks that act alone would differ from the others.  -ENOENT: there are no rings of this attempt.
 * The same request again is harmless: a rank that has answered it does not do it again.
 */
int rank_requests_begin(int dir_fd, uint32_t attempt, const struct ring_request *request,
                        struct rank_requests **ret, struct err *err);
void rank_requests_destroy(struct rank_requests *requests); /* NULL is fine */

void rank_requests_look(struct rank_requests *requests);           /* for new answers */
bool rank_requests_are_over(const struct rank_requests *requests); /* none is waited for */
size_t rank_requests_count(const struct rank_requests *requests);
const struct rank_request *rank_requests_get(const struct rank_requests *requests, size_t i);

#endif
