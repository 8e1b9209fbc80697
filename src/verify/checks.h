/* checks.h - the health checks by name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_CHECKS_H
#define LOCKSTEP_VERIFY_CHECKS_H

#include "verify/verify.h"

extern const struct verify_check check_cpu_math;
extern const struct verify_check check_disk_rate;
extern const struct verify_check check_gpu_all_reduce;
extern const struct verify_check check_gpu_arithmetic;
extern const struct verify_check check_gpu_gemm;
extern const struct verify_check check_gpu_heat;
extern const struct verify_check check_gpu_memory;
extern const struct verify_check check_gpu_peers;
extern const struct verify_check check_gpu_rate;
extern const struct verify_check check_inventory;
extern const struct verify_check check_memory_rate;
extern const struct verify_check check_sensors;

#endif
