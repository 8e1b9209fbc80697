/* lab.h - the commands of lockstep-lab: their code.  Names and options are in cmd/lab, which lockstep has, too.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_CMD_LAB_H
#define LOCKSTEP_LAB_CMD_LAB_H

#include <stdbool.h>
#include <stdint.h>

/* argv[0] is the command's name; they return the exit status. */
int bench_agent_main(int argc, char **argv);
int bench_autopsy_main(int argc, char **argv);
int bench_ckpt_main(int argc, char **argv);
int bench_control_main(int argc, char **argv);
int bench_dumps_main(int argc, char **argv);
int bench_fabric_main(int argc, char **argv);
int bench_matrix_main(int argc, char **argv);
int bench_page_main(int argc, char **argv);
int bench_noise_main(int argc, char **argv);
int bench_probe_main(int argc, char **argv);
int bench_kmsg_main(int argc, char **argv);
int bench_recover_main(int argc, char **argv);
int bench_recover_slurm(const char *script, uint32_t rounds, bool json); /* exit status */
int bench_replay_main(int argc, char **argv);
int bench_verdicts_main(int argc, char **argv);
int demo_main(int argc, char **argv);
int drill_main(int argc, char **argv);
int slow_disk_main(int argc, char **argv);
int trainer_main(int argc, char **argv);

#endif
