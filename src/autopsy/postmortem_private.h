/* postmortem_private.h - dumps arranged as groups with one seat per member; shared by the files of postmortem.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AUTOPSY_POSTMORTEM_PRIVATE_H
#define LOCKSTEP_AUTOPSY_POSTMORTEM_PRIVATE_H

#include "autopsy/postmortem.h"

struct seat {      /* a member of a group */
    uint32_t rank; /* index in dumps->rank */
    bool known;    /* how far it came is known */
    bool pending;  /* it has entered an op that is not known to be over */
    bool gap;      /* how far it came is not known, and others wait for the group to be complete */
    uint8_t state; /* of its newest op here; enum dump_state */
    uint32_t last_what; /* that op; DUMP_NONE */
    int64_t entered;    /* the newest op that it has entered; -1: none */
    int64_t completed;  /* DUMP_UNKNOWN */
};

struct circle { /* a group, its members seated in the order of dump_group.member */
    struct seat *seat;
    uint32_t count;
    int64_t furthest, slowest; /* entered by anybody; by everybody that is known */
    int64_t slowest_done;      /* completed by everybody that is known; -1: none */
    uint32_t gaps;
    bool pending; /* somebody is in it */
    bool pairs;   /* used for point-to-point: numbers cannot be compared */
    bool all_known;
    int64_t
        open_after; /* ops of higher numbers are certainly not over; where no states are known */
};

struct message_pair {                 /* sender and receiver of one group */
    uint32_t group, sender, receiver; /* indices of ranks */
    uint32_t sent, sent_pending, received, received_pending;
    uint32_t sent_left, received_left; /* while counted from the newest */
};

struct wait { /* point-to-point: `from` cannot go on before `to` does its part */
    uint32_t group, from, to;
};

enum pending {
    OP_OVER,
    OP_MAYBE, /* everybody has entered it, but it comes behind one that is not over */
    OP_OPEN,
};

struct scene {
    const struct dumps *dumps;
    struct thresholds limits;
    struct circle *circle; /* by group */
    struct seat *seats;    /* of all circles */
    struct wait *wait;
    size_t waits;
    bool states;        /* the recorder knew when ops were over; else all of them say "scheduled" */
    size_t *first_op;   /* by rank: where its ops begin in `pending` */
    uint8_t *pending;   /* by op: enum pending */
    int64_t *newest_ns; /* by rank: when it recorded last; 0: not known */
    uint32_t *last;     /* by rank: index of its newest op; DUMP_NONE */
    bool fresh; /* the dumps were written while the ranks still recorded ops: nobody hangs */
};

/* postmortem_states.c: what is over, where the recorder did not know, from who has entered what. */
int scene_infer(struct scene *scene);
bool circle_all_known(const struct circle *circle); /* how far each member came */
bool scene_op_is_collective(const struct scene *scene, const struct dump_op *op);
enum pending scene_op_pending(const struct scene *scene, uint32_t rank, size_t op);
int scene_init(struct scene *scene, const struct dumps *dumps, const struct thresholds *limits);
void scene_fini(struct scene *scene);
const struct seat *scene_seat(const struct scene *scene, uint32_t group, uint32_t rank); /* NULL */
bool scene_over(const struct scene *scene, uint32_t rank, const struct dump_op *op);
/* Does this member wait in its group for somebody who has not come? */
bool scene_waits(const struct scene *scene, uint32_t group, const struct seat *seat);

/* Ops of one number that differ between members; returns how many verdicts were added, or -ENOMEM.
 * `odd`, by group, is set for groups that have one.
 */
int postmortem_mismatches(const struct scene *scene, const char *run, struct findings *findings,
                          bool *odd);

#define POSTMORTEM_UNSEEN 0.4 /* confidence in one that is named for its missing dump alone */

struct postmortem_suspect {
    uint32_t rank;  /* index */
    uint32_t group; /* where others wait for it */
    uint32_t waiters;
    bool pair; /* in a point-to-point */
    bool idle; /* nobody is seen to wait for it yet; group: of its newest op */
    bool
        device; /* its device stopped: it has not completed what `by` has completed; group: of that op */
    bool transfer; /* it left no dump, and `by` waits for its part of an op that others completed */
    bool outrun;   /* `by`, held up in all that holds it up, went on; group: where to */
    uint32_t by;   /* index */
    bool perhaps;  /* it may be waiting for another, too: it left nothing, or that one did */
};

struct inquest {
    const struct scene *scene;
    bool *excused; /* by rank: it waits for a transfer, so it is no suspect */
    struct postmortem_suspect *suspect;
    size_t suspects, room;
    bool certainly;             /* only ops that are certainly not over explain why a rank waits */
    uint32_t *group_of, *first; /* the groups of each rank, from first[rank] to first[rank + 1] */
};

/* `waiter` has entered what `seat` has not, or waits for a group of which nothing is known of `seat`. */
static inline bool waits_for(const struct scene *scene, const struct seat *waiter,
                             const struct seat *seat)
{
    if (!waiter->known || (scene->states && !waiter->pending))
        return false;
    return seat->gap ? waiter->pending : seat->known && waiter->entered > seat->entered;
}

int inquest_suspect(struct inquest *inquest, struct postmortem_suspect suspect); /* 0, -ENOMEM */
/* postmortem_frontier.c: suspects those whose device stopped in an op that others completed.  0, -ENOMEM. */
int inquest_frontier(struct inquest *inquest);
/* Where no states are known: has the rank entered an op, without the other, that may wait for one who left nothing? */
bool inquest_may_wait_unseen(const struct inquest *inquest, uint32_t rank, uint32_t other);
void inquest_sort(struct inquest *inquest); /* suspects by rank */
bool inquest_suspects(const struct inquest *inquest, uint32_t rank);
/* postmortem_peers.c: suspects those who did less than others that are held up as much.  0, -ENOMEM. */
int inquest_outrun(struct inquest *inquest);

/* postmortem_verdicts.c and postmortem_order.c; all return 0 or -ENOMEM, inquest_report_opposite() and inquest_report_crossed()
 * and inquest_report_swapped() 1 if they reported something.
 */
int inquest_report_hang(struct inquest *inquest, const char *run, struct findings *findings);
int inquest_report_unseen(const struct inquest *inquest, const uint32_t *list, size_t count,
                          const char *run, struct findings *findings);
int inquest_report_opposite(struct inquest *inquest, const char *run, struct findings *findings);
int inquest_report_missing(const struct inquest *inquest, const char *run,
                           struct findings *findings);
int inquest_report_circle(const struct inquest *inquest, const char *run,
                          struct findings *findings);
int inquest_report_crossed(const struct scene *scene, const char *run, struct findings *findings);
int inquest_report_swapped(const struct scene *scene, const char *run, struct findings *findings);
int inquest_report_rest(const struct scene *scene, const char *run, struct findings *findings);

/* The job was at work then.  What is no time of day is not taken for one. */
void postmortem_saw(struct findings *findings, int64_t real_ns);
/* As the caller set them, else the defaults. */
void postmortem_limits(const struct findings *findings, struct thresholds *ret);

/* postmortem_verdicts.c */
void postmortem_name_rank(struct verdict *verdict, uint32_t rank);
void postmortem_group_text(const struct dump_group *group, char *out, size_t room);

/* log/log_who.c: the rank of a process or device that a line is about; LOG_EVENT_NO_RANK. */
uint32_t postmortem_rank_of(const struct logs *logs, const struct log_event *event);
void postmortem_name_node(struct verdict *verdict, const char *node); /* once */
void postmortem_because(struct verdict *verdict,
                        const struct log_event *event); /* the line, and where it is */
void postmortem_echo(struct verdict *verdict, const struct log_event *event, const char *format,
                     ...) __attribute__((format(printf, 3, 4)));
/* postmortem_channels.c: what the communication library found to transfer by.  0 or -ENOMEM. */
int postmortem_channels(const struct logs *logs, const char *run, struct findings *findings);

#endif
