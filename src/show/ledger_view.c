/* ledger_view.c - the ledger as a table and as JSON.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "show/ledger_view.h"

#include <inttypes.h>
#include <math.h>

#define BAR_CELLS 30

double ledger_ettr(const struct ledger *ledger)
{
    double training =
        ledger_total(ledger) - ledger->gpu_seconds[LEDGER_SPARE] - ledger->gpu_seconds[LEDGER_DOWN];

    return training > 0 ? ledger->gpu_seconds[LEDGER_PRODUCTIVE] / training : 0;
}

struct json_object *ledger_json(const struct ledger *ledger)
{
    struct json_object *root = json_object_new_object(), *buckets = json_object_new_object();

    for (unsigned i = 0; i < LEDGER_BUCKETS; i++)
        json_object_object_add(buckets, ledger_bucket_name(i), show_number(ledger->gpu_seconds[i]));
    json_object_object_add(root, "buckets", buckets);
    json_object_object_add(root, "ranks", json_object_new_int64(ledger->ranks));
    json_object_object_add(root, "wall_seconds", show_number(ledger->wall_seconds));
    /* Without a step nothing is known of how much was productive: null, and not 0. */
    json_object_object_add(root, "goodput",
                           ledger->steps ? show_number(ledger_goodput(ledger)) : NULL);
    json_object_object_add(root, "ettr", ledger->steps ? show_number(ledger_ettr(ledger)) : NULL);
    json_object_object_add(root, "steps", json_object_new_uint64(ledger->steps));
    json_object_object_add(root, "unfit_steps", json_object_new_uint64(ledger->unfit_steps));
    json_object_object_add(root, "host_view", json_object_new_boolean(ledger->host_view));
    return root;
}

/* Eighths of a cell, so that small shares are still seen. */
static void ledger_print_bar(double share, FILE *out)
{
    static const char *const part[8] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    int eighths = (int)lround(fmin(fmax(share, 0), 1) * BAR_CELLS * 8);

    fputs("  ", out);
    for (int i = 0; i < eighths / 8; i++)
        fputs("█", out);
    fputs(part[eighths % 8], out);
}

/* Would anything but zeros be printed?  In a short run, 0.04 s is a share that would be missed. */
static bool ledger_is_shown(const struct ledger *ledger, unsigned bucket, double all)
{
    double seconds = fabs(ledger->gpu_seconds[bucket]);

    return bucket == LEDGER_PRODUCTIVE || bucket == LEDGER_UNATTRIBUTED || seconds >= 0.05 ||
           seconds >= 0.0005 * all;
}

static void ledger_print_bucket(const struct ledger *ledger, unsigned bucket, double all,
                                const struct show_style *style, FILE *out)
{
    double seconds = ledger->gpu_seconds[bucket], share = all > 0 ? seconds / all : 0;

    fprintf(out, "  %-15s %12.1f  %5.1f %%", ledger_bucket_name(bucket), seconds, 100 * share);
    if (style->bars) {
        fputs(show_begin(style, bucket == LEDGER_PRODUCTIVE ? SHOW_GOOD : SHOW_OVER), out);
        ledger_print_bar(share, out);
        fputs(show_end(style), out);
    }
    fputc('\n', out);
}

void ledger_text(const struct ledger *ledger, const struct show_style *style, FILE *out)
{
    double all = ledger_total(ledger);

    fprintf(out, "where %.1f GPU-seconds went (%" PRIu32 " rank%s, %.1f s):\n", all, ledger->ranks,
            ledger->ranks == 1 ? "" : "s", ledger->wall_seconds);
    for (unsigned i = 0; i < LEDGER_BUCKETS; i++) {
        if (ledger_is_shown(ledger, i, all))
            ledger_print_bucket(ledger, i, all, style, out);
    }
    fprintf(out, "  goodput %.1f %%, ettr %.1f %%, %" PRIu64 " step%s",
            100 * ledger_goodput(ledger), 100 * ledger_ettr(ledger), ledger->steps,
            ledger->steps == 1 ? "" : "s");
    if (ledger->unfit_steps)
        fprintf(out, ", %" PRIu64 " of them without a cost: %s cannot be replayed",
                ledger->unfit_steps, ledger->unfit_steps == 1 ? "it" : "they");
    if (ledger->host_view)
        fputs("; host view: no device times, phases of the host are counted instead", out);
    fputc('\n', out);
}
