/* SPDX-License-Identifier: MIT */
/* The ranks' environment. Values that users give stay out of command lines, which every user of a host can read: they travel in
 * variables of this process, which the ranks' wrapper (ranks.c) evaluates. Files that others may have written are data. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/job.h"

enum { ENV_FILE_MAX_BYTES = 1 << 20 };

#define ENV_NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"

/* Bytes of the name in front of an equals sign or the end; 0: it is not a name of a shell's variable. */
static size_t env_name_bytes(const char *word)
{
    const size_t n = strspn(word, ENV_NAME_LETTERS "0123456789");
    return isdigit((unsigned char)word[0]) || (word[n] && word[n] != '=') ? 0 : n;
}

/* ---- Names ---- */
/* Whether a name matches an extended regular expression, in any case; not if it is none. */
static bool env_matches(const char *name, const char *pattern)
{
    regex_t regex;
    if (!pattern || !*pattern || regcomp(&regex, pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB) != 0)
        return false;
    const bool is = regexec(&regex, name, 0, NULL, 0) == 0;
    regfree(&regex);
    return is;
}

err_t env_check(void)
{
    const char *pattern = getenv("DPTRAIN_SECRET_PATTERN");
    regex_t regex;
    if (!pattern || !*pattern) return ERR_OK;
    if (regcomp(&regex, pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB) != 0)
        RAISE(ERR_USAGE, "invalid DPTRAIN_SECRET_PATTERN '%s': expected an extended regular expression",
              pattern);
    regfree(&regex);
    return ERR_OK;
}

bool env_is_secret(const char *name)
{
    if (env_matches(name, "^(PWD|OLDPWD|DPTRAIN_SECRET_PATTERN)$")) return false;
    if (env_matches(name, "TOKEN|SECRET|PASS|PWD|CREDENTIAL|AUTH|ACCESS|PRIVATE")) return true;
    /* A PKEY is a partition of InfiniBand. */
    if (strcasestr(name, "KEY") && !env_matches(name, "(^|_)PKEY")) return true;
    return env_matches(name, getenv("DPTRAIN_SECRET_PATTERN"));
}

/* Whether a variable names or configures code that a program, its loader, its shell or MPI runs. */
static bool env_loads_code(const char *name)
{
    return env_matches(
        name, "^(LD_.*|.*PATH|.*PRELOAD.*|.*PLUGIN.*|.*MODULE.*|.*INJECTION.*|.*LIBRARIES|.*LIBDIR|"
              ".*PREFIX|.*AGENT|.*_FILES|HOME|ENV|BASH.*|SHELLOPTS|IFS|PS4|PYTHON.*|PERL.*|OPENSSL_.*|"
              "GLIBC_TUNABLES|OPAL_.*|OMPI_COMM_.*|PMIX_[^M].*|NCCL_CONF_FILE|PROMPT_COMMAND|DPTRAIN_CPUS)$");
}

/* ---- Lists of NAME and NAME=VALUE ---- */
int env_find(const words_t *list, const char *word)
{
    const size_t n = strcspn(word, "=");
    for (int i = 0; i < list->n; i++)
        if (strncmp(list->at[i], word, n) == 0 && strcspn(list->at[i], "=") == n) return i;
    return -1;
}

void env_drop(words_t *list, const char *word)
{
    for (int i = env_find(list, word); i >= 0; i = env_find(list, word)) words_remove(list, i, 1);
}

/* Replaces the entry of that name. */
static void env_put(words_t *list, const char *word)
{
    env_drop(list, word);
    words_add(list, word);
}

/* A user's NAME=VALUE, which wins over what is there. */
static void env_set(job_t *job, const char *word)
{
    env_drop(&job->env, word);
    env_put(&job->hidden, word);
}

void env_default(job_t *job, const char *name, const char *value)
{
    if (env_find(&job->env, name) < 0 && env_find(&job->hidden, name) < 0)
        words_add(&job->env, start_text(job, "%s=%s", name, value));
}

/* ---- Sources of variables ---- */
/* Adds this process's variables with a known prefix. OpenMPI passes its own to all hosts. CUDA_VISIBLE_DEVICES numbers the GPUs of
 * this host, where ranks inherit it. */
static void env_of_prefixes(job_t *job)
{
    static const char *const prefixes[] = {"NCCL_", "UCX_", "FI_",   "DPTRAIN_",
                                           "OMPI_", "OMP_", "CUDA_", "LD_LIBRARY_PATH"};
    for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes; p++) {
        words_t names = {0};
        for (char **at = environ; *at; at++)
            if (strncmp(*at, prefixes[p], strlen(prefixes[p])) == 0)
                words_add(&names, start_text(job, "%.*s", (int)strcspn(*at, "="), *at));
        words_sort(&names);
        for (int i = 0; i < names.n; i++) {
            const char *name = names.at[i];
            if (opt_is_among(name, "DPTRAIN_SECRET_PATTERN|DPTRAIN_JOB|CUDA_VISIBLE_DEVICES")) continue;
            if (env_is_secret(name)) {
                say(job, "%s is not passed on: its name suggests a secret", name);
                unsetenv(name);
            } else if (strcmp(prefixes[p], "OMPI_") != 0 && env_name_bytes(name) > 0)
                env_put(&job->env, name);
        }
        words_free(&names);
    }
}

/* Reads NAME=VALUE lines.
 *
 *   file      its name in messages
 *   is_found  the user did not name it: it may not set what loads code */
static err_t env_read(job_t *job, const char *file, const char *text, bool is_found, words_t *out)
{
    int number = 0;
    for (const char *at = text, *end; *at; at = *end ? end + 1 : end) {
        end = strchrnul(at, '\n');
        const int n = (int)(end - at) - (end > at && end[-1] == '\r');
        const char *line = start_text(job, "%.*s", n, at), *first = line + strspn(line, " \t\v\f\r");
        number++;
        if (*first == '\0' || *first == '#') continue;
        const size_t n_name = env_name_bytes(line);
        if (n_name == 0 || line[n_name] != '=')
            RAISE(ERR_USAGE, "%s, line %d: expected NAME=VALUE, not: %s", file, number, line);
        const char *name = start_text(job, "%.*s", (int)n_name, line);
        if (env_is_secret(name))
            say(job, "%s, line %d: %s is not passed on: its name suggests a secret", file, number, name);
        else if (is_found && env_loads_code(name))
            say(job, "%s, line %d: %s is not taken from here, because it can load code; use --env-file", file,
                number, name);
        else
            words_add(out, line);
    }
    return ERR_OK;
}

static err_t env_of_text(job_t *job, const char *file, const char *text, bool is_found)
{
    words_t lines = {0};
    const err_t err = env_read(job, file, text, is_found, &lines);
    for (int i = 0; err == ERR_OK && i < lines.n; i++) env_set(job, lines.at[i]);
    words_free(&lines);
    return err;
}

static err_t env_of_file(job_t *job, const char *file)
{
    const char *text;
    TRY(user_text(job, file, ENV_FILE_MAX_BYTES, &text));
    return env_of_text(job, file, text, false);
}

/* Opens .dptrain_env of the current folder. A symbolic link is opened by what was read from it, so that *link_owner is that of the
 * link which was followed. */
static int open_found(const char *file, uid_t *link_owner)
{
    enum { FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };
    char target[PATH_MAX];
    struct stat info;
    int fd = open(file, FLAGS | O_NOFOLLOW);
    *link_owner = 0;
    if (fd >= 0 || errno != ELOOP) return fd;
    const int link = open(file, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (link < 0) return -1;
    const ssize_t n = readlinkat(link, "", target, sizeof target - 1);
    if (n > 0 && fstat(link, &info) == 0) {
        target[n] = '\0';
        *link_owner = info.st_uid;
        fd = open(target, FLAGS);
    }
    const int reason = errno;
    close(link);
    errno = reason;
    return fd;
}

/* Others may have put .dptrain_env into the current folder: it is read if this user or root owns it, and nobody else can write it. */
static err_t env_of_folder(job_t *job, const char *home)
{
    struct stat info, of_home;
    char *text = NULL;
    err_t err = ERR_OK;
    uid_t link_owner;
    const uid_t me = geteuid();
    const char *file = start_text(job, "%s/.dptrain_env", job->here);
    const int fd = open_found(".dptrain_env", &link_owner);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return ERR_OK;
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        if (home && stat(home, &of_home) == 0 && of_home.st_dev == info.st_dev &&
            of_home.st_ino == info.st_ino) {
            close(fd);
            return ERR_OK;
        }
        if ((info.st_uid != 0 && info.st_uid != me) || (link_owner != 0 && link_owner != me))
            say(job, "ignoring %s: it belongs to another user; --env-file .dptrain_env reads it", file);
        else if (info.st_mode & (S_IWGRP | S_IWOTH))
            say(job, "ignoring %s: others can write it; chmod go-w .dptrain_env", file);
        else {
            say(job, "reading %s", file);
            err = fs_read_text_of(fd, file, ENV_FILE_MAX_BYTES, &text);
            if (err == ERR_OK) err = env_of_text(job, file, text, true);
            mem_free(&text);
        }
    } else
        say(job, "ignoring %s: it is not a readable file", file);
    if (fd >= 0) close(fd);
    return err;
}

/* Later values win: the environment, ~/.dptrain_env, ./.dptrain_env, --env-file. */
static err_t env_of_files(job_t *job)
{
    const char *folder = getenv("HOME"), *home = NULL;
    if (folder && *folder) home = start_text(job, "%s/.dptrain_env", folder);
    if (home && fs_exists(home)) TRY(env_of_file(job, home));
    TRY(env_of_folder(job, home));
    for (int i = 0; i < job->env_files.n; i++) TRY(env_of_file(job, job->env_files.at[i]));
    if (job->hidden.n > 0) {
        words_t names = {0};
        for (int i = 0; i < job->hidden.n; i++)
            words_add(&names,
                      start_text(job, "%.*s", (int)strcspn(job->hidden.at[i], "="), job->hidden.at[i]));
        say(job, "variables from files, values not shown: %s", words_join(&job->start, &names, " "));
        words_free(&names);
    }
    return ERR_OK;
}

/* -x wins over files. */
static void env_of_options(job_t *job)
{
    for (int i = 0; i < job->x.n; i++) {
        const char *word = job->x.at[i];
        const char *name = start_text(job, "%.*s", (int)strcspn(word, "="), word);
        if (env_is_secret(name))
            say(job, "-x %s is not passed on: its name suggests a secret", name);
        else if (strchr(word, '='))
            env_set(job, word);
        else if (getenv(name))
            env_set(job, start_text(job, "%s=%s", name, getenv(name)));
        else
            say(job, "-x %s: it is not set here", name);
    }
}

/* A host's variables from the description of hosts: shared_envs, and env_file, which wins over them. */
static err_t env_of_host(job_t *job, const node_t *node, words_t *out)
{
    words_t lines = {0};
    const char *text;
    for (int i = 0; i < node->n_envs; i++)
        if (env_is_secret(node->envs[i].name))
            say(job, "shared_envs: %s is not passed on: its name suggests a secret", node->envs[i].name);
        else
            env_put(out, start_text(job, "%s=%s", node->envs[i].name, node->envs[i].value));
    if (!node->env_file) return ERR_OK;
    TRY(user_text(job, node->env_file, ENV_FILE_MAX_BYTES, &text));
    const err_t err = env_read(job, node->env_file, text, false, &lines);
    for (int i = 0; err == ERR_OK && i < lines.n; i++) env_put(out, lines.at[i]);
    words_free(&lines);
    return err;
}

/* Whether the hosts' variables come from the same place, as those of a group in a specification do. */
static bool env_is_shared(const node_t *a, const node_t *b)
{
    return a->envs == b->envs && a->n_envs == b->n_envs &&
           (a->env_file == b->env_file ||
            (a->env_file && b->env_file && strcmp(a->env_file, b->env_file) == 0));
}

/* The GPUs of a host's slots, where they are not simply its first; NULL: they are. */
static const char *env_gpus(job_t *job, const node_t *node)
{
    words_t ids = {0};
    const char *list = NULL;
    bool are_first = true;
    const int n = node->n_gpu_ids;
    for (int k = 0; k < n; k++) {
        are_first &= node->gpu_ids[k] == k;
        words_add(&ids, start_text(job, "%d", node->gpu_ids[k]));
    }
    if (!are_first) list = words_join(&job->start, &ids, ",");
    words_free(&ids);
    return list;
}

err_t env_collect(job_t *job)
{
    words_t own = {0};
    err_t err = ERR_OK;
    words_free(&job->env);
    words_free(&job->hidden);
    while (job->n_bundles > 0) unsetenv(start_text(job, "DPTRAIN_ENV_%d", --job->n_bundles));
    env_of_prefixes(job);
    TRY(env_of_files(job));
    env_of_options(job);
    for (int i = 0; i < job->n_nodes; i++) {
        node_t *node = &job->nodes[i];
        words_free(&node->flags);
        words_free(&node->hidden);
        if (i == 0 || !env_is_shared(node - 1, node)) {
            words_free(&own);
            TRY_OUT(err, env_of_host(job, node, &own));
        }
        words_add_all(&node->hidden, &own);
        const char *gpus = env_gpus(job, node);
        if (gpus) {
            env_drop(&node->hidden, "CUDA_VISIBLE_DEVICES");
            words_add_list(&node->flags, "-x", start_text(job, "CUDA_VISIBLE_DEVICES=%s", gpus), NULL);
        }
    }
out:
    words_free(&own);
    return err;
}

/* ---- Bundles ---- */
const char *env_bundle(job_t *job, const words_t *lines)
{
    words_t exports = {0};
    if (lines->n == 0) return NULL;
    for (int i = 0; i < lines->n; i++)
        words_add_list(&exports, "export ", text_quoted(&job->start, lines->at[i]), "\n", NULL);
    const char *name = start_text(job, "DPTRAIN_ENV_%d", job->n_bundles++);
    if (setenv(name, words_join(&job->start, &exports, ""), 1) != 0)
        launch_need(err_raise(ERR_SYSTEM, __FILE__, __LINE__, "out of memory: %s", name));
    words_free(&exports);
    return name;
}

const char *env_bundle_node(job_t *job, const node_t *node)
{
    words_t all = {0};
    words_add_all(&all, &job->hidden);
    for (int i = 0; i < node->hidden.n; i++) env_put(&all, node->hidden.at[i]);
    for (int i = 0; i < node->flags.n; i++)
        if (strncmp(node->flags.at[i], "CUDA_VISIBLE_DEVICES=", 21) == 0)
            env_drop(&all, "CUDA_VISIBLE_DEVICES");
    const char *name = env_bundle(job, &all);
    words_free(&all);
    return name;
}
