// Many streams at once: every connection asks for one stream and reads it to its end.
//
//     streams PORT PATH BODY_FILE STREAMS RAMP_MS CHUNKS SECONDS [HEADER ...]
//
// The streams start evenly over RAMP_MS. Prints one JSON object; times in milliseconds: `first` from the request to the
// first chunk, `transit` from the making of a chunk (its stamp) to its arrival. A stream is ok when all CHUNKS and the
// `[DONE]` after them arrived.
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "wire.h"

enum { EVENTS = 512, READ_BYTES = 262144, CARRY = 24, STAMP = 18 };
enum state { WAITS, DIALS, READS, OVER };

typedef struct {
    int fd;
    enum state state;
    int64_t due, asked_at;
    int chunks, status;
    char carry[CARRY];
    size_t carried;
} stream;

static bytes request;
static stream *all;
static int stream_count, chunks_wanted, poll_fd, port, over;
static samples firsts, transits;
static long ok, not_connected, bad_status, cut, incomplete, chunks_read;
static int64_t first_chunk_at, last_chunk_at;

static void end(stream *s, long *count) {
    (*count)++;
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
    s->state = OVER;
    over++;
}

static void dial(int index) {
    stream *s = &all[index];
    struct sockaddr_in address = loopback(port);
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (s->fd < 0 || (connect(s->fd, (void *)&address, sizeof address) && errno != EINPROGRESS)) {
        end(s, &not_connected);
        return;
    }
    no_delay(s->fd);
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLOUT, .data.u32 = (uint32_t)index};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, s->fd, &wanted);
    s->state = DIALS;
}

static void ask(int index) {
    stream *s = &all[index];
    int failure = 0;
    socklen_t size = sizeof failure;
    getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &failure, &size);
    s->asked_at = clock_us();
    if (failure || send(s->fd, request.at, request.used, MSG_NOSIGNAL) != (ssize_t)request.used) {
        end(s, &not_connected);
        return;
    }
    s->state = READS;
    struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = (uint32_t)index};
    epoll_ctl(poll_fd, EPOLL_CTL_MOD, s->fd, &wanted);
}

static bool is_stamp(const char *at) {
    for (int i = 2; i < STAMP; i++)
        if (at[i] < '0' || at[i] > '9') return false;
    return true;
}

static void on_stamp(stream *s, const char *at, int64_t now) {
    char digits[STAMP - 1];
    memcpy(digits, at + 2, STAMP - 2);
    digits[STAMP - 2] = 0;
    samples_add(&transits, now - atoll(digits));
    if (s->chunks++ == 0) samples_add(&firsts, now - s->asked_at);
    if (chunks_read++ == 0) first_chunk_at = now;
    last_chunk_at = now;
}

// Read stamps and the end; keep what may be the beginning of either.
static bool scan(stream *s, char *from, size_t count, int64_t now) {
    char *at = from, *end_at = from + count, *rest = from;
    while ((at = memmem(at, (size_t)(end_at - at), "##", 2)) != NULL && end_at - at >= STAMP) {
        if (is_stamp(at)) on_stamp(s, at, now);
        at += is_stamp(at) ? STAMP : 2;
        rest = at;
    }
    if (memmem(rest, (size_t)(end_at - rest), "[DONE]", 6) != NULL) return true;
    size_t left = (size_t)(end_at - rest);
    s->carried = left < CARRY ? left : CARRY;
    memcpy(s->carry, end_at - s->carried, s->carried);
    return false;
}

static void on_read(stream *s) {
    static char buffer[READ_BYTES + CARRY];
    memcpy(buffer, s->carry, s->carried);
    ssize_t got = recv(s->fd, buffer + s->carried, READ_BYTES, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        end(s, &cut);
        return;
    }
    size_t count = s->carried + (size_t)got;
    if (s->status == 0 && count >= 12) s->status = atoi(buffer + 9);
    if (s->status != 0 && s->status != 200) {
        if (bad_status == 0) fprintf(stderr, "%.*s\n", (int)(count < 1000 ? count : 1000), buffer);
        end(s, &bad_status);
        return;
    }
    if (scan(s, buffer, count, clock_us())) end(s, s->chunks == chunks_wanted ? &ok : &incomplete);
}

static void report(int64_t start) {
    samples_sort(&firsts);
    samples_sort(&transits);
    double reading = chunks_read > 1 ? (double)(last_chunk_at - first_chunk_at) / 1e6 : 0;
    printf("{\"streams\":%d,\"ok\":%ld,\"not_connected\":%ld,\"bad_status\":%ld,\"cut\":%ld,\"incomplete\":%ld,"
        "\"unfinished\":%d,\"chunks\":%ld,\"seconds\":%.3f,\"chunks_per_s\":%.1f,\"first_p50_ms\":%.3f,"
        "\"first_p99_ms\":%.3f,\"first_max_ms\":%.3f,\"transit_p50_ms\":%.3f,\"transit_p99_ms\":%.3f,"
        "\"transit_max_ms\":%.3f}\n",
        stream_count, ok, not_connected, bad_status, cut, incomplete, stream_count - over, chunks_read,
        (double)(clock_us() - start) / 1e6, reading > 0 ? (double)chunks_read / reading : 0.0,
        samples_ms(&firsts, .5), samples_ms(&firsts, .99), samples_ms(&firsts, 1), samples_ms(&transits, .5),
        samples_ms(&transits, .99), samples_ms(&transits, 1));
}

int main(int count, char **arguments) {
    if (count < 8) return 2;
    begin();
    port = atoi(arguments[1]);
    request = read_request(arguments[2], port, arguments[3], arguments + 8, count - 8);
    stream_count = atoi(arguments[4]);
    chunks_wanted = atoi(arguments[6]);
    int64_t ramp = atoll(arguments[5]) * 1000, start = clock_us(), until = start + (int64_t)(atof(arguments[7]) * 1e6);
    all = need(calloc((size_t)stream_count, sizeof *all));
    poll_fd = epoll_create1(0);
    struct epoll_event ready[EVENTS];
    for (int i = 0; i < stream_count; i++) all[i] = (stream){.fd = -1, .due = start + ramp * i / stream_count};
    for (int begun = 0; over < stream_count && clock_us() < until;) {
        while (begun < stream_count && all[begun].due <= clock_us()) dial(begun++);
        int found = epoll_wait(poll_fd, ready, EVENTS, begun < stream_count ? 1 : 100);
        for (int i = 0; i < found; i++) {
            stream *s = &all[ready[i].data.u32];
            if (s->state == DIALS) ask((int)ready[i].data.u32);
            else if (s->state == READS) on_read(s);
        }
    }
    report(start);
    return 0;
}
