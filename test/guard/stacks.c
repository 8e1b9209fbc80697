/* stacks.c - the stacks in a spool, a line each: "rank 1: wait channel, kernel, Python, native".
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "wire/facts.h"
#include "wire/spool.h"

static void text_put(const char *text)
{
    for (; *text; text++)
        putchar(*text == '\n' ? ';' : *text);
    putchar(' ');
}

int main(int argc, char **argv)
{
    struct spool_reader *reader;
    struct frame frame;
    struct fact_stack fact;

    if (argc != 2 || spool_reader_open(argv[1], &reader, NULL) < 0)
        return 2;
    while (spool_next(reader, &frame, NULL) == 1) {
        if (frame.type != FRAME_STACK ||
            fact_stack_get(reader_of(frame.payload, frame.payload_bytes), &fact) < 0)
            continue;
        printf("rank %u: ", fact.rank);
        text_put(fact.channel);
        text_put(fact.kernel);
        text_put(fact.python);
        text_put(fact.native);
        putchar('\n');
    }
    spool_reader_close(reader);
    return 0;
}
