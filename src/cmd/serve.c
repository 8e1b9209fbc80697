/* serve.c - the token and the exit status of `ckpt serve` and `fabric serve`.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/serve.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

int serve_token_path(const char *given, const char *name, struct path *ret, struct err *err)
{
    struct path state, tokens;
    int result;

    if (given) {
        if (strlen(given) >= sizeof(ret->text))
            return err_set(err, -EINVAL, "--token-file is too long");
        strcpy(ret->text, given);
        return 0;
    }
    result = paths_state(&state, err);
    if (result == 0)
        result = path_join(&tokens, state.text, "tokens", err);
    if (result == 0)
        result = path_make(tokens.text, err);
    return result < 0 ? result : path_join(ret, tokens.text, name, err);
}

int serve_exit(int result, const struct err *err)
{
    if (result < 0)
        log_error("%s", err->text);
    return result == -EINVAL ? 2 : result < 0 ? 3 : 0;
}
