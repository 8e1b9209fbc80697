/* slurm_text.h - what `scontrol show job` and `scontrol show node` print, as structs.
 *
 * PURE.  The text is not trusted: a user chooses the name and the comment of a job, and both may contain newlines and the words
 * of other fields.  A field that is used here and occurs twice is therefore an error, and never the first or the last of them.  Times are read
 * as seconds since 1970, which scontrol prints if SLURM_TIME_FORMAT is %s (slurm_call.h sets it).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SLURM_TEXT_H
#define LOCKSTEP_SLURM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

#define SLURM_NAME 64
#define SLURM_HOSTS 2048

struct slurm_job {
    uint64_t id;
    uint32_t user;     /* its number */
    uint32_t restarts; /* how often it was requeued */
    uint32_t nodes;    /* that it has, or wants */
    bool batch;        /* only such a job can be requeued */
    bool requeue;      /* it may be */
    char state[32];    /* RUNNING, PENDING ..., as Slurm says */
    char reason[64];   /* why it is pending; "None" */
    int64_t submit_real_ns, eligible_real_ns, start_real_ns, end_real_ns; /* 0: not known */
    int64_t preempt_real_ns;     /* when another job was preferred to it; 0: none was */
    char hosts[SLURM_HOSTS];     /* n[1-4]; "": none */
    char excluded[SLURM_HOSTS];  /* the same */
    char requested[SLURM_HOSTS]; /* the nodes that its user named */
    char batch_host[SLURM_NAME]; /* where its batch script is, or was; "": not known */
};

enum slurm_node_flag {
    SLURM_NODE_DOWN = 1 << 0,
    SLURM_NODE_DRAIN = 1 << 1,     /* takes no further job */
    SLURM_NODE_IDLE = 1 << 2,      /* no job is on it */
    SLURM_NODE_ALLOCATED = 1 << 3, /* or mixed */
    SLURM_NODE_COMPLETING = 1 << 4,
    SLURM_NODE_SILENT = 1 << 5, /* does not respond */
    SLURM_NODE_OTHER = 1 << 6,  /* a word that is not known here: judge nothing by its absence */
};

struct slurm_node {
    char name[SLURM_NAME];
    char state[128];  /* IDLE+DRAIN, as Slurm says */
    uint32_t flags;   /* enum slurm_node_flag */
    char reason[256]; /* without who and when; "": none */
    char reason_user[SLURM_NAME];
    char address[128], port[16]; /* of its slurmd; "": not known, or the usual one */
    int64_t reason_real_ns;      /* 0: not known */
};

/* Both read the first job or node of the text.  -EBADMSG: a field is missing, malformed or there twice; -ENOENT: the text is
 * empty.
 */
int slurm_job_parse(const char *text, size_t size, struct slurm_job *ret, struct err *err);
int slurm_node_parse(const char *text, size_t size, struct slurm_node *ret, struct err *err);

/* "n[1-3,07],login": calls `found` for n1, n2, n3, n07 and login, until it returns false.  Returns how many names there are,
 * -EBADMSG if it is no such list, -E2BIG for more than 65536 names.
 */
int slurm_hosts_each(const char *hosts, bool (*found)(void *arg, const char *name), void *arg);
/* Whether `name` may be given to scontrol as a node: letters, digits, '.', '-' and '_' only. */
bool slurm_is_node_name(const char *name);

#endif
