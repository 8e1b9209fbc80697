/* median.c - insertion sort for few, quickselect for many.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/median.h"

#define FEW 24

static double median_select_f64(double *value, size_t count, size_t wanted)
{
    size_t from = 0, to = count - 1;

    while (to > from) {
        double pivot = value[from + (to - from) / 2];
        size_t left = from, right = to;

        while (left <= right) {
            while (value[left] < pivot)
                left++;
            while (value[right] > pivot)
                right--;
            if (left <= right) {
                double swap = value[left];

                value[left++] = value[right];
                value[right] = swap;
                if (right-- == 0)
                    break;
            }
        }
        if (wanted <= right && right < count)
            to = right;
        else if (wanted >= left)
            from = left;
        else
            break;
    }
    return value[wanted];
}

int64_t median_i64(int64_t *value, size_t count)
{
    if (count == 0)
        return 0;
    /* Shell sort: short, no worst case worth fearing at these sizes. */
    for (size_t gap = count > FEW ? 31 : 5; gap > 0; gap = gap > 5 ? gap / 3 : gap == 1 ? 0 : 1) {
        for (size_t i = gap; i < count; i++) {
            int64_t moving = value[i];
            size_t at = i;

            for (; at >= gap && value[at - gap] > moving; at -= gap)
                value[at] = value[at - gap];
            value[at] = moving;
        }
    }
    return value[(count - 1) / 2];
}

double median_f64(double *value, size_t count)
{
    return count ? median_select_f64(value, count, (count - 1) / 2) : 0;
}

double spread_f64(double *value, size_t count, double median)
{
    for (size_t i = 0; i < count; i++)
        value[i] = value[i] < median ? median - value[i] : value[i] - median;
    return 1.4826 * median_f64(value, count);
}

int order_i64(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

int order_f64(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

int order_f64_falling(const void *left, const void *right)
{
    return order_f64(right, left);
}
