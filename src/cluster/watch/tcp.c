/* SPDX-License-Identifier: MIT */
/* What the side channel and the check of the network both need of sockets. */
#include "cluster/watch/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORD_MAX = 64 };

socklen_t tcp_address(int family, const uint8_t *bytes, int port, struct sockaddr_storage *out)
{
    *out = (struct sockaddr_storage){0};
    if (family == AF_INET) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        if (bytes) memcpy(&a.sin_addr, bytes, 4);
        memcpy(out, &a, sizeof a);
        return sizeof a;
    }
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    if (bytes) memcpy(&a.sin6_addr, bytes, 16);
    memcpy(out, &a, sizeof a);
    return sizeof a;
}

int tcp_listen(int fd, int family, const uint8_t *bytes, int port)
{
    struct sockaddr_storage address;
    socklen_t length = tcp_address(family, bytes, port, &address);
    if (bind(fd, (const struct sockaddr *)&address, length) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

int tcp_port(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0) return 0;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    memcpy(&v4, &address, sizeof v4);
    memcpy(&v6, &address, sizeof v6);
    return ntohs(address.ss_family == AF_INET ? v4.sin_port : v6.sin6_port);
}

bool tcp_same_bits(const uint8_t *a, const uint8_t *b, int n)
{
    if (memcmp(a, b, (size_t)n / 8) != 0) return false;
    return n % 8 == 0 || ((a[n / 8] ^ b[n / 8]) >> (8 - n % 8)) == 0;
}

static bool word_names(const char *word, const char *interface, int family, const uint8_t *bytes,
                       int max_prefix)
{
    uint8_t base[16];
    char text[WORD_MAX];
    const char *slash = strchr(word, '/');
    if (!slash) return strcmp(word, interface) == 0;
    size_t n = (size_t)(slash - word);
    memcpy(text, word, n);
    text[n] = '\0';
    long prefix = strtol(slash + 1, NULL, 10);
    return inet_pton(family, text, base) == 1 && prefix >= 0 && prefix <= max_prefix &&
           tcp_same_bits(base, bytes, (int)prefix);
}

bool tcp_list_names(const char *list, const char *interface, int family, const uint8_t *bytes, int max_prefix)
{
    while (*list) {
        char word[WORD_MAX];
        size_t n = strcspn(list, ",");
        if (n > 0 && n < sizeof word) {
            memcpy(word, list, n);
            word[n] = '\0';
            if (word_names(word, interface, family, bytes, max_prefix)) return true;
        }
        list += n + (list[n] == ',');
    }
    return false;
}
