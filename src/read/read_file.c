/* read_file.c - reads a stream to its end, within a budget.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/read_file.h"

#include <errno.h>
#include <stdlib.h>

#include "core/clean.h"

#define READ_FILE_FIRST ((size_t)64 << 10)

static int read_file_content_grow(struct file_content *content)
{
    size_t want = content->room ? content->room + content->room / 2 : READ_FILE_FIRST;
    char *grown;

    if (!budget_take(content->budget, want - content->room))
        return -EFBIG;
    grown = realloc(content->data, want);
    if (!grown) {
        budget_give(content->budget, want - content->room);
        return -ENOMEM;
    }
    content->data = grown;
    content->room = want;
    return 0;
}

/* What the last growth took too much is for the file's values. */
static void read_file_content_fit(struct file_content *content)
{
    char *fitting = realloc(content->data, content->size + 1);

    if (!fitting)
        return;
    budget_give(content->budget, content->room - (content->size + 1));
    content->data = fitting;
    content->room = content->size + 1;
}

int read_stream(struct stream *stream, struct budget *budget, struct file_content *ret,
                struct err *err)
{
    CLEAN(read_file_fini) struct file_content content = { .budget = budget };
    ssize_t got;

    do {
        if (content.size + 1 >= content.room && read_file_content_grow(&content) < 0)
            return budget_error(budget, err);
        got =
            stream_read(stream, content.data + content.size, content.room - 1 - content.size, err);
        if (got < 0)
            return (int)got;
        content.size += (size_t)got;
    } while (got > 0);
    content.data[content.size] = '\0';
    read_file_content_fit(&content);
    *ret = content;
    content = (struct file_content){ 0 };
    return 0;
}

int read_file(const char *path, struct budget *budget, struct file_content *ret, struct err *err)
{
    CLEAN(stream_clean) struct stream *stream = NULL;
    int result = stream_open(path, &stream, err);

    if (result < 0)
        return result; /* names the path */
    result = stream_unpack(&stream, err);
    if (result >= 0)
        result = read_stream(stream, budget, ret, err);
    return result < 0 ? err_wrap(err, result, "%s", path) : 0;
}

void read_file_fini(struct file_content *content)
{
    budget_free(content->budget, content->data, content->room, 1);
    *content = (struct file_content){ 0 };
}
