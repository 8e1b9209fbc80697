/* api.h - shared by the files of the API.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_SITE_API_H
#define LOCKSTEP_CONTROL_SITE_API_H

#include "control/site/site_private.h"

struct api_call { /* a request that was admitted: what it asks for, and whose it is */
    struct site *site;
    struct http_exchange *exchange;
    const struct route *route;
    enum auth_role role;
    char who[64]; /* name of the token at the time of the request; "": none */
    char run[64]; /* of the path or the query; "": none */
};

/* The exchange's body as JSON; NULL: it is none.  The caller puts it. */
struct json_object *call_body(const struct api_call *call);

/* api_read.c: pages of the index */
void api_get_runs(struct api_call *call);
void api_get_run(struct api_call *call);
void api_get_ranks(struct api_call *call);
void api_get_steps(struct api_call *call);
void api_get_shapes(struct api_call *call);
void api_get_verdicts(struct api_call *call);
void api_get_findings(struct api_call *call);
void api_get_ledger(struct api_call *call);
void api_get_nodes(struct api_call *call);

/* api_config.c */
void api_get_config(struct api_call *call);
void api_get_thresholds(struct api_call *call);
void api_post_thresholds(struct api_call *call);

/* api_rows.c: one row as JSON */
struct json_object *run_json(const struct index_run *row);
struct json_object *rank_json(const struct index_rank *row);
struct json_object *node_json(const struct index_node *row);
struct json_object *finding_json(const struct index_finding *row);
struct json_object *clock_json(int64_t offset_ns, int64_t error_ns);
struct json_object *step_json(const struct index_step *row);
struct json_object *shape_json(const struct index_shape *row);
struct json_object *verdict_row_json(uint64_t cursor, const struct verdict *row);
struct json_object *ledger_row_json(const struct index_ledger *row);

#endif
