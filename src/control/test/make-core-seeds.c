/* make-core-seeds.c - writes seeds for fuzz-core: short runs of the made-up job as facts.
 *
 *     make-core-seeds DIRECTORY
 */
#include <stdio.h>
#include <stdlib.h>

#include "control/test/lab_frames.h"
#include "core/clean.h"

static void seed_write(const char *directory, const char *name, const struct lab_frames *frames)
{
    char path[4096];
    CLEAN(buf_fini) struct buf out = { 0 };
    CLEAN(file_clean) FILE *file = NULL;

    for (size_t i = 0; i < frames->count; i++) {
        const struct lab_frame *frame = &frames->frame[i];

        buf_put_u8(&out, (uint8_t)(frame->type | (i % 4 == 3 ? 0x80 : 0)));
        buf_put_u16(&out, (uint16_t)frame->bytes);
        buf_put(&out, frame->payload, frame->bytes);
    }
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "wb");
    if (!file || fwrite(out.data, 1, out.size, file) != out.size)
        fprintf(stderr, "%s: %m\n", path);
}

static void seed_make(const char *directory, const char *name, struct lab_config config,
                      uint32_t steps)
{
    CLEAN(lab_frames_fini) struct lab_frames frames = { 0 };
    struct lab *lab;

    config.blocks = config.micros = config.buckets = 1;
    config.per_node = 1;
    lab = lab_create(&config);
    lab->fault.skew_ns[1] = 1000000;
    lab_frames_begin(&frames, lab);
    for (uint32_t i = 0; i < steps; i++) {
        lab->fault.stretch[1] = i > steps / 2;
        lab->fault.uneven = i % 2 ? 0.1 : 0;
        lab_step(lab);
        lab_frames_step(&frames, lab);
    }
    lab_frames_exit(&frames, lab, 1, lab->rank[0].begin_ns, 9, false);
    lab_frames_run(&frames, lab, RUN_ATTEMPT_END, lab->rank[0].begin_ns, 1);
    lab_restart(lab, steps / 2, 1000000000);
    lab_frames_begin(&frames, lab);
    lab_step(lab);
    lab_frames_step(&frames, lab);
    seed_write(directory, name, &frames);
    lab_destroy(lab);
}

int main(int argc, char **argv)
{
    struct lab_config config = lab_plain;

    if (argc != 2)
        return 2;
    config.dp = 2;
    seed_make(argv[1], "data-parallel", config, 12);
    config.pp = 2;
    config.dp = 1;
    seed_make(argv[1], "pipeline", config, 10);
    config.rendezvous = config.no_layout = true;
    config.pp = 1;
    config.tp = 2;
    seed_make(argv[1], "tensor-parallel", config, 10);
    return 0;
}
