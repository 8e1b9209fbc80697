/* environments.c - counts the ranks of each pair.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/environments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"

void environments_fini(struct environments *environments)
{
    free(environments->now.pair);
    free(environments->before.pair);
    map_fini(&environments->pair_by_content);
    map_fini(&environments->rank);
    *environments = (struct environments){ 0 };
}

size_t environments_bytes(const struct environments *environments)
{
    return (environments->now.room + environments->before.room) * sizeof(struct rank_pair) +
           map_bytes(&environments->pair_by_content) + map_bytes(&environments->rank);
}

static void environments_begin(struct environments *environments, uint32_t attempt)
{
    if (environments->now.ranks) {
        free(environments->before.pair);
        environments->before = environments->now;
    }
    environments->now = (struct environments_attempt){ .attempt = attempt };
    map_fini(&environments->pair_by_content);
    map_fini(&environments->rank);
}

static int environments_add_pair(struct environments *environments,
                                 const struct environment *environment,
                                 const struct environment_pair *pair)
{
    uint64_t key = hash64(pair->digest, pair->name, strlen(pair->name)), *at;
    struct environments_attempt *now = &environments->now;
    struct rank_pair *row;

    at = map_put(&environments->pair_by_content, hash64(key, pair->value, strlen(pair->value)),
                 now->pairs);
    if (!at)
        return -ENOMEM;
    if (*at < now->pairs) {
        row = &now->pair[*at];
        row->ranks++;
        row->first_rank = MIN(row->first_rank, environment->rank);
        if (strcmp(row->node, environment->node) != 0)
            row->node[0] = '\0';
        return 0;
    }
    if (!ARRAY_FIT(now->pair, now->room, now->pairs + 1))
        return -ENOMEM;
    row = &now->pair[now->pairs++];
    *row = (struct rank_pair){ .pair = *pair, .ranks = 1, .first_rank = environment->rank };
    memcpy(row->node, environment->node, sizeof(row->node));
    return 0;
}

int environments_add(struct environments *environments, const struct environment *environment)
{
    struct environments_attempt *now = &environments->now;
    int result = 0;

    if (environment->attempt < now->attempt)
        return 0;
    if (environment->attempt > now->attempt)
        environments_begin(environments, environment->attempt);
    if (map_get(&environments->rank, environment->rank))
        return 0; /* its agent was started again */
    if (!map_put(&environments->rank, environment->rank, 1))
        return -ENOMEM;
    now->ranks++;
    for (uint32_t i = 0; i < environment->count && result == 0; i++) {
        if (now->pairs < ENVIRONMENTS_PAIRS)
            result = environments_add_pair(environments, environment, &environment->pair[i]);
        else
            now->forgotten++;
    }
    return result;
}
