/* SPDX-License-Identifier: MIT */
/* `dptrain hosts`: checks host descriptions and converts them. Runs without MPI, on the machine that jobs are
 * started from. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "cluster/hosts/hosts.h"
#include "cmd/cmd.h"

static const char usage[] =
    "usage: dptrain hosts show SOURCE [options]\n"
    "       dptrain hosts hostfile SOURCE [options]    an OpenMPI hostfile\n"
    "       dptrain hosts ssh-config SOURCE [options]  Host blocks for ssh -F\n"
    "\n"
    "SOURCE is a hostfile (lines NAME slots=N, as for OpenMPI and DeepSpeed; NAME:N,\n"
    "node[1-4], or a line per slot), a resource specification (YAML: .yaml or .yml),\n"
    "or a list HOST:SLOTS,HOST:SLOTS (IPv6: [fe80::1]:4). A list is recognized by a\n"
    "colon or comma, has no slash, and is not the name of a file. A host of a\n"
    "hostfile without slots has as many as its GPUs where the job uses them,\n"
    "otherwise its cores; a host of a list has 1. Rank 0 runs on the chief: the first\n"
    "host of a hostfile or list. The chief is always listed first.\n"
    "\f\n"
    "--format tsv prints one host per line, without a header, tab-separated, with -\n"
    "for missing values:\n"
    "  address slots gpu_ids(comma-separated) port user key_file chief(yes|no)\n"
    "  env_file setup NAME=VALUE…\n"
    "The last fields are the shared_envs, unquoted: no value contains a tab.\n"
    "\n"
    "Exit codes: 2 invalid options, list or filter; 3 missing or invalid file.\n";

typedef struct hosts_options {
    const char *include, *exclude, *format, *user, *key, *known_hosts;
    int64_t port;
} hosts_options_t;

static const char *const formats[] = {"table", "json", "tsv", NULL};

#define FIELD(name) offsetof(hosts_options_t, name)
static const opt_t table[] = {
    {"include", OPT_STRING, FIELD(include), NULL, 0, 0, NULL, "HOST[:SLOT,…][@HOST…]",
     "only these hosts and, if given, only these of their slots (GPUs), such as host1@host2:0,2", OPT_COMMON},
    {"exclude", OPT_STRING, FIELD(exclude), NULL, 0, 0, NULL, "HOST[:SLOT,…][@HOST…]",
     "all hosts or slots except these; cannot be combined with --include", OPT_COMMON},
    {"format", OPT_CHOICE, FIELD(format), "table", 0, 0, formats, "", "output format of show", OPT_COMMON},
    {"ssh-port", OPT_INT, FIELD(port), NULL, 1, 65535, NULL, "N", "SSH port of hosts without one in SOURCE",
     OPT_COMMON},
    {"user", OPT_STRING, FIELD(user), NULL, 0, 0, NULL, "NAME", "login name on hosts without one in SOURCE",
     OPT_COMMON},
    {"key", OPT_STRING, FIELD(key), NULL, 0, 0, NULL, "FILE", "private key for hosts without one in SOURCE",
     OPT_COMMON},
    {"known-hosts", OPT_STRING, FIELD(known_hosts), NULL, 0, 0, NULL, "FILE",
     "ssh-config: file of host keys; hosts not in it are refused", OPT_COMMON},
};

static const char *const verbs[] = {"show", "hostfile", "ssh-config", NULL};
enum { N_OPTIONS = sizeof table / sizeof table[0] };

static err_t run_verb(const char *const *words, int n, const opt_group_t *group,
                      const hosts_options_t *options)
{
    hosts_t hosts = {0};
    err_t err = ERR_OK;
    if (n == 0 || !opt_listed(verbs, words[0])) return cmd_unknown_verb("hosts", n ? words[0] : "", verbs);
    if (n != 2)
        RAISE(ERR_USAGE,
              "dptrain hosts %s: expected one hostfile, resource spec (YAML), or list HOST:SLOTS,…",
              words[0]);
    if (strcmp(words[0], "show") != 0 && opt_given(group, 1, "format"))
        RAISE(ERR_USAGE, "--format applies only to dptrain hosts show");
    if (strcmp(words[0], "ssh-config") != 0 && options->known_hosts)
        RAISE(ERR_USAGE, "--known-hosts applies only to dptrain hosts ssh-config");
    TRY(hosts_read(words[1], &hosts));
    TRY_OUT(err, hosts_filter(&hosts, options->include, options->exclude));
    TRY_OUT(err, hosts_default_login(&hosts, options->port, options->user, options->key));
    if (strcmp(words[0], "hostfile") == 0)
        hosts_write_hostfile(&hosts, stdout);
    else if (strcmp(words[0], "ssh-config") == 0)
        TRY_OUT(err, hosts_write_ssh_config(&hosts, options->known_hosts, stdout));
    else if (strcmp(options->format, "json") == 0)
        TRY_OUT(err, hosts_write_json(&hosts, stdout));
    else if (strcmp(options->format, "tsv") == 0)
        hosts_write_tsv(&hosts, stdout);
    else
        TRY_OUT(err, hosts_write_table(&hosts, stdout));
    /* A truncated list of hosts looks complete. */
    if (fflush(stdout) != 0 || ferror(stdout))
        RAISE_OUT(err, ERR_SYSTEM, "cannot write the hosts: %s", strerror(errno));
out:
    hosts_free(&hosts);
    return err;
}

err_t cmd_hosts(const cmd_context_t *context)
{
    hosts_options_t options = {0};
    opt_group_t group = {"Options", table, N_OPTIONS, &options, 0};
    const char *words[2];
    int n_words = 0;
    for (int i = 0; verbs[i]; i++) cmd_tell_word(context, "word", verbs[i], "");
    err_t err = opt_defaults(&group, 1);
    if (cmd_wants_help(context, usage, &group, 1, &err)) return err;
    if (err == ERR_OK) err = opt_parse(&group, 1, context->argc, context->argv, words, 2, &n_words);
    if (err == ERR_OK && log_speaks()) err = run_verb(words, n_words, &group, &options);
    return cmd_fail(err);
}
