/* sensors.h - the sensors by name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SENSE_SENSORS_H
#define LOCKSTEP_SENSE_SENSORS_H

#include "sense/sensor.h"

extern const struct sensor sensor_kmsg;
extern const struct sensor sensor_gpu;
extern const struct sensor sensor_fabric;
extern const struct sensor sensor_pcie;
extern const struct sensor sensor_host;
extern const struct sensor sensor_storage;
extern const struct sensor sensor_metadata;
extern const struct sensor sensor_leftovers;

#endif
