/* account.c - one run as text and as JSON. */
#include "show/account.h"

#include <inttypes.h>

#include "core/clean.h"
#include "show/ledger.h"
#include "show/verdict.h"

static const char *const sources[] = {
    [ACCOUNT_LOG] = "log",
    [ACCOUNT_SPOOLS] = "spools",
    [ACCOUNT_LOG_SPOOLS] = "log and spools",
};

int account_exit(const struct account *account)
{
    if (account->verdicts)
        return 1;
    return account->steps && !account_unexplained(account) ? 0 : 3;
}

/* Verdicts about why ranks end; one that is over, since training went on, does not say why it ended later. */
static bool explains_end(const struct verdict *verdict)
{
    return verdict->until_real_ns == 0 &&
           (verdict->kind == VERDICT_CRASH || verdict->kind == VERDICT_HANG ||
            verdict->kind == VERDICT_DESYNC);
}

bool account_unexplained(const struct account *account)
{
    bool explained = account->ended ? account->status == 0 || account->stopped
                                    : account->alive || !account->launched;

    for (size_t i = 0; i < account->verdicts && !explained; i++)
        explained = explains_end(&account->verdict[i]);
    return !explained;
}

static struct json_object *verdicts_json(const struct account *account)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < account->verdicts; i++)
        json_object_array_add(list, verdict_json(&account->verdict[i]));
    return list;
}

static struct json_object *restarts_json(const struct account *account)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < MIN(account->restarts, ACCOUNT_RESTARTS); i++) {
        const struct account_restart *restart = &account->restart[i];
        struct json_object *one = json_object_new_object();

        json_object_object_add(one, "attempt", json_object_new_int64(restart->attempt));
        json_object_object_add(
            one, "culprit", restart->culprit < 0 ? NULL : json_object_new_int64(restart->culprit));
        json_object_object_add(one, "status", json_object_new_int64(restart->status));
        json_object_object_add(one, "why", show_string(restart->text));
        json_object_array_add(list, one);
    }
    return list;
}

static struct json_object *counts_json(const struct account *account)
{
    const struct {
        const char *name;
        uint64_t count;
    } counts[] = {
        { "frames", account->frames },
        { "steps", account->steps },
        { "beats", account->beats },
        { "notes", account->notes },
        { "exits", account->exits },
        { "ticks", account->ticks },
        { "ranks", account->ranks },
        { "ranks_seen", account->ranks_seen },
        { "attempts", account->attempts },
        { "restarts", account->restarts },
        { "gap_records", account->gap_records },
        { "gap_steps", account->gap_steps },
        { "merged_steps", account->merged_steps },
        { "bare_steps", account->bare_steps },
        { "torn_steps", account->torn_steps },
        { "unfinished_steps", account->unfinished_steps },
        { "old_steps", account->old_steps },
        { "unfit_steps", account->ledger.unfit_steps },
        { "lost_frames", account->lost_frames },
        { "damaged_bytes", account->damaged_bytes },
        { "malformed", account->malformed },
    };
    struct json_object *root = json_object_new_object();

    for (size_t i = 0; i < COUNT(counts); i++)
        json_object_object_add(root, counts[i].name, json_object_new_uint64(counts[i].count));
    return root;
}

/* "running", "ended", ACCOUNT_LEFT or "ended without a word" */
static const char *account_state(const struct account *account)
{
    if (account->ended)
        return "ended";
    if (account->closed)
        return ACCOUNT_LEFT;
    return account->alive ? "running" : "ended without a word";
}

struct json_object *account_json(const struct account *account)
{
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "run", show_string(account->run));
    json_object_object_add(root, "source", json_object_new_string(sources[account->source]));
    json_object_object_add(root, "alive", json_object_new_boolean(account->alive));
    json_object_object_add(root, "state", json_object_new_string(account_state(account)));
    json_object_object_add(root, "status",
                           account->ended ? json_object_new_int64(account->status) : NULL);
    json_object_object_add(root, "unexplained",
                           json_object_new_boolean(account_unexplained(account)));
    json_object_object_add(root, "verdicts", verdicts_json(account));
    json_object_object_add(root, "ledger",
                           account->has_ledger ? ledger_json(&account->ledger) : NULL);
    json_object_object_add(root, "restarts", restarts_json(account));
    json_object_object_add(root, "counts", counts_json(account));
    return root;
}

static void print_head(const struct account *account, FILE *out)
{
    char run[64];

    fprintf(out, "run %s: %" PRIu32 " rank%s, %" PRIu64 " steps of ranks seen",
            show_clean(account->run, run, sizeof(run)), account->ranks,
            account->ranks == 1 ? "" : "s", account->steps);
    if (account->ended)
        fprintf(out, ", ended with status %" PRId32, account->status);
    else if (!account->closed && account->alive)
        fputs(", still running", out);
    else
        fprintf(out, ", %s", account_state(account));
    if (account->source == ACCOUNT_SPOOLS)
        fputs("; no controller wrote a log, judged now from the spools", out);
    if (account->source == ACCOUNT_LOG_SPOOLS)
        fputs("; the controller's log ends early, the rest is judged now from the spools", out);
    fputc('\n', out);
}

static void print_restarts(const struct account *account, FILE *out)
{
    for (uint32_t i = 0; i < MIN(account->restarts, ACCOUNT_RESTARTS); i++) {
        const struct account_restart *restart = &account->restart[i];
        char why[168];

        fprintf(out, "restart %" PRIu32 ": attempt %" PRIu32 " ended", i + 1, restart->attempt);
        if (restart->culprit >= 0)
            fprintf(out, ", rank %" PRId32 " first", restart->culprit);
        if (restart->text[0])
            fprintf(out, ": %s", show_clean(restart->text, why, sizeof(why)));
        fputc('\n', out);
    }
    if (account->restarts > ACCOUNT_RESTARTS)
        fprintf(out, "and %" PRIu32 " more restarts\n", account->restarts - ACCOUNT_RESTARTS);
}

static void print_unseen_ranks(const struct account *account, FILE *out)
{
    if (!account->unseen)
        return;
    fprintf(out, "  %s", account->unseen == 1 ? "rank" : "ranks");
    for (uint32_t i = 0; i < MIN(account->unseen, ACCOUNT_UNSEEN); i++)
        fprintf(out, " %" PRIu32, account->unseen_rank[i]);
    if (account->unseen > ACCOUNT_UNSEEN)
        fprintf(out, " and %" PRIu32 " more", account->unseen - ACCOUNT_UNSEEN);
    fputs(": never opened a ring\n", out);
}

static void print_unseen(const struct account *account, FILE *out)
{
    const struct {
        uint64_t count;
        const char *what;
    } lines[] = {
        { account->gap_records, "records were overwritten before they were read" },
        { account->gap_steps, "steps are missing in those gaps" },
        { account->merged_steps,
          "steps were merged by agents that could not reach the controller, and not judged" },
        { account->bare_steps,
          "steps came without their operations from agents that could not reach the "
          "controller: only their losses, norms and digests were judged" },
        { account->torn_steps, "steps came without some of their records" },
        { account->unfinished_steps, "steps had not ended when their rank did" },
        { account->old_steps, "steps have a number that was over: count on, never back" },
        { account->ledger.unfit_steps, "steps were not priced: they cannot be replayed" },
        { account->lost_frames, "frames are missing in the log" },
        { account->damaged_bytes, "damaged bytes were skipped" },
        { account->malformed, "frames could not be understood" },
    };
    bool any = account->unseen > 0;

    for (size_t i = 0; i < COUNT(lines); i++)
        any = any || lines[i].count;
    if (!any)
        return;
    fputs("what could not be seen:\n", out);
    print_unseen_ranks(account, out);
    for (size_t i = 0; i < COUNT(lines); i++) {
        if (lines[i].count)
            fprintf(out, "  %" PRIu64 " %s\n", lines[i].count, lines[i].what);
    }
}

static void print_unexplained(const struct account *account, const struct show_style *style,
                              FILE *out)
{
    if (!account_unexplained(account))
        return;
    if (account->verdicts)
        fputc('\n', out);
    fputs(show_begin(style, SHOW_OVER), out);
    if (account->ended)
        fprintf(out, "cannot tell why it ended with status %" PRId32, account->status);
    else
        fputs("cannot tell why it ended: its launcher was killed before it recorded a status", out);
    fprintf(out, ": nothing that was seen of its ranks says so; see what they printed%s\n",
            show_end(style));
}

static void print_nothing(const struct account *account, const struct show_style *style, FILE *out)
{
    const char *words = "nothing is wrong";

    if (!account->steps)
        words = "cannot tell: no step was seen";
    else if (account->ended && account->stopped)
        words = "nothing is wrong; it was stopped by a signal to its launcher";
    fprintf(out, "%s%s%s\n", show_begin(style, account->steps ? SHOW_GOOD : SHOW_OVER), words,
            show_end(style));
}

void account_end_text(const struct account *account, const struct show_style *style, FILE *out)
{
    print_unexplained(account, style, out);
    if (account->restarts)
        fputc('\n', out);
    print_restarts(account, out);
    if (account->has_ledger) {
        fputc('\n', out);
        ledger_text(&account->ledger, style, out);
    }
    print_unseen(account, out);
}

void account_text(const struct account *account, const struct show_style *style, FILE *out)
{
    print_head(account, out);
    for (size_t i = 0; i < account->verdicts; i++) {
        fputc('\n', out);
        verdict_text(&account->verdict[i], style, out);
    }
    if (account->verdicts == 0 && (!account->steps || !account_unexplained(account)))
        print_nothing(account, style, out);
    account_end_text(account, style, out);
}
