/* gate.c - tokens of a site. */
#include "control/http/gate.h"

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
    enum gate_role role;
} roles[] = {
    { "admin", GATE_ADMIN },
    { "launch", GATE_LAUNCH },
    { "reader", GATE_READER },
};

/* "launch-ada.token" is of the role launch, "admin.token" of admin. */
static enum gate_role role_of(const char *file)
{
    size_t size = strlen(file), suffix = strlen(SUFFIX);

    if (size <= suffix || strcmp(file + size - suffix, SUFFIX) != 0)
        return GATE_NOBODY;
    for (size_t i = 0; i < COUNT(roles); i++) {
        size_t length = strlen(roles[i].name);

        if (strncmp(file, roles[i].name, length) == 0 &&
            (file[length] == '-' || file + length == file + size - suffix))
            return roles[i].role;
    }
    return GATE_NOBODY;
}

static int key_add(struct gate *gate, const char *directory, const char *file, struct err *err)
{
    struct gate_key *key = &gate->key[gate->keys];
    enum gate_role role = role_of(file);
    struct path path;
    int result = path_join(&path, directory, file, err);

    if (result < 0 || role == GATE_NOBODY)
        return result;
    if (gate->keys == GATE_KEYS_MAX)
        return err_set(err, -E2BIG, "%s: more than %d tokens", directory, GATE_KEYS_MAX);
    result = token_read(path.text, &key->token, err);
    if (result < 0)
        return result;
    key->role = role;
    snprintf(key->name, sizeof(key->name), "%.*s", (int)(strlen(file) - strlen(SUFFIX)), file);
    gate->keys++;
    return 0;
}

static int make_missing(const char *directory, struct err *err)
{
    int result = path_make(directory, err);

    for (size_t i = 0; i < COUNT(roles) && result == 0; i++) {
        struct token token;
        struct path path;
        char file[32];

        snprintf(file, sizeof(file), "%s" SUFFIX, roles[i].name);
        result = path_join(&path, directory, file, err);
        if (result == 0)
            result = token_read_or_make(path.text, &token, err);
    }
    return result;
}

int gate_load(struct gate *gate, const char *state, struct err *err)
{
    CLEAN(dir_clean) DIR *dir = NULL;
    struct path directory;
    int result = path_join(&directory, state, "tokens", err);

    if (result == 0)
        result = make_missing(directory.text, err);
    if (result < 0)
        return result;
    dir = opendir(directory.text);
    if (!dir)
        return err_set(err, -errno, "%s: %m", directory.text);
    if (!gate->failures.burst)
        rate_init(&gate->failures, FAILURES_PER_S, FAILURES_BURST);
    gate->keys = 0;
    for (const struct dirent *entry; result == 0 && (entry = readdir(dir));)
        result = key_add(gate, directory.text, entry->d_name, err);
    return result;
}

int gate_bearer(const char *authorization, struct token *ret)
{
    if (strncasecmp(authorization, "Bearer ", 7) != 0)
        return -EINVAL;
    return token_parse(authorization + 7, strlen(authorization + 7), ret, NULL);
}

static int gate_refuse(struct gate *gate, uint64_t peer, int64_t now_ns)
{
    gate->refused++;
    return rate_take(&gate->failures, peer, 1, now_ns) ? -EACCES : -EBUSY;
}

int gate_check(struct gate *gate, const char *authorization, uint64_t peer, int64_t now_ns,
               enum gate_role *role, const char **name)
{
    struct token token;
    const struct gate_key *found = NULL;

    *role = GATE_NOBODY;
    *name = "";
    if (!authorization)
        return 0;
    if (gate_bearer(authorization, &token) < 0)
        return gate_refuse(gate, peer, now_ns);
    for (size_t i = 0; i < gate->keys; i++) { /* all of them: how long it takes says nothing */
        if (token_equal(&gate->key[i].token, &token))
            found = &gate->key[i];
    }
    if (!found)
        return gate_refuse(gate, peer, now_ns);
    *role = found->role;
    *name = found->name;
    return 0;
}
