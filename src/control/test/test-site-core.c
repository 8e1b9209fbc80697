/* test-site-core.c - states of nodes from their checks and findings, how much is kept, and the log that replays.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/nodes/site_core.h"
#include "control/nodes/site_log.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/spool.h"

#define NOW (1700000000 * NS_PER_S)

static void core_clean(struct site_core **core)
{
    site_core_destroy(*core);
}

static struct site_core *core_make(void)
{
    struct site_core *core = NULL;

    assert_int_equal(site_core_create(&core), 0);
    return core;
}

static int feed(struct site_core *core, uint16_t type, struct buf *payload)
{
    const struct frame frame = { .type = type,
                                 .version = FRAME_VERSION,
                                 .payload = payload->data,
                                 .payload_bytes = payload->size };
    int result = site_core_feed(core, &frame);

    buf_fini(payload);
    return result;
}

static void finding_make(struct buf *payload, const char *node, unsigned severity, unsigned class,
                         int64_t real_ns)
{
    struct finding finding = { .real_ns = real_ns,
                               .kind = FINDING_XID,
                               .class = (uint8_t) class,
                               .severity = (uint8_t)severity,
                               .origin = FINDING_FROM_KERNEL,
                               .count = 1,
                               .text = "off the bus" };

    snprintf(finding.node, sizeof(finding.node), "%s", node);
    finding_identify(&finding);
    finding_put(payload, &finding);
}

static void feed_finding(struct site_core *core, const char *node, unsigned severity,
                         unsigned class, int64_t real_ns)
{
    struct buf payload = { 0 };

    finding_make(&payload, node, severity, class, real_ns);
    assert_int_equal(feed(core, FRAME_FINDING, &payload), 0);
}

static void feed_check(struct site_core *core, const char *name, unsigned state, int64_t real_ns)
{
    struct check check = { .state = (uint8_t)state, .real_ns = real_ns, .node = "n1" };
    struct buf payload = { 0 };

    snprintf(check.name, sizeof(check.name), "%s", name);
    check_put(&payload, &check);
    assert_int_equal(feed(core, FRAME_CHECK, &payload), 0);
}

struct emitted {
    unsigned count;
    struct check last;
};

static void hear(void *arg, uint16_t type, const struct buf *payload)
{
    struct emitted *emitted = arg;

    if (type != FRAME_CHECK) /* test-node-lives.c looks at those */
        return;
    assert_int_equal(check_get(reader_of(payload->data, payload->size), &emitted->last), 0);
    emitted->count++;
}

static unsigned tick(struct site_core *core, int64_t real_ns, struct emitted *emitted)
{
    emitted->count = 0;
    site_core_tick(core, &(struct fact_tick){ .mono_ns = 5, .real_ns = real_ns }, hear, emitted);
    return emitted->count;
}

static void a_node_is_ok_only_if_a_check_says_so(void **state)
{
    CLEAN(core_clean) struct site_core *core = core_make();
    struct emitted emitted;

    (void)state;
    feed_finding(core, "n1", FINDING_INFO, FINDING_CLASS_HARDWARE, NOW);
    assert_int_equal(tick(core, NOW, &emitted), 1);
    assert_int_equal(emitted.last.state, CHECK_UNKNOWN);
    assert_string_equal(emitted.last.stage, SITE_CHECK_STAGE);
    feed_check(core, "gemm", CHECK_OK, NOW);
    assert_int_equal(tick(core, NOW + 1, &emitted), 1);
    assert_int_equal(emitted.last.state, CHECK_OK);
    assert_int_equal(tick(core, NOW + 2, &emitted), 0); /* no news */
    feed_check(core, "nvlink", CHECK_UNKNOWN, NOW);
    tick(core, NOW + 3, &emitted);
    assert_int_equal(emitted.last.state, CHECK_UNKNOWN);
    feed_check(core, "pcie", CHECK_LIMITED, NOW);
    tick(core, NOW + 4, &emitted);
    assert_int_equal(emitted.last.state, CHECK_LIMITED);
    feed_check(core, "memory", CHECK_FAILED, NOW);
    tick(core, NOW + 5, &emitted);
    assert_int_equal(emitted.last.state, CHECK_FAILED);
    assert_string_equal(emitted.last.why, "check memory");
}

static void a_check_that_is_old_says_nothing(void **state)
{
    CLEAN(core_clean) struct site_core *core = core_make();
    struct emitted emitted;

    (void)state;
    feed_check(core, "gemm", CHECK_OK, NOW);
    tick(core, NOW, &emitted);
    assert_int_equal(emitted.last.state, CHECK_OK);
    assert_int_equal(tick(core, NOW + 23 * 3600 * NS_PER_S, &emitted), 0);
    assert_int_equal(tick(core, NOW + 25 * 3600 * NS_PER_S, &emitted), 1);
    assert_int_equal(emitted.last.state, CHECK_UNKNOWN);
}

static void a_fatal_finding_counts_until_a_later_check_is_ok(void **state)
{
    CLEAN(core_clean) struct site_core *core = core_make();
    struct emitted emitted;

    (void)state;
    feed_check(core, "gemm", CHECK_OK, NOW);
    feed_finding(core, "n1", FINDING_FATAL, FINDING_CLASS_APP, NOW + 1); /* not of the node */
    tick(core, NOW + 2, &emitted);
    assert_int_equal(emitted.last.state, CHECK_OK);
    feed_finding(core, "n1", FINDING_FATAL, FINDING_CLASS_HARDWARE, NOW + 3);
    tick(core, NOW + 4, &emitted);
    assert_int_equal(emitted.last.state, CHECK_FAILED);
    assert_string_equal(emitted.last.why, "xid: off the bus");
    feed_check(core, "gemm", CHECK_OK, NOW + 2); /* of before */
    assert_int_equal(tick(core, NOW + 10 * 3600 * NS_PER_S, &emitted), 0);
    feed_check(core, "gemm", CHECK_OK, NOW + 10 * 3600 * NS_PER_S);
    tick(core, NOW + 10 * 3600 * NS_PER_S + 1, &emitted);
    assert_int_equal(emitted.last.state, CHECK_OK);
}

static void an_error_counts_for_an_hour(void **state)
{
    CLEAN(core_clean) struct site_core *core = core_make();
    struct emitted emitted;

    (void)state;
    feed_check(core, "gemm", CHECK_OK, NOW);
    feed_finding(core, "n1", FINDING_ERROR, FINDING_CLASS_FABRIC, NOW + 1);
    tick(core, NOW + 2, &emitted);
    assert_int_equal(emitted.last.state, CHECK_LIMITED);
    tick(core, NOW + 3700 * NS_PER_S, &emitted);
    assert_int_equal(emitted.last.state, CHECK_OK);
}

static void a_finding_that_grows_is_counted_once(void **state)
{
    CLEAN(core_clean) struct site_core *core = core_make();
    const struct finding_counts *counts = site_core_counts(core);
    struct finding finding = { .real_ns = 1, .kind = FINDING_XID, .code = 79, .count = 1 };

    (void)state;
    finding.class = FINDING_CLASS_HARDWARE;
    finding.severity = FINDING_FATAL;
    finding.origin = FINDING_FROM_KERNEL;
    snprintf(finding.node, sizeof(finding.node), "n1");
    for (unsigned gpu = 0; gpu < 16; gpu++) { /* eight GPUs, whose findings grow in turn */
        struct buf payload = { 0 };

        snprintf(finding.id, sizeof(finding.id), "fi-%u", gpu % 8);
        finding.count++;
        finding_put(&payload, &finding);
        assert_int_equal(feed(core, FRAME_FINDING, &payload), 0);
    }
    assert_int_equal(counts->rows, 2);
    assert_int_equal(counts->row[0].total, 8);
    assert_int_equal(counts->row[1].xid, 79);
    assert_int_equal(counts->row[1].total, 8);
    finding.origin = FINDING_FROM_USER;
    snprintf(finding.id, sizeof(finding.id), "fi-user");
    {
        struct buf payload = { 0 };

        finding_put(&payload, &finding);
        assert_int_equal(feed(core, FRAME_FINDING, &payload), 0);
    }
    assert_int_equal(counts->row[0].total, 8);
}

static void the_newest_findings_stay_and_all_are_counted(void **state)
{
    CLEAN(core_clean) struct site_core *core = core_make();
    size_t bytes = 0;

    (void)state;
    for (uint64_t i = 0; i < 3 * SITE_FINDINGS; i++) {
        feed_finding(core, i % 2 ? "n1" : "n2", FINDING_WARN, FINDING_CLASS_HOST, NOW + (int64_t)i);
        if (i == SITE_FINDINGS)
            bytes = site_core_bytes(core);
    }
    assert_int_equal(site_core_bytes(core), bytes);
    assert_int_equal(site_core_findings(core), 3 * SITE_FINDINGS);
    assert_null(site_core_finding(core, 2 * SITE_FINDINGS - 1));
    assert_int_equal(site_core_finding(core, 2 * SITE_FINDINGS)->real_ns, NOW + 2 * SITE_FINDINGS);
    assert_null(site_core_finding(core, 3 * SITE_FINDINGS));
    assert_int_equal(site_core_nodes(core), 2);
    for (int i = 0; i < 4 * SITE_NODE_CHECKS; i++) {
        char name[32];

        snprintf(name, sizeof(name), "check-%d", i);
        feed_check(core, name, CHECK_OK, NOW + i);
    }
    assert_int_equal(site_core_find(core, "n1")->checks, SITE_NODE_CHECKS);
}

static void a_malformed_frame_makes_no_node(void **state)
{
    CLEAN(core_clean) struct site_core *core = core_make();
    struct buf payload = { 0 };

    (void)state;
    buf_put_u64(&payload, 1);
    assert_int_equal(feed(core, FRAME_FINDING, &payload), -EPROTO);
    assert_int_equal(site_core_nodes(core), 0);
}

/* ---- the log ---- */

static int log_take(struct site_log *log, uint64_t number, int64_t real_ns)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct frame frame = {
        .type = FRAME_FINDING, .version = FRAME_VERSION, .sender = 77, .boot = 1, .number = number
    };

    finding_make(&payload, "n1", number % 2 ? FINDING_FATAL : FINDING_ERROR, FINDING_CLASS_HARDWARE,
                 real_ns);
    frame.payload = payload.data;
    frame.payload_bytes = payload.size;
    return site_log_take(log, &frame, 1, NULL);
}

static off_t size_of(const char *path)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC);

    return lseek(fd, 0, SEEK_END);
}

/* Cut after every byte, as a kill or a power cut may leave it: what is missing of a tick's output is written again, and all
 * that is there is computed alike.
 */
static void a_log_replays_byte_by_byte_wherever_it_was_cut(void **state)
{
    char base[] = "/tmp/lockstep-site-log-XXXXXX", path[64], copy[64];
    struct site_log_counts counts;
    struct site_log *log;
    off_t bytes;

    (void)state;
    assert_non_null(mkdtemp(base));
    snprintf(path, sizeof(path), "%s/site.lsf", base);
    snprintf(copy, sizeof(copy), "%s/copy.lsf", base);
    assert_int_equal(site_log_open(path, &log, NULL), 0);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(log_take(log, i, time_real_ns()), 0);
        assert_int_equal(site_log_turn(log, NULL), 0);
    }
    site_log_close(log);
    bytes = size_of(path);
    for (off_t at = 0; at <= bytes; at += at < bytes - 64 ? 13 : 1) {
        char command[192];

        snprintf(command, sizeof(command), "head -c %lld %s >%s", (long long)at, path, copy);
        assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a test */
        assert_int_equal(site_log_open(copy, &log, NULL), 0);
        site_log_counts(log, &counts);
        assert_int_equal(counts.different, 0);
        site_log_close(log);
    }
    assert_int_equal(site_log_open(path, &log, NULL), 0);
    site_log_counts(log, &counts);
    assert_int_equal(counts.facts, 3);
    assert_int_equal(counts.ticks, 3);
    /* Limited and failed; new, suspect, and the drain that is not done. */
    assert_int_equal(counts.equal, 5);
    assert_int_equal(site_core_find(site_log_core(log), "n1")->state, CHECK_FAILED);
    assert_int_equal(seen_next(site_log_seen(log), 77, 1), 3);
    site_log_close(log);
    unlink(path);
    unlink(copy);
    rmdir(base);
}

/* A log that is too large is begun again: what was seen and the states of nodes stay, findings are not counted again. */
static void a_large_log_is_begun_again(void **state)
{
    char base[] = "/tmp/lockstep-site-log-XXXXXX", path[64], old[64];
    struct site_log_counts counts;
    struct site_log *log;
    uint64_t id;

    (void)state;
    assert_non_null(mkdtemp(base));
    snprintf(path, sizeof(path), "%s/site.lsf", base);
    snprintf(old, sizeof(old), "%s/site.lsf.old", base);
    assert_int_equal(site_log_open(path, &log, NULL), 0);
    id = site_log_id(log);
    for (uint64_t i = 0; i < 200; i++)
        assert_int_equal(log_take(log, i, time_real_ns()), 0);
    assert_int_equal(site_log_rotate(log, 100, NULL), 0); /* not between facts and their tick */
    assert_int_equal(site_log_turn(log, NULL), 0);
    assert_int_equal(site_log_rotate(log, 1 << 20, NULL), 0); /* not so large */
    assert_int_equal(site_log_rotate(log, 100, NULL), -ESTALE);
    site_log_close(log);
    assert_true(size_of(old) > 200 * 100);
    assert_true(size_of(path) < 2000);
    for (int life = 0; life < 2; life++) {
        assert_int_equal(site_log_open(path, &log, NULL), 0);
        assert_true(site_log_id(log) != id);
        assert_int_equal(seen_next(site_log_seen(log), 77, 1), 200);
        assert_int_equal(site_core_findings(site_log_core(log)), 0);
        assert_int_equal(site_log_turn(log, NULL), 0);
        assert_int_equal(site_core_find(site_log_core(log), "n1")->state, CHECK_FAILED);
        site_log_counts(log, &counts);
        assert_int_equal(counts.different, 0);
        site_log_close(log);
    }
    unlink(path);
    unlink(old);
    rmdir(base);
}

/* Ticks are logged where they say something: a quiet site's log does not grow. */
static void a_quiet_log_does_not_grow(void **state)
{
    char base[] = "/tmp/lockstep-site-log-XXXXXX", path[64];
    struct site_log *log;
    off_t bytes;

    (void)state;
    assert_non_null(mkdtemp(base));
    snprintf(path, sizeof(path), "%s/site.lsf", base);
    assert_int_equal(site_log_open(path, &log, NULL), 0);
    assert_int_equal(log_take(log, 1, time_real_ns()), 0);
    assert_int_equal(site_log_turn(log, NULL), 0);
    bytes = size_of(path);
    for (int i = 0; i < 10; i++)
        assert_int_equal(site_log_turn(log, NULL), 0);
    assert_int_equal(size_of(path), bytes);
    assert_false(site_core_is_due(site_log_core(log), time_real_ns()));
    site_log_close(log);
    unlink(path);
    rmdir(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_is_ok_only_if_a_check_says_so),
        cmocka_unit_test(a_check_that_is_old_says_nothing),
        cmocka_unit_test(a_fatal_finding_counts_until_a_later_check_is_ok),
        cmocka_unit_test(an_error_counts_for_an_hour),
        cmocka_unit_test(a_finding_that_grows_is_counted_once),
        cmocka_unit_test(the_newest_findings_stay_and_all_are_counted),
        cmocka_unit_test(a_malformed_frame_makes_no_node),
        cmocka_unit_test(a_log_replays_byte_by_byte_wherever_it_was_cut),
        cmocka_unit_test(a_large_log_is_begun_again),
        cmocka_unit_test(a_quiet_log_does_not_grow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
