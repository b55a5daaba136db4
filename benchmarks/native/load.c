// Plain calls, closed loop: every connection sends, reads the whole answer, pauses, and sends again.
//
//     load PORT PATH BODY_FILE CONNECTIONS PAUSE_US SECONDS [HEADER ...]
//
// Prints one JSON object; latencies in milliseconds, from the first byte sent to the last byte read.
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "wire.h"

enum { EVENTS = 256, READ_BYTES = 262144, HEAD_BYTES = 16384 };
static const int64_t GRACE_US = 20000000;

typedef struct {
    int fd;
    bool asking;
    int64_t due, asked_at;
    size_t sent;
    char head[HEAD_BYTES];
    size_t head_used;
    bool head_done, chunked, closes;
    size_t body_left;
    char tail[5];
    int status;
} caller;

static bytes request;
static caller *callers;
static int caller_count, poll_fd, port;
static samples latencies;
static long bad_status, broken, answered;
static int asking;

static void watch(int index, bool writes) {
    struct epoll_event wanted = {.events = EPOLLIN | (writes ? EPOLLOUT : 0), .data.u32 = (uint32_t)index};
    epoll_ctl(poll_fd, EPOLL_CTL_MOD, callers[index].fd, &wanted);
}

static bool dial(int index) {
    caller *c = &callers[index];
    struct sockaddr_in address = loopback(port);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (void *)&address, sizeof address)) {
        if (c->fd >= 0) close(c->fd);
        c->fd = -1;
        return false;
    }
    no_delay(c->fd);
    struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = (uint32_t)index};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &wanted);
    return true;
}

static void give_up(int index, int64_t now) {
    caller *c = &callers[index];
    broken++;
    if (c->asking) asking--;
    c->asking = false;
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
    c->due = now + 50000;
}

// Send what the socket takes; false when the connection is broken.
static bool push(int index) {
    caller *c = &callers[index];
    while (c->sent < request.used) {
        ssize_t sent = send(c->fd, request.at + c->sent, request.used - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            watch(index, true);
            return true;
        }
        if (sent <= 0) return false;
        c->sent += (size_t)sent;
        if (c->sent == request.used && c->sent != (size_t)sent) watch(index, false);
    }
    return true;
}

static void ask(int index, int64_t now) {
    caller *c = &callers[index];
    if (c->fd < 0 && !dial(index)) {
        give_up(index, now);
        return;
    }
    c->asking = true;
    asking++;
    c->asked_at = clock_us();
    c->sent = c->head_used = c->body_left = 0;
    c->head_done = c->chunked = c->closes = false;
    c->status = 0;
    memset(c->tail, 0, sizeof c->tail);
    if (!push(index)) give_up(index, now);
}

static bool read_head(caller *c) {
    c->head[c->head_used] = 0;
    char *value, *end = strstr(c->head, "\r\n\r\n");
    if (end == NULL) return c->head_used < HEAD_BYTES - 1;
    c->head_done = true;
    c->status = atoi(c->head + 9);
    c->closes = strcasestr(c->head, "\nconnection: close") != NULL;
    c->chunked = strcasestr(c->head, "\ntransfer-encoding:") != NULL;
    if (!c->chunked && (value = strcasestr(c->head, "\ncontent-length:")) != NULL) c->body_left = strtoul(value + 16, NULL, 10);
    return true;
}

static void keep_tail(caller *c, const char *from, size_t count) {
    size_t kept = count < 5 ? 5 - count : 0;
    memmove(c->tail, c->tail + 5 - kept, kept);
    memcpy(c->tail + kept, from + count - (5 - kept), 5 - kept);
}

// Take bytes of the answer; false when they are no HTTP.
static bool take(caller *c, const char *from, size_t count) {
    if (!c->head_done) {
        size_t room = HEAD_BYTES - 1 - c->head_used, taken = count < room ? count : room, before = c->head_used;
        memcpy(c->head + c->head_used, from, taken);
        c->head_used += taken;
        if (!read_head(c)) return false;
        if (!c->head_done) return true;
        size_t head_size = (size_t)(strstr(c->head, "\r\n\r\n") - c->head) + 4 - before;
        from += head_size;
        count -= head_size;
    }
    if (count == 0) return true;
    if (c->chunked) keep_tail(c, from, count);
    else c->body_left -= count < c->body_left ? count : c->body_left;
    return true;
}

static bool is_whole(const caller *c) {
    return c->head_done && (c->chunked ? memcmp(c->tail, "0\r\n\r\n", 5) == 0 : c->body_left == 0);
}

static void on_answer(int index, int64_t pause_us) {
    caller *c = &callers[index];
    int64_t now = clock_us();
    c->asking = false;
    asking--;
    answered++;
    if (c->status != 200) bad_status++;
    samples_add(&latencies, now - c->asked_at);
    c->due = now + pause_us;
    if (c->closes) {
        close(c->fd);
        c->fd = -1;
    }
}

static void on_event(int index, uint32_t events, int64_t pause_us) {
    static char buffer[READ_BYTES];
    caller *c = &callers[index];
    if (c->fd < 0) return;
    if ((events & EPOLLOUT) && c->asking && !push(index)) {
        give_up(index, clock_us());
        return;
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
    ssize_t got = recv(c->fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0 && !c->asking) {
        close(c->fd);  // an idle connection may be closed; that is no failure
        c->fd = -1;
        return;
    }
    if (got <= 0 || !take(c, buffer, (size_t)got)) {
        give_up(index, clock_us());
        return;
    }
    if (c->asking && is_whole(c)) on_answer(index, pause_us);
}

static void report(double seconds) {
    samples_sort(&latencies);
    printf("{\"requests\":%ld,\"seconds\":%.4f,\"rate\":%.1f,\"p50_ms\":%.3f,\"p90_ms\":%.3f,\"p99_ms\":%.3f,"
        "\"max_ms\":%.3f,\"bad_status\":%ld,\"broken\":%ld}\n",
        answered, seconds, seconds > 0 ? (double)answered / seconds : 0.0, samples_ms(&latencies, .5),
        samples_ms(&latencies, .9), samples_ms(&latencies, .99), samples_ms(&latencies, 1), bad_status, broken);
}

int main(int count, char **arguments) {
    if (count < 7) return 2;
    begin();
    port = atoi(arguments[1]);
    request = read_request(arguments[2], port, arguments[3], arguments + 7, count - 7);
    caller_count = atoi(arguments[4]);
    int64_t pause_us = atoll(arguments[5]), start = clock_us(), end = start + (int64_t)(atof(arguments[6]) * 1e6);
    int64_t last = start;
    callers = need(calloc((size_t)caller_count, sizeof *callers));
    poll_fd = epoll_create1(0);
    struct epoll_event ready[EVENTS];
    for (int i = 0; i < caller_count; i++) {
        callers[i].fd = -1;
        callers[i].due = start + pause_us * i / caller_count;
    }
    for (;;) {
        int64_t now = clock_us(), next = end;
        if ((now >= end && asking == 0) || now >= end + GRACE_US) break;
        for (int i = 0; i < caller_count && now < end; i++) {
            if (callers[i].asking) continue;
            if (callers[i].due <= now) ask(i, now);
            else if (callers[i].due < next) next = callers[i].due;
        }
        int64_t left = now < end ? next - clock_us() : 100000;
        if (left < 0) left = 0;
        struct timespec until = {left / 1000000, (left % 1000000) * 1000};
        int found = epoll_pwait2(poll_fd, ready, EVENTS, &until, NULL);
        for (int i = 0; i < found; i++) on_event((int)ready[i].data.u32, ready[i].events, pause_us);
        if (found > 0) last = clock_us();
    }
    broken += asking;
    report((double)((last > end ? last : end) - start) / 1e6);
    return 0;
}
