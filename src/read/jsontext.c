/* jsontext.c - JSON without recursion: open containers are on an explicit stack, at most 256 deep.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/jsontext.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

#define DEPTH_MAX 256

struct jsontext {
    char *begin, *at, *end;
    struct value_tree *tree;
    uint32_t open[DEPTH_MAX];
    unsigned depth;
    struct err *err;
};

static int jsontext_bad(struct jsontext *json, const char *what)
{
    size_t line = 1;
    const char *start = json->begin;

    for (const char *at = json->begin; at < json->at; at++) {
        if (*at == '\n') {
            line++;
            start = at + 1;
        }
    }
    return err_set(json->err, -EPROTO, "line %zu, column %zu: %s", line,
                   (size_t)(json->at - start) + 1, what);
}

static void jsontext_blanks(struct jsontext *json)
{
    while (json->at < json->end &&
           (*json->at == ' ' || *json->at == '\n' || *json->at == '\r' || *json->at == '\t'))
        json->at++;
}

static bool jsontext_word(struct jsontext *json, const char *word)
{
    size_t bytes = strlen(word);

    if ((size_t)(json->end - json->at) < bytes || memcmp(json->at, word, bytes) != 0)
        return false;
    json->at += bytes;
    return true;
}

static int jsontext_hex4(const char *at, const char *end, uint32_t *ret)
{
    *ret = 0;
    if (end - at < 4)
        return -EPROTO;
    for (int i = 0; i < 4; i++) {
        if (!isxdigit((unsigned char)at[i]))
            return -EPROTO;
        *ret = *ret << 4 |
               (uint32_t)(isdigit((unsigned char)at[i]) ? at[i] - '0' : (at[i] | 32) - 'a' + 10);
    }
    return 0;
}

static char *jsontext_put_utf8(char *out, uint32_t code)
{
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xc0 | code >> 6);
        *out++ = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        *out++ = (char)(0xe0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 63));
        *out++ = (char)(0x80 | (code & 63));
    } else {
        *out++ = (char)(0xf0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 63));
        *out++ = (char)(0x80 | (code >> 6 & 63));
        *out++ = (char)(0x80 | (code & 63));
    }
    return out;
}

/* At the 'u' of \uXXXX, perhaps of a pair; never longer than what it stands for. */
static int jsontext_unescape_code(struct jsontext *json, char **out)
{
    uint32_t code, low;

    if (jsontext_hex4(json->at + 1, json->end, &code) < 0)
        return jsontext_bad(json, "\\u without four hexadecimal digits");
    json->at += 5;
    if (code >= 0xd800 && code < 0xdc00 && json->end - json->at >= 6 && json->at[0] == '\\' &&
        json->at[1] == 'u' && jsontext_hex4(json->at + 2, json->end, &low) == 0 && low >= 0xdc00 &&
        low < 0xe000) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        json->at += 6;
    }
    *out = jsontext_put_utf8(*out, code);
    return 0;
}

static int jsontext_unescape(struct jsontext *json, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *found;

    json->at++;
    if (json->at == json->end)
        return jsontext_bad(json, "unterminated string");
    if (*json->at == 'u')
        return jsontext_unescape_code(json, out);
    found = *json->at ? strchr(from, *json->at) : NULL;
    if (!found)
        return jsontext_bad(json, "invalid escape sequence");
    *(*out)++ = to[found - from];
    json->at++;
    return 0;
}

static int jsontext_text(struct jsontext *json, struct value_node *ret)
{
    char *first = ++json->at, *out = first;

    while (json->at < json->end && *json->at != '"') {
        if (*json->at == '\\') {
            int result = jsontext_unescape(json, &out);

            if (result < 0)
                return result;
            continue;
        }
        if (out != json->at)
            *out = *json->at;
        out++;
        json->at++;
    }
    if (json->at == json->end)
        return jsontext_bad(json, "unterminated string");
    json->at++;
    if (out - first > UINT32_MAX)
        return jsontext_bad(json, "string of more than 4 GiB");
    *ret =
        (struct value_node){ .type = VALUE_TEXT, .count = (uint32_t)(out - first), .text = first };
    return 0;
}

/* Short whole numbers here; the rest by strtod, from a copy that ends. */
static int jsontext_number(struct jsontext *json, struct value_node *ret)
{
    char text[64], *end;
    size_t bytes = 0;
    bool integral = true;

    while (json->at + bytes < json->end && bytes < sizeof(text) - 1 && json->at[bytes] &&
           strchr("+-.eE0123456789", json->at[bytes])) {
        text[bytes] = json->at[bytes];
        integral &= text[bytes] != '.' && text[bytes] != 'e' && text[bytes] != 'E';
        bytes++;
    }
    text[bytes] = '\0';
    errno = 0;
    *ret = (struct value_node){ .type = VALUE_INT };
    ret->integer = integral && bytes < 20 ? strtoll(text, &end, 10) : 0;
    if (!integral || bytes >= 20 || errno) {
        ret->type = VALUE_FLOAT;
        ret->real = strtod(text, &end);
    }
    if (!bytes || end != text + bytes || !isdigit((unsigned char)text[bytes - 1]) || text[0] == '+')
        return jsontext_bad(json, "not a value");
    json->at += bytes;
    return 0;
}

static int jsontext_scalar(struct jsontext *json, struct value_node *ret)
{
    *ret = (struct value_node){ .type = VALUE_NONE };
    if (*json->at == '"')
        return jsontext_text(json, ret);
    if (jsontext_word(json, "null"))
        return 0;
    ret->type = VALUE_BOOL;
    if ((ret->integer = jsontext_word(json, "true")) || jsontext_word(json, "false"))
        return 0;
    ret->type = VALUE_FLOAT;
    ret->real = NAN;
    if (jsontext_word(json, "NaN"))
        return 0;
    ret->real = *json->at == '-' ? -INFINITY : INFINITY;
    if (jsontext_word(json, "Infinity") || jsontext_word(json, "-Infinity"))
        return 0;
    return jsontext_number(json, ret);
}

/* A key and its colon, where the innermost container is a dictionary. */
static int jsontext_key(struct jsontext *json)
{
    struct value_node node;
    uint32_t key;
    int result;

    if (json->at == json->end || *json->at != '"')
        return jsontext_bad(json, "expected a key in quotes");
    result = jsontext_text(json, &node);
    if (result < 0)
        return result;
    key = value_add(json->tree, node);
    if (key == VALUE_NIL || value_append(json->tree, json->open[json->depth - 1], key) < 0)
        return -ENOMEM;
    jsontext_blanks(json);
    if (!jsontext_word(json, ":"))
        return jsontext_bad(json, "expected a colon after the key");
    jsontext_blanks(json);
    return 0;
}

/* One value; a container that is not empty stays open. */
static int jsontext_value(struct jsontext *json)
{
    struct value_node node = { .type = VALUE_DICT };
    bool opens = true;
    uint32_t id;
    int result = 0;

    if (json->at == json->end)
        return jsontext_bad(json, "unexpected end of file");
    if (*json->at == '[') {
        node.type = VALUE_LIST;
    } else if (*json->at != '{') {
        opens = false;
        result = jsontext_scalar(json, &node);
    }
    if (result < 0)
        return result;
    id = value_add(json->tree, node);
    if (id == VALUE_NIL)
        return -ENOMEM;
    if (!json->depth)
        json->tree->root = id;
    else if (value_append(json->tree, json->open[json->depth - 1], id) < 0)
        return -ENOMEM;
    if (!opens)
        return 0;
    json->at++;
    if (json->depth == DEPTH_MAX)
        return jsontext_bad(json, "nested more than 256 levels deep");
    json->open[json->depth++] = id;
    return 1;
}

static bool jsontext_in_dict(const struct jsontext *json)
{
    return json->tree->node[json->open[json->depth - 1]].type == VALUE_DICT;
}

/* After a value: close what ends here, until a comma or the end of the text. */
static int jsontext_after(struct jsontext *json)
{
    for (;;) {
        jsontext_blanks(json);
        if (!json->depth)
            return json->at == json->end ? 0 : jsontext_bad(json, "unexpected data after the end");
        if (json->at == json->end)
            return jsontext_bad(json, "unexpected end of file");
        if (*json->at == ',') {
            json->at++;
            jsontext_blanks(json);
            return 1;
        }
        if (*json->at != (jsontext_in_dict(json) ? '}' : ']'))
            return jsontext_bad(json, "expected a comma or the end of the list");
        json->at++;
        json->depth--;
    }
}

static int jsontext_all(struct jsontext *json)
{
    int result;

    jsontext_blanks(json);
    for (;;) {
        result = json->depth && jsontext_in_dict(json) ? jsontext_key(json) : 0;
        if (result == 0)
            result = jsontext_value(json);
        if (result < 0)
            return result;
        jsontext_blanks(json);
        if (result == 1 &&
            !(json->at < json->end && *json->at == (jsontext_in_dict(json) ? '}' : ']')))
            continue; /* opened, and not empty */
        result = jsontext_after(json);
        if (result <= 0)
            return result;
    }
}

int jsontext_read(char *text, size_t bytes, struct value_tree *tree, struct err *err)
{
    struct jsontext json = {
        .begin = text, .at = text, .end = text + bytes, .tree = tree, .err = err
    };
    int result;

    value_reset(tree);
    result = jsontext_all(&json);
    return result == -ENOMEM ? budget_error(tree->budget, err) : result;
}
