/* threads.c - starts and joins threads.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/store/threads.h"

#include <sched.h>
#include <signal.h>

#include "core/clean.h"
#include "core/old_symbols.h"

#if OLD_SYMBOLS
__asm__(".symver pthread_create,pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_join,pthread_join@GLIBC_2.2.5");
__asm__(".symver pthread_sigmask,pthread_sigmask@GLIBC_2.2.5");
#endif

bool threads_add(struct threads *threads, thread_fn *run, void *ctx)
{
    sigset_t all, before;
    bool good;

    if (threads->count == THREADS_MAX)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    good = pthread_create(&threads->thread[threads->count], NULL, run, ctx) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    threads->count += good;
    return good;
}

void threads_join(struct threads *threads)
{
    for (unsigned i = 0; i < threads->count; i++)
        pthread_join(threads->thread[i], NULL);
    threads->count = 0;
}

unsigned threads_cpus(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) < 0 || CPU_COUNT(&set) < 1)
        return 1;
    return (unsigned)CPU_COUNT(&set);
}

void threads_run(unsigned count, thread_fn *run, void *ctx)
{
    struct threads threads = { .count = 0 };

    while (threads.count + 1 < MIN(count, THREADS_MAX) && threads_add(&threads, run, ctx))
        ;
    run(ctx);
    threads_join(&threads);
}
