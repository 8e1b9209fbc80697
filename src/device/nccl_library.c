/* nccl_library.c - the names of NCCL's functions.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/nccl_library.h"

#include <errno.h>
#include <stddef.h>

#include "device/cuda/symbols.h"
#include "device/library.h"

static const struct symbol symbols[] = {
    SYMBOL(struct nccl, version, "ncclGetVersion"),
    SYMBOL(struct nccl, error, "ncclGetErrorString"),
    SYMBOL_OPTIONAL(struct nccl, last_error, "ncclGetLastError"),
    SYMBOL(struct nccl, id_make, "ncclGetUniqueId"),
    SYMBOL(struct nccl, comm_init, "ncclCommInitRank"),
    SYMBOL(struct nccl, comm_destroy, "ncclCommDestroy"),
    SYMBOL(struct nccl, comm_abort, "ncclCommAbort"),
    SYMBOL(struct nccl, comm_async_error, "ncclCommGetAsyncError"),
    SYMBOL(struct nccl, group_begin, "ncclGroupStart"),
    SYMBOL(struct nccl, group_end, "ncclGroupEnd"),
    SYMBOL(struct nccl, all_reduce, "ncclAllReduce"),
    SYMBOL(struct nccl, all_gather, "ncclAllGather"),
    SYMBOL(struct nccl, reduce_scatter, "ncclReduceScatter"),
    SYMBOL(struct nccl, send, "ncclSend"),
    SYMBOL(struct nccl, receive, "ncclRecv"),
    { NULL, 0, false },
};

int nccl_open(struct nccl *nccl, const char *library, struct err *err)
{
    struct nccl fresh = { 0 };
    int result = library_open(library ? library : NCCL_LIBRARY, &fresh.library, err);

    if (result == 0)
        result = symbols_fill(&fresh, symbols, library_find, fresh.library, err);
    if (result < 0) {
        library_close(fresh.library);
        return result;
    }
    *nccl = fresh;
    return 0;
}

void nccl_close(struct nccl *nccl)
{
    library_close(nccl->library);
    *nccl = (struct nccl){ 0 };
}

int nccl_check(const struct nccl *nccl, int result, const char *what, struct err *err)
{
    const char *text, *last;

    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS)
        return 0;
    text = nccl->error(result);
    last = nccl->last_error ? nccl->last_error(NULL) : NULL;
    return err_set(err, -EIO, "%s: %s (NCCL %d)%s%s", what, text ? text : "no text", result,
                   last && *last ? ": " : "", last ? last : "");
}
