/* fuzz-score.c - a line of an earlier score's results: read whole or not at all, and written back the same.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "lab/score/score_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEAN(free_clean) char *line = malloc(size + 1);
    struct score_record record, again;

    if (!line)
        return 0;
    memcpy(line, data, size);
    line[size] = '\0';
    if (score_record_read(line, &record) == 0) {
        CLEAN(free_clean) char *written = score_record_write(&record);

        if (!written || score_record_read(written, &again) < 0 || again.build != record.build ||
            strcmp(again.command, record.command) != 0 ||
            strcmp(again.result.summary, record.result.summary) != 0 ||
            again.result.steps != record.result.steps)
            abort();
    }
    return 0;
}
