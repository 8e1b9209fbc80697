/* slurm_site.c - look, change, look again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "slurm/slurm_site.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "slurm/slurm_call.h"

#define SITE_OPERATOR "; it needs SlurmUser, root, or an account with AdminLevel=Operator"

static bool site_has_our_reason(const struct slurm_site *what, const struct slurm_node *node)
{
    return strcmp(node->reason, what->reason) == 0;
}

static bool site_is_drained_by_us(const struct slurm_site *what, const struct slurm_node *node)
{
    return node->flags & SLURM_NODE_DRAIN && site_has_our_reason(what, node);
}

static void site_words(const struct slurm_node *node, char *ret, size_t room)
{
    snprintf(ret, room, "%s is %.60s%s%.80s%s%.30s", node->name, node->state,
             node->reason[0] ? ": " : "", node->reason, node->reason_user[0] ? ", by " : "",
             node->reason_user);
}

/* -EPERM from `may`: SLURM_REFUSED with its words. */
static int site_change(const struct slurm_site *what, const char *state, bool with_reason,
                       struct err *err)
{
    char state_word[32], reason_word[160], why[120];
    const char *change[] = { state_word, with_reason ? reason_word : NULL, NULL };

    if (what->may && !what->may(what->arg, why, sizeof(why)))
        return err_set(err, -EACCES, "%s", why);
    snprintf(state_word, sizeof(state_word), "State=%s", state);
    snprintf(reason_word, sizeof(reason_word), "Reason=%.140s", what->reason);
    return slurm_node_update(what->node, change, SLURM_CALL_NS, err);
}

/* What a change that failed means, before anybody looks again. */
static enum slurm_did site_failure(int result, const struct err *err, char *ret, size_t room)
{
    snprintf(ret, room, "%s%s", err->text, result == -EPERM ? SITE_OPERATOR : "");
    return result == -EPERM || result == -EACCES ? SLURM_REFUSED
           : result == -ETIME                    ? SLURM_NOT_KNOWN
                                                 : SLURM_FAILED;
}

typedef bool site_is_done(const struct slurm_site *what, const struct slurm_node *node);

static bool site_is_given_back(const struct slurm_site *what, const struct slurm_node *node)
{
    (void)what;
    return !(node->flags & (SLURM_NODE_DRAIN | SLURM_NODE_DOWN));
}

static bool site_is_down_by_us(const struct slurm_site *what, const struct slurm_node *node)
{
    return node->flags & SLURM_NODE_DOWN && site_has_our_reason(what, node);
}

/* The node as it is after the change tells more than the answer of the call. */
static enum slurm_did site_change_and_look(const struct slurm_site *what, const char *state,
                                           bool with_reason, site_is_done *is_done, char *ret,
                                           size_t room)
{
    struct err err = { "" }, later = { "" };
    int result = site_change(what, state, with_reason, &err);
    struct slurm_node node;

    if (result == -EACCES || result == -EPERM || result == -ENOENT)
        return site_failure(result, &err, ret, room);
    if (slurm_node_show(what->node, SLURM_CALL_NS, &node, &later) < 0) {
        snprintf(ret, room, "%.100s%s%.100s", err.text, err.text[0] ? "; " : "", later.text);
        return SLURM_NOT_KNOWN;
    }
    site_words(&node, ret, room);
    if (is_done(what, &node))
        return SLURM_DID;
    if (result == 0) /* it says that it did so, and the node is as it was */
        return SLURM_FAILED;
    return site_failure(result, &err, ret, room);
}

static int site_look(const struct slurm_site *what, struct slurm_node *node, char *ret, size_t room)
{
    struct err err = { "" };
    int result = slurm_node_show(what->node, SLURM_CALL_NS, node, &err);

    snprintf(ret, room, "%s", err.text);
    return result;
}

enum slurm_did slurm_site_drain(const struct slurm_site *what, char *ret, size_t room)
{
    struct slurm_node node;

    if (site_look(what, &node, ret, room) < 0)
        return what->look ? SLURM_NOT_KNOWN : SLURM_FAILED;
    site_words(&node, ret, room);
    if (site_is_drained_by_us(what, &node))
        return SLURM_DID;
    if (node.flags & SLURM_NODE_DRAIN)
        return SLURM_NOT_OURS;
    return what->look ? SLURM_NOT_KNOWN
                      : site_change_and_look(what, "DRAIN", true, site_is_drained_by_us, ret, room);
}

enum slurm_did slurm_site_undrain(const struct slurm_site *what, char *ret, size_t room)
{
    struct slurm_node node;

    if (site_look(what, &node, ret, room) < 0)
        return what->look ? SLURM_NOT_KNOWN : SLURM_FAILED;
    site_words(&node, ret, room);
    if (!(node.flags & SLURM_NODE_DRAIN) &&
        !(node.flags & SLURM_NODE_DOWN && site_has_our_reason(what, &node)))
        return SLURM_DID;
    if (!site_has_our_reason(what, &node))
        return SLURM_NOT_OURS;
    if (what->look)
        return SLURM_NOT_KNOWN;
    return site_change_and_look(what, node.flags & SLURM_NODE_DOWN ? "RESUME" : "UNDRAIN", false,
                                site_is_given_back, ret, room);
}

/* Whether the job is the only one on the node; false also when nobody can tell. */
enum slurm_did slurm_site_is_free(const char *node, char *ret, size_t room)
{
    const struct slurm_site what = { .node = node };
    struct slurm_node now;

    if (site_look(&what, &now, ret, room) < 0)
        return SLURM_FAILED;
    site_words(&now, ret, room);
    if (!(now.flags & SLURM_NODE_DRAIN) ||
        strncmp(now.reason, SLURM_SITE_REASON, strlen(SLURM_SITE_REASON)) != 0)
        return SLURM_NOT_OURS;
    return strncmp(now.state, "IDLE", 4) == 0 ? SLURM_DID : SLURM_REFUSED;
}

static bool site_job_is_alone(const struct slurm_site *what)
{
    CLEAN(free_clean) struct slurm_answer *answer = malloc(sizeof(*answer));
    char squeue[] = "squeue", quiet[] = "-h", of[] = "-w", format[] = "--format=%A", all[] = "-a";
    char node[SLURM_NAME], wanted[32];
    char *const argv[] = { squeue, quiet, all, of, node, format, NULL };
    struct slurm_job job;

    if (!answer || !what->job || !slurm_is_node_name(what->node) ||
        slurm_job_show(what->job, SLURM_CALL_NS, &job, NULL) < 0 || job.user != what->user)
        return false;
    snprintf(node, sizeof(node), "%s", what->node);
    snprintf(wanted, sizeof(wanted), "%" PRIu64 "\n", what->job);
    return slurm_call(argv, SLURM_CALL_NS, answer, NULL) == 0 && strcmp(answer->text, wanted) == 0;
}

enum slurm_did slurm_site_down(const struct slurm_site *what, char *ret, size_t room)
{
    struct slurm_node node;
    enum slurm_did did;

    if (site_look(what, &node, ret, room) < 0)
        return what->look ? SLURM_NOT_KNOWN : SLURM_FAILED;
    site_words(&node, ret, room);
    if (site_is_down_by_us(what, &node))
        return SLURM_DID;
    if (node.flags & (SLURM_NODE_DRAIN | SLURM_NODE_DOWN) && !site_is_drained_by_us(what, &node))
        return SLURM_NOT_OURS;
    if (what->look)
        return site_is_drained_by_us(what, &node) ? SLURM_DID : SLURM_NOT_KNOWN;
    if ((what->reach ? what->reach : slurm_reach)(what->node, ret, room) != SLURM_REACH_SILENT)
        return SLURM_REFUSED;
    /* From now on no job can start there: what squeue says then stays true. */
    did = site_is_drained_by_us(what, &node)
              ? SLURM_DID
              : site_change_and_look(what, "DRAIN", true, site_is_drained_by_us, ret, room);
    if (did != SLURM_DID || !site_job_is_alone(what))
        return did;
    return site_change_and_look(what, "DOWN", true, site_is_down_by_us, ret, room);
}
