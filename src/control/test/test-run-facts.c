/* test-run-facts.c - what a run keeps of findings, checks, outcomes and environments, and how much at most.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "control/core.h"
#include "control/log/spools.h"
#include "control/run_facts.h"
#include "core/clean.h"
#include "core/time.h"

#define AGENT UINT64_C(0xa9e27)

static int feed(struct run_facts *facts, uint64_t sender, uint16_t type, struct buf *payload)
{
    const struct frame frame = { .type = type,
                                 .version = FRAME_VERSION,
                                 .sender = sender,
                                 .payload = payload->data,
                                 .payload_bytes = payload->size };
    int result = run_facts_feed(facts, &frame, 8);

    buf_fini(payload);
    return result;
}

static int feed_finding(struct run_facts *facts, uint64_t sender, int64_t mono_ns, uint32_t count)
{
    struct finding finding = { .mono_ns = mono_ns,
                               .real_ns = mono_ns,
                               .kind = FINDING_XID,
                               .class = FINDING_CLASS_HARDWARE,
                               .severity = FINDING_FATAL,
                               .origin = FINDING_FROM_KERNEL,
                               .code = 79,
                               .count = count,
                               .node = "n1" };
    struct buf payload = { 0 };

    finding_identify(&finding);
    finding_put(&payload, &finding);
    return feed(facts, sender, FRAME_FINDING, &payload);
}

static void a_finding_with_the_same_id_replaces_the_one_before(void **state)
{
    CLEAN(run_facts_fini) struct run_facts facts = { 0 };

    (void)state;
    assert_int_equal(feed_finding(&facts, site_sender(), 5, 1), 0);
    assert_int_equal(feed_finding(&facts, site_sender(), 6, 1), 0);
    assert_int_equal(feed_finding(&facts, site_sender(), 5, 7), 0);
    assert_int_equal(facts.findings, 2);
    assert_int_equal(facts.finding[0].finding.count, 7);
    assert_true(facts.finding[0].root);
}

/* A user's process can send the very bytes of a root daemon's finding: it stays beside that one. */
static void a_users_finding_never_becomes_or_replaces_one_of_root(void **state)
{
    CLEAN(run_facts_fini) struct run_facts facts = { 0 };

    (void)state;
    assert_int_equal(feed_finding(&facts, AGENT, 5, 1), 0);
    assert_false(facts.finding[0].root);
    assert_int_equal(feed_finding(&facts, site_sender(), 5, 2), 0);
    assert_int_equal(feed_finding(&facts, AGENT, 5, 3), 0);
    assert_int_equal(facts.findings, 2);
    assert_true(facts.finding[1].root);
    assert_int_equal(facts.finding[1].finding.count, 2);
}

static void memory_is_bounded_whatever_comes(void **state)
{
    CLEAN(run_facts_fini) struct run_facts facts = { 0 };
    size_t bytes;

    (void)state;
    for (int64_t i = 1; i <= 4 * RUN_FACTS_FINDINGS; i++) {
        struct check check = { .state = CHECK_OK, .node = "n1" };
        struct outcome outcome = { .result = OUTCOME_DONE, .part = "launcher" };
        struct buf payload = { 0 };

        assert_int_equal(feed_finding(&facts, AGENT, i, 1), 0);
        snprintf(check.name, sizeof(check.name), "check-%d", (int)i);
        check_put(&payload, &check);
        assert_int_equal(feed(&facts, AGENT, FRAME_CHECK, &payload), 0);
        snprintf(outcome.decision, sizeof(outcome.decision), "d-%d", (int)i);
        outcome_put(&payload, &outcome);
        assert_int_equal(feed(&facts, AGENT, FRAME_OUTCOME, &payload), 0);
        if (i == RUN_FACTS_FINDINGS)
            bytes = run_facts_bytes(&facts);
    }
    assert_int_equal(run_facts_bytes(&facts), bytes);
    assert_int_equal(facts.findings, RUN_FACTS_FINDINGS);
    assert_int_equal(facts.finding[RUN_FACTS_FINDINGS - 1].finding.mono_ns, 4 * RUN_FACTS_FINDINGS);
    assert_int_equal(facts.checks, RUN_FACTS_CHECKS);
    assert_int_equal(facts.outcomes, RUN_FACTS_OUTCOMES);
    assert_string_equal(facts.outcome[0].decision, "d-1537");
    assert_int_equal(facts.forgotten, 3 * 3 * RUN_FACTS_FINDINGS);
}

static int feed_environment(struct run_facts *facts, uint32_t rank, uint32_t attempt,
                            const char *algorithm)
{
    struct environment_pair pair[2] = { { "CUDA_DEVICE_MAX_CONNECTIONS", "1", false },
                                        { .name = "NCCL_ALGO" } };
    struct environment environment = {
        .rank = rank, .attempt = attempt, .node = "n1", .count = 2, .pair = pair
    };
    struct buf payload = { 0 };

    strcpy(pair[1].value, algorithm);
    environment_put(&payload, &environment);
    return feed(facts, AGENT, FRAME_ENVIRONMENT, &payload);
}

static void environments_are_kept_as_pairs_with_their_ranks(void **state)
{
    CLEAN(run_facts_fini) struct run_facts facts = { 0 };

    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++)
        assert_int_equal(feed_environment(&facts, rank, 0, rank == 2 ? "Tree" : "Ring"), 0);
    assert_int_equal(feed_environment(&facts, 2, 0, "Tree"), 0);    /* again: counted once */
    assert_int_equal(feed_environment(&facts, 4711, 0, "Tree"), 0); /* there is no such rank */
    assert_int_equal(facts.environments.now.pairs, 3);
    assert_int_equal(facts.environments.now.pair[0].ranks, 4);
    assert_int_equal(facts.environments.now.pair[1].ranks, 3);
    assert_string_equal(facts.environments.now.pair[2].pair.value, "Tree");
    assert_int_equal(facts.environments.now.pair[2].ranks, 1);
    assert_int_equal(facts.environments.now.pair[2].first_rank, 2);
    assert_int_equal(feed_environment(&facts, 0, 1, "Ring"), 0); /* a new attempt */
    assert_int_equal(facts.environments.now.pairs, 2);
    assert_int_equal(facts.environments.now.pair[0].ranks, 1);
    assert_int_equal(feed_environment(&facts, 3, 0, "Ring"), 0); /* an old one comes late */
    assert_int_equal(facts.environments.now.pair[0].ranks, 1);
}

static int add(struct environments *environments, uint32_t rank, uint32_t attempt,
               const char *library)
{
    struct environment_pair pair[3] = { { .name = "library" },
                                        { "OWN", "", true },
                                        { "NCCL_DEBUG", "WARN", false } };
    struct environment environment = {
        .rank = rank, .attempt = attempt, .count = rank == 5 ? 2 : 3, .pair = pair
    };

    snprintf(environment.node, sizeof(environment.node), "n%u", rank / 8);
    snprintf(pair[0].value, sizeof(pair[0].value), "%s", library);
    snprintf(pair[1].value, sizeof(pair[1].value), "%05x", rank);
    return environments_add(environments, &environment);
}

static void a_node_with_another_library_is_named(void **state)
{
    CLEAN(environments_fini) struct environments environments = { 0 };
    struct environment_differences found;

    (void)state;
    for (uint32_t rank = 0; rank < 64; rank++)
        assert_int_equal(add(&environments, rank, 0,
                             rank / 8 == 7 ? "libnccl.so.2.27.3 aa" : "libnccl.so.2.28.9 bb"),
                         0);
    assert_int_equal(environments_compare_ranks(&environments, &found), 0);
    assert_int_equal(found.ranks, 64);
    assert_int_equal(found.count, 2); /* what each rank has for itself is none */
    assert_string_equal(found.list[0].name, "NCCL_DEBUG");
    assert_string_equal(found.list[0].other, "");
    assert_int_equal(found.list[0].other_ranks, 1);
    assert_string_equal(found.list[1].name, "libnccl");
    assert_string_equal(found.list[1].other, "libnccl.so.2.27.3 aa");
    assert_int_equal(found.list[1].other_ranks, 8);
    assert_int_equal(found.list[1].other_rank, 56);
    assert_string_equal(found.list[1].node, "n7");
    assert_int_equal(found.list[1].usual_ranks, 56);
}

static void a_restart_with_another_library_differs_from_the_attempt_before(void **state)
{
    CLEAN(environments_fini) struct environments environments = { 0 };
    struct environment_differences found;

    (void)state;
    for (uint32_t rank = 0; rank < 8; rank++)
        assert_int_equal(add(&environments, rank, 0, "libnccl.so.2.28.9"), 0);
    assert_int_equal(environments_compare(&environments.before, &environments.now, &found), 0);
    assert_int_equal(found.before, 0); /* not known, so no difference either */
    assert_int_equal(found.count, 0);
    for (uint32_t rank = 0; rank < 8; rank++)
        assert_int_equal(add(&environments, rank, 2, "libnccl.so.2.27.3"), 0);
    assert_int_equal(environments_compare(&environments.before, &environments.now, &found), 0);
    assert_int_equal(found.before, 8);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.list[0].usual, "libnccl.so.2.28.9");
    assert_string_equal(found.list[0].other, "libnccl.so.2.27.3");
}

static void a_malformed_frame_changes_nothing(void **state)
{
    const uint16_t types[] = { FRAME_FINDING, FRAME_CHECK, FRAME_OUTCOME, FRAME_PLACES,
                               FRAME_ENVIRONMENT };
    CLEAN(run_facts_fini) struct run_facts facts = { 0 };

    (void)state;
    for (size_t i = 0; i < COUNT(types); i++) {
        struct buf payload = { 0 };

        buf_put_u64(&payload, 1);
        assert_true(run_facts_has(types[i]));
        assert_int_equal(feed(&facts, AGENT, types[i], &payload), -EPROTO);
    }
    assert_int_equal(facts.findings + facts.checks + facts.outcomes + facts.environments.now.pairs,
                     0);
    assert_int_equal(facts.places.allocated, 0);
    assert_false(run_facts_has(FRAME_STEP));
}

static void the_core_takes_them_as_facts_and_counts_their_memory(void **state)
{
    struct finding finding = { .kind = FINDING_OOM,
                               .class = FINDING_CLASS_APP,
                               .severity = FINDING_ERROR,
                               .origin = FINDING_FROM_KERNEL,
                               .count = 1,
                               .node = "n1" };
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct frame frame = { .type = FRAME_FINDING,
                           .version = FRAME_VERSION,
                           .sender = site_sender() };
    struct core_counts counts;
    struct core *core;
    size_t before;

    (void)state;
    assert_int_equal(core_create("r1", &core), 0);
    before = core_bytes(core);
    finding_identify(&finding);
    finding_put(&payload, &finding);
    frame.payload = payload.data;
    frame.payload_bytes = payload.size;
    assert_int_equal(core_feed(core, &frame, NULL), 0);
    assert_true(core_bytes(core) >= before + sizeof(struct run_finding));
    before = core_bytes(core);
    frame.payload_bytes--;
    assert_int_equal(core_feed(core, &frame, NULL), -EPROTO);
    core_counts(core, &counts);
    assert_int_equal(counts.malformed, 1);
    assert_int_equal(core_bytes(core), before);
    core_destroy(core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_finding_with_the_same_id_replaces_the_one_before),
        cmocka_unit_test(a_users_finding_never_becomes_or_replaces_one_of_root),
        cmocka_unit_test(memory_is_bounded_whatever_comes),
        cmocka_unit_test(environments_are_kept_as_pairs_with_their_ranks),
        cmocka_unit_test(a_node_with_another_library_is_named),
        cmocka_unit_test(a_restart_with_another_library_differs_from_the_attempt_before),
        cmocka_unit_test(a_malformed_frame_changes_nothing),
        cmocka_unit_test(the_core_takes_them_as_facts_and_counts_their_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
