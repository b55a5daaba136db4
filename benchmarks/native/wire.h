// What the three programs share: the clock, sorted samples, and a loopback address.
#ifndef WIRE_H
#define WIRE_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

static inline int64_t clock_us(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000 + at.tv_nsec / 1000;
}

static inline struct sockaddr_in loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static inline void no_delay(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// A program of the benchmark must not outlive the benchmark.
static inline void begin(void) {
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static inline void *need(void *memory) {
    if (memory == NULL) {
        fputs("out of memory\n", stderr);
        exit(3);
    }
    return memory;
}

// Bytes that grow at the end.
typedef struct {
    char *at;
    size_t used, room;
} bytes;

static inline void bytes_room(bytes *b, size_t more) {
    if (b->used + more <= b->room) return;
    size_t room = b->room ? b->room : 2048;
    while (room < b->used + more) room *= 2;
    b->at = need(realloc(b->at, room));
    b->room = room;
}

static inline void bytes_add(bytes *b, const char *from, size_t count) {
    bytes_room(b, count);
    memcpy(b->at + b->used, from, count);
    b->used += count;
}

static inline void bytes_drop(bytes *b, size_t count) {
    memmove(b->at, b->at + count, b->used - count);
    b->used -= count;
}

// Microsecond samples, and their quantiles in milliseconds.
typedef struct {
    uint32_t *at;
    size_t used, room;
} samples;

static inline void samples_add(samples *s, int64_t us) {
    if (s->used == s->room) {
        s->room = s->room ? s->room * 2 : 65536;
        s->at = need(realloc(s->at, s->room * sizeof *s->at));
    }
    s->at[s->used++] = us < 0 ? 0 : us > 4000000000 ? 4000000000u : (uint32_t)us;
}

static int samples_order(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static inline void samples_sort(samples *s) {
    if (s->used) qsort(s->at, s->used, sizeof *s->at, samples_order);
}

static inline double samples_ms(const samples *s, double quantile) {
    return s->used ? s->at[(size_t)(quantile * (double)(s->used - 1))] / 1000.0 : -1.0;
}

// The request every connection sends: head, given headers, body from a file.
static inline bytes read_request(const char *path, int port, const char *body_file, char **headers, int count) {
    FILE *file = fopen(body_file, "rb");
    if (file == NULL) {
        perror(body_file);
        exit(2);
    }
    bytes body = {0}, request = {0};
    for (;;) {
        bytes_room(&body, 65536);
        size_t got = fread(body.at + body.used, 1, 65536, file);
        if (got == 0) break;
        body.used += got;
    }
    fclose(file);
    bytes_room(&request, 4096);
    request.used = (size_t)snprintf(request.at, request.room,
        "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n",
        path, port, body.used);
    for (int i = 0; i < count; i++) {
        bytes_add(&request, headers[i], strlen(headers[i]));
        bytes_add(&request, "\r\n", 2);
    }
    bytes_add(&request, "\r\n", 2);
    bytes_add(&request, body.at, body.used);
    free(body.at);
    return request;
}

#endif
