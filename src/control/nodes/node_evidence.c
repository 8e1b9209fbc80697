/* node_evidence.c - the worst that is proven about a node, named by the verdict that it explains.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/nodes/node_evidence.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "control/nodes/site_core.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"

#define VERDICT_COUNTS_NS (3600 * NS_PER_S) /* after its last news */
#define VERDICT_SURE 0.8
#define FITS_BEFORE_NS (600 * NS_PER_S) /* a finding may come before the effect */
#define FITS_AFTER_NS (600 * NS_PER_S)
#define EVIDENCE_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define ERROR_COUNTS_NS (3600 * NS_PER_S)
#define LOST_COUNTS_NS (300 * NS_PER_S) /* then the scheduler has seen for itself */

/* ---- what a finding proves ---- */

/* Users cause what is of class host (memory, tasks that hang), and of class app. */
static bool evidence_is_of_parts(const struct finding *finding)
{
    return finding->origin != FINDING_FROM_USER && !finding_is_of_image(finding) &&
           (finding->class == FINDING_CLASS_HARDWARE || finding->class == FINDING_CLASS_FABRIC ||
            finding->class == FINDING_CLASS_DRIVER || finding->class == FINDING_CLASS_STORAGE);
}

/* A program that crashes, or waits for its data, says nothing about the node. */
static bool evidence_layer_is_of_parts(unsigned layer)
{
    static const uint8_t parts[] = { LAYER_GPU,   LAYER_GPU_MEMORY, LAYER_THERMAL,
                                     LAYER_POWER, LAYER_PCIE,       LAYER_NVLINK,
                                     LAYER_NIC,   LAYER_STORAGE,    LAYER_CPU };

    for (size_t i = 0; i < COUNT(parts); i++) {
        if (parts[i] == layer)
            return true;
    }
    return false;
}

static bool evidence_fits_layer(unsigned layer, const struct finding *finding)
{
    switch (layer) {
    case LAYER_NIC:
    case LAYER_FABRIC:
        return finding->class == FINDING_CLASS_FABRIC || finding->kind == FINDING_NIC ||
               finding->kind == FINDING_PORT;
    case LAYER_STORAGE:
    case LAYER_CHECKPOINT:
    case LAYER_DATA:
        return finding->class == FINDING_CLASS_STORAGE;
    case LAYER_CPU:
    case LAYER_HOST_MEMORY:
        return finding->kind == FINDING_MCE || finding->kind == FINDING_EDAC ||
               finding->kind == FINDING_THERMAL || finding->kind == FINDING_LOCKUP;
    case LAYER_USER_CODE:
    case LAYER_FRAMEWORK:
        return false;
    case LAYER_UNKNOWN:
        return finding->severity == FINDING_FATAL;
    default:
        return finding->class == FINDING_CLASS_HARDWARE || finding->class == FINDING_CLASS_DRIVER;
    }
}

static bool evidence_fits(const struct node_verdict *verdict, const struct finding *finding)
{
    return finding->severity >= FINDING_ERROR && evidence_is_of_parts(finding) &&
           evidence_fits_layer(verdict->layer, finding) &&
           finding->real_ns >= verdict->since_real_ns - FITS_BEFORE_NS &&
           finding->real_ns <= verdict->news_real_ns + FITS_AFTER_NS;
}

/* The newest finding of the node that explains the verdict; NULL: none. */
static const struct finding *evidence_finding(const struct site_core *core,
                                              const struct site_node *node,
                                              const struct node_verdict *verdict)
{
    const struct finding *finding;

    if (node->worst.id[0] && evidence_fits(verdict, &node->worst))
        return &node->worst;
    for (uint64_t ordinal = site_core_findings(core);
         ordinal > 0 && (finding = site_core_finding(core, ordinal - 1)); ordinal--) {
        if (strcmp(finding->node, node->name) == 0 && evidence_fits(verdict, finding))
            return finding;
    }
    return NULL;
}

/* ---- checks, findings, verdicts ---- */

static void evidence_of_check(const struct check *check, struct node_evidence *ret)
{
    uint64_t id = hash64(0, check->node, strlen(check->node));

    id = hash64(id, check->name, strlen(check->name));
    id = hash64(id, check->device, strlen(check->device));
    id = hash64_u64(id, (uint64_t)check->real_ns);
    ret->any = ret->proven = true;
    ret->strong = check->state == CHECK_FAILED;
    snprintf(ret->kind, sizeof(ret->kind), "node-fault");
    snprintf(ret->cause, sizeof(ret->cause), "check %.50s", check->name);
    snprintf(ret->id, sizeof(ret->id), "c-%016" PRIx64, id);
    memcpy(ret->stage, check->stage, sizeof(ret->stage));
    memcpy(ret->check, check->name, sizeof(ret->check));
    snprintf(ret->why, sizeof(ret->why), "check %.40s of stage %.20s: %.120s", check->name,
             check->stage, check->why);
}

static void evidence_of_checks(const struct site_node *node, int64_t now_ns,
                               struct node_evidence *ret)
{
    for (size_t i = 0; i < node->checks && !ret->strong; i++) {
        const struct check *check = &node->check[i];

        if (now_ns - check->real_ns <= NODE_CHECK_VALID_NS &&
            strcmp(check->name, CHECK_NAME_ALL) != 0 &&
            (check->state == CHECK_FAILED || (check->state == CHECK_LIMITED && !ret->any)))
            evidence_of_check(check, ret);
    }
}

static void evidence_of_finding(const struct finding *finding, struct node_evidence *ret)
{
    ret->any = ret->proven = true;
    ret->strong = finding->severity == FINDING_FATAL && evidence_is_of_parts(finding);
    snprintf(ret->kind, sizeof(ret->kind), "node-fault");
    if (finding->code)
        snprintf(ret->cause, sizeof(ret->cause), "%s %" PRIu32, finding_kind_name(finding->kind),
                 finding->code);
    else
        snprintf(ret->cause, sizeof(ret->cause), "%s", finding_kind_name(finding->kind));
    memcpy(ret->id, finding->id, sizeof(ret->id));
    ret->stage[0] = ret->check[0] = '\0';
    snprintf(ret->why, sizeof(ret->why), "%s%s%s: %.120s", ret->cause,
             finding->device[0] ? " of " : "", finding->device, finding->text);
}

/* Its launcher is silent, and so is its daemon since then.  A run's word names no node for good. */
static void evidence_of_loss(const struct site_node *node, const struct node_verdict *verdict,
                             int64_t now_ns, struct node_evidence *ret)
{
    if (now_ns - verdict->since_real_ns > LOST_COUNTS_NS || ret->strong ||
        node->newest_real_ns > verdict->since_real_ns)
        return;
    *ret = (struct node_evidence){ .any = true, .strong = true, .dead = true };
    snprintf(ret->kind, sizeof(ret->kind), "node-fault");
    snprintf(ret->cause, sizeof(ret->cause), NODE_LOST);
    memcpy(ret->id, verdict->id, sizeof(ret->id));
    snprintf(ret->why, sizeof(ret->why), "run %.63s has lost it, and its daemon is silent",
             verdict->run);
}

static bool evidence_is_loss(const struct node_verdict *verdict)
{
    return verdict->kind == VERDICT_NODE_FAULT && strcmp(verdict->cause, NODE_LOST) == 0;
}

/* A verdict that a finding explains, or that came with a proven fault of the same layer, gives its name to the reason. */
static void evidence_of_verdict(const struct site_core *core, const struct site_node *node,
                                const struct node_verdict *verdict, struct node_evidence *ret)
{
    const struct finding *finding = evidence_finding(core, node, verdict);
    char why[sizeof(ret->why)];

    if (!finding && (ret->any || !evidence_layer_is_of_parts(verdict->layer)))
        return; /* it is about something else, or nobody can tell */
    if (finding && !ret->strong)
        evidence_of_finding(finding, ret);
    memcpy(why, ret->why, sizeof(why));
    ret->any = true;
    ret->strong |= finding && verdict->confidence >= VERDICT_SURE;
    snprintf(ret->kind, sizeof(ret->kind), "%s", verdict_kind_name(verdict->kind));
    snprintf(ret->cause, sizeof(ret->cause), "%s",
             verdict->cause[0] ? verdict->cause : verdict_layer_name(verdict->layer));
    memcpy(ret->id, verdict->id, sizeof(ret->id));
    snprintf(ret->why, sizeof(ret->why), "%s %.40s, verdict %s; %.100s", ret->kind, ret->cause,
             ret->id, finding ? why : "nothing of root's side confirms it");
}

void node_evidence_of(const struct site_core *core, const struct site_node *node, int64_t now_ns,
                      struct node_evidence *ret)
{
    const struct finding *worst = &node->worst;

    *ret = (struct node_evidence){ .any = false };
    evidence_of_checks(node, now_ns, ret);
    if (worst->id[0] && !ret->strong &&
        (worst->severity == FINDING_FATAL ||
         (!ret->any && now_ns - worst->real_ns <= ERROR_COUNTS_NS)))
        evidence_of_finding(worst, ret);
    for (size_t i = 0; i < NODE_VERDICTS; i++) {
        const struct node_verdict *verdict = &node->verdict[i];

        if (verdict->id[0] && evidence_is_loss(verdict)) {
            evidence_of_loss(node, verdict, now_ns, ret);
        } else if (verdict->id[0] && verdict->open &&
                   now_ns - verdict->news_real_ns < VERDICT_COUNTS_NS) {
            evidence_of_verdict(core, node, verdict, ret);
            if (ret->strong)
                return;
        }
    }
}

/* ---- words ---- */

static size_t evidence_word(const char *text, char *ret, size_t room)
{
    size_t size = 0;

    for (; *text && size + 1 < room; text++) {
        char next = strchr(EVIDENCE_LETTERS, *text) ? *text : '-';

        if (next != '-' || (size && ret[size - 1] != '-'))
            ret[size++] = next;
    }
    while (size && ret[size - 1] == '-')
        size--;
    ret[size] = '\0';
    return size;
}

void node_evidence_reason(const struct node_evidence *evidence, char ret[static NODE_REASON])
{
    char kind[32], cause[48];

    if (!evidence_word(evidence->kind, kind, sizeof(kind)))
        snprintf(kind, sizeof(kind), "node-fault");
    if (!evidence_word(evidence->cause, cause, sizeof(cause)))
        snprintf(cause, sizeof(cause), "unknown");
    snprintf(ret, NODE_REASON, "lockstep: %s %s %s", kind, cause, evidence->id);
}
