/* launch_crew.c - a launcher that is one of several, one on each node of a job.
 *
 * It reports what its ranks do and obeys the controller's orders: START an attempt with these ranks, STOP it, END the run.  The
 * reports are leases, too.  The sender of facts writes to RUN/acknowledged which of them are on the controller's disk.  When none
 * of the last nine tenths of the lease is, the ranks are ended: the controller may soon give their places to another node, and two
 * sets of ranks must never run.  The keeper has the same deadline, a little later, for a launcher that is stopped.  An order
 * that lay there meanwhile is refused, and one that starts a later attempt ends the ranks here, whomever it names.  Leases are
 * measured by a clock that goes on while the machine is suspended.
 *
 * The launcher of the first node reports the attempts of the run, by the clock of the run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "act/launch/launch_private.h"
#include "act/newest_point.h"
#include "act/orders/acknowledged.h"
#include "core/clean.h"
#include "core/time.h"

#define CREW_LOOK_NS (NS_PER_S / 5)
#define CREW_BEATS_A_LEASE 20
#define CREW_MOVE_LEASES 2
#define CREW_MEET_NS (5 * NS_PER_S)
#define CREW_STALE_NS (20 * NS_PER_S) /* an order to start; the controller waits for 60 s */
#define CREW_LEAVE_NS (3 * NS_PER_S)  /* for the controller's last word to one that leaves */

static bool crew_is_set(const struct decision *decision)
{
    return decision->id[0] != '\0';
}

/* The keeper's, for a launcher that is stopped; a little later than the launcher's own. */
static int64_t crew_keeper_ns(const struct launch_crew *crew)
{
    return crew->self.lease_ns / 20 * 19;
}

static int64_t crew_patience_ns(const struct launch_crew *crew)
{
    return crew->self.lease_ns / 10 * 9;
}

/* ---- who we are ---- */

static int crew_self_init(const struct launch *launch, struct member *self, struct err *err)
{
    const struct launch_plan *plan = launch->plan;
    int r = 0;

    *self = (struct member){ .state = MEMBER_IDLE,
                             .attempt = launch->run_dir.file.attempt,
                             .culprit = -1,
                             .ranks = plan->ranks,
                             .nodes_min = plan->nodes_min,
                             .nodes_max = plan->nodes_max,
                             .max_restarts = plan->max_restarts,
                             .lease_ns = plan->lease_ns,
                             .join_ns = plan->join_ns,
                             .backoff_ns = plan->backoff_ns,
                             .quorum = job_rendezvous_quorum(launch->rendezvous) };
    if (getrandom(&self->life, sizeof(self->life), 0) < 0 || !self->life)
        self->life = (uint32_t)time_real_ns() | 1;
    snprintf(self->node, sizeof(self->node), "%.63s", launch->run_dir.file.layout.host);
    if (plan->address)
        snprintf(self->host, sizeof(self->host), "%s", plan->address);
    else if (job_rendezvous_name(launch->rendezvous)) /* its own address may be of loopback */
        snprintf(self->host, sizeof(self->host), "%.63s", job_rendezvous_name(launch->rendezvous));
    else if (life_socket_host(getenv("LOCKSTEP_CONTROL"), self->host, sizeof(self->host)) < 0)
        r = err_set(err, -EADDRNOTAVAIL, "the address of this node is not known; use --address");
    if (launch->life.fd) {
        memcpy(self->life_host, launch->life.host, sizeof(self->life_host));
        self->life_port = launch->life.port;
    }
    return r < 0 ? r : layout_port(&self->port, err);
}

int launch_crew_open(struct launch *launch, struct err *err)
{
    struct launch_crew *crew;
    int r;

    if (!launch->plan->nodes_max)
        return 0;
    if (!launch->log || !launch->orders)
        return err_set(err, -EIO, "this node cannot join the run: nothing can be reported from it");
    crew = launch->crew = calloc(1, sizeof(*crew));
    if (!crew)
        return err_nomem(err);
    crew->acknowledged = -1;
    crew->result = MEMBER_IDLE;
    r = crew_self_init(launch, &crew->self, err);
    if (r == 0)
        r = acknowledged_create(launch->run_dir.directory.text, &crew->acknowledged, err);
    return r;
}

void launch_crew_close(struct launch *launch)
{
    if (!launch->crew)
        return;
    fd_clean(&launch->crew->acknowledged);
    free(launch->crew);
}

const struct layout_place *launch_crew_place(const struct launch *launch)
{
    return launch->crew ? &launch->crew->place : NULL;
}

uint32_t launch_crew_rank(const struct launch *launch, uint32_t rank)
{
    return launch->crew ? launch->crew->place.first + rank : rank;
}

/* Its end was ordered, and no scheduler starts it again under its name. */
bool launch_crew_is_over(const struct launch *launch)
{
    const struct launch_crew *crew = launch->crew;

    return crew_is_set(&crew->end) && crew->end.target == TARGET_RUN &&
           (!crew->end.argument || !launch->plan->rejoin_ns);
}

bool launch_crew_leads(const struct launch *launch)
{
    return !launch->crew || launch->crew->leads;
}

bool launch_crew_reports_end(const struct launch *launch)
{
    return !launch->crew || launch->crew->reports;
}

/* All nodes have one clock for what happens to the run; without a place the own one. */
int64_t launch_crew_mono_ns(const struct launch *launch)
{
    if (!launch->crew || !launch->crew->place.clock_ns)
        return time_mono_ns();
    return time_real_ns() - launch->crew->place.clock_ns;
}

bool launch_crew_resume(const struct launch *launch, uint64_t *ret)
{
    if (!launch->crew)
        return false;
    *ret = launch->crew->place.resume;
    return true;
}

/* Now: no rank of ours writes any more. */
static void crew_look_for_checkpoint(struct launch *launch)
{
    struct member *self = &launch->crew->self;
    struct newest_point resume = { .step = NEWEST_POINT_NONE };
    struct err err = { "" };

    if (launch->plan->checkpoints &&
        newest_point_find(launch->plan->checkpoints, NEWEST_POINT_NONE, &resume, &err) < 0)
        output_message(launch->output, "%s", err.text);
    self->resume = resume.step;
}

/* ---- reports and the lease ---- */

static enum member_state crew_state(const struct launch *launch)
{
    const struct launch_crew *crew = launch->crew;

    if (!crew->in_attempt)
        return crew->result;
    return launch->failed ? MEMBER_FAILING : MEMBER_RUNNING;
}

static void crew_report(struct launch *launch, int64_t now_ns)
{
    struct launch_crew *crew = launch->crew;
    struct member *self = &crew->self;
    enum member_state state = crew_state(launch);
    struct err err = { "" };
    int64_t boot_ns = time_boot_ns();
    uint64_t number;
    bool off = launch_policy_is_off(launch);

    self->news = !crew->beats || state != self->state || off != self->off;
    self->off = off;
    self->state = (uint8_t)state;
    if (state != MEMBER_IDLE)
        self->attempt = launch->run_dir.file.attempt;
    self->mono_ns = now_ns;
    self->real_ns = time_real_ns();
    if (launcher_log_member(launch->log, self, &number, &err) < 0) {
        output_message(launch->output, "%s; the controller is not informed of this node", err.text);
    } else {
        crew->beat[crew->beats++ % CREW_BEATS] = (struct crew_beat){ number, boot_ns };
    }
    crew->due_ns = now_ns + self->lease_ns / CREW_BEATS_A_LEASE;
}

/* Once the controller knows of it: of two launchers of one name it refuses the one of which it hears later. */
static void crew_print_joined(struct launch *launch)
{
    struct launch_crew *crew = launch->crew;

    if (crew->joined_printed)
        return;
    crew->joined_printed = true;
    output_message(launch->output, "node %s has joined run %s; waiting for %u node%s",
                   crew->self.node, launch->run_dir.file.id, launch->plan->nodes_max,
                   launch->plan->nodes_max == 1 ? "" : "s");
}

/* The newest report that is on the controller's disk, or of which it said that it cannot write it. */
static void crew_acknowledged(struct launch *launch)
{
    struct launch_crew *crew = launch->crew;
    struct acknowledged now = acknowledged_read(crew->acknowledged);
    int64_t newest = MAX(crew->acked_ns, MIN(now.heard_boot_ns, time_boot_ns()));

    for (uint32_t i = 0; i < MIN(crew->beats, (uint32_t)CREW_BEATS); i++) {
        if (crew->beat[i].number < now.before)
            newest = MAX(newest, crew->beat[i].boot_ns);
    }
    if (newest == crew->acked_ns)
        return;
    crew->acked_ns = newest;
    crew->known = true;
    crew_print_joined(launch);
    if (crew->in_attempt)
        keeper_lease(launch->keeper, newest + crew_keeper_ns(crew));
}

/* A part of the lease has passed since the newest report that the controller is known to have. */
static bool crew_is_unheard(const struct launch_crew *crew, int64_t boot_ns)
{
    return boot_ns - crew->acked_ns > crew_patience_ns(crew);
}

static void crew_lease(struct launch *launch, int64_t boot_ns)
{
    struct launch_crew *crew = launch->crew;

    if (!crew->in_attempt || crew->silent || !crew_is_unheard(crew, boot_ns))
        return;
    crew->silent = true;
    output_message(
        launch->output,
        "the controller has not answered for %.1f s; ending the ranks, because it may give their "
        "places to another node",
        (double)(boot_ns - crew->acked_ns) / 1e9);
}

/* The controller is lost with its launcher: another one has it now, which begins without any history. */
static void crew_move(struct launch *launch, int64_t boot_ns)
{
    struct launch_crew *crew = launch->crew;

    if (!launch->rendezvous || !crew->known || crew->in_attempt || crew_is_set(&crew->end) ||
        boot_ns - MAX(crew->acked_ns, crew->moved_ns) <= CREW_MOVE_LEASES * crew->self.lease_ns ||
        !job_rendezvous_move(launch->rendezvous))
        return;
    crew->moved_ns = boot_ns;
    crew->acked_ns = 0;
    crew->beats = 0;
    daemons_move(launch->daemons, launch->keeper, job_rendezvous_url(launch->rendezvous),
                 job_rendezvous_leads(launch->rendezvous));
    output_message(launch->output, "the controller is lost; the launchers meet at %s now%s",
                   job_rendezvous_url(launch->rendezvous),
                   job_rendezvous_leads(launch->rendezvous) ? ": this one leads" : "");
}

void launch_crew_turn(struct launch *launch)
{
    struct launch_crew *crew = launch->crew;
    int64_t now_ns = time_mono_ns();

    if (!crew || !launch->log)
        return;
    if (now_ns >= crew->due_ns || crew_state(launch) != (enum member_state)crew->self.state)
        crew_report(launch, now_ns);
    crew_acknowledged(launch);
    crew_lease(launch, time_boot_ns());
    crew_move(launch, time_boot_ns());
}

int64_t launch_crew_due_ns(const struct launch *launch)
{
    return launch->crew ? MIN(launch->crew->due_ns, time_mono_ns() + CREW_LOOK_NS) : INT64_MAX;
}

/* ---- orders ---- */

/* Our place in a START order; false: it is not for this launcher. */
static bool crew_place_find(const struct launch_crew *crew, const struct decision *decision,
                            struct layout_place *ret)
{
    const struct decision_start *start = &decision->start;

    for (uint32_t i = 0; i < MIN(decision->node_count, (uint32_t)DECISION_NODES); i++) {
        if (start->life[i] != crew->self.life || strcmp(decision->node[i], crew->self.node) != 0)
            continue;
        *ret = (struct layout_place){ .first = start->first[i],
                                      .world = start->world,
                                      .node = start->first[i] / crew->self.ranks,
                                      .nodes = start->world / crew->self.ranks,
                                      .port = start->port,
                                      .clock_ns = start->clock_ns,
                                      .resume = start->resume };
        snprintf(ret->host, sizeof(ret->host), "%s", start->host);
        return start->world >= crew->self.ranks &&
               start->first[i] <= start->world - crew->self.ranks;
    }
    return false;
}

static bool crew_is_named(const struct launch_crew *crew, const struct decision *decision)
{
    return decision->node_count && strcmp(decision->node[0], crew->self.node) == 0;
}

/* The end of one launcher: another one has its name. */
static bool crew_is_refused(const struct launch_crew *crew, const struct decision *decision)
{
    char life[DECISION_ID];

    snprintf(life, sizeof(life), "%08" PRIx32, crew->self.life);
    return crew_is_named(crew, decision) && strcmp(decision->of, life) == 0;
}

bool launch_crew_is_meant(const struct launch *launch, const struct decision *decision)
{
    const struct launch_crew *crew = launch->crew;
    struct layout_place place;

    if (decision->action == ACTION_END && decision->target == TARGET_NODES)
        return crew_is_refused(crew, decision);
    if (decision->action != ACTION_START)
        return true;
    return crew_place_find(crew, decision, &place) && !crew->in_attempt &&
           (crew->result == MEMBER_IDLE || decision->attempt > launch->run_dir.file.attempt);
}

void launch_crew_fence(struct launch *launch, const struct decision *decision)
{
    struct launch_crew *crew = launch->crew;

    if (decision->action != ACTION_START || !crew->in_attempt || crew->fenced ||
        decision->attempt <= launch->run_dir.file.attempt)
        return;
    crew->fenced = true;
    output_message(launch->output, "attempt %u was started; ending the ranks of attempt %u",
                   decision->attempt, launch->run_dir.file.attempt);
}

/* The controller has waited for it no longer than so: it may have started the attempt elsewhere. */
static bool crew_is_stale(const struct launch_crew *crew, const struct decision *start)
{
    return time_boot_ns() - start->decided_real_ns > MIN(crew_patience_ns(crew), CREW_STALE_NS);
}

static void crew_will_not_start(struct launch *launch, const struct decision *decision)
{
    struct launch_crew *crew = launch->crew;

    launch->run_dir.file.attempt = decision->attempt;
    crew->result = MEMBER_STOPPED;
    crew_report(launch, time_mono_ns());
}

bool launch_crew_refuses(struct launch *launch, const struct decision *decision)
{
    struct launch_crew *crew = launch->crew;

    if (decision->action != ACTION_START)
        return false;
    if (!crew->acked_ns && crew->beats) /* it must have had one, to send this order */
        crew->acked_ns = crew->beat[0].boot_ns;
    if (!crew_is_unheard(crew, time_boot_ns()) && !crew_is_stale(crew, decision))
        return false;
    output_message(
        launch->output,
        "attempt %u is not started here: this launcher had no contact to the controller, "
        "and the order may be an old one",
        decision->attempt);
    crew_will_not_start(launch, decision);
    return true;
}

static void crew_order_start(struct launch *launch, const struct decision *decision)
{
    struct launch_crew *crew = launch->crew;

    crew->start = *decision;
    crew_place_find(crew, decision, &crew->place);
    crew->leads = crew->place.first == 0;
}

/* The end of an attempt whose first node is gone. */
static void crew_report_attempt_end(struct launch *launch, const struct decision *stop)
{
    struct fact_run fact = { .event = RUN_ATTEMPT_END,
                             .attempt = stop->attempt,
                             .ranks = launch->crew->place.world,
                             .culprit = stop->rank_count ? (int32_t)stop->rank[0] : -1,
                             .status = (int32_t)stop->argument,
                             .mono_ns = launch_crew_mono_ns(launch),
                             .real_ns = time_real_ns() };

    snprintf(fact.text, sizeof(fact.text), "%.150s", stop->why);
    launcher_log_run(launch->log, &fact, NULL);
}

static void crew_order_stop(struct launch *launch, const struct decision *decision)
{
    struct launch_crew *crew = launch->crew;

    crew->stop = *decision;
    if (crew->in_attempt) {
        if (!launch->failed && decision->attempt >= launch->run_dir.file.attempt)
            output_message(launch->output, "%s; ending the ranks of attempt %u", decision->why,
                           launch->run_dir.file.attempt);
        return;
    }
    if (crew_is_named(crew, decision) && !crew->leads)
        crew_report_attempt_end(launch, decision);
    if (crew->result == MEMBER_IDLE ? decision->attempt >= crew->self.attempt
                                    : decision->attempt > launch->run_dir.file.attempt)
        crew_will_not_start(launch, decision);
}

void launch_crew_order(struct launch *launch, const struct decision *decision)
{
    struct launch_crew *crew = launch->crew;

    if (decision->action == ACTION_START) {
        crew_order_start(launch, decision);
    } else if (decision->action == ACTION_STOP) {
        crew_order_stop(launch, decision);
    } else {
        crew->end = *decision;
        crew->reports = decision->target == TARGET_RUN && crew_is_named(crew, decision);
    }
}

bool launch_crew_waits(const struct launch *launch)
{
    const struct launch_crew *crew = launch->crew;

    return crew && !crew->in_attempt && !crew_is_set(&crew->start) && !crew_is_set(&crew->end);
}

/* ---- attempts ---- */

bool launch_crew_stops(const struct launch *launch)
{
    const struct launch_crew *crew = launch->crew;

    return crew && crew->in_attempt &&
           (crew->silent || crew->fenced || crew_is_set(&crew->end) ||
            (crew_is_set(&crew->stop) && crew->stop.attempt >= launch->run_dir.file.attempt));
}

int64_t launch_crew_grace_ns(const struct launch *launch)
{
    const struct launch_crew *crew = launch->crew;

    if (crew && (crew->silent || crew->fenced))
        return 0;
    /* Another controller, that we do not hear of, starts the next attempt after two leases. */
    return crew && crew->self.quorum ? MIN(launch->plan->grace_ns, crew->self.lease_ns / 2)
                                     : launch->plan->grace_ns;
}

int launch_crew_status(const struct launch *launch, int own)
{
    const struct launch_crew *crew = launch->crew;

    if (!crew)
        return own;
    if (crew_is_set(&crew->end))
        return (int)crew->end.argument & 0xff;
    if (crew_is_set(&crew->stop) && crew->stop.attempt == launch->run_dir.file.attempt)
        return (int)crew->stop.argument & 0xff;
    return (crew->silent || crew->fenced) && !own ? 1 : own;
}

const char *launch_crew_why(const struct launch *launch)
{
    const struct launch_crew *crew = launch->crew;

    if (!crew)
        return NULL;
    if (crew_is_set(&crew->end))
        return crew->end.why;
    if (crew_is_set(&crew->stop) && crew->stop.attempt == launch->run_dir.file.attempt)
        return crew->stop.why;
    if (crew->fenced)
        return "a later attempt was started on other nodes";
    return crew->silent ? "the controller did not answer" : NULL;
}

static void crew_places_report(struct launch *launch)
{
    const struct launch_crew *crew = launch->crew;
    const struct decision_start *start = &crew->start.start;
    const struct places places = { .mono_ns = launch_crew_mono_ns(launch),
                                   .real_ns = time_real_ns(),
                                   .allocated = start->world + start->spare + start->down,
                                   .spare = start->spare,
                                   .down = start->down };

    launcher_log_places(launch->log, &places, NULL);
}

static void crew_attempt_begin(struct launch *launch)
{
    struct launch_crew *crew = launch->crew;
    struct runfile *file = &launch->run_dir.file;
    const char *after = strstr(crew->start.why, "; after: ");
    char text[160];

    crew_print_joined(launch); /* an order may come before the acknowledgement */
    file->attempt = file->restarts = crew->start.attempt;
    crew->in_attempt = true;
    if (launch->plan->rejoin_ns)
        crew->self.join_ns = MIN(launch->plan->join_ns, launch->plan->rejoin_ns);
    crew->silent = crew->fenced = false;
    crew->stop.id[0] = '\0';
    crew->self.culprit = -1;
    crew->self.status = 0;
    keeper_lease(launch->keeper, crew->acked_ns + crew_keeper_ns(crew));
    output_number(launch->output,
                  run_directory_is_somewhere(&launch->run_dir) ? launch->run_dir.out.text : "",
                  crew->place.first);
    if (after)
        output_message(launch->output, "%s; the ranks start again", after + strlen("; after: "));
    output_message(launch->output, "attempt %u: ranks %u to %u of %u on %s, MASTER_ADDR=%s",
                   file->attempt, crew->place.first, crew->place.first + crew->self.ranks - 1,
                   crew->place.world, crew->self.node, crew->place.host);
    if (!crew->leads)
        return;
    launcher_log_command_text(launch->plan->command, text, sizeof(text));
    if (!file->attempt)
        launch_log_run(launch, RUN_BEGIN, 0, text);
    crew_places_report(launch);
    launch->means.mode = 0; /* the first node may be another one now */
    launch_policy_open(launch);
}

void launch_crew_started(struct launch *launch, const char *failed)
{
    struct launch_crew *crew = launch->crew;

    if (!crew || !crew_is_set(&crew->start))
        return;
    launch_orders_answer(launch, &crew->start, failed ? OUTCOME_FAILED : OUTCOME_DONE,
                         failed ? failed : "the ranks were started");
    crew->start.id[0] = '\0';
}

static void crew_attempt_end(struct launch *launch)
{
    struct launch_crew *crew = launch->crew;

    keeper_lease(launch->keeper, 0);
    crew->in_attempt = false;
    if (launch->stop_signal || launch->keeper_lost_seen) {
        crew->result = MEMBER_LEFT;
        crew->self.status = attempt_exit_status(launch);
    } else if (launch->failed) {
        crew->result = MEMBER_FAILED;
    } else if (launch->running || crew->silent || crew->fenced || crew_is_set(&crew->stop)) {
        crew->result = MEMBER_STOPPED;
    } else {
        crew->result = MEMBER_DONE;
    }
    if (crew_is_set(&crew->stop) && crew_is_named(crew, &crew->stop) && !crew->leads)
        crew_report_attempt_end(launch, &crew->stop);
    layout_port(&crew->self.port, NULL);
    crew_look_for_checkpoint(launch);
    crew_report(launch, time_mono_ns());
}

void launch_crew_failed(struct launch *launch, uint32_t rank, int status)
{
    struct launch_crew *crew = launch->crew;

    if (!crew)
        return;
    crew->self.culprit = (int32_t)launch_crew_rank(launch, rank);
    crew->self.status = status;
}

/* ---- the run ---- */

static bool crew_contact_lost(const struct launch *launch, int64_t since_ns)
{
    const struct launch_crew *crew = launch->crew;

    return time_boot_ns() - MAX(crew->acked_ns, since_ns) > launch->plan->join_ns;
}

/* A controller that one of the launchers has just started may take a moment, and that is no trouble. */
static void crew_relay(struct launch *launch, int64_t since_ns)
{
    bool just_now = launch->rendezvous && time_boot_ns() - since_ns < CREW_MEET_NS;

    if (!launch->daemons || (just_now && !launch->crew->acked_ns))
        return;
    if (just_now)
        daemons_relay_skip(launch->daemons);
    else
        daemons_relay(launch->daemons, launch->output);
}

/* For an order.  False: none will come, or it is the end. */
static bool crew_wait(struct launch *launch)
{
    struct launch_crew *crew = launch->crew;
    int64_t since_ns = time_boot_ns();

    while (launch_crew_waits(launch) && !launch->stop_signal && !launch->keeper_lost_seen) {
        launch_turn(launch, launch_crew_due_ns(launch));
        launch_orders_turn(launch);
        crew_relay(launch, MAX(since_ns, crew->moved_ns));
        if (crew_contact_lost(launch, since_ns)) {
            output_message(launch->output, "the controller has not answered for %.0f s; giving up",
                           (double)launch->plan->join_ns / 1e9);
            launch->failed = true;
            launch->culprit_status = W_EXITCODE(1, 0);
            return false;
        }
    }
    return crew_is_set(&crew->start) && !crew_is_set(&crew->end) && !launch->stop_signal &&
           !launch->keeper_lost_seen;
}

/* The controller's last word may be that we report the end of the run. */
static void crew_leave(struct launch *launch)
{
    struct launch_crew *crew = launch->crew;
    int64_t until_ns = time_mono_ns() + CREW_LEAVE_NS;

    if (crew_is_set(&crew->end))
        return;
    crew->start.id[0] = '\0';
    crew->result = MEMBER_LEFT;
    crew->self.status = attempt_exit_status(launch);
    while (time_mono_ns() < until_ns && !crew_is_set(&crew->end) && !launch->keeper_lost_seen) {
        launch_turn(launch, launch_crew_due_ns(launch));
        launch_orders_turn(launch);
        if (crew_is_set(&crew->start)) /* it was underway; the controller learns that we leave */
            crew->start.id[0] = '\0';
    }
}

static void crew_missing_add(struct launch_missing *missing, const char *node)
{
    for (uint32_t i = 0; i < missing->count; i++) {
        if (strcmp(missing->node[i], node) == 0)
            return;
    }
    if (missing->count < LAUNCH_MISSING)
        snprintf(missing->node[missing->count++], sizeof(missing->node[0]), "%.63s", node);
}

/* The order to end names the launcher that reports, then those that are missing.  This controller does not know who was lost with
 * the one before.
 */
static void crew_missing_note(const struct launch *launch)
{
    const struct decision *end = &launch->crew->end;
    struct launch_missing *missing = launch->plan->missing;
    const char *behind;

    if (!missing)
        return;
    missing->signal = launch->crew->leads ? launch->save.signal : 0;
    if (!crew_is_set(end) || !launch->crew->reports)
        return;
    missing->reports = true;
    for (uint32_t i = 1; i < MIN(end->node_count, (uint32_t)DECISION_NODES); i++)
        crew_missing_add(missing, end->node[i]);
    for (size_t i = 0; (end->node_count > 1 || !end->argument) &&
                       (behind = job_rendezvous_left_behind(launch->rendezvous, i));
         i++)
        crew_missing_add(missing, behind);
}

void launch_crew_attempts(struct launch *launch)
{
    struct launch_crew *crew = launch->crew;

    crew_look_for_checkpoint(launch);
    if (launch->rendezvous)
        output_message(launch->output, "the launchers of this run meet at %s%s",
                       job_rendezvous_url(launch->rendezvous),
                       job_rendezvous_leads(launch->rendezvous) ? ": this one leads" : "");
    while (crew_wait(launch)) {
        crew_attempt_begin(launch);
        attempt_run(launch);
        crew_attempt_end(launch);
    }
    crew_leave(launch);
    crew_missing_note(launch);
    if (crew_is_set(&crew->end) && crew->end.argument)
        output_message(launch->output, "%s%s", crew->end.why,
                       crew->end.target == TARGET_RUN ? "; the run ends" : "");
}
