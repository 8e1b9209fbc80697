/* fuzz-log-reader.c - a log that anybody may have written, of three ranks and of a node, read and judged; and once more as
 * the log of a kernel beside a run that was watched.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "autopsy/postmortem.h"
#include "core/clean.h"
#include "read/log/log_reader.h"
#include "read/source/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int feed(struct log_reader *reader, uint32_t rank, const uint8_t *data, size_t size)
{
    const struct log_source source = { .name = "log",
                                       .rank = rank,
                                       .near_real_ns = INT64_C(1794744063000000000) };

    CLEAN(stream_clean) struct stream *stream = NULL;
    int result = stream_open_memory(data, size, &stream);

    return result < 0 ? result : log_reader_stream(reader, &source, stream, NULL);
}

static void beside_a_run(const uint8_t *data, size_t size)
{
    static const struct logprocess processes[] = {
        { 0, 0, 77, "n2", INT64_C(1790000000000000000), INT64_C(1780000000000000000) },
        { 1, 0, 4242, "n7", INT64_C(1790000000000000000), INT64_C(1780000000000000000) },
    };
    struct verdict verdict = { .kind = VERDICT_CRASH,
                               .rank_count = 1,
                               .since_real_ns = INT64_C(1794744063000000000) };
    CLEAN(log_reader_fini)
    struct log_reader reader = { .from_real_ns = 1, .until_real_ns = INT64_C(1794744063000000000) };
    CLEAN(logs_fini) struct logs logs = { 0 };
    CLEAN(findings_fini) struct findings findings = { 0 };
    struct postmortem_watched watched = { .run = "fuzz",
                                          .process = processes,
                                          .processes = 2,
                                          .verdict = &verdict,
                                          .verdicts = size & 1 };

    if (feed(&reader, LOG_EVENT_NO_RANK, data, size) < 0 || log_reader_take(&reader, &logs) < 0)
        return;
    for (size_t i = 0; i < logs.events; i++) {
        if (logs.event[i].real_ns < 0 || logs.event[i].boot_ns < 0)
            abort();
    }
    postmortem_kernel(&watched, &logs, &findings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEAN(log_reader_fini) struct log_reader reader = { 0 };
    CLEAN(logs_fini) struct logs logs = { 0 };
    CLEAN(findings_fini) struct findings findings = { 0 };
    size_t third = size / 3;

    if (!log_is_text(data, size))
        return 0;
    beside_a_run(data, size);
    for (uint32_t rank = 0; rank < 3; rank++) {
        if (feed(&reader, rank, data + rank * third, third) < 0)
            return 0;
    }
    if (feed(&reader, LOG_EVENT_NO_RANK, data, size) < 0 || log_reader_take(&reader, &logs) < 0 ||
        postmortem_logs(&logs, "fuzz", &findings) < 0)
        return 0;
    for (size_t i = 0; i < findings.count; i++) {
        if (!findings.verdict[i].because_count)
            abort();
    }
    return 0;
}
