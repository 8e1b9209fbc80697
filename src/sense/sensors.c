/* sensors.c - the list of sensors.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sense/sensors.h"

#include "core/clean.h"

const struct sensor *const sensors[] = {
    &sensor_kmsg, &sensor_gpu,     &sensor_fabric,   &sensor_pcie,
    &sensor_host, &sensor_storage, &sensor_metadata, &sensor_leftovers,
};

const size_t sensor_count = COUNT(sensors);
