// The provider that every contestant talks to: one thread, epoll, answers as an OpenAI-compatible endpoint.
//
//     upstream PORT            (0 picks a free port; the port is the first line of standard output)
//
// A request says what it wants by a mark anywhere in its body:
//     @@WAIT,CHUNKS,GAP@@      wait WAIT ms before the answer; a stream has CHUNKS chunks, GAP ms apart
// Every chunk holds "##" and the 16 digits of CLOCK_MONOTONIC in microseconds when it was made, so that whoever reads
// it on this machine knows how long it was on its way. GET /stats tells what was asked since the last GET /reset; a
// request counts as a row when the first 8 KB of its body hold "@@row".
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "wire.h"

enum { MOST_CONNECTIONS = 65536, EVENTS = 512, READ_BYTES = 262144 };
enum state { READING, WAITING, STREAMING };

typedef struct {
    int fd;
    enum state state;
    bytes in, out;
    size_t out_sent;
    bool writes_wanted, close_after;
    uint32_t turn;  // counts requests, so that an old alarm does not ring for a new one
    int chunk, chunks;
    int64_t first_at, gap_us;
} connection;

typedef struct {
    int64_t at;
    int fd;
    uint32_t turn;
} alarm_clock;

static connection *connections[MOST_CONNECTIONS];
static alarm_clock *alarms;
static size_t alarms_used, alarms_room;
static int poll_fd;
static uint32_t turns;
static struct {
    long requests, rows;
    int64_t first_row_us, last_row_us;
} seen;
static bytes plain_answer, models_answer;

static void alarm_set(int64_t at, const connection *c) {
    if (alarms_used == alarms_room) {
        alarms_room = alarms_room ? alarms_room * 2 : 1024;
        alarms = need(realloc(alarms, alarms_room * sizeof *alarms));
    }
    size_t i = alarms_used++;
    while (i > 0 && alarms[(i - 1) / 2].at > at) {
        alarms[i] = alarms[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    alarms[i] = (alarm_clock){at, c->fd, c->turn};
}

static alarm_clock alarm_take(void) {
    alarm_clock first = alarms[0], last = alarms[--alarms_used];
    size_t i = 0;
    for (;;) {
        size_t below = 2 * i + 1;
        if (below >= alarms_used) break;
        if (below + 1 < alarms_used && alarms[below + 1].at < alarms[below].at) below++;
        if (alarms[below].at >= last.at) break;
        alarms[i] = alarms[below];
        i = below;
    }
    alarms[i] = last;
    return first;
}

static void watch(connection *c, bool writes) {
    if (c->writes_wanted == writes) return;
    c->writes_wanted = writes;
    struct epoll_event wanted = {.events = EPOLLIN | (writes ? EPOLLOUT : 0), .data.fd = c->fd};
    epoll_ctl(poll_fd, EPOLL_CTL_MOD, c->fd, &wanted);
}

static void drop(connection *c) {
    connections[c->fd] = NULL;
    close(c->fd);
    free(c->in.at);
    free(c->out.at);
    free(c);
}

// Send what is queued; false when the connection is gone.
static bool flush(connection *c) {
    while (c->out_sent < c->out.used) {
        ssize_t sent = send(c->fd, c->out.at + c->out_sent, c->out.used - c->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            watch(c, true);
            return true;
        }
        if (sent <= 0) return false;
        c->out_sent += (size_t)sent;
    }
    c->out.used = c->out_sent = 0;
    watch(c, false);
    return !(c->close_after && c->state == READING);
}

static bool answer(connection *c, const char *from, size_t count) {
    bytes_add(&c->out, from, count);
    return flush(c);
}

static void make_answers(void) {
    char body[2048], text[700];
    size_t length = 0;
    for (int i = 0; length < 600; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "Sentence %d says as little as the last. ", i);
    int count = snprintf(body, sizeof body,
        "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1760000000,\"model\":\"mock-1\",\"choices\":[{"
        "\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"%s\",\"refusal\":null},\"logprobs\":null,"
        "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":200,\"completion_tokens\":100,\"total_tokens\":300,"
        "\"prompt_tokens_details\":{\"cached_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":0}},"
        "\"system_fingerprint\":\"fp_1\"}", text);
    char head[256];
    int head_count = snprintf(head, sizeof head,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-request-id: req-1\r\nContent-Length: %d\r\n\r\n", count);
    bytes_add(&plain_answer, head, (size_t)head_count);
    bytes_add(&plain_answer, body, (size_t)count);
    const char *models = "{\"object\":\"list\",\"data\":[{\"id\":\"mock-1\",\"object\":\"model\",\"created\":1760000000,"
        "\"owned_by\":\"mock\"}]}";
    head_count = snprintf(head, sizeof head,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", strlen(models));
    bytes_add(&models_answer, head, (size_t)head_count);
    bytes_add(&models_answer, models, strlen(models));
}

#define CHUNK "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1760000000," \
    "\"model\":\"mock-1\",\"system_fingerprint\":\"fp_1\",\"choices\":["
static const char STREAM_HEAD[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    "Cache-Control: no-cache\r\nx-request-id: req-1\r\nTransfer-Encoding: chunked\r\n\r\n";
static const char FINISH[] = CHUNK "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\n";
static const char USAGE[] = CHUNK "],\"usage\":{\"prompt_tokens\":200,\"completion_tokens\":50,\"total_tokens\":250}}\n\n";
static const char DONE[] = "data: [DONE]\n\n";

static size_t framed(char *into, size_t room, const char *event, size_t count) {
    size_t used = (size_t)snprintf(into, room, "%zx\r\n", count);
    memcpy(into + used, event, count);
    memcpy(into + used + count, "\r\n", 2);
    return used + count + 2;
}

static bool read_requests(connection *c);

static bool next_chunk(connection *c) {
    char wire[4096], event[600];
    size_t used = 0;
    if (c->chunk == 0) {
        memcpy(wire, STREAM_HEAD, sizeof STREAM_HEAD - 1);
        used = sizeof STREAM_HEAD - 1;
    }
    if (c->chunk < c->chunks) {
        int count = snprintf(event, sizeof event,
            CHUNK "{\"index\":0,\"delta\":{%s\"content\":\"##%016lld word%d\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n",
            c->chunk ? "" : "\"role\":\"assistant\",", (long long)clock_us(), c->chunk);
        used += framed(wire + used, sizeof wire - used, event, (size_t)count);
        c->chunk++;
        alarm_set(c->first_at + c->chunk * c->gap_us, c);
        return answer(c, wire, used);
    }
    used += framed(wire + used, sizeof wire - used, FINISH, sizeof FINISH - 1);
    used += framed(wire + used, sizeof wire - used, USAGE, sizeof USAGE - 1);
    used += framed(wire + used, sizeof wire - used, DONE, sizeof DONE - 1);
    memcpy(wire + used, "0\r\n\r\n", 5);
    c->state = READING;
    return answer(c, wire, used + 5) && read_requests(c);
}

static bool has_name(const char *head, size_t count, const char *name, const char **value) {
    size_t length = strlen(name);
    for (const char *line = head; (line = memchr(line, '\n', count - (size_t)(line - head))) != NULL;) {
        line++;
        if ((size_t)(head + count - line) > length && strncasecmp(line, name, length) == 0) {
            *value = line + length;
            return true;
        }
    }
    return false;
}

// The bytes of a chunked body that are there, or 0 while it is not complete.
static size_t chunked_size(const char *from, size_t count) {
    size_t at = 0;
    for (;;) {
        const char *line_end = memmem(from + at, count - at, "\r\n", 2);
        if (line_end == NULL) return 0;
        size_t size = strtoul(from + at, NULL, 16);
        at = (size_t)(line_end - from) + 2 + size + 2;
        if (at > count) return 0;
        if (size == 0) return at;
    }
}

static bool wants_stream(const char *body, size_t count) {
    const char *at = body, *end = body + count;
    while ((at = memmem(at, (size_t)(end - at), "\"stream\"", 8)) != NULL) {
        at += 8;
        while (at < end && (*at == ' ' || *at == ':')) at++;
        if (end - at >= 4 && memcmp(at, "true", 4) == 0) return true;
    }
    return false;
}

static void read_mark(const char *body, size_t count, int *wait, int *chunks, int *gap) {
    const char *mark = memmem(body, count, "@@", 2);
    char text[40] = {0};
    if (mark == NULL) return;
    size_t left = count - (size_t)(mark - body);
    memcpy(text, mark, left < sizeof text - 1 ? left : sizeof text - 1);
    sscanf(text, "@@%d,%d,%d@@", wait, chunks, gap);
}

static bool tell(connection *c, const char *head) {
    char body[256], wire[512];
    if (strncmp(head, "GET /reset", 10) == 0) memset(&seen, 0, sizeof seen);
    if (strncmp(head, "GET /reset", 10) != 0 && strncmp(head, "GET /stats", 10) != 0)
        return answer(c, models_answer.at, models_answer.used);
    int count = snprintf(body, sizeof body,
        "{\"requests\":%ld,\"rows\":%ld,\"first_row_us\":%lld,\"last_row_us\":%lld}", seen.requests, seen.rows,
        (long long)seen.first_row_us, (long long)seen.last_row_us);
    int total = snprintf(wire, sizeof wire,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", count, body);
    return answer(c, wire, (size_t)total);
}

static bool serve(connection *c, const char *body, size_t count) {
    int wait = 0, chunks = 50, gap = 20;
    bool streams = wants_stream(body, count);
    read_mark(body, count, &wait, &chunks, &gap);
    seen.requests++;
    if (memmem(body, count < 8192 ? count : 8192, "@@row", 5) != NULL) {
        seen.last_row_us = clock_us();
        if (seen.rows++ == 0) seen.first_row_us = seen.last_row_us;
    }
    c->turn = ++turns;
    c->chunk = 0;
    c->chunks = chunks < 1 ? 1 : chunks;
    c->gap_us = gap * 1000LL;
    c->first_at = clock_us() + wait * 1000LL;
    if (wait == 0 && !streams) return answer(c, plain_answer.at, plain_answer.used);
    c->state = streams ? STREAMING : WAITING;
    if (wait == 0) return next_chunk(c);
    alarm_set(c->first_at, c);
    return true;
}

// Serve every whole request that has been read; false when the connection is gone.
static bool read_requests(connection *c) {
    while (c->state == READING && c->in.used > 0) {
        const char *value, *end = memmem(c->in.at, c->in.used, "\r\n\r\n", 4);
        if (end == NULL) return true;
        size_t head = (size_t)(end - c->in.at) + 4, body = 0;
        if (has_name(c->in.at, head, "expect:", &value) && c->in.used == head)
            if (!answer(c, "HTTP/1.1 100 Continue\r\n\r\n", 25)) return false;
        if (has_name(c->in.at, head, "transfer-encoding:", &value)) {
            body = chunked_size(c->in.at + head, c->in.used - head);
            if (body == 0) return true;
        } else if (has_name(c->in.at, head, "content-length:", &value)) {
            body = strtoul(value, NULL, 10);
        }
        if (c->in.used < head + body) return true;
        c->close_after = has_name(c->in.at, head, "connection: close", &value);
        bool open = c->in.at[0] == 'P' ? serve(c, c->in.at + head, body) : tell(c, c->in.at);
        if (!open) return false;
        bytes_drop(&c->in, head + body);
    }
    return true;
}

static void accept_all(int listener) {
    for (int i = 0; i < 64; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (fd < 0) return;
        if (fd >= MOST_CONNECTIONS) {
            close(fd);
            continue;
        }
        no_delay(fd);
        connection *c = need(calloc(1, sizeof *c));
        c->fd = fd;
        connections[fd] = c;
        struct epoll_event wanted = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &wanted);
    }
}

static void on_event(connection *c, uint32_t events) {
    static char buffer[READ_BYTES];
    if ((events & EPOLLOUT) && !flush(c)) {
        drop(c);
        return;
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
    ssize_t got = recv(c->fd, buffer, sizeof buffer, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        drop(c);
        return;
    }
    bytes_add(&c->in, buffer, (size_t)got);
    if (!read_requests(c)) drop(c);
}

static void on_alarm(alarm_clock a) {
    connection *c = connections[a.fd];
    if (c == NULL || c->turn != a.turn || c->state == READING) return;
    bool open;
    if (c->state == STREAMING) {
        open = next_chunk(c);
    } else {
        c->state = READING;
        open = answer(c, plain_answer.at, plain_answer.used) && read_requests(c);
    }
    if (!open) drop(c);
}

static int listen_on(int wanted) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = loopback(wanted);
    socklen_t size = sizeof address;
    if (bind(listener, (void *)&address, size) || listen(listener, 4096)) {
        perror("upstream");
        exit(1);
    }
    getsockname(listener, (void *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int main(int count, char **arguments) {
    begin();
    make_answers();
    int listener = listen_on(count > 1 ? atoi(arguments[1]) : 0);
    poll_fd = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN, .data.fd = listener}, ready[EVENTS];
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, listener, &wanted);
    for (;;) {
        struct timespec until, *limit = NULL;
        if (alarms_used) {
            int64_t left = alarms[0].at - clock_us();
            if (left < 0) left = 0;
            until = (struct timespec){left / 1000000, (left % 1000000) * 1000};
            limit = &until;
        }
        int found = epoll_pwait2(poll_fd, ready, EVENTS, limit, NULL);
        for (int i = 0; i < found; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) accept_all(listener);
            else if (connections[fd] != NULL) on_event(connections[fd], ready[i].events);
        }
        int64_t now = clock_us();
        while (alarms_used && alarms[0].at <= now) on_alarm(alarm_take());
    }
}
