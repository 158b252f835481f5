/* SPDX-License-Identifier: MIT */
/* What the names of hosts lead to on this one, within a deadline. */
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/process.h"
#include "tools/check/network.h"

static const char names_name[] = "names";

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
    out->n = NAME_UNKNOWN;
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
        net_name_t name = {.n = NAME_UNKNOWN};
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
    for (int i = 0; i < n; i++) names[i].n = NAME_LATE;
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
    bool started = false, done = false;
    pthread_mutex_lock(&r->lock);
    if (err == ERR_OK && thread_start(&thread, resolve_all, r) == 0) {
        started = true;
        r->n_owners = 2;
        while (r->n_done < n && pthread_cond_timedwait(&r->done, &r->lock, &end) == 0) continue;
        done = r->n_done == n;
        memcpy(names, r->names, (size_t)n * sizeof *names);
    }
    pthread_mutex_unlock(&r->lock);
    if (done) pthread_join(thread, NULL);
    if (started && !done) pthread_detach(thread);
    resolver_leave(r);
    return err;
}

void net_judge_names(check_t *check, const net_host_t *hosts, const net_name_t *names)
{
    static const char advice[] =
        "the same name is to lead to the same host everywhere: compare /etc/hosts and DNS of that host "
        "with those of the others (getent hosts NAME)";
    const check_where_t where = check_host(check);
    int n_known = 0, n_late = 0, n_bad = 0;
    for (int h = 0; h < check->n_hosts; h++) n_known += h != check->host && names[h].n >= 0;
    for (int h = 0; h < check->n_hosts; h++) {
        const net_name_t *name = &names[h];
        bool right = false;
        int other = -1, wrong = 0; /* a host that has an address which this one has not */
        n_late += name->n == NAME_LATE && h != check->host;
        if (h == check->host || name->n == NAME_LATE) continue; /* many hosts have 127.0.1.1 for themselves */
        for (int i = 0; i < name->n; i++) {
            const bool own = net_has(&hosts[h], &name->address[i]);
            right |= own;
            for (int k = 0; !own && k < check->n_hosts; k++)
                if (net_has(&hosts[k], &name->address[i])) {
                    other = k;
                    wrong = i;
                }
        }
        if ((right && other < 0) || (name->n == NAME_UNKNOWN && n_known == 0) || n_bad++ >= NET_MAX_LINES)
            continue;
        if (name->n == NAME_UNKNOWN)
            check_line(check, where, names_name, CHECK_WARN, advice, "%s does not resolve", name->name);
        else if (name->n == 0)
            check_line(check, where, names_name, CHECK_FAIL, advice, "%s leads to this host itself here",
                       name->name);
        else if (other >= 0)
            check_line(check, where, names_name, CHECK_FAIL, advice, "%s is %s here, an address of %s",
                       name->name, net_address_text(&name->address[wrong]).text,
                       check_host_name(check, other));
        else
            check_line(check, where, names_name, CHECK_WARN, advice, "%s is %s here, which it does not have",
                       name->name, net_address_text(&name->address[0]).text);
    }
    if (n_bad > NET_MAX_LINES)
        check_line(check, where, names_name, CHECK_WARN, advice, "%d more names", n_bad - NET_MAX_LINES);
    if (n_late > 0)
        check_line(check, where, names_name, CHECK_SKIP, NULL, "%d were not resolved in time", n_late);
    else if (n_bad == 0)
        check_line(check, where, names_name, n_known ? CHECK_OK : CHECK_SKIP, NULL,
                   n_known ? "all %d other hosts" : "host names do not resolve", n_known);
}
