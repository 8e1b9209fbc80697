/* run_facts.c - keeps the newest of each kind.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/run_facts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/log/spools.h"
#include "core/clean.h"

void run_facts_fini(struct run_facts *facts)
{
    free(facts->finding);
    free(facts->check);
    free(facts->outcome);
    environments_fini(&facts->environments);
    *facts = (struct run_facts){ 0 };
}

size_t run_facts_bytes(const struct run_facts *facts)
{
    return facts->finding_room * sizeof(*facts->finding) +
           facts->check_room * sizeof(*facts->check) +
           facts->outcome_room * sizeof(*facts->outcome) + environments_bytes(&facts->environments);
}

/* Makes room behind `count` elements of `size` bytes, if need be in place of the oldest. */
static void facts_oldest_drop(struct run_facts *facts, void *array, size_t *count, size_t max,
                              size_t size)
{
    if (*count < max)
        return;
    memmove(array, (char *)array + size, (max - 1) * size);
    *count = max - 1;
    facts->forgotten++;
}

static int facts_take_finding(struct run_facts *facts, const struct frame *frame, struct reader in)
{
    struct run_finding row = { .root = frame->sender == site_sender() };

    if (finding_get(in, &row.finding) < 0)
        return -EPROTO;
    for (size_t i = 0; i < facts->findings; i++) {
        struct run_finding *old = &facts->finding[i];

        if (old->root == row.root && strcmp(old->finding.id, row.finding.id) == 0 &&
            strcmp(old->finding.node, row.finding.node) == 0) {
            *old = row;
            return 0;
        }
    }
    facts_oldest_drop(facts, facts->finding, &facts->findings, RUN_FACTS_FINDINGS, sizeof(row));
    if (!ARRAY_FIT(facts->finding, facts->finding_room, facts->findings + 1))
        return -ENOMEM;
    facts->finding[facts->findings++] = row;
    return 0;
}

static bool facts_is_same_check(const struct check *one, const struct check *other)
{
    return strcmp(one->node, other->node) == 0 && strcmp(one->device, other->device) == 0 &&
           strcmp(one->stage, other->stage) == 0 && strcmp(one->name, other->name) == 0;
}

static int facts_take_check(struct run_facts *facts, struct reader in)
{
    struct check row;

    if (check_get(in, &row) < 0)
        return -EPROTO;
    for (size_t i = 0; i < facts->checks; i++) {
        if (facts_is_same_check(&facts->check[i], &row)) {
            facts->check[i] = row;
            return 0;
        }
    }
    facts_oldest_drop(facts, facts->check, &facts->checks, RUN_FACTS_CHECKS, sizeof(row));
    if (!ARRAY_FIT(facts->check, facts->check_room, facts->checks + 1))
        return -ENOMEM;
    facts->check[facts->checks++] = row;
    return 0;
}

static int facts_take_outcome(struct run_facts *facts, struct reader in)
{
    struct outcome row;

    if (outcome_get(in, &row) < 0)
        return -EPROTO;
    for (size_t i = 0; i < facts->outcomes; i++) {
        struct outcome *old = &facts->outcome[i];

        if (strcmp(old->decision, row.decision) == 0 && strcmp(old->part, row.part) == 0) {
            *old = row;
            return 0;
        }
    }
    facts_oldest_drop(facts, facts->outcome, &facts->outcomes, RUN_FACTS_OUTCOMES, sizeof(row));
    if (!ARRAY_FIT(facts->outcome, facts->outcome_room, facts->outcomes + 1))
        return -ENOMEM;
    facts->outcome[facts->outcomes++] = row;
    return 0;
}

/* ---- environments ---- */

static int facts_take_environment(struct run_facts *facts, struct reader in, uint32_t ranks)
{
    CLEAN(environment_fini) struct environment environment = { 0 };
    int result = environment_get(in, &environment);

    if (result < 0 || environment.rank >= ranks)
        return result;
    return environments_add(&facts->environments, &environment);
}

/* ---- all of them ---- */

bool run_facts_has(uint16_t type)
{
    return type == FRAME_FINDING || type == FRAME_CHECK || type == FRAME_OUTCOME ||
           type == FRAME_ENVIRONMENT || type == FRAME_PLACES;
}

int run_facts_feed(struct run_facts *facts, const struct frame *frame, uint32_t ranks)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);

    switch (frame->type) {
    case FRAME_FINDING:
        return facts_take_finding(facts, frame, in);
    case FRAME_CHECK:
        return facts_take_check(facts, in);
    case FRAME_OUTCOME:
        return facts_take_outcome(facts, in);
    case FRAME_PLACES:
        return places_get(in, &facts->places);
    default:
        return facts_take_environment(facts, in, ranks);
    }
}
