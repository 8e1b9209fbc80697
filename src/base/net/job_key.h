/* job_key.h - a secret that all launchers of one job have; everything else that they need to meet follows from it.
 *
 * The launcher that leads starts a controller, and the others must trust it, and it them, without any file that was
 * exchanged before: the key of the controller's certificate and the token that joins the run are both computed from the job's key.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_NET_JOB_KEY_H
#define LOCKSTEP_BASE_NET_JOB_KEY_H

#include "base/net/token.h"
#include "core/err.h"

#define JOB_KEY_BYTES 32
#define JOB_KEY_TEXT_MIN 16 /* characters; blanks around them do not count */

struct job_key {
    unsigned char byte[JOB_KEY_BYTES];
};

/* -EINVAL: too short to be a secret.  The sentence never repeats the text. */
int job_key_of(const char *text, struct job_key *ret, struct err *err);
enum job_key_use {
    JOB_KEY_JOIN,  /* may register the run */
    JOB_KEY_FACTS, /* may send its facts, and ask for orders */
};
void job_key_token(const struct job_key *key, enum job_key_use use, struct token *ret);
void job_key_seed(const struct job_key *key,
                  unsigned char ret[static JOB_KEY_BYTES]); /* of tls_make_of_seed() */

#endif
