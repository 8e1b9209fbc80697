/* test-fabric.c - the plan of pairs, also of 2,048 nodes; messages that were changed; lists and tables of other programs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/rand.h"
#include "device/nccl_library.h"
#include "verify/fabric/adapter.h"
#include "verify/fabric/fabric_message.h"
#include "verify/fabric/host_list.h"
#include "verify/fabric/nccl_pair.h"
#include "verify/fabric/pair_plan.h"
#include "verify/fabric/perftest.h"
#include "verify/fabric/perftest_run.h"

/* ---- plans ---- */

struct made {
    struct slow_links_shape shape;
    uint32_t *leaf;
    struct pair_plan plan;
};

static void made_plan(struct made *made, uint32_t nodes, uint32_t leafs, bool full)
{
    *made = (struct made){ .shape = { .nodes = nodes, .leafs = leafs, .rails = 1 } };
    made->leaf = calloc(nodes, sizeof(*made->leaf));
    for (uint32_t n = 0; n < nodes; n++)
        made->leaf[n] = leafs ? n % leafs : SLOW_LINKS_NONE;
    made->shape.leaf = made->leaf;
    assert_int_equal(pair_plan_make(&made->shape, full, &made->plan), 0);
}

static void made_fini(struct made *made)
{
    free(made->leaf);
    pair_plan_fini(&made->plan);
}

/* In a round each node is in one pair at most; returns how many different pairs there are. */
static size_t assert_disjoint(const struct made *made)
{
    uint32_t nodes = made->shape.nodes;
    uint8_t *met = calloc((size_t)nodes * nodes, 1), *busy = calloc(nodes, 1);
    size_t pairs = 0, total = 0;

    for (size_t r = 0; r < made->plan.rounds; r++) {
        const struct plan_round *round = &made->plan.round[r];

        memset(busy, 0, nodes);
        assert_true(round->count > 0);
        total += round->count;
        for (size_t i = round->first; i < round->first + round->count; i++) {
            uint32_t a = made->plan.pair[i].a, b = made->plan.pair[i].b;

            assert_true(a < nodes && b < nodes && a != b);
            assert_false(busy[a] || busy[b]);
            busy[a] = busy[b] = 1;
            pairs += !met[(size_t)a * nodes + b];
            met[(size_t)a * nodes + b] = met[(size_t)b * nodes + a] = 1;
        }
    }
    assert_int_equal(total, made->plan.pairs);
    free(met);
    free(busy);
    return pairs;
}

static void rounds_are_disjoint_and_at_most_24(void **state)
{
    static const struct {
        uint32_t nodes, leafs;
    } sizes[] = { { 2, 0 },  { 3, 0 },   { 5, 2 },   { 8, 4 },    { 9, 3 },     { 17, 4 },
                  { 32, 8 }, { 64, 64 }, { 100, 7 }, { 511, 33 }, { 2048, 64 }, { 2048, 0 } };

    (void)state;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct made made;

        made_plan(&made, sizes[i].nodes, sizes[i].leafs, false);
        assert_true(made.plan.rounds > 0 && made.plan.rounds <= PAIR_PLAN_ROUNDS);
        assert_int_equal(assert_disjoint(&made), made.plan.pairs);
        made_fini(&made);
    }
}

static void the_full_tournament_has_every_pair_once(void **state)
{
    static const uint32_t leafs[] = { 0, 1, 2, 3, 5, 13 };

    (void)state;
    for (size_t i = 0; i < COUNT(leafs); i++) {
        struct made made;

        made_plan(&made, 13, leafs[i], true);
        assert_int_equal(assert_disjoint(&made), 13 * 12 / 2);
        assert_int_equal(made.plan.pairs, 13 * 12 / 2);
        made_fini(&made);
    }
}

static void small_networks_are_measured_completely(void **state)
{
    struct made made;

    (void)state;
    made_plan(&made, 16, 4, false);
    assert_int_equal(assert_disjoint(&made), 16 * 15 / 2);
    made_fini(&made);
}

static void pairs_are_placed_where_both_are_free(void **state)
{
    struct made made = { .shape = { .nodes = 8 } };

    (void)state;
    assert_int_equal(pair_plan_place(&made.plan, 0, 2, 0, 1), 0);
    assert_int_equal(pair_plan_place(&made.plan, 0, 2, 0, 2), 0);
    assert_int_equal(pair_plan_place(&made.plan, 0, 2, 3, 4), 0);
    assert_int_equal(pair_plan_place(&made.plan, 0, 2, 0, 3), -ENOSPC);
    assert_int_equal(made.plan.rounds, 2);
    assert_int_equal(made.plan.round[0].count, 2);
    assert_disjoint(&made);
    made_fini(&made);
}

/* ---- 2,048 nodes ---- */

#define BIG_NODES 2048u
#define BIG_LEAFS 64u

struct big_fault {
    uint32_t nic, nic_sends, uplink, dead_a, dead_b; /* SLOW_LINKS_NONE: none */
};

static double big_rate(const struct made *made, const struct big_fault *fault, uint32_t from,
                       uint32_t to, struct rand *rand)
{
    uint32_t from_leaf = made->leaf[from], to_leaf = made->leaf[to];
    double rate = 90 + 20 * rand_unit(rand);

    if (from == fault->nic || to == fault->nic)
        rate = 40;
    if (from == fault->nic_sends)
        rate = 30;
    if (from_leaf != to_leaf && (from_leaf == fault->uplink || to_leaf == fault->uplink))
        rate = MIN(rate, 55);
    if ((from == fault->dead_a && to == fault->dead_b) ||
        (to == fault->dead_a && from == fault->dead_b))
        rate = 0;
    return rate;
}

static void big_run(struct made *made, const struct big_fault *fault,
                    struct slow_links_result *found)
{
    const struct slow_links_limits limits = SLOW_LINKS_LIMITS;
    size_t count = 2 * made->plan.pairs;
    struct slow_links_path *path = calloc(count, sizeof(*path));
    struct rand rand = { 11 };

    for (size_t i = 0; i < made->plan.pairs; i++) {
        uint32_t a = made->plan.pair[i].a, b = made->plan.pair[i].b;

        path[2 * i] = (struct slow_links_path){ .from = a,
                                                .to = b,
                                                .rate = big_rate(made, fault, a, b, &rand) };
        path[2 * i + 1] = (struct slow_links_path){ .from = b,
                                                    .to = a,
                                                    .rate = big_rate(made, fault, b, a, &rand) };
    }
    assert_int_equal(slow_links_compare(&made->shape, &limits, path, count), 0);
    assert_int_equal(slow_links_locate(&made->shape, path, count, found), 0);
    free(path);
}

static bool big_named(const struct slow_links_result *found, enum slow_links_part part, uint32_t a)
{
    for (size_t i = 0; i < found->count; i++) {
        if (found->named[i].part == part && found->named[i].a == a)
            return true;
    }
    return false;
}

static void faults_among_2048_nodes_are_named_and_nothing_else(void **state)
{
    const uint32_t none = SLOW_LINKS_NONE;
    struct slow_links_result *found = calloc(1, sizeof(*found));
    struct rand rand = { 5 };
    struct made made;

    (void)state;
    made_plan(&made, BIG_NODES, BIG_LEAFS, false);
    big_run(&made, &(struct big_fault){ none, none, none, none, none }, found);
    assert_int_equal(found->count, 0);
    for (int i = 0; i < 8; i++) {
        const struct plan_pair *pair =
            &made.plan.pair[rand_below(&rand, (uint32_t)made.plan.pairs)];
        struct big_fault fault = { rand_below(&rand, BIG_NODES), none, rand_below(&rand, BIG_LEAFS),
                                   pair->a, pair->b };

        fault.nic_sends = (fault.nic + 1 + rand_below(&rand, BIG_NODES - 1)) % BIG_NODES;
        big_run(&made, &fault, found);
        assert_true(big_named(found, PART_NIC, fault.nic));
        assert_true(big_named(found, PART_NIC_SENDS, fault.nic_sends));
        assert_true(big_named(found, PART_UPLINK, fault.uplink));
        assert_true(found->count <= 4); /* the dead pair may lie behind another fault */
        assert_int_equal(found->unexplained, 0);
    }
    made_fini(&made);
    free(found);
}

/* ---- messages ---- */

static void sessions_make(struct fabric_session *worker, struct fabric_session *tester,
                          const char *other_token)
{
    const struct token token = { "lst_one" };
    struct token second = { "" };
    const unsigned char nonce[2][FABRIC_NONCE] = { "1234567890", "abcdefghij" };

    snprintf(second.text, sizeof(second.text), "%s", other_token);
    *worker = (struct fabric_session){ .is_worker = true };
    *tester = (struct fabric_session){ .is_worker = false };
    fabric_session_key(worker, &token, nonce[0], nonce[1]);
    fabric_session_key(tester, &second, nonce[0], nonce[1]);
}

static void messages_survive_the_way(void **state)
{
    struct fabric_session worker, tester;
    struct fabric_message sent = { .type = FABRIC_SEND, .time_ns = 5, .rate = 7, .flows = 2 }, got;
    struct buf out = { .data = NULL };
    struct err err;

    (void)state;
    sessions_make(&worker, &tester, "lst_one");
    sent.flow[1] = (struct fabric_flow){ .rail = 3, .address = "10.0.0.1", .port = 80, .bytes = 9 };
    assert_int_equal(fabric_message_put(&tester, &sent, &out), 0);
    for (size_t size = 0; size < out.size; size++)
        assert_int_equal(fabric_message_size(out.data, size, &err), 0);
    assert_int_equal(fabric_message_size(out.data, out.size, &err), (int)out.size);
    assert_int_equal(fabric_message_get(&worker, out.data, out.size, &got, &err), 0);
    assert_int_equal(got.type, FABRIC_SEND);
    assert_int_equal(got.flows, 2);
    assert_int_equal(got.flow[1].port, 80);
    assert_string_equal(got.flow[1].address, "10.0.0.1");
    /* Once more: it is the second, and was the first. */
    assert_int_equal(fabric_message_get(&worker, out.data, out.size, &got, &err), -EACCES);
    buf_fini(&out);
}

static void messages_that_were_changed_are_refused(void **state)
{
    struct fabric_session worker, tester, sender;
    struct fabric_message sent = { .type = FABRIC_STOP }, got;
    struct buf out = { .data = NULL };
    struct err err;

    (void)state;
    sessions_make(&worker, &tester, "lst_one");
    sender = tester;
    assert_int_equal(fabric_message_put(&sender, &sent, &out), 0);
    for (size_t i = 0; i < out.size; i++) {
        struct fabric_session session = worker;
        int result;

        out.data[i] ^= 0x40;
        result = fabric_message_get(&session, out.data, out.size, &got, &err);
        assert_true(result == -EACCES || result == -EPROTO);
        out.data[i] ^= 0x40;
    }
    /* Sent back to where it came from. */
    assert_int_equal(fabric_message_get(&tester, out.data, out.size, &got, &err), -EACCES);
    buf_fini(&out);
    /* Another token. */
    out = (struct buf){ .data = NULL };
    sessions_make(&worker, &tester, "lst_two");
    assert_int_equal(fabric_message_put(&tester, &sent, &out), 0);
    assert_int_equal(fabric_message_get(&worker, out.data, out.size, &got, &err), -EACCES);
    buf_fini(&out);
}

static void an_address_is_a_number_or_empty(void **state)
{
    static const struct {
        const char *address;
        int result;
    } cases[] = {
        { "", 0 },           { "10.0.0.1", 0 },        { "fe80::1", 0 },
        { "host", -EPROTO }, { "10.0.0.1 ", -EPROTO }, { "--out_json_file=/tmp/x", -EPROTO }
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fabric_message sent = { .type = FABRIC_SEND, .flows = 1 }, got;
        struct fabric_session worker, tester;
        struct buf out = { .data = NULL };

        sessions_make(&worker, &tester, "lst_one");
        snprintf(sent.flow[0].address, sizeof(sent.flow[0].address), "%s", cases[i].address);
        assert_int_equal(fabric_message_put(&tester, &sent, &out), 0);
        assert_int_equal(fabric_message_get(&worker, out.data, out.size, &got, NULL),
                         cases[i].result);
        buf_fini(&out);
    }
}

static void perftest_needs_an_address_to_send_to(void **state)
{
    struct fabric_message asked = { .type = FABRIC_SEND, .flows = 1 }, done = { .type = 0 };

    (void)state;
    assert_int_equal(perftest_measure("/nonexistent", &asked, -1, &done), -EDESTADDRREQ);
}

/* ---- texts ---- */

static void lists_of_hosts_are_expanded(void **state)
{
    static const char text[] = "gpu[08-10,12]-ib,login1:9000,[::1]:80";
    static const char *const bad[] = { "",       "a,,b",  "a[",      "a[1",   "a[x]",
                                       "a[2-1]", "a[1-]", "a[1][2]", "a[,1]", "a[0-999999999]" };
    struct host_names list = { .host = NULL };
    struct err err;

    (void)state;
    assert_int_equal(host_list_parse(text, strlen(text), &list, &err), 0);
    assert_int_equal(list.count, 6);
    assert_string_equal(list.host[0], "gpu08-ib");
    assert_string_equal(list.host[2], "gpu10-ib");
    assert_string_equal(list.host[3], "gpu12-ib");
    assert_string_equal(list.host[5], "[::1]:80");
    host_list_fini(&list);
    for (size_t i = 0; i < COUNT(bad); i++) {
        err.text[0] = '\0';
        assert_true(host_list_parse(bad[i], strlen(bad[i]), &list, &err) < 0);
        assert_true(err.text[0]);
        host_list_fini(&list);
    }
}

static void a_topology_gives_leafs_and_the_spine(void **state)
{
    static const char text[] =
        "# site\nSwitchName=leaf1 Nodes=n[1-2] LinkSpeed=4\n\n"
        "switchname=leaf2\tnodes=n3 # last\nSwitchName=core Switches=leaf[1-2]";
    static const char bad[] = "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n[2";
    struct topology topology;
    struct err err;

    (void)state;
    assert_int_equal(topology_parse(text, strlen(text), &topology, &err), 0);
    assert_string_equal(topology_leaf(&topology, "n2"), "leaf1");
    assert_string_equal(topology_leaf(&topology, "n3"), "leaf2");
    assert_null(topology_leaf(&topology, "n4"));
    assert_string_equal(topology_spine(&topology), "core");
    topology_fini(&topology);
    assert_int_equal(topology_parse(bad, strlen(bad), &topology, &err), -EINVAL);
    assert_non_null(strstr(err.text, "line 2"));
}

static void a_topology_is_bounded_over_all_switches(void **state)
{
    static const char text[] = "SwitchName=a Nodes=n[1-40000]\nSwitchName=b Nodes=m[1-40000]\n";
    struct topology topology;
    struct err err;

    (void)state;
    assert_int_equal(topology_parse(text, strlen(text), &topology, &err), -E2BIG);
    assert_non_null(strstr(err.text, "line 2"));
}

static void counters_of_adapters_are_found_by_name(void **state)
{
    static const char text[] = "Inter-|   Receive  |  Transmit\n"
                               " face |bytes    packets errs drop|bytes packets\n"
                               "    lo: 11 1 0 0 0 0 0 0 12 1 0 0 0 0 0 0\n"
                               "  eth0: 5000000000 9 0 0 0 0 0 0 6000000000 8 0 0 0 0 0 0\n"
                               "eth01:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";

    (void)state;
    assert_true(adapter_bytes_in(text, "eth0", false) == UINT64_C(5000000000));
    assert_true(adapter_bytes_in(text, "eth0", true) == UINT64_C(6000000000));
    assert_true(adapter_bytes_in(text, "eth01", true) == 9);
    assert_true(adapter_bytes_in(text, "eth", true) == 0);
    assert_true(adapter_bytes_in("", "eth0", true) == 0);
}

static void perftest_tables_are_read(void **state)
{
    static const char rate[] =
        "                    RDMA_Write BW Test\n Dual-port       : OFF\n"
        "---------------------------------------------------------------------------------------\n"
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        " 65536      5000             98.02              97.93\t\t   0.186788\n"
        "---------------------------------------------------------------------------------------\n";
    static const char mega[] =
        " #bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n"
        " 65536 1000 11000.00 10000.00 0.17\n";
    static const char latency[] =
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
        "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
        " 2       1000          1.01           3.81         1.05     \t       1.07        "
        "\t0.04\t\t1.16"
        "\t\t3.81   \n";
    static const char duration[] = " #bytes        #iterations       t_avg[usec]    tps average\n"
                                   " 2             1000000           1.80           556000.1\n";
    static const char huge[] =
        " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n"
        " 65536 1000 1e300 1e300 0.17\n";
    static const char failed[] = "Couldn't connect to 10.0.0.1:18515\nUnable to open file\n";
    struct perftest result;
    struct err err;

    (void)state;
    assert_int_equal(perftest_parse(rate, strlen(rate), &result, &err), 0);
    assert_true(result.gbps > 97.9 && result.gbps < 98 && result.bytes == 65536);
    assert_int_equal(perftest_parse(mega, strlen(mega), &result, &err), 0);
    assert_true(result.gbps > 83.8 && result.gbps < 83.9);
    assert_int_equal(perftest_parse(latency, strlen(latency), &result, &err), 0);
    assert_true(result.latency_us > 1.04 && result.latency_us < 1.06 && result.gbps <= 0);
    assert_int_equal(perftest_parse(duration, strlen(duration), &result, &err), 0);
    assert_true(result.latency_us > 1.79 && result.latency_us < 1.81);
    assert_int_equal(perftest_parse(failed, strlen(failed), &result, &err), -ENODATA);
    assert_non_null(strstr(err.text, "Couldn't connect"));
    assert_int_equal(perftest_parse("", 0, &result, &err), -ENODATA);
    assert_int_equal(perftest_parse(huge, strlen(huge), &result, &err), -ENODATA);
}

/* ---- NCCL ---- */

/* As in nccl_pair.c: what its child writes. */
struct pair_piece {
    uint32_t report, rail, error;
    uint64_t bytes, ns;
    char text[FABRIC_TEXT];
};

/* Two pieces have come, 40 MB in a millisecond; then the child writes `last`, if it is not 0, and dies. */
static uint32_t pair_error_after(uint32_t last)
{
    const struct fabric_message asked = { .type = FABRIC_RECEIVE,
                                          .flows = 1,
                                          .time_ns = 1000000000,
                                          .wait_ns = 1000000000,
                                          .bytes = 1 << 30 };
    struct pair_piece piece = { .report = 2 };
    struct fabric_message done = { .type = FABRIC_DONE };
    struct nccl_transfer pair = { .rails = 1 };
    int reports[2], stop[2];

    assert_int_equal(pipe(reports), 0);
    assert_int_equal(pipe(stop), 0);
    pair.fd = reports[0];
    for (int i = 0; i < 2; i++) {
        piece.bytes = (uint64_t)i * (40 << 20);
        piece.ns = (uint64_t)i * 1000000;
        assert_int_equal(write(reports[1], &piece, sizeof(piece)), sizeof(piece));
    }
    piece = (struct pair_piece){ .report = last };
    if (last)
        assert_int_equal(write(reports[1], &piece, sizeof(piece)), sizeof(piece));
    close(reports[1]);
    assert_int_equal(nccl_pair_measure(&pair, &asked, stop[0], &done, NULL), 0);
    assert_int_equal(done.flow[0].bytes, 40 << 20);
    close(reports[0]);
    close(stop[0]);
    close(stop[1]);
    return done.flow[0].error;
}

static void a_child_of_nccl_that_dies_has_measured_nothing(void **state)
{
    const uint32_t finished = 6;

    (void)state;
    assert_int_equal(pair_error_after(finished), 0);
    assert_int_equal(pair_error_after(0), EPROTO);
}

/* Before it touches a GPU. */
static void an_id_of_nccl_has_two_digits_for_each_byte(void **state)
{
    static const char *const bytes[] = { " 1", "+1", "-1", "0x", "1 ", "g0" };

    (void)state;
    for (size_t i = 0; i < COUNT(bytes); i++) {
        struct fabric_message asked = { .type = FABRIC_SEND,
                                        .flows = 1,
                                        .time_ns = 1000000000,
                                        .wait_ns = 1000000000,
                                        .bytes = 1 << 30 };
        struct fabric_message done = { .type = FABRIC_DONE };
        struct nccl_transfer pair;
        struct err err = { "" };
        int stop[2];

        for (size_t at = 0; at < 2 * sizeof(((struct nccl_id *)NULL)->byte); at += 2)
            memcpy(asked.text + at, at == 64 ? bytes[i] : "00", 2);
        strcat(asked.text, " 65536 4");
        assert_int_equal(pipe(stop), 0);
        assert_int_equal(nccl_pair_start(&asked, false, &pair, &err), 0);
        assert_int_equal(nccl_pair_measure(&pair, &asked, stop[0], &done, &err), -ECANCELED);
        assert_string_equal(err.text, "an id of NCCL that cannot be read");
        nccl_pair_end(&pair);
        assert_int_equal(pair.fd, -1);
        close(stop[0]);
        close(stop[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_are_disjoint_and_at_most_24),
        cmocka_unit_test(the_full_tournament_has_every_pair_once),
        cmocka_unit_test(small_networks_are_measured_completely),
        cmocka_unit_test(pairs_are_placed_where_both_are_free),
        cmocka_unit_test(faults_among_2048_nodes_are_named_and_nothing_else),
        cmocka_unit_test(messages_survive_the_way),
        cmocka_unit_test(messages_that_were_changed_are_refused),
        cmocka_unit_test(an_address_is_a_number_or_empty),
        cmocka_unit_test(perftest_needs_an_address_to_send_to),
        cmocka_unit_test(lists_of_hosts_are_expanded),
        cmocka_unit_test(a_topology_gives_leafs_and_the_spine),
        cmocka_unit_test(a_topology_is_bounded_over_all_switches),
        cmocka_unit_test(counters_of_adapters_are_found_by_name),
        cmocka_unit_test(perftest_tables_are_read),
        cmocka_unit_test(a_child_of_nccl_that_dies_has_measured_nothing),
        cmocka_unit_test(an_id_of_nccl_has_two_digits_for_each_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
