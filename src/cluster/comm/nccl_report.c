/* SPDX-License-Identifier: MIT */
/* What NCCL tells, judged without the library: turns the ranks' reports on its start-up into one message, and extracts
 * transport and algorithm from its debug log, which is redirected to an unlinked temporary file. Gathering and printing
 * are left to nccl/nccl.c. */
#include "cluster/comm/nccl_report.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Start-up ---- */
enum { MAX_NAMED = 8 };

static const char advice[] = "check NCCL_SOCKET_IFNAME (the network interface that NCCL uses) and firewalls "
                             "between the hosts, and run again with NCCL_DEBUG=INFO";

typedef struct names {
    char text[640];
    int n;
} names_t;

static void names_add(names_t *names, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void names_add(names_t *names, const char *format, ...)
{
    size_t used = strlen(names->text);
    va_list args;
    if (names->n++ >= MAX_NAMED) return;
    va_start(args, format);
    used += (size_t)snprintf(names->text + used, sizeof names->text - used, names->n > 1 ? ", " : "");
    vsnprintf(names->text + used, sizeof names->text - used, format, args);
    va_end(args);
}

static void names_add_more(names_t *names)
{
    size_t used = strlen(names->text);
    if (names->n > MAX_NAMED)
        snprintf(names->text + used, sizeof names->text - used, " and %d more", names->n - MAX_NAMED);
}

/* A failure that originated on a rank says more than one reported by a peer. */
static int first_failed(const arrival_t *arrivals, int size)
{
    int found = -1;
    for (int r = size - 1; r >= 0; r--) {
        if (arrivals[r].state != ARRIVAL_FAILED) continue;
        if (found < 0 || arrivals[r].code != ERR_PEER || arrivals[found].code == ERR_PEER) found = r;
    }
    return found;
}

static void name_hosts(const comm_gpu_t *gpus, int size, names_t *names)
{
    for (int r = 0; r < size; r++) {
        bool known = false;
        for (int i = 0; i < r && !known; i++) known = strcmp(gpus[i].host, gpus[r].host) == 0;
        if (!known) names_add(names, "%s", gpus[r].host);
    }
    names_add_more(names);
}

err_t arrival_judge(const arrival_t *arrivals, const comm_gpu_t *gpus, int size, double timeout_sec)
{
    names_t late = {.text = ""}, hosts = {.text = ""};
    int failed = first_failed(arrivals, size);
    if (failed >= 0)
        RAISE(arrivals[failed].code, "NCCL did not come up: rank %d on %s: %s", failed, gpus[failed].host,
              arrivals[failed].words);
    for (int r = 0; r < size; r++)
        if (arrivals[r].state == ARRIVAL_UNDER_WAY) names_add(&late, "rank %d on %s", r, gpus[r].host);
    if (late.n == 0) return ERR_OK;
    if (late.n < size) {
        names_add_more(&late);
        RAISE(ERR_PEER, "NCCL did not come up in %g s: %s did not arrive, the others did; %s", timeout_sec,
              late.text, advice);
    }
    name_hosts(gpus, size, &hosts);
    RAISE(ERR_PEER,
          "NCCL did not come up in %g s on any of the ranks 0 to %d, on %s: one of them cannot reach the "
          "others, and NCCL does not say which; %s",
          timeout_sec, size - 1, hosts.text, advice);
}

/* ---- The debug log ---- */
/* Longer than any line that is parsed. */
enum { BLOCK_BYTES = 1 << 14 };
static const off_t keep_bytes = 1 << 20;

/* One per process: NCCL reads the file name once. */
static struct {
    pthread_mutex_t lock;
    bool asked, named, quiet;
    char path[512];
    int fd;
    off_t at; /* end of what has been read */
    debug_facts_t facts;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* Adds a word to a list unless it is already there or does not fit. */
static void add_word(char *list, size_t n_bytes, const char *word)
{
    size_t n = strlen(word), used = strlen(list);
    for (const char *p = list; (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == ',' || p[n] == '\0')) return;
    if (used + n + 3 <= n_bytes) snprintf(list + used, n_bytes - used, "%s%s", used ? ", " : "", word);
}

/* Shortens "NET/IB/0(1)/GDRDMA/Shared" to "NET/IB/GDRDMA": drops the card number and how its buffers are
 * kept. */
static void add_transport(const char *way, debug_facts_t *facts)
{
    char word[48] = "", part[32];
    for (int n = 0; *way && *way != ' '; n++) {
        size_t length = strcspn(way, "/ ");
        snprintf(part, sizeof part, "%.*s", (int)(length < sizeof part ? length : sizeof part - 1), way);
        way += length;
        if (*way == '/') way++;
        bool number = part[0] >= '0' && part[0] <= '9';
        size_t used = strlen(word);
        if (!number && strcmp(part, "Shared") != 0)
            snprintf(word + used, sizeof word - used, "%s%s", n ? "/" : "", part);
    }
    if (word[0]) add_word(facts->transport, sizeof facts->transport, word);
}

static void take_algorithm(const char *line, debug_facts_t *facts)
{
    char algorithm[24], protocol[20];
    long long n_bytes;
    int n = 0;
    const char *at = strstr(line, "AllReduce");
    if (!at) return;
    if (sscanf(at, "AllReduce: %lld Bytes -> Algo %23s proto %19s", &n_bytes, algorithm, protocol) == 3) {
        n = 2;
    } else if (sscanf(at, "AllReduce [Symmetric]: %lld Bytes -> Kernel %23s", &n_bytes, algorithm) == 2) {
        n = 1;
    }
    if (n == 0 || n_bytes < facts->largest) return;
    facts->largest = n_bytes;
    snprintf(facts->algorithm, sizeof facts->algorithm, "%s%s%s", algorithm, n == 2 ? "/" : "",
             n == 2 ? protocol : "");
}

size_t debug_log_parse(const char *text, size_t n_bytes, debug_facts_t *facts)
{
    static const char network[] = "Using network ", way[] = " via ";
    size_t at = 0;
    const char *end;
    while (at < n_bytes && (end = memchr(text + at, '\n', n_bytes - at))) {
        char line[512];
        size_t n = (size_t)(end - text) - at;
        snprintf(line, sizeof line, "%.*s", (int)(n < sizeof line ? n : sizeof line - 1), text + at);
        const char *word = strstr(line, network);
        if (word) snprintf(facts->network, sizeof facts->network, "%s", word + strlen(network));
        const char *channel = strstr(line, "Channel ");
        if (channel && (word = strstr(channel, way))) add_transport(word + strlen(way), facts);
        take_algorithm(line, facts);
        at += n + 1;
    }
    return at;
}

void debug_log_open(void)
{
    if (self.asked) return;
    self.asked = true;
    if (getenv("NCCL_DEBUG") || getenv("NCCL_DEBUG_FILE")) return;
    const char *folder = getenv("TMPDIR");
    /* NCCL expands %h and %p in the name. */
    if (!folder || !folder[0] || strchr(folder, '%')) folder = "/tmp";
    int n = snprintf(self.path, sizeof self.path, "%s/dptrain-nccl-XXXXXX", folder);
    if (n >= (int)sizeof self.path || (self.fd = mkstemp(self.path)) < 0) return;
    self.named = true;
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "INIT,NET,TUNING", 0);
    setenv("NCCL_DEBUG_FILE", self.path, 1);
}

void debug_log_hide(void)
{
    if (self.named) unlink(self.path);
    self.named = false;
}

/* NCCL closes the log and opens what NCCL_DEBUG_FILE then names; a version that keeps the level writes it there. */
void debug_log_quiet(void (*reset)(void))
{
    debug_facts_t facts;
    if (self.fd < 0 || self.quiet || !reset) return;
    self.quiet = true;
    setenv("NCCL_DEBUG_FILE", "/dev/null", 1);
    setenv("NCCL_DEBUG", "WARN", 1);
    debug_log_read(&facts);
    reset();
}

void debug_log_read(debug_facts_t *out)
{
    struct stat info;
    pthread_mutex_lock(&self.lock);
    if (self.fd >= 0 && fstat(self.fd, &info) == 0 && info.st_size > self.at) {
        char block[BLOCK_BYTES];
        ssize_t got;
        while ((got = pread(self.fd, block, sizeof block, self.at)) > 0) {
            size_t n = debug_log_parse(block, (size_t)got, &self.facts);
            if (n == 0 && got < (ssize_t)sizeof block) break; /* incomplete line */
            self.at += n ? (off_t)n : got;
        }
        /* NCCL keeps writing at its offset, so a truncated part is a hole that takes no space. */
        if (512 * (off_t)info.st_blocks > keep_bytes && ftruncate(self.fd, 0) != 0) self.at = info.st_size;
    }
    *out = self.facts;
    pthread_mutex_unlock(&self.lock);
}
