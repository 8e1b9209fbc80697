/* test-agent.c - agents and ranks as processes: what is in the spool afterwards?
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/test/stage.h"

#include <sched.h>
#include <sys/resource.h>

#include "core/rand.h"
#include "wire/ring.h"

static bool has_ring(const struct account *account)
{
    return account->rings > 0;
}

static bool has_steps(const struct account *account)
{
    return account->steps > 20;
}

static bool has_final(const struct account *account)
{
    return account->finals > 0;
}

static bool has_stopped(const struct account *account)
{
    return strchr(account->states, 'T') != NULL;
}

static void every_step_of_a_rank_is_in_the_spool(void **state)
{
    const struct stage *stage = *state;
    struct account account;
    pid_t agent = stage_agent(stage), rank = stage_rank(0, 100, NS_PER_MS);

    assert_int_equal(stage_wait(rank), 0);
    stage_await(stage, 0, has_final, &account);
    stage_end(agent);
    stage_account(stage, 0, &account);
    account_check(&account, 100);
    assert_int_equal(account.steps, 100);
    assert_true(account.last);
    assert_int_equal(account.finals, 1);
    assert_int_equal(account.comms, 1);
    assert_int_equal(account.hellos, 1);
    assert_int_equal(account.exits, 0); /* the launcher tells those */
}

static void operations_may_end_in_another_thread(void **state)
{
    const struct stage *stage = *state;
    struct account account;
    pid_t agent = stage_agent(stage), rank = stage_rank_of_two(1000);

    assert_int_equal(stage_wait(rank), 0);
    stage_end(agent);
    stage_account(stage, 0, &account);
    account_check(&account, 1000);
    assert_int_equal(account.steps, 1000);
    assert_int_equal(account.items, 1000);
    assert_int_equal(account.unfinished, 0);
    assert_int_equal(account.shapes, 1);
}

/* Kills agents at random moments while the rank goes on. */
static void kill_again_and_again(const struct stage *stage, uint64_t steps, int64_t pause_ns,
                                 unsigned kills, struct account *ret)
{
    struct rand rand = { steps };
    pid_t rank = stage_rank(0, steps, pause_ns), agent;

    for (unsigned i = 0; i < kills; i++) {
        agent = stage_agent(stage);
        stage_sleep((int64_t)rand_below(&rand, 40) * NS_PER_MS + rand_below(&rand, 1000000));
        stage_kill(agent);
    }
    agent = stage_agent(stage);
    assert_int_equal(stage_wait(rank), 0);
    stage_end(agent);
    stage_account(stage, 0, ret);
    account_check(ret, steps);
    assert_int_equal(ret->finals, 1);
    assert_int_equal(ret->comms, 1);
}

static void a_killed_agent_loses_and_doubles_nothing(void **state)
{
    struct account account;

    kill_again_and_again(*state, 1000, 1500 * NS_PER_US, 50, &account);
    assert_int_equal(account.steps, 1000); /* the ring holds 4096 records: nothing is overwritten */
    assert_int_equal(account.gap_records, 0);
}

static void what_a_dead_agent_could_not_read_is_a_counted_gap(void **state)
{
    struct account account;

    setenv("LOCKSTEP_RING_RECORDS", "64", 1); /* seven steps */
    kill_again_and_again(*state, 1000, 1500 * NS_PER_US, 50, &account);
    assert_true(account.steps < 1000);
    assert_true(account.gap_steps > 0);
}

static void a_lapped_ring_is_a_counted_gap(void **state)
{
    const struct stage *stage = *state;
    struct account account;
    pid_t agent;

    setenv("LOCKSTEP_RING_RECORDS", "256", 1);
    assert_int_equal(stage_wait(stage_rank(0, 500, 0)), 0); /* before there is an agent */
    agent = stage_agent(stage);
    stage_await(stage, 0, has_final, &account);
    stage_end(agent);
    stage_account(stage, 0, &account);
    account_check(&account, 500);
    assert_in_range(account.steps, 25, 35); /* 256 records, 8 a step */
    assert_in_range(account.gap_records, 500 * 8 - 256, 500 * 8);
}

static void a_stopped_rank_is_seen_as_stopped(void **state)
{
    const struct stage *stage = *state;
    struct account account;
    pid_t agent = stage_agent(stage), rank = stage_rank(0, STAGE_STEPS, 10 * NS_PER_MS);

    stage_await(stage, 0, has_ring, &account);
    assert_int_equal(kill(rank, SIGSTOP), 0);
    stage_await(stage, 0, has_stopped, &account);
    stage_kill(rank);
    stage_await(stage, 0, has_final, &account);
    assert_non_null(strpbrk(strchr(account.states, 'T'), "XZ")); /* and then as gone */
    stage_end(agent);
}

static void a_killed_ranks_last_step_is_told(void **state)
{
    const struct stage *stage = *state;
    struct account account;
    pid_t agent = stage_agent(stage), rank = stage_rank(0, STAGE_STEPS, NS_PER_MS);

    stage_await(stage, 0, has_steps, &account);
    stage_kill(rank);
    stage_await(stage, 0, has_final, &account);
    stage_end(agent);
    stage_account(stage, 0, &account);
    assert_true(account.last);
    account_check(&account, account.steps);
}

static bool has_three_finals(const struct account *account)
{
    return account->finals == 3;
}

static bool has_ring_file(const struct stage *stage, unsigned number)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/rank-0.%u.ring", stage->rings, number);
    return access(path, F_OK) == 0;
}

static void rings_of_former_attempts_go_when_they_are_told(void **state)
{
    const struct stage *stage = *state;
    int64_t until = time_mono_ns() + STAGE_PATIENCE_NS;
    struct account account;
    pid_t agent;

    for (int attempt = 0; attempt < 3; attempt++) {
        setenv("LOCKSTEP_RESTART", (const char *[]){ "0", "1", "2" }[attempt], 1);
        assert_int_equal(stage_wait(stage_rank(0, 10, 0)), 0);
    }
    agent = stage_agent(stage);
    stage_await(stage, 0, has_three_finals, &account);
    assert_int_equal(account.steps, 30);
    while ((has_ring_file(stage, 0) || has_ring_file(stage, 1)) && time_mono_ns() < until)
        stage_sleep(NS_PER_MS);
    assert_false(has_ring_file(stage, 0));
    assert_false(has_ring_file(stage, 1));
    assert_true(has_ring_file(stage, 2)); /* another of this attempt must not get its number */
    setenv("LOCKSTEP_RESTART", "3", 1);   /* number 0 again, and nothing of it is taken for told */
    assert_int_equal(stage_wait(stage_rank(0, 10, 0)), 0);
    assert_true(has_ring_file(stage, 0));
    stage_end(agent);
    stage_account(stage, 0, &account);
    assert_int_equal(account.steps, 40);
}

static void zero_is_a_communicator_like_any_other(void **state)
{
    const struct stage *stage = *state;
    struct lockstep_probe *probe;
    struct account account;
    pid_t agent, rank = fork();

    if (rank == 0) {
        if (lockstep_probe_open(0, 4, &probe, NULL, 0) < 0)
            _exit(9);
        stage_step(probe, lockstep_comm_add(probe, 0, 4, 0, LOCKSTEP_COMM_WORLD, "world"), 0);
        lockstep_probe_close(probe);
        _exit(0);
    }
    assert_int_equal(stage_wait(rank), 0);
    agent = stage_agent(stage);
    stage_await(stage, 0, has_final, &account);
    stage_end(agent);
    stage_account(stage, 0, &account);
    assert_int_equal(account.steps, 1);
    assert_int_equal(account.comms, 1);
}

/* Whoever judges a step must know by then who is compared with whom. */
static void a_layout_is_told_before_the_steps_that_follow_it(void **state)
{
    const struct lockstep_layout layout = {
        sizeof(struct lockstep_layout), 1, 1, 4, 1, 1, 0, 0, 0, 0, 0, { 0, 0 }
    };
    const struct stage *stage = *state;
    struct lockstep_probe *probe;
    struct account account;
    pid_t agent = stage_agent(stage), rank = fork();

    if (rank == 0) {
        int comm;

        if (lockstep_probe_open(0, 4, &probe, NULL, 0) < 0)
            _exit(9);
        do
            stage_account(stage, 0, &account);
        while (account.rings == 0); /* the agent has looked, and saw none */
        lockstep_layout_set(probe, &layout);
        comm = lockstep_comm_add(probe, 42, 4, 0, LOCKSTEP_COMM_DP, "dp");
        for (uint64_t step = 0; step < 40; step++) {
            stage_step(probe, comm, step);
            stage_sleep(5 * NS_PER_MS);
        }
        lockstep_probe_close(probe);
        _exit(0);
    }
    assert_int_equal(stage_wait(rank), 0);
    stage_await(stage, 0, has_final, &account);
    stage_end(agent);
    stage_account(stage, 0, &account);
    assert_int_equal(account.steps, 40);
    assert_true(account.layout);
    assert_int_equal(account.placeless, 0);
}

/* Each step says another way, and back again: what an agent told before it was killed is not told twice. */
static void ways_of_moving_are_told_once_by_agents_that_are_killed(void **state)
{
    const struct stage *stage = *state;
    struct lockstep_probe *probe;
    struct account account;
    pid_t agent, rank = fork();

    if (rank == 0) {
        int comm;

        if (lockstep_probe_open(0, 4, &probe, NULL, 0) < 0)
            _exit(9);
        comm = lockstep_comm_add(probe, 5, 4, 0, LOCKSTEP_COMM_WORLD, "world");
        for (uint64_t step = 0; step < 30; step++) {
            stage_step(probe, comm, step);
            lockstep_coll_method(probe, comm, LOCKSTEP_OP_ALL_REDUCE, 4096, 1 + step % 2,
                                 "RING/LL");
            stage_sleep(20 * NS_PER_MS);
        }
        lockstep_probe_close(probe);
        _exit(0);
    }
    for (int i = 0; i < 6; i++) {
        agent = stage_agent(stage);
        stage_sleep((40 + 13 * i) * NS_PER_MS);
        stage_kill(agent);
    }
    agent = stage_agent(stage);
    assert_int_equal(stage_wait(rank), 0);
    stage_await(stage, 0, has_final, &account);
    stage_end(agent);
    stage_account(stage, 0, &account);
    assert_int_equal(account.steps, 30);
    assert_int_equal(account.method_count, 30);
}

static void put_file(const struct stage *stage, const char *name, const void *data, size_t size)
{
    char path[160];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", stage->rings, name);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), (ssize_t)size);
    close(fd);
}

static void hostile_files_get_one_line_and_are_ignored(void **state)
{
    const struct stage *stage = *state;
    unsigned char noise[8192];
    struct rand rand = { 7 };
    struct account account;
    pid_t agent, rank;

    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (unsigned char)(1 + rand_below(&rand, 255));
    put_file(stage, "rank-1.0.ring", noise, sizeof(noise));
    put_file(stage, "rank-2.0.ring", "not a ring", 10);
    put_file(stage, "rank-2.1.ring.swp", "nor is this", 11);
    rank = stage_rank(0, 200, 10 * NS_PER_MS);
    agent = stage_agent(stage);
    assert_int_equal(stage_wait(rank), 0);
    stage_end(agent);
    stage_account(stage, 0, &account);
    account_check(&account, 200);
    assert_int_equal(stage_logged(stage, "rank-1.0.ring"), 1);
    assert_int_equal(stage_logged(stage, "rank-2.0.ring"), 1);
    assert_int_equal(stage_logged(stage, "swp"), 0);
}

static void a_ring_cut_short_while_it_is_read_gets_one_line(void **state)
{
    const struct stage *stage = *state;
    struct account account;
    char path[160];
    pid_t agent, rank;

    agent = stage_agent(stage);
    rank = stage_rank(0, STAGE_STEPS, 5 * NS_PER_MS);
    stage_await(stage, 0, has_steps, &account);
    assert_int_equal(kill(rank, SIGSTOP), 0); /* it would die of SIGBUS */
    snprintf(path, sizeof(path), "%s/rank-0.0.ring", stage->rings);
    assert_int_equal(truncate(path, 5000), 0);
    stage_await(stage, 0, has_stopped, &account);
    stage_kill(rank);
    stage_await(stage, 0, has_final, &account);
    stage_end(agent);
    assert_int_equal(stage_logged(stage, "the rest of this ring is ignored"), 1);
}

static void limit_files(void)
{
    struct rlimit limit;

    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 16384;
    setrlimit(RLIMIT_FSIZE, &limit);
}

/* A file that may not grow fails as a full disk does. */
static void a_full_disk_stops_nothing_for_good(void **state)
{
    const struct stage *stage = *state;
    struct rlimit limit;
    struct account account;
    pid_t agent = stage_agent_as(stage, "n0", limit_files);
    pid_t rank = stage_rank(0, 400, 2 * NS_PER_MS);

    for (int64_t until = time_mono_ns() + STAGE_PATIENCE_NS;
         !stage_logged(stage, "cannot write the spool");) {
        assert_true(time_mono_ns() < until);
        stage_sleep(5 * NS_PER_MS);
    }
    assert_int_equal(stage_wait(rank), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(prlimit(agent, RLIMIT_FSIZE, &limit, NULL), 0);
    stage_await(stage, 0, has_final, &account);
    stage_end(agent);
    stage_account(stage, 0, &account);
    account_check(&account, 400);
    assert_int_equal(account.steps, 400); /* they waited in the ring */
    assert_int_equal(stage_logged(stage, "cannot write the spool"), 1);
    assert_int_equal(stage_logged(stage, "is writable again"), 1);
}

static void without_a_launcher_the_agent_tells_exits(void **state)
{
    const struct stage *stage = *state;
    struct account account;
    pid_t agent, rank;

    stage_run_json(stage, "\"ranks\": 0, \"nodes\": [{\"name\": \"n0\", \"ranks\": []}]");
    agent = stage_agent(stage);
    rank = stage_rank(0, STAGE_STEPS, NS_PER_MS);
    assert_int_equal(stage_wait(stage_rank(1, 10, NS_PER_MS)), 0);
    stage_await(stage, 1, has_final, &account);
    stage_await(stage, 0, has_steps, &account);
    stage_kill(rank);
    stage_await(stage, 0, has_final, &account);
    stage_end(agent);
    stage_account(stage, 0, &account);
    assert_int_equal(account.exits, 1);
    assert_string_equal(account.exit_text, "gone, exit status unknown");
    stage_account(stage, 1, &account);
    assert_int_equal(account.exits, 1);
    assert_string_equal(account.exit_text, "closed");
}

static void an_agent_reads_the_rings_of_its_own_node(void **state)
{
    const struct stage *stage = *state;
    struct account account;
    pid_t agent, other;

    stage_run_json(stage, "\"ranks\": 2, \"nodes\": [{\"name\": \"n0\", \"ranks\": [0]}, "
                          "{\"name\": \"n1\", \"ranks\": [1]}]");
    assert_int_equal(stage_wait(stage_rank(0, 5, 0)), 0);
    assert_int_equal(stage_wait(stage_rank(1, 5, 0)), 0);
    agent = stage_agent(stage);
    stage_await(stage, 0, has_final, &account);
    other = stage_agent_as(stage, "n7", NULL); /* no such node */
    assert_int_not_equal(stage_wait(other), 0);
    assert_int_equal(stage_logged(stage, "no node n7"), 1);
    stage_end(agent);
    stage_account(stage, 1, &account);
    assert_int_equal(account.rings + account.steps, 0);
}

static void a_node_has_one_agent(void **state)
{
    const struct stage *stage = *state;
    struct account account;
    pid_t agent, rank = stage_rank(0, STAGE_STEPS, NS_PER_MS);

    agent = stage_agent(stage);
    stage_await(stage, 0, has_ring, &account);
    assert_int_not_equal(stage_wait(stage_agent(stage)), 0);
    assert_int_equal(stage_logged(stage, "another process is writing it"), 1);
    stage_end(agent);
    stage_kill(rank);
}

static void a_pretended_clock_shifts_every_time(void **state)
{
    const struct stage *stage = *state;
    struct account account;
    pid_t agent;

    setenv("LOCKSTEP_TEST_CLOCK_SKEW_NS", "5000000000000", 1);
    assert_int_equal(stage_wait(stage_rank(0, 5, 0)), 0);
    for (int i = 0; i < 2; i++) { /* the second knows what the first has sent */
        agent = stage_agent(stage);
        stage_await(stage, 0, has_final, &account);
        stage_end(agent);
    }
    stage_account(stage, 0, &account);
    account_check(&account, 5);
    assert_int_equal(account.finals, 1);
    assert_in_range(account.first_begin_ns - account.first_open_ns, 0, 10 * NS_PER_S);
    assert_in_range(account.first_begin_ns - time_mono_ns(), INT64_C(4900000000000),
                    INT64_C(5000000000000));
}

/* In its own namespace the rank is process 1; the agent sees it from outside. */
static void a_rank_in_another_pid_namespace_is_found(void **state)
{
    const struct stage *stage = *state;
    struct account account;
    pid_t agent, outer = fork();
    int status;

    if (outer == 0) {
        if (unshare(CLONE_NEWPID) < 0)
            _exit(77);
        waitpid(stage_rank(0, 60, 5 * NS_PER_MS), &status, 0);
        _exit(WEXITSTATUS(status));
    }
    agent = stage_agent(stage);
    status = stage_wait(outer);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        stage_end(agent);
        skip();
    }
    assert_int_equal(status, 0);
    stage_await(stage, 0, has_final, &account);
    stage_end(agent);
    account_check(&account, 60);
    assert_true(account.pid > 1);
    assert_non_null(strpbrk(account.states, "RSD"));
    assert_null(strchr(account.states, '?'));
}

/* ---- steps whose ops are merged ---- */

#define BIG_RANKS 4
#define BIG_OPS 2500
#define BIG_OP_NS (20 * NS_PER_US)
#define BIG_NODE "\"ranks\": 4, \"nodes\": [{\"name\": \"n0\", \"ranks\": [0, 1, 2, 3]}]"

/* All leave together; the ranks take turns in being last.  Every third op is a broadcast. */
static int64_t big_stay_ns(uint32_t rank, uint32_t op)
{
    return (int64_t)(1 + (rank + op) % BIG_RANKS) * 3 * NS_PER_US + op;
}

static int64_t big_wait_ns(uint32_t rank, uint32_t op)
{
    int64_t shortest = INT64_MAX; /* they leave together, so for both kinds it is the same */

    for (uint32_t i = 0; i < BIG_RANKS; i++)
        shortest = MIN(shortest, big_stay_ns(i, op));
    return big_stay_ns(rank, op) - shortest;
}

static void big_step(struct lockstep_probe *probe, int comm, uint32_t rank, uint64_t step,
                     int64_t at_ns)
{
    lockstep_step_begin(probe, step);
    lockstep_metric_put(probe, LOCKSTEP_METRIC_LOSS, (double)step);
    for (uint32_t i = 0; i < BIG_OPS; i++) {
        enum lockstep_op what = i % 3 ? LOCKSTEP_OP_ALL_REDUCE : LOCKSTEP_OP_BROADCAST;
        uint64_t key = lockstep_coll_enqueue(
            probe, LOCKSTEP_OP_DESC(.comm = comm, .op = what, .bytes = 4096, .stream = 1));
        int64_t end = at_ns + (int64_t)(i + 1) * BIG_OP_NS;

        lockstep_coll_start(probe, comm, key, (uint64_t)(end - big_stay_ns(rank, i)));
        lockstep_coll_end(probe, comm, key, (uint64_t)end);
    }
    lockstep_step_end(probe, step);
}

static pid_t big_rank(uint32_t rank, uint64_t steps, int64_t at_ns, int64_t pause_ns)
{
    struct lockstep_probe *probe;
    pid_t pid = fork();
    int comm;

    if (pid != 0)
        return pid;
    if (lockstep_probe_open(rank, BIG_RANKS, &probe, NULL, 0) < 0)
        _exit(9);
    comm = lockstep_comm_add(probe, 42, BIG_RANKS, rank, LOCKSTEP_COMM_TP, "tp");
    for (uint64_t step = 0; step < steps; step++) {
        big_step(probe, comm, rank, step, at_ns);
        stage_sleep(pause_ns);
    }
    lockstep_probe_close(probe);
    _exit(0);
}

/* Ops merge by kind, in their order: the sums that one step of a rank must have. */
static void big_check(uint32_t rank, const struct fact_shape *shape, const struct fact_step *step)
{
    uint32_t next[LOCKSTEP_OP_COUNT] = { [LOCKSTEP_OP_ALL_REDUCE] = 1 };
    int64_t total = 0, wanted_total = 0;

    assert_true(step->flags & STEP_SPLIT);
    for (uint32_t i = 0; i < shape->count; i++) {
        const struct shape_item *item = &shape->item[i];
        int64_t wanted = 0;

        assert_true(item->count > 1 || i + 2 >= shape->count); /* the last of a kind may be alone */
        for (uint32_t op = 0; op < item->count; op++) {
            wanted += big_wait_ns(rank, next[item->what]);
            next[item->what] += item->what == LOCKSTEP_OP_BROADCAST ? 3 : 1;
            if (item->what != LOCKSTEP_OP_BROADCAST && next[item->what] % 3 == 0)
                next[item->what]++;
        }
        if (item->count == 1)
            continue;
        total += step->time[i].wait_ns;
        wanted_total += wanted;
        assert_in_range(step->time[i].wait_ns + 1000, wanted + 1000 - wanted / 4000 - 70,
                        wanted + 1000 + wanted / 4000 + 70);
    }
    assert_in_range(total, wanted_total - wanted_total / 2000, wanted_total + wanted_total / 2000);
    assert_true(total > BIG_OPS * NS_PER_US);
}

static uint64_t big_check_spool(const struct stage *stage)
{
    CLEAN(fact_shape_fini) struct fact_shape shape = { 0 };
    struct spool_reader *reader;
    struct frame frame;
    uint64_t steps = 0;

    assert_int_equal(spool_reader_open(stage->spool, &reader, NULL), 0);
    while (spool_next(reader, &frame, NULL) > 0) {
        struct reader in = reader_of(frame.payload, frame.payload_bytes);
        struct fact_step step;

        if (frame.type == FRAME_SHAPE) { /* all do the same, so there is one */
            assert_null(shape.item);
            assert_int_equal(fact_shape_get(in, &shape), 0);
        } else if (frame.type == FRAME_STEP) {
            assert_in_range(frame.payload_bytes, 1, FACT_STEP_BYTES_MAX);
            assert_int_equal(fact_step_get(in, &shape, &step), 0);
            big_check(step.rank, &shape, &step);
            fact_step_fini(&step);
            steps++;
        }
    }
    spool_reader_close(reader);
    return steps;
}

/* Rings that are all there when the agent comes are read in one tick, whatever the machine does. */
static void merged_ops_have_the_waiting_of_each(void **state)
{
    const struct stage *stage = *state;
    struct account account;
    int64_t at = time_mono_ns() + 600 * NS_PER_S; /* no step may begin later than its ops */
    pid_t agent;

    stage_run_json(stage, BIG_NODE);
    setenv("LOCKSTEP_RING_RECORDS", "32768", 1);
    setenv("LOCKSTEP_RING_LANES", "1", 1);
    for (uint32_t rank = 0; rank < BIG_RANKS; rank++)
        assert_int_equal(stage_wait(big_rank(rank, 3, at, 0)), 0);
    agent = stage_agent(stage);
    for (uint32_t rank = 0; rank < BIG_RANKS; rank++) {
        stage_await(stage, rank, has_final, &account);
        account_check(&account, 3);
    }
    stage_end(agent);
    assert_int_equal(big_check_spool(stage), 3 * BIG_RANKS);
}

static void held_steps_of_a_killed_agent_are_told_once(void **state)
{
    const struct stage *stage = *state;
    struct rand rand = { 5 };
    struct account account;
    pid_t ranks[BIG_RANKS], agent;
    int64_t at = time_mono_ns();

    stage_run_json(stage, BIG_NODE);
    setenv("LOCKSTEP_RING_RECORDS", "524288", 1); /* nothing is overwritten */
    setenv("LOCKSTEP_RING_LANES", "1", 1);
    for (uint32_t rank = 0; rank < BIG_RANKS; rank++)
        ranks[rank] = big_rank(rank, 40, at, (20 + 3 * rank) * NS_PER_MS);
    for (int i = 0; i < 12; i++) {
        agent = stage_agent(stage);
        stage_sleep((int64_t)rand_below(&rand, 120) * NS_PER_MS);
        stage_kill(agent);
    }
    agent = stage_agent(stage);
    for (uint32_t rank = 0; rank < BIG_RANKS; rank++)
        assert_int_equal(stage_wait(ranks[rank]), 0);
    stage_end(agent);
    for (uint32_t rank = 0; rank < BIG_RANKS; rank++) {
        stage_account(stage, rank, &account);
        account_check(&account, 40);
        assert_int_equal(account.steps, 40);
        assert_int_equal(account.finals, 1);
    }
}

#define ON_STAGE(test) cmocka_unit_test_setup_teardown(test, stage_setup, stage_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_STAGE(every_step_of_a_rank_is_in_the_spool),
        ON_STAGE(operations_may_end_in_another_thread),
        ON_STAGE(a_killed_agent_loses_and_doubles_nothing),
        ON_STAGE(what_a_dead_agent_could_not_read_is_a_counted_gap),
        ON_STAGE(a_lapped_ring_is_a_counted_gap),
        ON_STAGE(a_stopped_rank_is_seen_as_stopped),
        ON_STAGE(a_killed_ranks_last_step_is_told),
        ON_STAGE(rings_of_former_attempts_go_when_they_are_told),
        ON_STAGE(a_layout_is_told_before_the_steps_that_follow_it),
        ON_STAGE(zero_is_a_communicator_like_any_other),
        ON_STAGE(ways_of_moving_are_told_once_by_agents_that_are_killed),
        ON_STAGE(hostile_files_get_one_line_and_are_ignored),
        ON_STAGE(a_ring_cut_short_while_it_is_read_gets_one_line),
        ON_STAGE(a_full_disk_stops_nothing_for_good),
        ON_STAGE(without_a_launcher_the_agent_tells_exits),
        ON_STAGE(an_agent_reads_the_rings_of_its_own_node),
        ON_STAGE(a_node_has_one_agent),
        ON_STAGE(a_rank_in_another_pid_namespace_is_found),
        ON_STAGE(a_pretended_clock_shifts_every_time),
        ON_STAGE(merged_ops_have_the_waiting_of_each),
        ON_STAGE(held_steps_of_a_killed_agent_are_told_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
