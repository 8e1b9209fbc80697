/* sent.c - the file beside a spool with the last sent number.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/send/sent.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/untrusted.h"
#include "wire/spool.h"

static void sent_machine_read(char ret[static 40])
{
    CLEAN(file_clean) FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (!file || fscanf(file, "%39s", ret) != 1)
        ret[0] = '\0';
}

/* False: there is none that can be believed. */
static bool sent_note_read(struct sent *sent)
{
    CLEAN(fd_clean) int fd = untrusted_open(AT_FDCWD, sent->file, O_RDONLY, geteuid(), NULL);
    char text[96], machine[40] = "";
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    text[MAX(size, 0)] = '\0';
    sent->any = sscanf(text, "%20" SCNu64 " %39s", &sent->number, machine) == 2 &&
                sent->machine[0] && strcmp(machine, sent->machine) == 0;
    return sent->any;
}

void sent_open(struct sent *sent, const char *spool)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    const char *slash = strrchr(spool, '/');
    int directory = slash ? (int)(slash - spool) + 1 : 0;
    struct frame frame;

    *sent = (struct sent){ .any = false };
    sent_machine_read(sent->machine);
    if (snprintf(sent->file, sizeof(sent->file), "%.*s.%s.sent", directory, spool,
                 spool + directory) >= (int)sizeof(sent->file))
        sent->file[0] = '\0';
    if (sent_note_read(sent) || spool_reader_open(spool, &reader, NULL) < 0)
        return;
    while (spool_next(reader, &frame, NULL) == 1) {
        sent->any = true;
        sent->number = frame.number;
    }
}

/* One write before sending: after a kill the number is stored, or the body was not sent. */
void sent_note(struct sent *sent, uint64_t number)
{
    char text[96];
    int fd;

    if (sent->any && sent->number == number)
        return;
    sent->any = true;
    sent->number = number;
    snprintf(text, sizeof(text), "%020" PRIu64 " %-36s\n", number, sent->machine);
    fd = untrusted_open(AT_FDCWD, sent->file, O_WRONLY | O_CREAT, geteuid(), NULL);
    if (fd < 0)
        return;
    if (pwrite(fd, text, strlen(text), 0) != (ssize_t)strlen(text)) /* a full disk ... */
        unlink(sent->file); /* ... matters only to the next agent, which takes all for sent */
    close(fd);
}
