/* score_device.c - peaks by name, and the time of devices in steps.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/report/score_device.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/clean.h"
#include "lockstep/probe.h"

#define SCORE_DEVICES 65536u /* ranks beyond these are left out */

/* ---- peaks ---- */

/* TFLOP/s without sparsity, from the makers' data sheets; the first row whose words are all in the name.  0: it has no such unit. */
static const struct gpu_peak {
    const char *word, *more; /* more: NULL or another word of the name */
    double bf16, fp8, tf32;
} gpu_peaks[] = {
    { "GB300", NULL, 2500, 5000, 1250 }, { "B300", NULL, 2500, 5000, 1250 },
    { "GB200", NULL, 2500, 5000, 1250 }, { "B200", NULL, 2250, 4500, 1125 },
    { "GH200", NULL, 989, 1979, 494 },   { "H200", "NVL", 835, 1671, 418 },
    { "H200", NULL, 989, 1979, 494 },    { "H100", "PCIe", 756, 1513, 378 },
    { "H100", "NVL", 835, 1671, 418 },   { "H100", NULL, 989, 1979, 494 },
    { "H800", NULL, 989, 1979, 494 },    { "H20", NULL, 148, 296, 74 },
    { "A100", NULL, 312, 0, 156 },       { "A800", NULL, 312, 0, 156 },
    { "A40", NULL, 149.7, 0, 74.8 },     { "A30", NULL, 165, 0, 82 },
    { "A10G", NULL, 70, 0, 35 },         { "A10", NULL, 125, 0, 62.5 },
    { "L40S", NULL, 362, 733, 183 },     { "L40", NULL, 181, 362, 90.5 },
    { "L4", NULL, 121, 242, 60 },        { "RTX 4090", NULL, 165.2, 330.3, 82.6 },
    { "RTX 3090", NULL, 71, 0, 35.6 },
};

/* "H20" is no part of "H200": a word ends where no letter or digit follows. */
static bool gpu_name_has(const char *name, const char *word)
{
    size_t size = strlen(word);

    for (const char *at = strstr(name, word); at; at = strstr(at + 1, word)) {
        if ((at == name || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[size]))
            return true;
    }
    return false;
}

double gpu_peak_flops(const char *name, const char *precision)
{
    for (size_t i = 0; i < COUNT(gpu_peaks); i++) {
        const struct gpu_peak *peak = &gpu_peaks[i];

        if (!gpu_name_has(name, peak->word) || (peak->more && !gpu_name_has(name, peak->more)))
            continue;
        if (strcmp(precision, "fp8") == 0)
            return peak->fp8 * 1e12;
        if (strcmp(precision, "tf32") == 0)
            return peak->tf32 * 1e12;
        return strcmp(precision, "bf16") == 0 || strcmp(precision, "fp16") == 0 ? peak->bf16 * 1e12
                                                                                : 0;
    }
    return 0;
}

/* ---- time ---- */

/* What the device did, as its stamps say: it computed, or had nothing to do since the host was late, or waited. */
int score_device_add(struct score_card *card, size_t *room, const struct fact_step *fact,
                     const struct fact_shape *shape)
{
    int64_t computing_ns = 0, idle_ns = 0;
    uint32_t rank = fact->rank;

    if (fact->flags & STEP_HOST_VIEW || fact->duration_ns + fact->tail_ns <= 0)
        return 0;
    for (uint32_t i = 0; i < MIN(fact->count, shape->count); i++) {
        int64_t length = fact->time[i].end_ns - fact->time[i].start_ns;

        if (shape->item[i].kind == ITEM_SPAN)
            computing_ns += length;
        if (shape->item[i].kind == ITEM_PHASE && shape->item[i].what != LOCKSTEP_PHASE_GC)
            idle_ns += length; /* a collection lies in another phase */
    }
    if (rank >= card->devices) {
        if (rank >= SCORE_DEVICES || !ARRAY_FIT(card->device, *room, (size_t)rank + 1))
            return rank >= SCORE_DEVICES ? 0 : -ENOMEM;
        for (; card->devices <= rank; card->devices++)
            card->device[card->devices] = (struct score_device){ .rank = card->devices };
    }
    card->device[rank].seconds += (double)(fact->duration_ns + fact->tail_ns) / 1e9;
    card->device[rank].computing += (double)computing_ns / 1e9;
    card->device[rank].idle += (double)idle_ns / 1e9;
    return 0;
}

void score_devices(struct score_card *card)
{
    double seconds = 0, computing = 0, idle = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < card->devices; i++) {
        seconds += card->device[i].seconds;
        computing += card->device[i].computing;
        idle += card->device[i].idle;
        if (card->device[i].seconds > 0)
            card->device[kept++] = card->device[i];
    }
    card->devices = kept;
    card->device_computing = seconds > 0 ? computing / seconds : NAN;
    card->device_idle = seconds > 0 ? idle / seconds : NAN;
    if (seconds > 0)
        return;
    score_set_unknown(card, "device_computing", "no device reported when it computed");
    score_set_unknown(card, "device_idle", "no device reported when it computed");
}
