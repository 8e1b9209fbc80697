/* nvml_lists.c - what a GPU has several of: NVLinks, processes, events.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "core/clean.h"
#include "device/nvml_private.h"

#define FIELDS_PER_LINK 5

/* ---- NVLinks ---- */

static void lists_link_take(const struct nvml_field *field, struct nvml_link *link)
{
    int64_t state = -1;

    *link =
        (struct nvml_link){ .speed_mbps = -1, .replays = -1, .recoveries = -1, .crc_errors = -1 };
    link->there = field[0].result == RESULT_SUCCESS && nvml_field_number(&field[0], &state);
    link->up = state == 1;
    if (field[1].result == RESULT_SUCCESS)
        nvml_field_number(&field[1], &link->speed_mbps);
    if (field[2].result == RESULT_SUCCESS)
        nvml_field_number(&field[2], &link->replays);
    if (field[3].result == RESULT_SUCCESS)
        nvml_field_number(&field[3], &link->recoveries);
    if (field[4].result == RESULT_SUCCESS)
        nvml_field_number(&field[4], &link->crc_errors);
}

unsigned nvml_links_read(const struct nvml *nvml, unsigned gpu, struct nvml_link ret[NVML_LINKS])
{
    static const unsigned ids[FIELDS_PER_LINK] = { FIELD_LINK_STATE, FIELD_LINK_SPEED,
                                                   FIELD_LINK_REPLAYS, FIELD_LINK_RECOVERIES,
                                                   FIELD_LINK_CRC };
    struct nvml_field field[NVML_LINKS * FIELDS_PER_LINK];
    unsigned count = 0;
    void *handle = NULL;

    memset(field, 0, sizeof(field));
    for (unsigned i = 0; i < COUNT(field); i++) {
        field[i].id = ids[i % FIELDS_PER_LINK];
        field[i].scope = i / FIELDS_PER_LINK;
    }
    if (nvml->gpu(gpu, &handle) != RESULT_SUCCESS ||
        nvml->fields(handle, COUNT(field), field) != RESULT_SUCCESS)
        return 0;
    for (unsigned i = 0; i < NVML_LINKS; i++) {
        lists_link_take(&field[(size_t)i * FIELDS_PER_LINK], &ret[i]);
        if (ret[i].there)
            count = i + 1;
    }
    return count;
}

/* ---- processes ---- */

int nvml_processes_read(const struct nvml *nvml, unsigned gpu,
                        struct nvml_process ret[NVML_PROCESSES])
{
    struct nvml_process_info info[NVML_PROCESSES];
    unsigned count = NVML_PROCESSES;
    void *handle = NULL;

    memset(info, 0, sizeof(info));
    if (!nvml->processes || nvml->gpu(gpu, &handle) != RESULT_SUCCESS ||
        nvml->processes(handle, &count, info) != RESULT_SUCCESS)
        return -EIO; /* also if there are more than there is room for */
    count = MIN(count, (unsigned)NVML_PROCESSES);
    for (unsigned i = 0; i < count; i++)
        ret[i] = (struct nvml_process){ info[i].pid, info[i].used_bytes > INT64_MAX
                                                         ? -1
                                                         : (int64_t)info[i].used_bytes };
    return (int)count;
}

/* ---- events ---- */

static bool lists_events_open(struct nvml *nvml, unsigned gpus)
{
    void *handle = NULL;
    bool any = false;

    if (!nvml->events_create || !nvml->events_free || !nvml->events_register ||
        !nvml->events_wait || nvml->events_create(&nvml->events) != RESULT_SUCCESS)
        return false;
    for (unsigned i = 0; i < gpus; i++)
        any |= nvml->gpu(i, &handle) == RESULT_SUCCESS &&
               nvml->events_register(handle, EVENT_XID, nvml->events) == RESULT_SUCCESS;
    return any;
}

unsigned nvml_events_read(struct nvml *nvml, unsigned gpus, struct nvml_event *ret, unsigned room)
{
    struct nvml_event_data data = { 0 };
    unsigned count = 0;

    if (!nvml->events && !lists_events_open(nvml, gpus))
        return 0;
    while (count < room && nvml->events_wait(nvml->events, &data, 0) == RESULT_SUCCESS) {
        void *handle = NULL;

        if (!(data.type & EVENT_XID) || data.data >= EVENT_XID_UNKNOWN)
            continue;
        for (unsigned i = 0; i < gpus; i++) {
            if (nvml->gpu(i, &handle) == RESULT_SUCCESS && handle == data.gpu) {
                ret[count++] = (struct nvml_event){ i, (uint32_t)data.data };
                break;
            }
        }
    }
    return count;
}
