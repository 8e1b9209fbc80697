/* fabric_case.h - a drawn network with drawn faults, and what a right answer names.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_FABRIC_CASE_H
#define LOCKSTEP_LAB_BENCH_FABRIC_CASE_H

#include "core/rand.h"
#include "lab/bench/fabric/fabric_net.h"

enum fabric_fault {
    FAULT_NIC,
    FAULT_UPLINK,
    FAULT_PAIR,
    FAULT_NIC_ONE_WAY,
    FAULT_UPLINK_ONE_WAY,
    FAULT_TWO,
    FAULT_HEALTHY,
    FABRIC_FAULTS
};
extern const char *const fabric_fault_names[FABRIC_FAULTS];

struct fabric_case {
    enum fabric_fault fault;
    struct fabric_net net;
    char expected[2][96]; /* "kind name", as the test prints them */
    uint32_t expects;
    bool cut, foreign;
    uint32_t cut_a, cut_b, foreign_from, foreign_to;
    double foreign_mbit;
};

/* Draws rates of +-10 % and a fault; every second healthy one has foreign traffic.  `most`: nodes. */
void fabric_case_draw(struct rand *rand, enum fabric_fault fault, uint32_t number, uint32_t most,
                      struct fabric_case *ret);

#endif
