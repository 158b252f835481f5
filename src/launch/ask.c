/* SPDX-License-Identifier: MIT */
/* Runs host.sh on all hosts side by side, over ssh or srun, with a deadline for each, and reads their answers; judges by them whether the
 * job can run there, and says of a host that does not answer what is wrong with it. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "launch/host_script.h"
#include "launch/job.h"
#include "launch/ssh_causes.h"

enum {
    ANSWER_BYTES = 1 << 20, /* of a host; what follows is not read */
    LINE_MAX_BYTES = 1024,
    SHOWN_BYTES = 400, /* of what a host says, in a message */
};

/* ---- Answers ---- */
/* A list of CPUs: 0-7,16-23. Numbers have no leading zeros, and up to six digits. */
static bool is_cpu_list(const char *text)
{
    for (const char *at = text;; at++) {
        for (int part = 0; part < 2; part++) {
            const size_t n = strspn(at, "0123456789");
            if (n == 0 || n > 6 || (n > 1 && *at == '0')) return false;
            at += n;
            if (part == 0 && *at != '-') break;
            at += part == 0;
        }
        if (*at == '\0') return true;
        if (*at != ',') return false;
    }
}

/* Cuts the next word off a text; "" at its end. */
static char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " ");
    char *end = word + strcspn(word, " ");
    *rest = *end ? end + 1 : end;
    *end = '\0';
    return word;
}

static void keep_name(char out[ANSWER_NAME], const char *text)
{
    snprintf(out, ANSWER_NAME, "%s", text);
}

static void keep_line(words_t *lines, const char *text, arena_t *arena)
{
    const char *copy;
    if (lines->n >= ANSWER_LINES) return;
    launch_need(arena_text(arena, text, strlen(text), &copy));
    words_add(lines, copy);
}

static void read_address(char *rest, answer_t *out)
{
    const char *name = next_word(&rest), *text = next_word(&rest);
    const char *slash = strchr(text, '/');
    const size_t n = slash ? (size_t)(slash - text) : 0;
    int64_t bits;
    if (out->n_addresses == ANSWER_ADDRESSES) return;
    launch_need(
        mem_grow(out->n_addresses + 1, sizeof *out->addresses, "a host's addresses", &out->addresses));
    address_t *a = &out->addresses[out->n_addresses];
    if (strlen(name) >= sizeof a->interface ||
        name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:@-")] || !name[0])
        return;
    if (n == 0 || n >= sizeof a->text || strspn(text, "0123456789abcdefABCDEF.:") != n) return;
    if (!word_number(slash + 1, &bits) || bits > (strchr(text, ':') ? 128 : 32)) return;
    *a = (address_t){.bits = (int)bits};
    memcpy(a->interface, name, strlen(name));
    memcpy(a->text, text, n);
    out->n_addresses++;
}

static void read_speed(char *rest, answer_t *out)
{
    const char *name = next_word(&rest);
    int64_t mbits;
    if (!word_number(next_word(&rest), &mbits)) return;
    for (int i = 0; i < out->n_addresses; i++)
        if (strcmp(out->addresses[i].interface, name) == 0) out->addresses[i].mbits_per_sec = mbits;
}

static void read_rdma(char *rest, answer_t *out)
{
    next_word(&rest);
    const bool is_efa = strcmp(next_word(&rest), "efa") == 0;
    const bool is_active = strcmp(next_word(&rest), "ACTIVE") == 0;
    const char *link = next_word(&rest);
    out->has_efa |= is_efa;
    out->has_ib |= is_active && strcmp(link, "InfiniBand") == 0;
    out->has_roce |= !is_efa && is_active && strcmp(link, "Ethernet") == 0;
}

/* The folder as it is in the list of blank-separated ones; ranks of all hosts load what is there. */
static const char *find_folder(const char *folder, const char *folders, arena_t *arena)
{
    const size_t n = strlen(folder);
    const char *copy;
    for (const char *at = folders; n && (at = strstr(at, folder)); at++)
        if ((at == folders || at[-1] == ' ') && (at[n] == ' ' || !at[n])) {
            launch_need(arena_text(arena, folder, n, &copy));
            return copy;
        }
    return NULL;
}

static void read_gpu(char *rest, answer_t *out, arena_t *arena)
{
    const char *bus = next_word(&rest), *cpus = next_word(&rest);
    if (bus[0] && !bus[strspn(bus, "0123456789abcdef:.")] && is_cpu_list(cpus) && !*rest)
        keep_line(&out->gpu_cpus, cpus, arena);
}

static void read_same(char *rest, answer_t *out, arena_t *arena)
{
    if (strncmp(rest, "NCCL ", 5) == 0 || strncmp(rest, "config ", 7) == 0 ||
        strncmp(rest, "OpenMPI ", 8) == 0)
        keep_line(&out->same, rest, arena);
}

static void read_phase(char *rest, answer_t *out, arena_t *arena)
{
    const size_t n = strspn(rest, "0123456789");
    if (n > 0 && n <= 9 && rest[n] == ' ' && (rest[0] != '0' || n == 1)) keep_line(&out->phases, rest, arena);
}

static void read_ports(char *rest, answer_t *out)
{
    int64_t low, high;
    if (!word_number(next_word(&rest), &low) || !word_number(next_word(&rest), &high)) return;
    if (*rest || low > high || high > 65535) return;
    out->port_low = low;
    out->port_high = high;
}

/* One line, its key cut off. Of a key that comes again, the last value counts. */
static void read_line(const char *key, char *rest, const char *ofi_folders, arena_t *arena, answer_t *out)
{
    const struct {
        const char *key;
        int64_t *number;
    } numbers[] = {
        {"gpus", &out->n_gpus}, {"cores", &out->n_cores}, {"newest", &out->newest}, {"check", &out->check}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i].key) == 0) {
            word_number(rest, numbers[i].number);
            return;
        }
    const struct {
        const char *key, *value;
        bool *is;
    } flags[] = {{"wdir", "ok", &out->has_wdir},
                 {"orted", "yes", &out->has_daemon},
                 {"noip", "", &out->has_no_ip},
                 {"data", "missing", &out->lacks_data},
                 {"end", "", &out->complete}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(key, flags[i].key) == 0) {
            *flags[i].is = strcmp(rest, flags[i].value) == 0;
            return;
        }
    if (strcmp(key, "alive") == 0) {
        out->is_stopped = strcmp(rest, "stopped") == 0;
        out->is_alive = out->is_stopped || strcmp(rest, "yes") == 0;
    } else if (strcmp(key, "name") == 0) {
        if (word_is_name(rest)) keep_name(out->name, rest);
    } else if (strcmp(key, "machine") == 0) {
        if (word_is_name(rest)) keep_name(out->machine, rest);
    } else if (strcmp(key, "shell") == 0)
        keep_name(out->shell, rest);
    else if (strcmp(key, "program") == 0)
        keep_name(out->program, rest);
    else if (strcmp(key, "full") == 0)
        keep_name(out->full, rest);
    else if (strcmp(key, "swept") == 0)
        keep_name(out->swept, rest);
    else if (strcmp(key, "ephemeral") == 0)
        read_ports(rest, out);
    else if (strcmp(key, "addr") == 0)
        read_address(rest, out);
    else if (strcmp(key, "speed") == 0)
        read_speed(rest, out);
    else if (strcmp(key, "rdma") == 0)
        read_rdma(rest, out);
    else if (strcmp(key, "ofi") == 0) {
        if (!out->ofi) out->ofi = find_folder(rest, ofi_folders, arena);
    } else if (strcmp(key, "gpu") == 0)
        read_gpu(rest, out, arena);
    else if (strcmp(key, "folder") == 0)
        out->folder = strcmp(rest, "records") == 0 ? FOLDER_WITH_RECORDS
                      : strcmp(rest, "job") == 0   ? FOLDER_OF_JOB
                                                   : FOLDER_NONE;
    else if (strcmp(key, "fail") == 0)
        keep_line(&out->fails, rest, arena);
    else if (strcmp(key, "same") == 0)
        read_same(rest, out, arena);
    else if (strcmp(key, "phase") == 0)
        read_phase(rest, out, arena);
}

/* The host is foreign: its login shell may print words of its own, and it may be hostile. Every line is checked for its form, and no text
 * in an answer is longer than its place or has a control character. */
void answer_read(const char *text, size_t n_bytes, const char *ofi_folders, arena_t *arena, answer_t *out)
{
    *out =
        (answer_t){.port_low = -1, .port_high = -1, .n_cores = -1, .n_gpus = -1, .newest = -1, .check = -1};
    for (const char *at = text, *end = text + n_bytes; at < end;) {
        char line[LINE_MAX_BYTES];
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((newline ? newline : end) - at), kept = 0;
        /* A line without its end was cut off. */
        if (!newline) break;
        for (size_t i = 0; i < n && kept < sizeof line - 1; i++)
            if (at[i] != '\r') line[kept++] = at[i] ? at[i] : '?';
        line[kept] = '\0';
        for (size_t i = 0; i < kept; i++)
            if (line[i] == '\t') line[i] = ' ';
        print_mask(line);
        at += n + 1;
        if (kept == sizeof line - 1) continue; /* no line of host.sh is that long */
        char *rest = line;
        const char *key = next_word(&rest);
        size_t n_rest = strlen(rest);
        while (n_rest > 0 && rest[n_rest - 1] == ' ') rest[--n_rest] = '\0';
        read_line(key, rest, ofi_folders, arena, out);
    }
}

void answer_free(answer_t *answer)
{
    mem_free(&answer->addresses);
    words_free(&answer->gpu_cpus);
    words_free(&answer->fails);
    words_free(&answer->same);
    words_free(&answer->phases);
}

/* ---- Hosts ---- */
/* What the host's bash reads: the functions of host.sh, then a call. bash reads its script as it runs, so it ends explicitly. */
static const char *script_text(job_t *job, const char *part, const words_t *arguments)
{
    words_t lines = {0};
    for (size_t i = 0; i < sizeof host_script / sizeof *host_script; i++) words_add(&lines, host_script[i]);
    words_add(&lines, part);
    for (int i = 0; i < arguments->n; i++)
        words_add_list(&lines, " ", text_quoted(&job->answers, arguments->at[i]), NULL);
    words_add(&lines, "\nexit\n");
    const char *text = words_join(&job->answers, &lines, "");
    words_free(&lines);
    return text;
}

static void ask_words(job_t *job, const node_t *node, words_t *out)
{
    if (!node->is_local && job->how == BY_SRUN)
        words_add_list(out, "srun", "--overlap", "--quiet", "--nodes=1", "--ntasks=1",
                       ask_text(job, "--nodelist=%s", node->name), NULL);
    if (!node->is_local && job->how == BY_SSH) {
        words_add(out, "ssh");
        words_add_all(out, &job->ssh);
        words_add_list(out, node->alias, "bash -s", NULL);
    } else {
        words_add_list(out, "bash", "-s", NULL);
    }
}

/* The answer, and what ssh or the shell printed to stderr. */
static void keep_answer(job_t *job, node_t *node, const talk_t *talk, const char *folders)
{
    answer_free(&node->answer);
    answer_read(talk->text[1] ? talk->text[1] : "", talk->n[1], folders, &job->answers, &node->answer);
    char *said = (char *)(uintptr_t)ask_text(job, "%s", talk->text[2] ? talk->text[2] : "");
    char *to = said;
    for (const char *at = said; *at; at++)
        if (*at != '\r') *to++ = *at;
    while (to > said && to[-1] == '\n') to--;
    *to = '\0';
    print_mask(said);
    node->said = said;
    node->code = talk->code;
}

/* English messages, which ask_cause reads. The caller frees it. */
static char **environment_in_english(void)
{
    char **out = NULL;
    int n = 0, kept = 0;
    while (environ[n]) n++;
    launch_need(mem_new_array(n + 2, sizeof *out, "an environment", &out));
    static char english[] = "LC_ALL=C";
    for (int i = 0; i < n; i++)
        if (strncmp(environ[i], "LC_ALL=", 7) != 0) out[kept++] = environ[i];
    out[kept++] = english;
    return out;
}

const char *ask_ofi_folders(job_t *job)
{
    const char *more = getenv("DPTRAIN_OFI_NCCL");
    if (!job->ofi_folders)
        job->ofi_folders =
            job_text(job, "/opt/amazon/ofi-nccl/lib /opt/amazon/ofi-nccl/lib64 /opt/aws-ofi-nccl/lib%s%s",
                     more ? " " : "", more ? more : "");
    return job->ofi_folders;
}

/* A signal, or the end of the ranks, is more urgent than what the hosts say. */
static bool ask_is_over(job_t *job)
{
    struct pollfd until = {.fd = job->until_fd, .events = POLLIN};
    for (int number; job->is_deaf && (number = signals_take());) job_note_signal(job, number);
    return signals_pending() || poll(&until, 1, 0) > 0;
}

/* Nobody is kept waiting for long without a word. */
static void say_waiting(job_t *job, talk_t *const *running, int n, const talk_t *talks, double sec)
{
    message_t names = {0};
    for (int i = 0; i < n && i < 8; i++) message_append(&names, " %s", job->nodes[running[i] - talks].name);
    say(job, "waiting for the answer%s of%s%s, for at most %g s", n == 1 ? "" : "s", names.text,
        n > 8 ? " …" : "", sec);
}

err_t ask_hosts(job_t *job, const char *part, const words_t *arguments, double sec)
{
    for (int i = 0; i < job->n_nodes; i++) {
        node_t *node = &job->nodes[i];
        if (!node->own_name && node->answer.name[0])
            node->own_name = start_text(job, "%s", node->answer.name);
        answer_free(&node->answer);
        answer_read("", 0, "", &job->answers, &node->answer);
        node->said = NULL;
        node->code = NO_ANSWER;
    }
    arena_reset(&job->answers);
    const char *folders = ask_ofi_folders(job);
    const char *script = script_text(job, part, arguments);
    char **environment = environment_in_english();
    talk_t *talks = NULL, *running[TALKS_AT_ONCE];
    int n_running = 0, next = 0;
    const double since = clock_sec();
    bool is_said = strcmp(part, "alive") == 0; /* asked now and then */
    err_t err = ERR_OK;
    launch_need(mem_new_array(job->n_nodes, sizeof *talks, "the hosts' answers", &talks));
    while ((next < job->n_nodes || n_running > 0) && !ask_is_over(job)) {
        while (next < job->n_nodes && n_running < TALKS_AT_ONCE) {
            node_t *node = &job->nodes[next];
            const double patience = node->patience_sec < 0 ? sec : node->patience_sec;
            talk_t *talk = &talks[next++];
            if (patience <= 0) continue;
            words_t words = {0};
            ask_words(job, node, &words);
            err = talk_start(talk, &words, true, false, environment, patience);
            words_free(&words);
            if (err != ERR_OK) goto out;
            running[n_running++] = talk;
        }
        if (n_running == 0) break;
        if (!is_said && clock_sec() - since > QUIET_SEC) {
            say_waiting(job, running, n_running, talks, sec);
            is_said = true;
        }
        talk_poll(running, n_running, script, strlen(script), ANSWER_BYTES, job->until_fd);
        for (int i = 0; i < n_running;) {
            if (!talk_ended(running[i], ANSWER_BYTES)) {
                i++;
                continue;
            }
            keep_answer(job, &job->nodes[running[i] - talks], running[i], folders);
            talk_free(running[i]);
            running[i] = running[--n_running];
        }
    }
out:
    for (int i = 0; i < n_running; i++) talk_free(running[i]);
    mem_free(&talks);
    mem_free(&environment);
    return err;
}

/* ---- Why a host does not answer ---- */
/* The text between two others; "" if it is not there. */
static const char *between(job_t *job, const char *text, const char *before, const char *after)
{
    const char *at = strstr(text, before), *end;
    if (!at) return "";
    at += strlen(before);
    end = strstr(at, after);
    return ask_text(job, "%.*s", end ? (int)(end - at) : (int)strcspn(at, " \n"), at);
}

/* The port that ssh's configuration has for the host. */
static const char *ssh_port(job_t *job, const node_t *node)
{
    words_t words = {0};
    char *text = NULL;
    int code;
    const char *port = "22";
    words_add_list(&words, "ssh", "-G", NULL);
    words_add_all(&words, &job->ssh);
    words_add(&words, node->alias);
    if (launch_output(job, &words, 10, 1 << 16, false, &text, &code) == ERR_OK) {
        const char *at = strncmp(text, "port ", 5) == 0 ? text : strstr(text, "\nport ");
        if (at) port = between(job, at, "port ", "\n");
    }
    mem_free(&text);
    words_free(&words);
    return port;
}

/* A part of a line of ssh_causes.tsv, filled in. */
static const char *fill_in(job_t *job, const char *form, const node_t *node, const char *port,
                           const char *text)
{
    message_t m = {0};
    for (const char *at = form; !strchr("\t\n", *at); at++) {
        if (*at != '%') {
            message_append(&m, "%c", *at);
            continue;
        }
        const char *value = *++at == 'n' ? node->name : *at == 'p' ? port : job->host;
        if (*at == 'f') value = between(job, text, " for '", "'");
        if (*at == 'f' && !value[0]) value = between(job, text, "Bad owner or permissions on ", "\n");
        message_append(&m, "%s", value);
    }
    return ask_text(job, "%s", m.text);
}

/* Whether ssh's words have one of the messages that a line of ssh_causes.tsv begins with. */
static bool has_message(const char *line, const char *text)
{
    size_t n;
    for (bool more = true; more; line += n + 1) {
        n = strcspn(line, "|\t");
        more = line[n] == '|';
        if (memmem(text, strlen(text), line, n)) return true;
    }
    return false;
}

const char *ask_cause(job_t *job, const node_t *node, double sec)
{
    const char *said = node->said ? node->said : "", *newline = strrchr(said, '\n'), *advice = NULL;
    const char *cause = said[0] ? ask_text(job, "%.*s", SHOWN_BYTES, newline ? newline + 1 : said) : NULL;
    if (node->code == 0)
        return "no output from the probe -> check that its login shell works and that bash is installed";
    const char *text = node->code == NO_ANSWER ? ask_text(job, "%s\ntimed out", said) : said;
    const size_t n = job->how == BY_SSH ? sizeof ssh_causes / sizeof *ssh_causes : 0;
    for (size_t i = 0; i < n && !advice; i++)
        if (has_message(ssh_causes[i], text)) {
            const char *port = ssh_port(job, node), *form = strchr(ssh_causes[i], '\t') + 1;
            cause = fill_in(job, form, node, port, text);
            advice = fill_in(job, strchr(form, '\t') + 1, node, port, text);
        }
    if (n > 0 && !advice) advice = ask_text(job, "run ssh -v %s on %s for details", node->name, job->host);
    if (node->code == NO_ANSWER) cause = ask_text(job, "no answer within %g s", sec);
    if (!cause) cause = ask_text(job, job->how == BY_SSH ? "ssh ended with code %d" : "code %d", node->code);
    return advice ? ask_text(job, "%s -> %s", cause, advice) : cause;
}

/* ---- The probe ---- */
double probe_sec(void)
{
    const char *text = getenv("DPTRAIN_ASK_SECONDS");
    int64_t sec = 20;
    if (text && text[0]) word_number(text, &sec); /* options_read has checked it */
    return (double)sec;
}

err_t probe_slots(job_t *job)
{
    const words_t none = {0};
    TRY(ask_hosts(job, "slots", &none, probe_sec()));
    for (int i = 0; i < job->n_nodes && !signals_pending(); i++)
        if (job->nodes[i].answer.n_cores < 0)
            RAISE(ERR_SYSTEM, "%s has no slots=N, and does not say its cores: %s", job->nodes[i].name,
                  ask_cause(job, &job->nodes[i], probe_sec()));
    return ERR_OK;
}

const char *probe_judge(job_t *job, const node_t *node, const char *hash)
{
    const answer_t *a = &node->answer;
    message_t m = {0};
    const double sec = node->patience_sec < 0 ? probe_sec() : node->patience_sec;
    if (!a->complete)
        return ask_text(job, "probe over %s failed: %s", job->how == BY_SSH ? "ssh" : "srun",
                        ask_cause(job, node, sec));
    const bool needs_daemon =
        strcmp(job->options.launcher, "mpirun") == 0 && !node->is_local && job->how == BY_SSH;
    const char *shell = word_base(a->shell);
    if (strcmp(a->program, "missing") == 0)
        message_append(&m, "\nno program %s: copy it there (scripts/on_hosts.sh --copy), or share its folder",
                       job->program);
    else if (strcmp(a->program, hash) != 0)
        message_append(&m,
                       "\n%s differs from the one here (SHA-256): copy it there (scripts/on_hosts.sh --copy)",
                       job->program);
    if (!a->has_wdir)
        message_append(&m, "\nno working folder %s: create it, mount it, or choose another by --wdir",
                       job->wdir);
    if (a->full[0])
        message_append(
            &m, "\n%s is full or not writable, and MPI needs 4 MB there: free some space, or set TMPDIR",
            a->full);
    if (!a->has_daemon && needs_daemon)
        message_append(
            &m,
            "\nOpenMPI's orted is not in the PATH of a non-interactive shell: install OpenMPI, or set PATH in "
            ".bashrc");
    /* OpenMPI knows how these start a daemon. */
    if (needs_daemon && *shell &&
        !opt_is_among(shell, "sh|bash|rbash|dash|ash|zsh|ksh|ksh93|mksh|csh|tcsh|busybox"))
        message_append(
            &m,
            "\nits login shell %s cannot start mpirun's daemon: chsh -s /bin/bash there, or log in as another user; "
            "sh, bash, zsh, ksh and tcsh can",
            a->shell);
    return m.n ? ask_text(job, "%s", m.text + 1) : NULL;
}

err_t probe_twins(const job_t *job)
{
    for (int i = 0; i < job->n_nodes; i++) {
        const answer_t *a = &job->nodes[i].answer;
        for (int k = 0; a->machine[0] && k < i; k++) {
            const answer_t *b = &job->nodes[k].answer;
            if (strcmp(a->machine, b->machine) == 0 && strcmp(a->name, b->name) == 0)
                RAISE(ERR_USAGE, "%s and %s are one host, %s: give it one name, with the slots of both",
                      job->nodes[k].name, job->nodes[i].name, a->name);
        }
    }
    return ERR_OK;
}

err_t launch_hash(job_t *job, const char **out)
{
    char *text = NULL;
    int code;
    TRY(launch_output(job, WORDS("sha256sum", job->program), 60, 4096, false, &text, &code));
    const char *hash = text[0] == '\\' ? text + 1 : text; /* of a name with a backslash */
    *out = start_text(job, "%.*s", (int)strcspn(hash, " \n"), hash);
    mem_free(&text);
    if (code != 0 && !signals_pending())
        RAISE(ERR_SYSTEM, "cannot compare %s with the hosts' copies: sha256sum ended with code %d",
              job->program, code);
    return ERR_OK;
}

err_t probe_hosts(job_t *job)
{
    const char *hash;
    int n_bad = 0;
    TRY(ask_hosts(job, "probe",
                  WORDS(job->program, job->wdir, job->prefix ? job->prefix : "", ask_ofi_folders(job)),
                  probe_sec()));
    if (signals_pending()) return ERR_OK;
    job->probed = true;
    TRY(launch_hash(job, &hash));
    if (signals_pending()) return ERR_OK;
    for (int i = 0; i < job->n_nodes; i++) {
        const char *problems = probe_judge(job, &job->nodes[i], hash);
        n_bad += problems != NULL;
        int n;
        for (const char *line; (line = print_next_line(&problems, &n));)
            say(job, "%s: %.*s", job->nodes[i].name, n, line);
    }
    if (n_bad > 0)
        RAISE(ERR_SYSTEM, "%d of %d hosts cannot take part; --no-checks starts without probing them", n_bad,
              job->n_nodes);
    return probe_twins(job);
}
