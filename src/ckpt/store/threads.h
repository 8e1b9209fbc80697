/* threads.h - threads that exist only inside a call.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_STORE_THREADS_H
#define LOCKSTEP_CKPT_STORE_THREADS_H

#include <pthread.h>
#include <stdbool.h>

#define THREADS_MAX 16

typedef void *thread_fn(void *ctx);

struct threads {
    pthread_t thread[THREADS_MAX];
    unsigned count;
};

/* One more thread, without signals of the program.  False: it could not be started. */
bool threads_add(struct threads *threads, thread_fn *run, void *ctx);
void threads_join(struct threads *threads);
unsigned threads_cpus(void); /* that this process may use */

/* Runs `each` with `each_ctx` in `count` threads, one of them the caller's; returns when all have ended. */
void threads_run(unsigned count, thread_fn *run, void *ctx);

#endif
