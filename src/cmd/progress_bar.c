/* progress_bar.c - draws a progress bar on stderr.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/progress_bar.h"

#include <stdio.h>

#include "core/time.h"

#define WIDTH 30u

void progress_bar_end(struct progress_bar *bar)
{
    if (bar->shown_ns)
        fputs("\r\033[K", stderr);
    bar->shown_ns = 0;
}

void progress_bar_show(void *ctx, uint64_t done_bytes, uint64_t bytes)
{
    static const char full[WIDTH + 1] = "##############################",
                                   empty[WIDTH + 1] = "..............................";
    struct progress_bar *bar = ctx;
    int64_t now = time_mono_ns();
    double part = bytes ? (double)done_bytes / (double)bytes : 1;
    int filled = (int)(part * WIDTH);

    if (!bar->began_ns)
        bar->began_ns = now;
    if (done_bytes >= bytes) {
        progress_bar_end(bar);
        return;
    }
    if (now - bar->shown_ns < NS_PER_S / 10)
        return;
    bar->shown_ns = now;
    fprintf(stderr, "\r\033[K%s [%.*s%.*s] %3.0f %%", bar->what, filled, full, (int)WIDTH - filled,
            empty, part * 100);
    if (now > bar->began_ns)
        fprintf(stderr, "  %.2f GB/s",
                (double)done_bytes / ((double)(now - bar->began_ns) / NS_PER_S) / 1e9);
}
