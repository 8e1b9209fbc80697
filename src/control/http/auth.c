/* auth.c - tokens of a site.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/http/auth.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/paths.h"
#include "core/clean.h"

#define FAILURES_PER_S 2
#define FAILURES_BURST 20
#define SUFFIX ".token"

static const struct {
    const char *name;
    enum auth_role role;
} roles[] = {
    { "admin", AUTH_ADMIN },
    { "launch", AUTH_LAUNCH },
    { "reader", AUTH_READER },
    { "proxy", AUTH_PROXY },
};

/* "launch-ada.token" is of the role launch, "admin.token" of admin. */
static enum auth_role auth_role_of(const char *file)
{
    size_t size = strlen(file), suffix = strlen(SUFFIX);

    if (size <= suffix || strcmp(file + size - suffix, SUFFIX) != 0)
        return AUTH_NOBODY;
    for (size_t i = 0; i < COUNT(roles); i++) {
        size_t length = strlen(roles[i].name);

        if (strncmp(file, roles[i].name, length) == 0 &&
            (file[length] == '-' || file + length == file + size - suffix))
            return roles[i].role;
    }
    return AUTH_NOBODY;
}

int auth_add(struct auth *auth, const char *name, enum auth_role role, const struct token *token,
             struct err *err)
{
    struct auth_key *key = &auth->key[auth->keys];

    if (auth->keys == AUTH_KEYS_MAX)
        return err_set(err, -E2BIG, "more than %d tokens", AUTH_KEYS_MAX);
    *key = (struct auth_key){ .role = role, .token = *token };
    snprintf(key->name, sizeof(key->name), "%s", name);
    auth->keys++;
    return 0;
}

static int auth_key_add(struct auth *auth, const char *directory, const char *file, struct err *err)
{
    enum auth_role role = auth_role_of(file);
    struct token token;
    struct path path;
    char name[sizeof(auth->key[0].name)];
    int result = path_join(&path, directory, file, err);

    if (result < 0 || role == AUTH_NOBODY)
        return result;
    result = token_read(path.text, &token, err);
    if (result < 0)
        return result;
    snprintf(name, sizeof(name), "%.*s", (int)(strlen(file) - strlen(SUFFIX)), file);
    result = auth_add(auth, name, role, &token, err);
    return result < 0 ? err_wrap(err, result, "%s", directory) : 0;
}

static int auth_make_missing(const char *directory, struct err *err)
{
    int result = path_make(directory, err);

    for (size_t i = 0; i < COUNT(roles) && result == 0; i++) {
        struct token token;
        struct path path;
        char file[32];

        if (roles[i].role == AUTH_PROXY)
            continue;
        snprintf(file, sizeof(file), "%s" SUFFIX, roles[i].name);
        result = path_join(&path, directory, file, err);
        if (result == 0)
            result = token_read_or_make(path.text, &token, err);
    }
    return result;
}

int auth_load(struct auth *auth, const char *state, struct err *err)
{
    CLEAN(dir_clean) DIR *dir = NULL;
    struct path directory;
    int result = path_join(&directory, state, "tokens", err);

    if (result == 0)
        result = auth_make_missing(directory.text, err);
    if (result < 0)
        return result;
    dir = opendir(directory.text);
    if (!dir)
        return err_set(err, -errno, "%s: %m", directory.text);
    if (!auth->failures.burst)
        rate_init(&auth->failures, FAILURES_PER_S, FAILURES_BURST);
    auth->keys = 0;
    for (const struct dirent *entry; result == 0 && (entry = readdir(dir));)
        result = auth_key_add(auth, directory.text, entry->d_name, err);
    return result;
}

int auth_bearer(const char *authorization, struct token *ret)
{
    if (strncasecmp(authorization, "Bearer ", 7) != 0)
        return -EINVAL;
    return token_parse(authorization + 7, strlen(authorization + 7), ret, NULL);
}

static int auth_refuse(struct auth *auth, uint64_t peer, int64_t now_ns)
{
    auth->refused++;
    return rate_take(&auth->failures, peer, 1, now_ns) ? -EACCES : -EBUSY;
}

int auth_check(struct auth *auth, const char *authorization, uint64_t peer, int64_t now_ns,
               enum auth_role *role, const char **name)
{
    struct token token;
    const struct auth_key *found = NULL;

    *role = AUTH_NOBODY;
    *name = "";
    if (!authorization)
        return 0;
    if (auth_bearer(authorization, &token) < 0)
        return auth_refuse(auth, peer, now_ns);
    for (size_t i = 0; i < auth->keys; i++) { /* all of them: how long it takes says nothing */
        if (token_equal(&auth->key[i].token, &token))
            found = &auth->key[i];
    }
    if (!found)
        return auth_refuse(auth, peer, now_ns);
    *role = found->role;
    *name = found->name;
    return 0;
}
