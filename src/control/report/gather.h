/* gather.h - frame by frame to an account: counts, the last state of each verdict, who was seen. */
#ifndef LOCKSTEP_CONTROL_REPORT_GATHER_H
#define LOCKSTEP_CONTROL_REPORT_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/map.h"
#include "show/account.h"
#include "wire/frame.h"

struct gather {
    struct account account;
    size_t room;           /* for verdicts */
    struct map id;         /* hash of a verdict's id → its place */
    struct map rank;       /* those whose ring was seen */
    struct map step;       /* attempt and rank → its newest step + 1 */
    struct map sender;     /* → frames of it that came */
    struct map sender_end; /* → its highest number + 1 */
    uint64_t self;
    bool every_state;
    bool compaction;    /* its log was compacted while it went on */
    bool attempt_ended; /* the newest attempt has */
    struct account_restart ended;
};

void gather_init(struct gather *gather, const char *run, bool every_state);
void gather_fini(struct gather *gather);
/* Both: 0 or -ENOMEM.  What cannot be understood is counted. */
int gather_frame(struct gather *gather, const struct frame *frame);
int gather_output(struct gather *gather, uint16_t type,
                  struct reader in); /* a verdict or a ledger */
/* The account, its verdicts in order; the caller frees them (run_report_fini). */
int gather_take(struct gather *gather, struct account *ret);

#endif
