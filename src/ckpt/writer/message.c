/* message.c - messages between engine and writer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/writer/message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ckpt/format/tensor.h"
#include "core/clean.h"
#include "core/text.h"

static const char magic[4] = { 'L', 'S', 'C', 'W' };
#define VERSION 7

static void message_hello_put(const struct message_hello *hello, struct buf *out)
{
    buf_put_u32(out, hello->rank);
    buf_put_u32(out, hello->world);
    buf_put_u32(out, hello->group);
    buf_put_u32(out, hello->images);
    buf_put_u32(out, hello->deadline_s);
    buf_put_u32(out, hello->keep);
    buf_put_u32(out, hello->no_verify);
    buf_put_u32(out, hello->hold_s);
    buf_put_u32(out, hello->verify_parts);
    buf_put_u32(out, hello->commit_s);
    buf_put_u64(out, hello->job);
    buf_put_u64(out, hello->bytes_per_s);
    buf_put_u64(out, hello->keep_every);
    buf_put_u64(out, hello->image_bytes);
}

static void message_skip_put(const struct message_skip *skip, struct buf *out)
{
    buf_put_u32(out, skip->rank);
    buf_put_u32(out, skip->world);
    buf_put_u32(out, skip->group);
    buf_put_u64(out, skip->job);
    buf_put_u64(out, skip->step);
    buf_put_str(out, skip->why);
}

static const size_t figures[] = {
    offsetof(struct message_figures, bytes),
    offsetof(struct message_figures, copy_ns),
    offsetof(struct message_figures, store_ns),
    offsetof(struct message_figures, digest_ns),
    offsetof(struct message_figures, commit_ns),
    offsetof(struct message_figures, tensors),
    offsetof(struct message_figures, unchanged),
    offsetof(struct message_figures, moments),
    offsetof(struct message_figures, moments_unchanged),
};

static void message_event_put(const struct message_event *event, struct buf *out)
{
    buf_put_u32(out, event->type);
    buf_put_u32(out, event->image);
    buf_put_u64(out, event->number);
    buf_put_u64(out, event->step);
    buf_put_u64(out, event->ns);
    buf_put_u64(out, event->cpu_ns);
    buf_put_u32(out, (uint32_t)event->pid);
    buf_put_u32(out, (uint32_t)event->code);
    buf_put_str(out, event->text);
    for (size_t i = 0; i < COUNT(figures); i++) {
        uint64_t value;

        memcpy(&value, (const char *)&event->figures + figures[i], sizeof(value));
        buf_put_u64(out, value);
    }
}

void message_encode(const struct message *message, struct buf *out)
{
    buf_put(out, magic, sizeof(magic));
    buf_put_u16(out, VERSION);
    buf_put_u16(out, (uint16_t)message->type);
    switch (message->type) {
    case MESSAGE_HELLO:
        message_hello_put(&message->hello, out);
        break;
    case MESSAGE_SAVE:
        buf_put_u32(out, message->save.image);
        buf_put_u64(out, message->save.number);
        buf_put_u64(out, message->save.step);
        buf_put_u64(out, message->save.draft_at);
        buf_put_u64(out, message->save.draft_bytes);
        buf_put_u64(out, message->save.copy_ns);
        break;
    case MESSAGE_EVENT:
        message_event_put(&message->event, out);
        break;
    case MESSAGE_COMPLETE:
        buf_put_u64(out, message->complete.step);
        break;
    case MESSAGE_SKIP:
        message_skip_put(&message->skip, out);
        break;
    case MESSAGE_BYE:
        break;
    }
}

static bool message_hello_get(struct reader *in, struct message_hello *hello)
{
    hello->rank = reader_get_u32(in);
    hello->world = reader_get_u32(in);
    hello->group = reader_get_u32(in);
    hello->images = reader_get_u32(in);
    hello->deadline_s = reader_get_u32(in);
    hello->keep = reader_get_u32(in);
    hello->no_verify = reader_get_u32(in);
    hello->hold_s = reader_get_u32(in);
    hello->verify_parts = reader_get_u32(in);
    hello->commit_s = reader_get_u32(in);
    hello->job = reader_get_u64(in);
    hello->bytes_per_s = reader_get_u64(in);
    hello->keep_every = reader_get_u64(in);
    hello->image_bytes = reader_get_u64(in);
    return !in->bad && hello->rank < hello->world && hello->world <= CKPT_RANKS_MAX &&
           hello->group > 0 && hello->group <= hello->world && hello->images > 0 &&
           hello->images <= 2 && hello->deadline_s <= 86400 && hello->hold_s <= 86400 &&
           hello->verify_parts <= CKPT_PARTS_MAX && hello->commit_s > 0 && hello->image_bytes > 0 &&
           hello->image_bytes <= UINT64_C(1) << 61 && hello->image_bytes % CKPT_PAGE == 0;
}

static bool message_save_get(struct reader *in, struct message_save *save)
{
    save->image = reader_get_u32(in);
    save->number = reader_get_u64(in);
    save->step = reader_get_u64(in);
    save->draft_at = reader_get_u64(in);
    save->draft_bytes = reader_get_u64(in);
    save->copy_ns = reader_get_u64(in);
    return !in->bad && save->image < 2 && save->draft_at % CKPT_PAGE == 0 &&
           save->draft_at <= UINT64_C(1) << 61 && save->draft_bytes <= UINT64_C(1) << 30;
}

static bool message_skip_get(struct reader *in, struct message_skip *skip)
{
    skip->rank = reader_get_u32(in);
    skip->world = reader_get_u32(in);
    skip->group = reader_get_u32(in);
    skip->job = reader_get_u64(in);
    skip->step = reader_get_u64(in);
    reader_get_str(in, skip->why, sizeof(skip->why));
    skip->why[text_clean(skip->why, strlen(skip->why), false)] = '\0';
    return !in->bad && skip->rank < skip->world && skip->world <= CKPT_RANKS_MAX &&
           skip->group > 1 && skip->group <= skip->world && skip->step != UINT64_MAX;
}

static bool message_event_get(struct reader *in, struct message_event *event)
{
    event->type = reader_get_u32(in);
    event->image = reader_get_u32(in);
    event->number = reader_get_u64(in);
    event->step = reader_get_u64(in);
    event->ns = reader_get_u64(in);
    event->cpu_ns = reader_get_u64(in);
    event->pid = (int32_t)reader_get_u32(in);
    event->code = (int32_t)reader_get_u32(in);
    reader_get_str(in, event->text, sizeof(event->text));
    for (size_t i = 0; i < COUNT(figures); i++) {
        uint64_t value = reader_get_u64(in);

        memcpy((char *)&event->figures + figures[i], &value, sizeof(value));
    }
    event->text[text_clean(event->text, strlen(event->text), false)] = '\0';
    return !in->bad && event->type >= EVENT_READY && event->type <= EVENT_FAILED &&
           event->image < 2;
}

int message_parse(const void *data, size_t size, struct message *ret, struct err *err)
{
    struct reader in = reader_of(data, size);
    const void *start = reader_get(&in, sizeof(magic));
    uint16_t version = reader_get_u16(&in), type = reader_get_u16(&in);
    struct message made = { .type = MESSAGE_HELLO };
    bool good = false;

    if (in.bad || memcmp(start, magic, sizeof(magic)) != 0 || version != VERSION)
        return err_set(err, -EPROTO, "not a message of this version");
    if (type == MESSAGE_HELLO)
        good = message_hello_get(&in, &made.hello);
    else if (type == MESSAGE_SAVE)
        good = message_save_get(&in, &made.save);
    else if (type == MESSAGE_EVENT)
        good = message_event_get(&in, &made.event);
    else if (type == MESSAGE_COMPLETE) {
        made.complete.step = reader_get_u64(&in);
        good = !in.bad;
    } else if (type == MESSAGE_SKIP) {
        good = message_skip_get(&in, &made.skip);
    } else if (type == MESSAGE_BYE) {
        good = true;
    }
    if (!good || reader_left(&in))
        return err_set(err, -EPROTO, "message of type %u is not valid", type);
    made.type = (enum message_type)type;
    *ret = made;
    return 0;
}

int message_send(int socket, const struct message *message, const int *fds, struct err *err)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(MESSAGE_FDS * sizeof(int))] = { 0 };
    struct buf bytes = { .data = NULL };
    struct iovec vector;
    struct msghdr header = { .msg_iov = &vector, .msg_iovlen = 1 };
    ssize_t sent;

    message_encode(message, &bytes);
    if (bytes.failed) {
        buf_fini(&bytes);
        return err_nomem(err);
    }
    vector = (struct iovec){ bytes.data, bytes.size };
    if (fds) {
        struct cmsghdr *item;

        header.msg_control = control;
        header.msg_controllen = sizeof(control);
        item = CMSG_FIRSTHDR(&header);
        item->cmsg_level = SOL_SOCKET;
        item->cmsg_type = SCM_RIGHTS;
        item->cmsg_len = CMSG_LEN(MESSAGE_FDS * sizeof(int));
        memcpy(CMSG_DATA(item), fds, MESSAGE_FDS * sizeof(int));
    }
    do
        sent = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    buf_fini(&bytes);
    return sent < 0 ? err_set(err, -errno, "cannot reach the other process: %m") : 0;
}

static void message_fds_take(struct msghdr *header, int *fds)
{
    for (struct cmsghdr *item = CMSG_FIRSTHDR(header); item; item = CMSG_NXTHDR(header, item)) {
        size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(item) + i * sizeof(int), sizeof(fd));
            if (fds && i < MESSAGE_FDS && fds[i] < 0)
                fds[i] = fd;
            else
                close(fd);
        }
    }
}

int message_receive(int socket, bool wait, struct message *ret, int *fds, struct err *err)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
    unsigned char bytes[MESSAGE_BYTES_MAX];
    struct iovec vector = { bytes, sizeof(bytes) };
    struct msghdr header = { .msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control) };
    ssize_t got;

    if (fds)
        fds[0] = fds[1] = -1;
    do
        got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN       ? -EAGAIN
               : errno == ECONNRESET ? 0
                                     : err_set(err, -errno, "cannot read from the socket: %m");
    message_fds_take(&header, fds);
    if (got == 0)
        return 0;
    if (header.msg_flags & MSG_TRUNC)
        return err_set(err, -EPROTO, "message is too long");
    return message_parse(bytes, (size_t)got, ret, err) < 0 ? -EPROTO : 1;
}
