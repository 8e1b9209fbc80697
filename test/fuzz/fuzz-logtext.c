/* fuzz-logtext.c - a log that anybody may have written, of three ranks and of a node, read and judged. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/postmortem.h"
#include "read/logtext.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Readers are given texts that end with a NUL beyond their size, as slurp.h makes them. */
static int feed(struct logtext *logtext, uint32_t rank, const uint8_t *data, size_t size)
{
    CLEAN(free_clean) char *text = malloc(size + 1);

    if (!text)
        return -1;
    memcpy(text, data, size);
    text[size] = '\0';
    return logtext_add(logtext, rank, "log", text, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEAN(logtext_fini) struct logtext logtext = { 0 };
    CLEAN(logs_fini) struct logs logs = { 0 };
    CLEAN(findings_fini) struct findings findings = { 0 };
    size_t third = size / 3;

    if (!logtext_is((const char *)data, size))
        return 0;
    for (uint32_t rank = 0; rank < 3; rank++) {
        if (feed(&logtext, rank, data + rank * third, third) < 0)
            return 0;
    }
    if (feed(&logtext, LOGNOTE_NO_RANK, data, size) < 0 || logtext_take(&logtext, &logs) < 0 ||
        postmortem_logs(&logs, "fuzz", &findings) < 0)
        return 0;
    for (size_t i = 0; i < findings.count; i++) {
        if (!findings.verdict[i].because_count)
            abort();
    }
    return 0;
}
