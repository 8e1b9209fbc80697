/* test-gloo-unwind.c - what torch throws passes through our functions in its tables.
 *
 * C++ unwinds frame by frame, by tables that the compiler makes for each function (.eh_frame).  A function without one
 * ends the process (std::terminate).  Here the unwinder of C++ itself goes from a function that plays torch's through
 * ours to the caller.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/test/scene.h"

#include <unwind.h>

#include "probe/test/gloo_play.h"

static struct lockstep_probe *probe;
static struct play_group group;
static struct play_work work;
static struct play_tensor tensor;

struct flight {
    struct _Unwind_Exception exception;
    jmp_buf landing;
    uintptr_t through, to; /* functions: ours, and the one that catches */
    bool passed;
};
static struct flight flight;

enum {
    LANDED = 1,
    LOST
};

static _Unwind_Reason_Code frame_look(int version, _Unwind_Action actions,
                                      _Unwind_Exception_Class class,
                                      struct _Unwind_Exception *exception,
                                      struct _Unwind_Context *context, void *unused)
{
    uintptr_t function = _Unwind_GetRegionStart(context);

    (void)version;
    (void)class;
    (void)exception;
    (void)unused;
    if (actions & _UA_END_OF_STACK)
        longjmp(flight.landing, LOST);
    if (function == flight.through)
        flight.passed = true;
    if (function == flight.to)
        longjmp(flight.landing, LANDED);
    return _URC_NO_REASON;
}

static void throw(void)
{
    memset(&flight.exception, 0, sizeof(flight.exception));
    _Unwind_ForcedUnwind(&flight.exception, frame_look, NULL);
    longjmp(flight.landing, LOST); /* there was a frame that it could not leave */
}

static struct play_object **allreduce_throws(struct play_object **ret, struct play_group *of,
                                             void *tensors, const void *options)
{
    (void)ret;
    (void)of;
    (void)tensors;
    (void)options;
    throw();
    return NULL;
}

static void delete_throws(void *object)
{
    (void)object;
    throw();
}

#define STAY __asm__ volatile("") /* no last call that takes the place of its caller's frame */

static __attribute__((noinline)) void reduce(void)
{
    play_reduce(&group, &work, &tensor);
    STAY;
}

static __attribute__((noinline)) void group_drop(void)
{
    play_delete(&group);
    STAY;
}

static __attribute__((noinline)) void work_drop(void)
{
    play_delete(&work);
    STAY;
}

/* Does it come from the function that plays torch's to that caller? */
static void fly(void *through, void (*call)(void))
{
    int method;

    flight.through = (uintptr_t)through;
    flight.to = (uintptr_t)call;
    flight.passed = false;
    method = setjmp(flight.landing);
    if (method == 0)
        call();
    assert_int_equal(method, LANDED);
}

static void begin(void)
{
    static struct gloo_torch torch;
    int comm;

    torch = play_torch();
    assert_int_equal(gloo_use(&torch, sizeof(torch)), 0);
    assert_int_equal(lockstep_probe_open(3, 4, &probe, NULL, 0), 0);
    comm = lockstep_comm_add(probe, 1, 4, 3, LOCKSTEP_COMM_DP, "replicas");
    group = (struct play_group){ .object.table = PLAY_GROUP_TABLE };
    work = (struct play_work){ .object.table = play_work_table(0) };
    tensor = play_tensor(1000, PLAY_FLOAT);
    assert_int_equal(gloo_watch(&group, probe, comm, 0xff80), 0);
}

static void end(void)
{
    play_torch(); /* the tables as they were */
    gloo_over();
    lockstep_probe_close(probe);
}

static void test_what_allreduce_throws_reaches_its_caller(void **state)
{
    struct ring_event event[16];
    struct ring_reader *reader;
    uint64_t lost = 0;

    begin();
    assert_ptr_not_equal(group.object.table[PLAY_ALLREDUCE], PLAY_GROUP_TABLE[PLAY_ALLREDUCE]);
    PLAY_GROUP_TABLE[PLAY_ALLREDUCE] = (void *)allreduce_throws;
    fly(group.object.table[PLAY_ALLREDUCE], reduce);
    assert_true(
        flight.passed); /* our frame was there; destructors of ours end in a jump to torch's */
    assert_int_equal(gloo_look(), 0); /* nothing was launched */

    play_torch();
    reduce(); /* and the next one is recorded */
    gloo_over();
    reader = scene_read(*state, 3, 0);
    assert_int_equal(scene_drain(reader, event, 16, &lost), 3);
    ring_reader_close(reader);
    gloo_watch(&group, probe, -1, 0);
    end();
}

static void test_what_a_destructor_throws_reaches_its_caller(void **state)
{
    void *ours;

    (void)state;
    begin();
    reduce();
    ours = work.object.table[PLAY_DELETE];
    assert_ptr_not_equal(ours, play_work_table(0)[PLAY_DELETE]);
    play_work_table(0)[PLAY_DELETE] = (void *)delete_throws;
    fly(ours, work_drop);

    ours = group.object.table[PLAY_DELETE];
    assert_ptr_not_equal(ours, PLAY_GROUP_TABLE[PLAY_DELETE]);
    PLAY_GROUP_TABLE[PLAY_DELETE] = (void *)delete_throws;
    fly(ours, group_drop);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(test_what_allreduce_throws_reaches_its_caller),
        SCENE_TEST(test_what_a_destructor_throws_reaches_its_caller),
    };

#if !defined(__x86_64__)
    return 77; /* the package does it in Python */
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
