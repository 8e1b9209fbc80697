/* checks.c - the list of health checks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/checks.h"

#include "core/clean.h"

const struct verify_check *const verify_checks[] = {
    &check_sensors,    &check_inventory, &check_gpu_peers, &check_gpu_arithmetic,
    &check_gpu_memory, &check_gpu_rate,  &check_cpu_math,  &check_memory_rate,
    &check_disk_rate,  &check_gpu_gemm,  &check_gpu_heat,  &check_gpu_all_reduce,
};

const size_t verify_check_count = COUNT(verify_checks);
