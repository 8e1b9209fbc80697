/* crash_words.c - what the last words of a rank say: the line that says most, what it failed of, and whether it only noticed
 * that another rank is gone.
 *
 * Torch prints a message and then its frames, twice, and NCCL's own reason stands behind "Last error:".  An abort by a
 * watchdog of torch or NCCL only tells that others did not come; a fault of this rank's own device in the same words does not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "core/clean.h"
#include "judge/crash/crash_private.h"
#include "wire/verdict.h"

static const struct crash_fault {
    const char *words;
    uint8_t layer;
} crash_faults[] = {
    { "CUDA out of memory", LAYER_GPU_MEMORY },
    { "HIP out of memory", LAYER_GPU_MEMORY },
    { "OutOfMemoryError", LAYER_GPU_MEMORY },
    { "CUDA error: out of memory", LAYER_GPU_MEMORY },
    { "'out of memory'", LAYER_GPU_MEMORY }, /* of NCCL: Cuda failure 2 'out of memory' */
    { "CUBLAS_STATUS_ALLOC_FAILED", LAYER_GPU_MEMORY },
    { "uncorrectable ECC error", LAYER_GPU_MEMORY },
    { "uncorrectable NVLink error", LAYER_NVLINK },
    { "GPU is lost", LAYER_GPU },
    { "has fallen off the bus", LAYER_GPU },
    { "unspecified launch failure", LAYER_USER_CODE },
    { "illegal memory access", LAYER_USER_CODE },
    { "illegal instruction was encountered", LAYER_USER_CODE },
    { "device-side assert", LAYER_USER_CODE },
    { "misaligned address", LAYER_USER_CODE },
    { "DefaultCPUAllocator", LAYER_HOST_MEMORY },
    { "MemoryError", LAYER_HOST_MEMORY }, /* after those of the GPU, which end with it as well */
    { "std::bad_alloc", LAYER_HOST_MEMORY },
    { "posix_fallocate failed", LAYER_HOST_MEMORY }, /* of NCCL, in /dev/shm */
    { "/dev/shm", LAYER_HOST_MEMORY },
    { "unable to write to file </torch_", LAYER_HOST_MEMORY }, /* a data loader, there as well */
    { "No space left on device", LAYER_STORAGE },
    { "Disk quota exceeded", LAYER_STORAGE },
    { "Read-only file system", LAYER_STORAGE },
};

static const struct crash_fault *crash_fault_find(const char *words, size_t size)
{
    for (size_t i = 0; i < COUNT(crash_faults); i++) {
        const char *at = memmem(words, size, crash_faults[i].words, strlen(crash_faults[i].words));

        if (at)
            return &crash_faults[i];
    }
    return NULL;
}

unsigned crash_words_layer(const char *words, unsigned other)
{
    const struct crash_fault *fault = crash_fault_find(words, strlen(words));

    return fault ? fault->layer : other;
}

bool crash_words_blame(const char *words)
{
    static const char *const blames[] = {
        "lost rank",
        "Connection reset by peer",
        "Connection closed by peer",
        "Broken pipe",
        "imed out waiting",
        "ollective operation timeout",
        "Application timeout caused pair closure",
        "Connection refused",
        "No route to host",
        "Network is unreachable",
        "remote process exited",
        "NCCL error",
        "NCCL communicator was aborted",
        "Socket Timeout",
        "unhandled system error",
        "unhandled cuda error",
        "ncclRemoteError",
        "ncclSystemError",
        "atchdog thread terminated with exception",
        "watchdog got stuck",
        "ncclCommWatchdog",
        "HeartbeatMonitor",
        "we are taking the entire process down",
        "dump signal",
    };

    if (crash_fault_find(words, strlen(words)))
        return false;
    for (size_t i = 0; i < COUNT(blames); i++) {
        if (strstr(words, blames[i]))
            return true;
    }
    return false;
}

bool crash_blames_others(const struct fact_exit *fact)
{
    if (WIFSIGNALED(fact->status) && WTERMSIG(fact->status) != SIGABRT)
        return false;
    return crash_words_blame(fact->words);
}

bool crash_gave_up(const struct fact_exit *fact)
{
    return crash_blames_others(fact) &&
           (strstr(fact->words, "imed out") || strstr(fact->words, "imeout") ||
            strstr(fact->words, "watchdog got stuck"));
}

/* ---- the line that says most ---- */

static bool crash_line_has(const char *line, size_t size, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (memmem(line, size, words[i], strlen(words[i])))
            return true;
    }
    return false;
}

static size_t crash_line_skip(const char *line, size_t size, const char *start)
{
    size_t length = strlen(start);

    return size >= length && memcmp(line, start, length) == 0 ? length : 0;
}

/* What torch's tracebacks and C++ put before the message: "[rank3]: ", "  what():  ". */
static size_t crash_line_prefix(const char *line, size_t size)
{
    static const char rank[] = "[rank", end[] = "]: ";
    size_t skip = crash_line_skip(line, size, rank), digits;

    if (skip) {
        digits = strspn(line + skip, "0123456789");
        skip = digits && strncmp(line + skip + digits, end, strlen(end)) == 0
                   ? skip + digits + strlen(end)
                   : 0;
    }
    return skip + crash_line_skip(line + skip, size - skip, "  what():  ");
}

enum crash_line_worth {
    LINE_NOTHING,
    LINE_ANY,
    LINE_ERROR, /* names an exception */
    LINE_CAUSE, /* a fault that is known, or NCCL's reason */
};

static enum crash_line_worth crash_line_worth(const char *line, size_t size, bool reason)
{
    static const char *const noise[] = { "frame #",          "Exception raised from",
                                         "terminate called", "Warning:",
                                         "WARNING",          "warnings.warn",
                                         "Last error:" };
    static const char *const errors[] = { "Error", "Exception", "error:", "assert", "Assert" };

    if (size == 0 || crash_line_has(line, size, noise, COUNT(noise)))
        return LINE_NOTHING;
    if (reason || crash_fault_find(line, size))
        return LINE_CAUSE;
    return line[0] != ' ' && crash_line_has(line, size, errors, COUNT(errors)) ? LINE_ERROR
                                                                               : LINE_ANY;
}

const char *crash_best_line(const char *words, size_t *size)
{
    enum crash_line_worth best_worth = LINE_NOTHING;
    const char *best = words;
    bool reason = false;

    *size = 0;
    for (const char *line = words; *line;) {
        size_t length = strcspn(line, "\n"), skip = crash_line_prefix(line, length);
        enum crash_line_worth worth = crash_line_worth(line + skip, length - skip, reason);

        if (worth && worth >= best_worth) {
            best = line + skip;
            *size = length - skip;
            best_worth = worth;
        }
        if (length > skip)
            reason = crash_line_skip(line + skip, length - skip, "Last error:") != 0;
        line += length + (line[length] == '\n');
    }
    return best;
}
