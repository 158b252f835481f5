/* SPDX-License-Identifier: MIT */
/* What the names of hosts lead to, within a deadline; and hosts that find out by their names alone, without MPI, which of them
 * they reach. */
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "tools/check/network.h"

/* ---- Resolving ---- */
/* A thread that asks the resolver, which has no deadline. Whoever of the two comes last frees it. */
typedef struct resolver {
    pthread_mutex_t lock;
    pthread_cond_t done;
    net_name_t *names;
    char (*text)[256]; /* of the names, which may end before the thread does */
    int n, n_done, n_owners;
} resolver_t;

static void resolver_leave(resolver_t *r)
{
    pthread_mutex_lock(&r->lock);
    const bool last = --r->n_owners == 0;
    pthread_mutex_unlock(&r->lock);
    if (!last) return;
    pthread_cond_destroy(&r->done);
    pthread_mutex_destroy(&r->lock);
    mem_free(&r->names);
    mem_free(&r->text);
    mem_free(&r);
}

static void resolve_name(const char *text, net_name_t *out)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    out->n = -1;
    if (getaddrinfo(text, NULL, &hints, &list) != 0) return;
    out->n = 0;
    for (const struct addrinfo *i = list; i && out->n < NAME_MAX_ADDRESSES; i = i->ai_next) {
        net_address_t *a = &out->address[out->n];
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        *a = (net_address_t){.family = i->ai_family == AF_INET ? 4 : 6};
        if (i->ai_family == AF_INET) {
            memcpy(&v4, i->ai_addr, sizeof v4);
            memcpy(a->bytes, &v4.sin_addr, 4);
        } else if (i->ai_family == AF_INET6) {
            memcpy(&v6, i->ai_addr, sizeof v6);
            memcpy(a->bytes, &v6.sin6_addr, 16);
        }
        out->n += !net_is_local(a);
    }
    freeaddrinfo(list);
}

static void *resolve_all(void *context)
{
    resolver_t *r = context;
    for (int i = 0; i < r->n; i++) {
        net_name_t name = {.n = -1};
        resolve_name(r->text[i], &name);
        pthread_mutex_lock(&r->lock);
        name.name = r->names[i].name;
        r->names[i] = name;
        r->n_done = i + 1;
        const bool alone = r->n_owners == 1;
        pthread_cond_signal(&r->done);
        pthread_mutex_unlock(&r->lock);
        if (alone) break;
    }
    resolver_leave(r);
    return NULL;
}

err_t net_resolve(net_name_t *names, int n, double timeout_sec)
{
    resolver_t *r;
    pthread_t thread;
    for (int i = 0; i < n; i++) names[i].n = -1;
    TRY(mem_new(sizeof *r, "resolving names", &r));
    *r = (resolver_t){.lock = PTHREAD_MUTEX_INITIALIZER, .n = n, .n_owners = 1};
    thread_cond_init(&r->done);
    err_t err = mem_new_array(n, sizeof *r->names, "resolving names", &r->names);
    if (err == ERR_OK) err = mem_new_array(n, sizeof *r->text, "resolving names", &r->text);
    for (int i = 0; err == ERR_OK && i < n; i++) {
        r->names[i] = names[i];
        snprintf(r->text[i], sizeof r->text[i], "%s", names[i].name);
    }
    const struct timespec end = thread_time_after(timeout_sec);
    pthread_mutex_lock(&r->lock);
    if (err == ERR_OK && thread_start(&thread, resolve_all, r) == 0) {
        r->n_owners = 2;
        pthread_detach(thread);
        while (r->n_done < n && pthread_cond_timedwait(&r->done, &r->lock, &end) == 0) continue;
        memcpy(names, r->names, (size_t)n * sizeof *names);
    }
    pthread_mutex_unlock(&r->lock);
    resolver_leave(r);
    return err;
}

void net_judge_names(check_t *check, const net_host_t *hosts, const net_name_t *names)
{
    static const char advice[] =
        "the same name is to lead to the same host everywhere: compare /etc/hosts and DNS of that host "
        "with those of the others (getent hosts NAME)";
    int n_known = 0, n_bad = 0, n_others = 0;
    for (int h = 0; h < check->n_hosts; h++) n_known += h != check->host && names[h].n >= 0;
    for (int h = 0; h < check->n_hosts; h++) {
        if (h == check->host) continue; /* many hosts have 127.0.1.1 for themselves */
        n_others++;
        bool right = names[h].n == 0;
        int other = -1; /* a host that has an address which this one has not */
        for (int i = 0; i < names[h].n; i++) {
            const bool own = net_has(&hosts[h], &names[h].address[i]);
            right |= own;
            for (int k = 0; !own && k < check->n_hosts; k++)
                if (net_has(&hosts[k], &names[h].address[i])) other = k;
        }
        if (names[h].n < 0 && n_known > 0)
            check_line(check, check_host(check), "names", CHECK_WARN, advice, "%s does not resolve",
                       names[h].name);
        else if (other >= 0)
            check_line(check, check_host(check), "names", CHECK_FAIL, advice,
                       "%s is %s here, an address of %s", names[h].name,
                       net_address_text(&names[h].address[0]).text, check_host_name(check, other));
        else if (names[h].n > 0 && !right)
            check_line(check, check_host(check), "names", CHECK_WARN, advice,
                       "%s is %s here, which it does not have", names[h].name,
                       net_address_text(&names[h].address[0]).text);
        else
            continue;
        n_bad++;
    }
    if (n_bad > 0) return;
    if (n_known == 0)
        check_line(check, check_host(check), "names", CHECK_SKIP, NULL, "host names do not resolve");
    else
        check_line(check, check_host(check), "names", CHECK_OK, NULL, "all %d other hosts", n_others);
}

/* ---- Hosts by name alone ---- */
enum { ALONE_MAX = 1024, ALONE_PORT = 20817 };
/* The hosts are started by ssh, some later than others. */
static const double alone_sec = 12;

/* The first IPv4 address of a name, or its first; NULL: none. */
static const net_address_t *first_of(const net_name_t *name)
{
    for (int i = 0; i < name->n; i++)
        if (name->address[i].family == 4) return &name->address[i];
    return name->n > 0 ? &name->address[0] : NULL;
}

/* Connects until all others have answered, or time is up, and answers them for all of it. Returns how many have not. */
static int meet(const net_name_t *names, int n, int self, uint64_t job, int port)
{
    static reach_target_t targets[ALONE_MAX];
    int n_left = n;
    const double end = clock_sec() + alone_sec;
    for (int h = 0; h < n; h++)
        targets[h] = (reach_target_t){h == self ? NULL : first_of(&names[h]), port, h, REACH_NO_ROUTE};
    while (clock_sec() < end) {
        n_left = 0;
        if (n > 1) reach_connect(targets, n, job, 3);
        for (int h = 0; h < n; h++) {
            if (targets[h].to && targets[h].result == REACH_OK) targets[h].to = NULL;
            n_left += targets[h].to != NULL;
        }
        clock_sleep(0.2);
    }
    for (int h = 0; h < n; h++) {
        const int other = targets[h].result - REACH_OTHER - 1;
        if (!targets[h].to) continue;
        print_out("to %s, %s: %s%s\n", names[h].name, net_address_text(targets[h].to).text,
                  other >= 0 && other < n ? "answered by " : "",
                  other >= 0 && other < n ? names[other].name : reach_text(targets[h].result));
    }
    return n_left;
}

err_t check_reach_alone(const check_options_t *options)
{
    const char *list = options->reach;
    static char text[ALONE_MAX * 65];
    static net_name_t names[ALONE_MAX];
    net_host_t own;
    reach_ports_t ports;
    reach_server_t *server = NULL;
    int n = 0, self = -1;
    if (strlen(list) >= sizeof text) RAISE(ERR_USAGE, "--reach: the list is too long");
    strcpy(text, list);
    for (char *rest = text, *word; (word = strsep(&rest, ",")) && n < ALONE_MAX;)
        if (word[0]) names[n++].name = word;
    TRY(reach_ports_parse("ports", options->ports, &ports));
    if (ports.low == 0) ports = (reach_ports_t){ALONE_PORT, ALONE_PORT};
    ports.high = ports.low; /* all hosts must know it */
    TRY(net_resolve(names, n, alone_sec));
    net_host_read(&own);
    for (int h = 0; h < n; h++)
        for (int i = 0; i < names[h].n; i++)
            if (net_has(&own, &names[h].address[i])) self = h;
    if (self < 0) RAISE(ERR_USAGE, "--reach: none of %s is an address of this host", list);
    for (int h = 0; h < n; h++)
        if (names[h].n < 0) print_out("%s does not resolve here\n", names[h].name);
    TRY(reach_serve(first_of(&names[self])->family, ports, XXH3_64bits(list, strlen(list)), self, &server));
    const int n_left = meet(names, n, self, XXH3_64bits(list, strlen(list)), ports.low);
    reach_server_stop(&server);
    if (n_left == 0) print_out("reaches all %d other hosts\n", n - 1);
    return n_left > 0 ? ERR_GATE : ERR_OK;
}
