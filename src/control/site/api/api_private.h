/* api_private.h - shared by the files of the API.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_SITE_API_API_PRIVATE_H
#define LOCKSTEP_CONTROL_SITE_API_API_PRIVATE_H

#include "control/site/site_private.h"

struct api_call { /* a request that was admitted: what it asks for, and whose it is */
    struct site *site;
    struct http_exchange *exchange;
    const struct route *route;
    enum auth_role role;
    bool by_proxy;       /* a proxy names the user; reader rights */
    char who[HTTP_NOTE]; /* name of the token at the time of the request; "": none */
    char run[64];        /* of the path or the query; "": none.  Below nodes/: the node */
    uint64_t number[3];  /* of the path, after the run; up to UINT32_MAX times ten */
};

/* The exchange's body as JSON; NULL: it is none.  The caller puts it. */
struct json_object *call_body(const struct api_call *call);

/* The run of the path with its log open; NULL: it was answered. */
struct site_run *call_open_run(struct api_call *call);
/* Of the query; unchanged if it is not there.  False: it is malformed, and this was answered. */
bool call_number(struct api_call *call, const char *name, uint64_t most, uint64_t *ret);
bool call_flag(struct api_call *call, const char *name, bool *ret);

/* api_why.c */
void api_get_why(struct api_call *call);
void api_get_log(struct api_call *call);
void api_get_openapi(struct api_call *call);

/* api_read.c: pages of the index */
void api_get_runs(struct api_call *call);
void api_get_run(struct api_call *call);
void api_get_ranks(struct api_call *call);
void api_get_steps(struct api_call *call);
void api_get_shapes(struct api_call *call);
void api_get_verdicts(struct api_call *call);
void api_get_evidence(struct api_call *call);
void api_get_findings(struct api_call *call);
void api_get_decisions(struct api_call *call);
void api_get_outcomes(struct api_call *call);
void api_get_checks(struct api_call *call);
void api_get_ledger(struct api_call *call);
void api_get_nodes(struct api_call *call);

/* api_page.c: the page, and how a browser logs in */
void api_get_page(struct api_call *call);
void api_get_login(struct api_call *call);
void api_post_login_links(struct api_call *call);

/* api_step.c */
void api_get_step(struct api_call *call);
/* {column, ranks}: what the log of that directory has of them.  -ENOENT, -EUCLEAN: it does not have that column any more. */
int step_detail_json(struct index *index, const struct rundir *dir, uint64_t column,
                     const uint32_t *rank, uint32_t count, struct json_object **ret,
                     struct err *err);

/* api_matrix.c */
void api_get_matrix(struct api_call *call);
void api_get_matrix_columns(struct api_call *call);
void api_get_matrix_tile(struct api_call *call);
struct matrix;
struct matrix_column;
struct json_object *matrix_size_json(const struct matrix *matrix);
struct json_object *matrix_columns_json(uint64_t first, const struct matrix_column *column,
                                        size_t count);

/* api_orders.c */
void api_get_orders(struct api_call *call);
void api_post_requests(struct api_call *call);
void api_get_request(struct api_call *call);

/* api_nodes.c */
void api_get_node_states(struct api_call *call);
void api_get_node(struct api_call *call);
void api_post_node_requests(struct api_call *call);
void api_get_node_request(struct api_call *call);

/* api_config.c */
void api_get_config(struct api_call *call);
void api_get_thresholds(struct api_call *call);
void api_post_thresholds(struct api_call *call);

/* api_rows.c: one row as JSON */
struct json_object *run_json(const struct index_run *row);
struct json_object *rank_json(const struct index_rank *row);
struct json_object *node_json(const struct index_node *row);
struct json_object *evidence_json(const struct index_evidence *row);
struct json_object *clock_json(int64_t offset_ns, int64_t error_ns);
struct json_object *step_json(const struct index_step *row);
struct json_object *shape_json(const struct index_shape *row);
struct json_object *verdict_row_json(uint64_t cursor, const struct verdict *row);
/* Of a finding, decision, outcome or check; NULL: the payload is malformed. */
struct json_object *record_json(uint16_t type, const struct index_record *row);
struct json_object *ledger_row_json(const struct index_ledger *row);

#endif
