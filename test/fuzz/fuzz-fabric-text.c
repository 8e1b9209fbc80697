/* fuzz-fabric-text.c - texts of other programs for fabric tests: topology.conf, lists of hosts, tables of perftest.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "verify/fabric/adapter.h"
#include "verify/fabric/host_list.h"
#include "verify/fabric/perftest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct topology topology = { .list = NULL };
    struct host_names list = { .host = NULL };
    struct perftest result = { .bytes = 0 };
    struct err err = { "" };
    char *copy = malloc(size + 1);

    if (!copy)
        return 0;
    memcpy(copy, data, size);
    copy[size] = '\0';
    adapter_bytes_in(copy, "eth0", true);
    free(copy);
    if (topology_parse(text, size, &topology, &err) == 0) {
        if (!topology_spine(&topology)[0])
            abort();
        topology_leaf(&topology, "n1");
        topology_fini(&topology);
    } else if (!err.text[0]) {
        abort();
    }
    err.text[0] = '\0';
    if (host_list_parse(text, size, &list, &err) == 0 ? !list.count : !err.text[0])
        abort();
    host_list_fini(&list);
    err.text[0] = '\0';
    if (perftest_parse(text, size, &result, &err) == 0 ? !isfinite(result.gbps) : !err.text[0])
        abort();
    return 0;
}
