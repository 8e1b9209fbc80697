/* machine_profile.c - reading, writing and learning of a profile.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/machine_profile.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <json-c/json.h>

#include "base/json_member.h"
#include "core/clean.h"

#define FORMAT "lockstep-check-profile"
#define VERSION 1
#define FILE_MAX_BYTES (1 << 20)
#define SAMPLES_KEPT 99 /* the oldest go */
#define DEPTH_MAX 4
/* Good nodes differ by a few percent; a fault that matters costs more than a tenth.  With fewer than three nodes their own
 * spread is not known, so the limit is wider.
 */
#define LOW_SHARE 0.10
#define LOW_SHARE_FEW 0.20
#define LOW_SPREADS 5
#define HIGH_SHARE                                                                                 \
    1.0 /* latencies of good disks differ by tens of percent; those of a worn one are several times as long */
#define LATENCY "-latency" /* in the names of values that are better the lower they are */

struct machine_profile {
    struct json_object *root; /* what was read, or what is written */
    struct json_object *facts, *values;
};

void machine_profile_destroy(struct machine_profile *profile)
{
    if (!profile)
        return;
    json_object_put(profile->root);
    free(profile);
}

static void machine_profile_clean(struct machine_profile **profile)
{
    machine_profile_destroy(*profile);
}

int machine_profile_create(const char *machine, struct machine_profile **ret)
{
    CLEAN(machine_profile_clean) struct machine_profile *profile = calloc(1, sizeof(*profile));

    if (!profile || !(profile->root = json_object_new_object()))
        return -ENOMEM;
    profile->facts = json_object_new_object();
    profile->values = json_object_new_object();
    json_object_object_add(profile->root, "format", json_object_new_string(FORMAT));
    json_object_object_add(profile->root, "version", json_object_new_int(VERSION));
    json_object_object_add(profile->root, "machine", json_object_new_string(machine));
    json_object_object_add(profile->root, "facts", profile->facts);
    json_object_object_add(profile->root, "values", profile->values);
    *ret = TAKE(profile);
    return 0;
}

/* ---- reading ---- */

static int machine_profile_check_facts(struct json_object *facts, struct err *err)
{
    json_object_object_foreach(facts, name, value)
    {
        if (strlen(name) >= PROFILE_NAME || !json_object_is_type(value, json_type_string) ||
            json_object_get_string_len(value) >= PROFILE_TEXT)
            return err_set(err, -EINVAL, "facts: '%.60s': expected a short text", name);
    }
    return 0;
}

static int machine_profile_check_samples(const char *name, struct json_object *samples,
                                         struct err *err)
{
    size_t count;

    if (strlen(name) >= PROFILE_NAME || !json_object_is_type(samples, json_type_array))
        return err_set(err, -EINVAL, "values: '%.60s': expected a list of numbers", name);
    count = json_object_array_length(samples);
    if (!count || count > SAMPLES_KEPT)
        return err_set(err, -EINVAL, "values: '%.60s': expected 1 to %d numbers", name,
                       SAMPLES_KEPT);
    for (size_t i = 0; i < count; i++) {
        struct json_object *sample = json_object_array_get_idx(samples, i);

        if ((!json_object_is_type(sample, json_type_double) &&
             !json_object_is_type(sample, json_type_int)) ||
            !isfinite(json_object_get_double(sample)))
            return err_set(err, -EINVAL, "values: '%.60s': number %zu is none", name, i + 1);
    }
    return 0;
}

static int machine_profile_check(struct machine_profile *profile, struct err *err)
{
    struct json_object *format = json_member(profile->root, "format", json_type_string);
    struct json_object *version = json_member(profile->root, "version", json_type_int);
    int result;

    if (!format || strcmp(json_object_get_string(format), FORMAT) != 0)
        return err_set(err, -EINVAL, "no profile: expected \"format\": \"%s\"", FORMAT);
    if (!version || json_object_get_int(version) != VERSION)
        return err_set(err, -EINVAL, "version %s, expected %d: learn it again",
                       version ? json_object_get_string(version) : "none", VERSION);
    profile->facts = json_member(profile->root, "facts", json_type_object);
    profile->values = json_member(profile->root, "values", json_type_object);
    if (!profile->facts || !profile->values ||
        !json_member(profile->root, "machine", json_type_string))
        return err_set(err, -EINVAL, "machine, facts or values are missing");
    result = machine_profile_check_facts(profile->facts, err);
    if (result < 0)
        return result;
    json_object_object_foreach(profile->values, name, samples)
    {
        result = machine_profile_check_samples(name, samples, err);
        if (result < 0)
            return result;
    }
    return 0;
}

int machine_profile_parse(const char *text, size_t size, struct machine_profile **ret,
                          struct err *err)
{
    CLEAN(machine_profile_clean) struct machine_profile *profile = calloc(1, sizeof(*profile));
    struct json_tokener *tokener = json_tokener_new_ex(DEPTH_MAX);
    enum json_tokener_error error = json_tokener_error_size;
    int result;

    if (profile && tokener && size < FILE_MAX_BYTES) {
        profile->root = json_tokener_parse_ex(tokener, text, (int)size);
        error = json_tokener_get_error(tokener);
    }
    if (tokener)
        json_tokener_free(tokener);
    if (!profile)
        return err_nomem(err);
    if (error != json_tokener_success || !json_object_is_type(profile->root, json_type_object))
        return err_set(err, -EINVAL, "no JSON object: %s", json_tokener_error_desc(error));
    result = machine_profile_check(profile, err);
    if (result < 0)
        return result;
    *ret = TAKE(profile);
    return 0;
}

int machine_profile_read(const char *path, struct machine_profile **ret, struct err *err)
{
    CLEAN(file_clean) FILE *file = fopen(path, "re");
    CLEAN(free_clean) char *text = malloc(FILE_MAX_BYTES);
    size_t size;
    int result;

    if (!text)
        return err_nomem(err);
    if (!file)
        return err_set(err, -errno, "%s: %m", path);
    size = fread(text, 1, FILE_MAX_BYTES, file);
    if (ferror(file))
        return err_set(err, -EIO, "%s: cannot be read", path);
    if (size == FILE_MAX_BYTES)
        return err_set(err, -EFBIG, "%s: larger than a profile", path);
    result = machine_profile_parse(text, size, ret, err);
    return result < 0 ? err_wrap(err, result, "%s", path) : 0;
}

/* For people: what the values come to.  It is made again at each save, and never read. */
static void machine_profile_sum_up(const struct machine_profile *profile)
{
    struct json_object *all = json_object_new_object();
    struct machine_profile_range range;

    json_object_object_foreach(profile->values, name, samples)
    {
        struct json_object *one = json_object_new_object();

        (void)samples;
        if (!one || !machine_profile_range(profile, name, &range)) {
            json_object_put(one);
            continue;
        }
        json_object_object_add(one, "median", json_object_new_double(range.median));
        json_object_object_add(one, "spread", json_object_new_double(range.spread));
        if (strstr(name, LATENCY))
            json_object_object_add(one, "highest", json_object_new_double(range.high));
        else
            json_object_object_add(one, "lowest", json_object_new_double(range.low));
        json_object_object_add(one, "samples", json_object_new_int64(range.samples));
        json_object_object_add(all, name, one);
    }
    json_object_object_add(profile->root, "summary", all);
}

int machine_profile_save(const struct machine_profile *profile, const char *path, struct err *err)
{
    const char *text;
    char beside[4096];
    CLEAN(file_clean) FILE *file = NULL;
    int fd;

    if ((size_t)snprintf(beside, sizeof(beside), "%s.XXXXXX", path) >= sizeof(beside))
        return err_set(err, -ENAMETOOLONG, "%s: name too long", path);
    machine_profile_sum_up(profile);
    text = json_object_to_json_string_ext(profile->root, JSON_C_TO_STRING_PRETTY);
    fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0)
        return err_set(err, -errno, "%s: %m", path);
    file = fdopen(fd, "w");
    if (!file || fprintf(file, "%s\n", text) < 0 || fflush(file) != 0 || fchmod(fd, 0644) < 0 ||
        fsync(fd) < 0 || rename(beside, path) < 0) {
        int result = err_set(err, -errno, "%s: %m", path);

        unlink(beside);
        return result;
    }
    return 0;
}

/* ---- asking ---- */

const char *machine_profile_machine(const struct machine_profile *profile)
{
    return json_object_get_string(json_member(profile->root, "machine", json_type_string));
}

const char *machine_profile_fact(const struct machine_profile *profile, const char *name)
{
    struct json_object *fact = json_member(profile->facts, name, json_type_string);

    return fact ? json_object_get_string(fact) : NULL;
}

size_t machine_profile_facts(const struct machine_profile *profile)
{
    return (size_t)json_object_object_length(profile->facts);
}

const char *machine_profile_fact_at(const struct machine_profile *profile, size_t at,
                                    const char **value)
{
    json_object_object_foreach(profile->facts, name, fact)
    {
        if (at-- == 0) {
            *value = json_object_get_string(fact);
            return name;
        }
    }
    return NULL;
}

static int machine_profile_number_compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static double machine_profile_median(double *number, size_t count)
{
    qsort(number, count, sizeof(*number), machine_profile_number_compare);
    return (number[(count - 1) / 2] + number[count / 2]) / 2;
}

bool machine_profile_range(const struct machine_profile *profile, const char *name,
                           struct machine_profile_range *ret)
{
    struct json_object *samples = json_member(profile->values, name, json_type_array);
    double number[SAMPLES_KEPT], away[SAMPLES_KEPT], share;
    size_t count = samples ? json_object_array_length(samples) : 0;

    if (!count)
        return false;
    for (size_t i = 0; i < count; i++)
        number[i] = json_object_get_double(json_object_array_get_idx(samples, i));
    ret->samples = (unsigned)count;
    ret->median = machine_profile_median(number, count);
    for (size_t i = 0; i < count; i++)
        away[i] = fabs(number[i] - ret->median);
    share = count < 3 ? LOW_SHARE_FEW : LOW_SHARE;
    /* The median distance as a standard deviation. */
    ret->spread = 1.4826 * machine_profile_median(away, count);
    ret->high = ret->median + fmax(HIGH_SHARE * fabs(ret->median), LOW_SPREADS * ret->spread);
    ret->low = ret->median - fmax(share * fabs(ret->median), LOW_SPREADS * ret->spread);
    return true;
}

/* ---- learning ---- */

int machine_profile_learn_fact(struct machine_profile *profile, const char *name, const char *value)
{
    struct json_object *text = json_object_new_string(value);

    return text && json_object_object_add(profile->facts, name, text) == 0 ? 0 : -ENOMEM;
}

int machine_profile_learn_value(struct machine_profile *profile, const char *name, double value)
{
    struct json_object *samples = json_member(profile->values, name, json_type_array);
    struct json_object *number = json_object_new_double(value);

    if (!samples) {
        samples = json_object_new_array();
        if (!samples || json_object_object_add(profile->values, name, samples) < 0)
            return -ENOMEM;
    }
    if (json_object_array_length(samples) >= SAMPLES_KEPT)
        json_object_array_del_idx(samples, 0, 1);
    return number && json_object_array_add(samples, number) == 0 ? 0 : -ENOMEM;
}
