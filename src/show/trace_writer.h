/* trace_writer.h - Chrome trace JSON, as ui.perfetto.dev and the viewers of profilers read it, written as it comes.
 *
 *     trace_writer_open("run.json.gz", &writer, &err);
 *     trace_writer_process(writer, 1, "node n0");
 *     trace_writer_thread(writer, 1, 7, "rank 0");
 *     trace_writer_slice(writer, &(struct trace_slice){ .process = 1, .thread = 7, .name = "step 3", ... });
 *     trace_writer_close(writer, &err);
 *
 * Compressed if the name ends with .gz.  The file appears under its name only when it is whole.  Nothing is kept in memory.
 * Slices of a thread must nest: the caller sees to that.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SHOW_TRACE_WRITER_H
#define LOCKSTEP_SHOW_TRACE_WRITER_H

#include <stdint.h>

#include <json-c/json.h>

#include "core/err.h"

struct trace_writer;

struct trace_slice {
    uint32_t process, thread;
    int64_t begin_ns, end_ns;
    const char *name, *category;
    struct json_object *args; /* NULL: none; the caller puts it */
};

int trace_writer_open(const char *path, struct trace_writer **ret, struct err *err);
/* Removes the file unless trace_writer_finish() has succeeded; NULL is fine. */
void trace_writer_close(struct trace_writer *writer);
/* Ends the file; `about` is its member otherData.  What went wrong before is reported here. */
int trace_writer_finish(struct trace_writer *writer, struct json_object *about, struct err *err);

void trace_writer_process(struct trace_writer *writer, uint32_t process, int order,
                          const char *name);
void trace_writer_thread(struct trace_writer *writer, uint32_t process, uint32_t thread,
                         const char *name);
void trace_writer_slice(struct trace_writer *writer, const struct trace_slice *slice);
void trace_writer_counter(struct trace_writer *writer, uint32_t process, int64_t at_ns,
                          const char *name, double value);
/* An arrow from a time in a slice of one thread to a time, not earlier, in a slice of another. */
struct trace_point {
    uint32_t process, thread;
    int64_t at_ns;
};
void trace_writer_arrow(struct trace_writer *writer, uint64_t id, const char *name,
                        struct trace_point from, struct trace_point to);

#endif
