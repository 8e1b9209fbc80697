/* openapi.h - docs/openapi.json, as it was at build time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_SITE_API_OPENAPI_H
#define LOCKSTEP_CONTROL_SITE_API_OPENAPI_H

#include <stddef.h>

extern const unsigned char openapi_json[];
extern const size_t openapi_json_size;

#endif
