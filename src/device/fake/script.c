/* script.c - reads rules and answers by them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/fake/script.h"

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RULES_MAX 256
#define NS_PER_MS INT64_C(1000000)

enum rule_kind {
    RULE_VALUE,
    RULE_TEXT,
    RULE_ERROR,
    RULE_DELAY,
    RULE_HANG
};

struct rule {
    char key[96];
    enum rule_kind kind;
    int64_t number; /* value, error, nanoseconds */
    char text[96];
    uint64_t after, times, calls; /* times 0: no end */
};

static struct script {
    pthread_mutex_t lock;
    struct rule rule[RULES_MAX];
    size_t rules;
    struct timespec changed;
    ino_t inode;
    off_t bytes;
} script = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void script_bad(const char *path, unsigned line, const char *what)
{
    fprintf(stderr, "fake device: %s:%u: %s\n", path, line, what);
    _exit(99);
}

/* Takes " WORD NUMBER" off the end of a line, if it is there. */
static bool script_suffix(char *line, const char *word, uint64_t *ret)
{
    char *at = strstr(line, word), *end;

    if (!at)
        return false;
    *ret = strtoull(at + strlen(word), &end, 10);
    if (*end)
        return false;
    *at = '\0';
    return true;
}

static bool script_delay(const char *text, int64_t *ret_ns)
{
    char *end;
    double number = strtod(text, &end);

    if (end == text)
        return false;
    if (strcmp(end, "ms") == 0)
        *ret_ns = (int64_t)(number * NS_PER_MS);
    else if (strcmp(end, "s") == 0)
        *ret_ns = (int64_t)(number * 1000 * NS_PER_MS);
    else
        return false;
    return true;
}

static bool script_rule(char *line, struct rule *rule)
{
    char kind[16];
    int used = 0;
    const char *rest;
    char *end;

    *rule = (struct rule){ .times = 0 };
    while (script_suffix(line, " times ", &rule->times) ||
           script_suffix(line, " after ", &rule->after))
        ;
    if (sscanf(line, "%95s %15s %n", rule->key, kind, &used) < 2)
        return false;
    rest = used ? line + used : "";
    if (strcmp(kind, "hang") == 0) {
        rule->kind = RULE_HANG;
        return true;
    }
    if (strcmp(kind, "text") == 0) {
        rule->kind = RULE_TEXT;
        snprintf(rule->text, sizeof(rule->text), "%s", rest);
        return *rest != '\0';
    }
    if (strcmp(kind, "delay") == 0) {
        rule->kind = RULE_DELAY;
        return script_delay(rest, &rule->number);
    }
    rule->kind = strcmp(kind, "error") == 0 ? RULE_ERROR : RULE_VALUE;
    rule->number = strtoll(rest, &end, 0);
    return (rule->kind == RULE_ERROR || strcmp(kind, "value") == 0) && end != rest && !*end;
}

static void script_read(const char *path)
{
    char line[256];
    unsigned number = 0;
    FILE *file = fopen(path, "re");

    if (!file)
        script_bad(path, 0, strerror(errno));
    script.rules = 0;
    while (fgets(line, sizeof(line), file)) {
        size_t length = strcspn(line, "#\n");

        number++;
        while (length && (line[length - 1] == ' ' || line[length - 1] == '\t'))
            length--;
        line[length] = '\0';
        if (!length)
            continue;
        if (script.rules == RULES_MAX)
            script_bad(path, number, "too many rules");
        if (!script_rule(line, &script.rule[script.rules]))
            script_bad(path, number, "not a rule: KEY value|text|error|delay|hang ...");
        script.rules++;
    }
    fclose(file);
}

/* Calls are counted from the last change on. */
static void script_refresh(void)
{
    const char *path = getenv("LOCKSTEP_FAKE_DEVICE");
    struct stat now;

    if (!path || stat(path, &now) < 0)
        return;
    if (now.st_ino == script.inode && now.st_size == script.bytes &&
        memcmp(&now.st_mtim, &script.changed, sizeof(now.st_mtim)) == 0)
        return;
    script_read(path);
    script.inode = now.st_ino;
    script.bytes = now.st_size;
    script.changed = now.st_mtim;
}

static void script_apply(const struct rule *rule, struct script_answer *ret, int64_t *delay_ns,
                         bool *hang)
{
    switch (rule->kind) {
    case RULE_VALUE:
        ret->has_value = true;
        ret->value = rule->number;
        break;
    case RULE_TEXT:
        memcpy(ret->text, rule->text, sizeof(ret->text));
        break;
    case RULE_ERROR:
        ret->error = (int)rule->number;
        break;
    case RULE_DELAY:
        *delay_ns = rule->number;
        break;
    case RULE_HANG:
        *hang = true;
        break;
    }
}

static void script_answer(struct script_answer *ret, const char *key)
{
    int64_t delay_ns = 0;
    bool hang = false;

    *ret = (struct script_answer){ 0 };
    pthread_mutex_lock(&script.lock);
    script_refresh();
    for (size_t i = 0; i < script.rules; i++) {
        struct rule *rule = &script.rule[i];
        uint64_t call;

        if (fnmatch(rule->key, key, 0) != 0)
            continue;
        call = rule->calls++;
        if (call >= rule->after && (!rule->times || call - rule->after < rule->times))
            script_apply(rule, ret, &delay_ns, &hang);
    }
    pthread_mutex_unlock(&script.lock);
    while (hang)
        pause();
    if (delay_ns)
        nanosleep(
            &(struct timespec){ delay_ns / (1000 * NS_PER_MS), delay_ns % (1000 * NS_PER_MS) },
            NULL);
}

void script_ask(struct script_answer *ret, const char *key, ...)
{
    char text[96];
    va_list list;

    va_start(list, key);
    vsnprintf(text, sizeof(text), key, list);
    va_end(list);
    script_answer(ret, text);
}

int script_number(int64_t *ret, int64_t usual, const char *key, ...)
{
    struct script_answer answer;
    char text[96];
    va_list list;

    va_start(list, key);
    vsnprintf(text, sizeof(text), key, list);
    va_end(list);
    script_answer(&answer, text);
    if (answer.error)
        return answer.error;
    *ret = answer.has_value ? answer.value : usual;
    return 0;
}
