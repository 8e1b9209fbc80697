/* median.h - order statistics of small arrays, in place.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_MEDIAN_H
#define LOCKSTEP_JUDGE_MEDIAN_H

#include <stddef.h>
#include <stdint.h>

/* The lower median, so that it is a value that was there; 0 of nothing.  Reorders the array. */
int64_t median_i64(int64_t *value, size_t count);
double median_f64(double *value, size_t count);
/* Median distance from the median, times 1.4826: the deviation of normal noise. */
double spread_f64(double *value, size_t count, double median);
/* For qsort(). */
int order_i64(const void *left, const void *right);
int order_f64(const void *left, const void *right);
int order_f64_falling(const void *left, const void *right);

#endif
