/* hang.c - keeps the newest beat of every rank, and the life of what is found in them. */
#include "judge/hang.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/sketch.h"
#include "judge/ledger.h"

#define SECOND INT64_C(1000000000)
#define SHAPES 16 /* whose steps are timed; the one not seen for longest goes */
#define KINDS 2   /* findings at once: hang and desync */

struct beat_kept {     /* of a rank, beside what wait.h looks at */
    bool any, arrived; /* arrived: since the last look */
    int64_t arrived_ns;
    int64_t advanced_ns; /* on its node's clock: the newest beat in which something had moved */
    int64_t cpu_ns, cpu_at_ns;
    uint32_t oom_kills;
    size_t room; /* bytes behind op and channel */
    struct fact_stack *stack;
};

struct shape_time {
    uint64_t class, used; /* used: when last, in steps */
    struct sketch sketch;
};

struct found {          /* what the last look found, one place a kind of verdict */
    uint64_t signature; /* 0: nothing */
    uint32_t times;     /* in a row */
    char id[20];        /* of the verdict that is open for it; "": none */
    uint32_t victims;   /* the most that waited while it was open */
};

struct hang {
    uint32_t world;
    struct wait_rank *rank;
    struct beat_kept *kept;
    struct shape_time *shape[SHAPES];
    uint64_t steps; /* whole ones, of all attempts */
    uint64_t class; /* of the newest step */
    uint32_t warm;  /* whole steps of this attempt */
    int64_t look_ns;
    struct found found[KINDS];
    struct wait_finding finding[2];
    struct verdict
        given_up; /* what the first to give up had waited for; kind 0: nothing is known */
};

int hang_create(struct hang **ret)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : -ENOMEM;
}

void hang_destroy(struct hang *hang)
{
    if (!hang)
        return;
    for (uint32_t rank = 0; rank < hang->world; rank++) {
        free(hang->rank[rank].op); /* the channels lie behind */
        free(hang->kept[rank].stack);
    }
    for (int i = 0; i < SHAPES; i++)
        free(hang->shape[i]);
    free(hang->rank);
    free(hang->kept);
    free(hang);
}

static int hang_resize(struct hang *hang, uint32_t world)
{
    struct wait_rank *rank;
    struct beat_kept *kept;

    if (world <= hang->world)
        return 0;
    rank = realloc(hang->rank, world * sizeof(*rank));
    if (rank)
        hang->rank = rank;
    kept = realloc(hang->kept, world * sizeof(*kept));
    if (kept)
        hang->kept = kept;
    if (!rank || !kept)
        return -ENOMEM;
    memset(rank + hang->world, 0, (world - hang->world) * sizeof(*rank));
    memset(kept + hang->world, 0, (world - hang->world) * sizeof(*kept));
    hang->world = world;
    return 0;
}

/* ---- facts ---- */

void hang_attempt(struct court *court)
{
    struct hang *hang = court->hang;

    for (uint32_t rank = 0; rank < hang->world; rank++) {
        struct wait_rank *at = &hang->rank[rank];
        struct beat_kept *kept = &hang->kept[rank];

        free(TAKE(kept->stack));
        *kept = (struct beat_kept){ .room = kept->room };
        *at = (struct wait_rank){ .op = at->op, .channel = at->channel };
    }
    hang->warm = 0;
    memset(hang->found, 0, sizeof(hang->found));
    hang->given_up.kind = 0;
}

/* Copies what varies in length into one piece of memory of the rank's own. */
static int beat_keep(struct wait_rank *rank, struct beat_kept *kept, const struct fact_beat *fact)
{
    size_t ops = fact->ops * sizeof(*fact->op), channels = fact->channels * sizeof(*fact->channel);

    if (ops + channels > kept->room) {
        void *grown = realloc(rank->op, ops + channels);

        if (!grown)
            return -ENOMEM;
        rank->op = grown;
        kept->room = ops + channels;
    }
    rank->ops = fact->ops;
    rank->channels = fact->channels;
    if (ops)
        memcpy(rank->op, fact->op, ops);
    rank->channel = channels ? (void *)((char *)rank->op + ops) : NULL;
    if (channels)
        memcpy(rank->channel, fact->channel, channels);
    return 0;
}

static bool op_moved(const struct fact_beat *fact)
{
    for (uint32_t i = 0; i < fact->ops; i++) {
        if (fact->op[i].advanced)
            return true;
    }
    return false;
}

/* How busy it was since an older beat: of beats that come close together the first is kept. */
static void beat_cpu(struct wait_rank *rank, struct beat_kept *kept, const struct fact_beat *fact)
{
    int64_t apart = fact->mono_ns - kept->cpu_at_ns;
    int64_t cpu_ns = fact->cpu_ns + fact->run_delay_ns; /* ready to run is no waiting, either */

    if (kept->any && apart < SECOND / 2)
        return;
    rank->burns = kept->any ? (double)(cpu_ns - kept->cpu_ns) / (double)MAX(apart, 1) : -1;
    kept->cpu_ns = cpu_ns;
    kept->cpu_at_ns = fact->mono_ns;
}

int hang_beat(struct court *court, const struct fact_beat *fact)
{
    struct hang *hang = court->hang;
    struct wait_rank *rank;
    struct beat_kept *kept;
    int result;

    if (fact->attempt != court->model.attempt)
        return 0;
    if (fact->rank >= court->model.world)
        return -EPROTO;
    if (fact->ring < court->model.rank[fact->rank].from_ring)
        return 0;
    result = hang_resize(hang, court->model.world);
    if (result < 0)
        return result;
    rank = &hang->rank[fact->rank];
    kept = &hang->kept[fact->rank];
    if (rank->gone && !fact->final) /* a forked child of the rank: not the rank */
        return 0;
    result = beat_keep(rank, kept, fact);
    if (result < 0)
        return result;
    beat_cpu(rank, kept, fact);
    rank->advanced = fact->advanced || op_moved(fact) || !kept->any;
    if (rank->advanced)
        kept->advanced_ns = fact->mono_ns;
    rank->gone = fact->final || fact->state == 'X';
    rank->state = fact->state;
    rank->phase = fact->phase;
    rank->phases = fact->phases;
    rank->mono_ns = fact->mono_ns;
    rank->stuck_ns = fact->mono_ns - kept->advanced_ns;
    rank->phase_age_ns = fact->phase ? fact->phase_age_ns : 0;
    rank->step = fact->step;
    kept->oom_kills = fact->oom_kills;
    kept->any = kept->arrived = true;
    return 0;
}

int hang_stack(struct court *court, const struct fact_stack *fact)
{
    struct hang *hang = court->hang;
    struct beat_kept *kept;

    if (fact->attempt != court->model.attempt)
        return 0;
    if (fact->rank >= court->model.world)
        return -EPROTO;
    if (hang_resize(hang, court->model.world) < 0)
        return -ENOMEM;
    kept = &hang->kept[fact->rank];
    if (!kept->stack)
        kept->stack = malloc(sizeof(*kept->stack));
    if (!kept->stack)
        return -ENOMEM;
    *kept->stack = *fact;
    return 0;
}

bool hang_is_gone(const struct court *court, uint32_t rank)
{
    return rank < court->hang->world && court->hang->rank[rank].gone;
}

uint32_t hang_oom_kills(const struct court *court, uint32_t rank)
{
    return rank < court->hang->world ? court->hang->kept[rank].oom_kills : 0;
}

const struct fact_stack *hang_stack_of(const struct court *court, uint32_t rank)
{
    return rank < court->hang->world ? court->hang->kept[rank].stack : NULL;
}

/* ---- how long a step takes ---- */

static struct shape_time *shape_find(struct hang *hang, uint64_t class)
{
    int place = 0;

    for (int i = 0; i < SHAPES; i++) {
        if (!hang->shape[i]) {
            hang->shape[i] = calloc(1, sizeof(*hang->shape[i]));
            if (hang->shape[i])
                hang->shape[i]->class = class;
            return hang->shape[i];
        }
        if (hang->shape[i]->class == class)
            return hang->shape[i];
        if (hang->shape[i]->used < hang->shape[place]->used)
            place = i;
    }
    *hang->shape[place] = (struct shape_time){ .class = class };
    return hang->shape[place];
}

void hang_step(struct court *court, const struct whole *whole)
{
    struct hang *hang = court->hang;
    struct shape_time *shape;
    int64_t longest = 0;

    for (uint32_t rank = court->model.world; rank > 0; rank--) {
        const struct fact_step *step = &whole->step_of[rank - 1];

        if (!whole->shape_of[rank - 1])
            continue;
        if (step->flags & STEP_UNFINISHED)
            return;
        longest = MAX(longest, step->duration_ns + step->tail_ns);
        hang->class = whole->shape_of[rank - 1]->fact.class;
    }
    hang->steps++;
    hang->warm++;
    shape = shape_find(hang, hang->class);
    if (!shape)
        return;
    shape->used = hang->steps;
    sketch_add(&shape->sketch, (uint64_t)MAX(longest, 0));
}

static bool is_late(const struct court *court)
{
    return court->hang->warm < court->limits.hang_warm_steps;
}

static struct wait_rule rule_of(struct court *court)
{
    struct hang *hang = court->hang;
    const struct thresholds *limits = &court->limits;
    const struct shape_time *shape = is_late(court) ? NULL : shape_find(hang, hang->class);
    struct wait_rule rule = { .late_ns = (int64_t)(limits->hang_late_limit * 1e9),
                              .burns = limits->hang_burns };

    rule.limit_ns = rule.late_ns;
    if (shape) {
        double step_ns = (double)sketch_quantile(&shape->sketch, 0.99);

        rule.limit_ns =
            (int64_t)MAX(limits->hang_least_limit * 1e9, limits->hang_step_times * step_ns);
    }
    rule.stuck_ns = (int64_t)(limits->hang_stuck_share * (double)rule.limit_ns);
    return rule;
}

/* ---- looking ---- */

/* Beats count from when they came: clocks of nodes differ. */
static void beats_age(const struct court *court, struct hang *hang, int64_t now_ns)
{
    int64_t fresh_ns = (int64_t)(court->limits.hang_fresh * (double)SECOND);

    for (uint32_t rank = 0; rank < hang->world; rank++) {
        struct beat_kept *kept = &hang->kept[rank];

        if (kept->arrived)
            kept->arrived_ns = now_ns;
        kept->arrived = false;
        hang->rank[rank].seen =
            kept->any && (hang->rank[rank].gone || now_ns - kept->arrived_ns < fresh_ns);
    }
}

static uint64_t signature_of(const struct wait_finding *finding)
{
    uint64_t sum = hash64_u64(finding->kind + 1, finding->op.comm);

    sum = hash64_u64(sum, finding->op.key);
    for (uint32_t i = 0; i < MIN(finding->culprits, WAIT_CULPRITS); i++)
        sum = hash64_u64(sum, (uint64_t)finding->culprit[i] << 8 | finding->how[i]);
    return sum | 1;
}

static struct found *found_of(struct hang *hang, const struct wait_finding *finding)
{
    return &hang->found[finding->kind == WAIT_MISMATCH];
}

static struct entry *entry_of(struct court *court, const struct found *found)
{
    for (uint32_t i = 0; found->id[0] && i < court->docket.count; i++) {
        if (strcmp(court->docket.entry[i]->verdict.id, found->id) == 0)
            return court->docket.entry[i];
    }
    return NULL;
}

struct entry *hang_open(struct court *court)
{
    for (int i = 0; i < KINDS; i++) {
        struct entry *entry = entry_of(court, &court->hang->found[i]);

        if (entry && entry->open)
            return entry;
    }
    return NULL;
}

static bool lines_equal(const struct verdict *a, const struct verdict *b)
{
    if (a->because_count != b->because_count || a->rank_count != b->rank_count ||
        a->layer != b->layer)
        return false;
    for (uint32_t i = 0; i < MIN(a->rank_count, VERDICT_RANKS); i++) {
        if (a->rank[i] != b->rank[i])
            return false;
    }
    return strcmp(a->cause, b->cause) == 0;
}

/* What is learnt later goes into the verdict that stands: one fault is one verdict. */
static void entry_renew(struct entry *entry, const struct verdict *draft)
{
    struct verdict *verdict = &entry->verdict;
    struct verdict fresh = *draft;

    if (lines_equal(verdict, draft))
        return;
    memcpy(fresh.id, verdict->id, sizeof(fresh.id));
    memcpy(fresh.run, verdict->run, sizeof(fresh.run));
    fresh.since_step = verdict->since_step;
    fresh.since_real_ns = verdict->since_real_ns;
    fresh.decided_step = verdict->decided_step;
    fresh.decided_real_ns = verdict->decided_real_ns;
    fresh.gpu_seconds = verdict->gpu_seconds;
    fresh.echo_count = verdict->echo_count;
    memcpy(fresh.echo, verdict->echo, sizeof(fresh.echo));
    *verdict = fresh;
    entry->changed = true;
}

static void entry_cost(struct court *court, struct entry *entry, int64_t now_ns)
{
    double seconds = (double)(now_ns + court->mono_to_real_ns - entry->verdict.since_real_ns) / 1e9;

    entry->verdict.gpu_seconds =
        entry->cost_seconds * court->model.world + MAX(seconds, 0) * court->model.world;
}

static void say(struct court *court, const struct wait_finding *finding, int64_t now_ns)
{
    struct hang *hang = court->hang;
    struct found *found = found_of(hang, finding);
    struct entry *entry = entry_of(court, found);
    struct verdict draft = { 0 };
    bool fresh;

    hang_draft(court, hang->rank, finding, rule_of(court).limit_ns, is_late(court), &draft);
    draft.since_step = court->history.count ? court->last_step + 1 : 0;
    draft.since_real_ns = now_ns - finding->op.age_ns + court->mono_to_real_ns;
    if (finding->op.comm == MODEL_NONE && finding->culprits)
        draft.since_real_ns =
            now_ns - hang->rank[finding->culprit[0]].stuck_ns + court->mono_to_real_ns;
    if (entry && entry->open) {
        entry_renew(entry, &draft);
        entry_cost(court, entry, now_ns);
        return;
    }
    entry = court_find(court, &draft, &fresh);
    if (!entry)
        return;
    memcpy(found->id, entry->verdict.id, sizeof(found->id));
    found->victims = finding->victims;
    entry->attempt = court->model.attempt;
    entry_cost(court, entry, now_ns);
    ledger_hang(court->book, entry->verdict.since_real_ns - court->mono_to_real_ns);
}

/* The ranks go on. */
static void close_found(struct court *court, struct found *found, int64_t now_ns)
{
    struct entry *entry = entry_of(court, found);

    if (entry && entry->open) {
        entry->open = false;
        entry->changed = true;
        entry->verdict.until_real_ns = now_ns + court->mono_to_real_ns;
        entry_cost(court, entry, now_ns);
        entry->cost_seconds = entry->verdict.gpu_seconds / MAX(court->model.world, 1);
        ledger_hang(court->book, 0);
    }
    *found = (struct found){ 0 };
}

/* Ranks that have ended, or are about to, are no hang: nobody is left to be held. */
static bool somebody_lives(const struct hang *hang)
{
    for (uint32_t rank = 0; rank < hang->world; rank++) {
        if (hang->rank[rank].seen && !hang->rank[rank].gone && hang->rank[rank].state != 'Z')
            return true;
    }
    return false;
}

void hang_judge(struct court *court, int64_t now_ns)
{
    struct hang *hang = court->hang;
    struct wait_rule rule = rule_of(court);
    bool again[KINDS] = { false };
    int count;

    if (hang->world != court->model.world ||
        (double)(now_ns - hang->look_ns) < court->limits.hang_look * 1e9)
        return;
    if (court->exits) /* somebody died: who waits for it now is told to end */
        return;
    hang->look_ns = now_ns;
    beats_age(court, hang, now_ns);
    if (!somebody_lives(hang))
        return;
    count = wait_look(&court->model, hang->rank, &rule, hang->finding);
    for (int i = 0; i < count; i++) {
        const struct wait_finding *finding = &hang->finding[i];
        struct found *found = found_of(hang, finding);
        uint64_t signature = signature_of(finding);

        again[found - hang->found] = true;
        if (found->id[0] && finding->victims < found->victims)
            continue; /* those who waited are ended: what was said with them there says more */
        found->times = found->signature == signature ? found->times + 1 : 1;
        found->signature = signature;
        if (found->times >= 2)
            say(court, finding, now_ns);
    }
    for (int i = 0; i < KINDS; i++) {
        if (!again[i])
            close_found(court, &hang->found[i], now_ns);
    }
}

/* ---- those who give up ---- */

static int64_t longest_wait(const struct wait_rank *rank)
{
    int64_t longest = 0;

    for (uint32_t i = 0; i < rank->ops; i++) {
        if (rank->op[i].started && rank->op[i].comm)
            longest = MAX(longest, rank->op[i].age_ns);
    }
    return longest;
}

/* As they were when the first one ended: who is gone since was told to end, or followed. */
static void before_exit(const struct court *court, int64_t exit_ns, struct wait_rank *rank)
{
    for (uint32_t at = 0; at < court->hang->world; at++) {
        rank[at] = court->hang->rank[at];
        if (!rank[at].gone || court_run_ns(court, at, rank[at].mono_ns) < exit_ns)
            continue;
        rank[at].gone = false;
        rank[at].seen = true;
    }
}

void hang_gave_up(struct court *court, const struct fact_exit *fact)
{
    struct hang *hang = court->hang;
    CLEAN(free_clean) struct wait_rank *rank = NULL;
    int64_t waited_ns = fact->rank < hang->world ? longest_wait(&hang->rank[fact->rank]) : 0;
    /* What has lasted half as long as somebody was willing to wait is not what happened meanwhile. */
    int64_t limit_ns = MAX(waited_ns / 2, SECOND);
    struct wait_rule rule = { .limit_ns = limit_ns,
                              .late_ns = limit_ns,
                              .stuck_ns =
                                  (int64_t)(court->limits.hang_stuck_share * (double)limit_ns),
                              .burns = court->limits.hang_burns };

    if (waited_ns < SECOND || hang->world != court->model.world)
        return;
    rank = calloc(hang->world, sizeof(*rank));
    if (!rank)
        return;
    before_exit(court, fact->mono_ns, rank);
    if (wait_look(&court->model, rank, &rule, hang->finding) < 1 ||
        hang->finding[0].kind == WAIT_UNSEEN)
        return;
    hang->given_up = (struct verdict){ 0 };
    hang_draft(court, rank, &hang->finding[0], 0, false, &hang->given_up);
    verdict_because(&hang->given_up, "launcher", "rank %u waited for %.0f s, and gave up",
                    fact->rank, (double)waited_ns / 1e9);
    hang->given_up.since_step = court->history.count ? court->last_step + 1 : 0;
    hang->given_up.since_real_ns = fact->mono_ns - waited_ns + court->mono_to_real_ns;
}

/* What somebody was in does not grow old: it either is still, or was in it when it ended. */
bool hang_disagreed(const struct court *court, const struct fact_exit *fact, struct verdict *draft)
{
    struct hang *hang = court->hang;
    CLEAN(free_clean) struct wait_rank *rank = NULL;

    if (hang->world != court->model.world || fact->rank >= hang->world)
        return false;
    rank = calloc(hang->world, sizeof(*rank));
    if (!rank)
        return false;
    for (uint32_t at = 0; at < hang->world; at++) {
        rank[at] = hang->rank[at];
        rank[at].seen = hang->kept[at].any;
    }
    if (!wait_disagreed(&court->model, rank, fact->rank, &hang->finding[0]))
        return false;
    *draft = (struct verdict){ 0 };
    hang_draft(court, rank, &hang->finding[0], 0, false, draft);
    return true;
}

void hang_told_exit(struct court *court, const struct fact_exit *fact)
{
    struct hang *hang = court->hang;
    struct wait_rule rule = rule_of(court);
    CLEAN(free_clean) struct wait_rank *rank = NULL;
    bool once = false;
    int count;

    for (int i = 0; i < KINDS; i++)
        once |= hang->found[i].times == 1 && !hang->found[i].id[0];
    if (!once || court->exits || hang->world != court->model.world)
        return;
    rank = calloc(hang->world, sizeof(*rank));
    if (!rank)
        return;
    before_exit(court, fact->mono_ns, rank);
    count = wait_look(&court->model, rank, &rule, hang->finding);
    for (int i = 0; i < count; i++) {
        struct found *found = found_of(hang, &hang->finding[i]);

        if (found->times != 1 || found->signature != signature_of(&hang->finding[i]))
            continue;
        found->times++;
        say(court, &hang->finding[i], fact->mono_ns);
    }
}

struct entry *hang_given_up(struct court *court, int64_t now_ns)
{
    struct hang *hang = court->hang;
    struct entry *entry;
    bool fresh;

    if (!hang->given_up.kind)
        return NULL;
    entry = court_find(court, &hang->given_up, &fresh);
    if (!entry)
        return NULL;
    entry->attempt = court->model.attempt;
    entry_cost(court, entry, now_ns);
    ledger_hang(court->book, entry->verdict.since_real_ns - court->mono_to_real_ns);
    return entry;
}
