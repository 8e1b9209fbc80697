/* layout.c - which rank is on which node.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/layout.h"

#include <stdio.h>

#include "core/clean.h"

uint32_t layout_count(const struct layout *layout, uint32_t node)
{
    return layout->ranks / layout->nodes + (node < layout->ranks % layout->nodes);
}

uint32_t layout_first(const struct layout *layout, uint32_t node)
{
    return node * (layout->ranks / layout->nodes) + MIN(node, layout->ranks % layout->nodes);
}

uint32_t layout_node(const struct layout *layout, uint32_t rank)
{
    uint32_t node = 0;

    while (node + 1 < layout->nodes && layout_first(layout, node + 1) <= rank)
        node++;
    return node;
}

void layout_name(const struct layout *layout, uint32_t node, char ret[static 64])
{
    if (layout->nodes == 1)
        snprintf(ret, 64, "%.63s", layout->host);
    else
        snprintf(ret, 64, "n%u", node);
}
