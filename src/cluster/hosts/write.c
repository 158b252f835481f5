/* SPDX-License-Identifier: MIT */
/* Writes the table of hosts as a hostfile, ssh configuration, TSV, JSON and text. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cluster/hosts/hosts.h"
#include "cluster/hosts/table.h"
#include "text/json.h"
#include "text/table.h"

/* Errors in an option's value are ERR_USAGE, not ERR_DATA. */
static err_t as_usage(err_t err)
{
    if (err == ERR_OK) return ERR_OK;
    RAISE(ERR_USAGE, "%s", err_message());
}

err_t hosts_default_login(hosts_t *hosts, int64_t port, const char *user, const char *key_file)
{
    if (port < 0 || port > 65535)
        RAISE(ERR_USAGE, "invalid --ssh-port '%" PRId64 "': expected 1 to 65535", port);
    if (user) {
        TRY(as_usage(hosts_check_user(user, "--user")));
        TRY(arena_text(&hosts->arena, user, strlen(user), &user));
    }
    if (key_file) {
        if (!*key_file) RAISE(ERR_USAGE, "--key requires the path of a private key");
        TRY(as_usage(hosts_check_text(key_file, "--key")));
        TRY(arena_text(&hosts->arena, key_file, strlen(key_file), &key_file));
    }
    for (int i = 0; i < hosts->n; i++) {
        host_t *host = &hosts->at[i];
        if (!host->port) host->port = (int)port;
        if (!host->user) host->user = user;
        if (!host->key_file) host->key_file = key_file;
    }
    return ERR_OK;
}

void hosts_write_hostfile(const hosts_t *hosts, FILE *out)
{
    for (int i = 0; i < hosts->n; i++) {
        const host_t *host = &hosts->at[i];
        fputs(host->address, out);
        if (host->slots) fprintf(out, " slots=%d", host->slots);
        if (host->max_slots) fprintf(out, " max_slots=%d", host->max_slots);
        fputc('\n', out);
    }
}

void hosts_write_path(const char *key, const char *path, FILE *out)
{
    fprintf(out, "    %s \"", key);
    for (; *path; path++) {
        if (*path == '%') fputc('%', out);
        fputc(*path, out);
    }
    fputs("\"\n", out);
}

static err_t check_path(const char *path, const char *what)
{
    TRY(as_usage(hosts_check_text(path, what)));
    if (!*path || strpbrk(path, "\"\\") || strstr(path, "${"))
        RAISE(ERR_USAGE, "%s '%s': an ssh configuration cannot express a path with \" \\ or ${", what,
              hosts_quote(path, strlen(path)).text);
    return ERR_OK;
}

err_t hosts_write_ssh_config(const hosts_t *hosts, const char *known_hosts, FILE *out)
{
    if (known_hosts) TRY(check_path(known_hosts, "--known-hosts"));
    for (int i = 0; i < hosts->n; i++)
        if (hosts->at[i].key_file) TRY(check_path(hosts->at[i].key_file, "the key file"));
    for (int i = 0; i < hosts->n; i++) {
        const host_t *host = &hosts->at[i];
        const char *zone = strchr(host->address, '%');
        int n = zone ? (int)(zone - host->address) : (int)strlen(host->address);
        fprintf(out, "%sHost %s\n    HostName %.*s%s%s\n", i ? "\n" : "", host->address, n, host->address,
                zone ? "%" : "", zone ? zone : "");
        if (host->port) fprintf(out, "    Port %d\n", host->port);
        if (host->user) fprintf(out, "    User %s\n", host->user);
        if (host->key_file) {
            hosts_write_path("IdentityFile", host->key_file, out);
            fputs("    IdentitiesOnly yes\n", out);
        }
        if (known_hosts) {
            hosts_write_path("UserKnownHostsFile", known_hosts, out);
            fputs("    GlobalKnownHostsFile /dev/null\n    StrictHostKeyChecking yes\n", out);
        }
        fputs("    BatchMode yes\n    ConnectTimeout 10\n", out);
    }
    return ERR_OK;
}

/* Whether ids of GPUs, or of chosen slots, are known. */
static bool has_ids(const host_t *host)
{
    return host->ids && host->gpus != HOST_GPUS_NONE;
}

/* 0 means not given. */
static void write_number(int value, FILE *out)
{
    if (value)
        fprintf(out, "%d", value);
    else
        fputc('-', out);
}

static const char *or_dash(const char *text)
{
    return text && *text ? text : "-";
}

void hosts_write_tsv(const hosts_t *hosts, FILE *out)
{
    for (int i = 0; i < hosts->n; i++) {
        const host_t *host = &hosts->at[i];
        fprintf(out, "%s\t", host->address);
        write_number(host->slots, out);
        fputc('\t', out);
        if (!has_ids(host)) fputc('-', out);
        for (int k = 0; has_ids(host) && k < host->slots; k++)
            fprintf(out, "%s%d", k ? "," : "", host->ids[k]);
        fputc('\t', out);
        write_number(host->port, out);
        fprintf(out, "\t%s\t%s\t%s\t%s\t%s", or_dash(host->user), or_dash(host->key_file),
                host->chief ? "yes" : "no", or_dash(host->env_file), or_dash(host->setup));
        if (!host->n_envs) fputs("\t-", out);
        for (int e = 0; e < host->n_envs; e++)
            fprintf(out, "\t%s=%s", host->envs[e].name, host->envs[e].value);
        fputc('\n', out);
    }
}

/* 0, 1, 2, 3, 6 as 0-3,6. */
static void format_ids(const host_t *host, char *out, size_t n_bytes)
{
    size_t used = 0;
    snprintf(out, n_bytes, "%s", host->gpus == HOST_GPUS_NONE ? "none" : "-");
    for (int i = 0, last; has_ids(host) && i < host->slots; i = last + 1) {
        char part[32];
        for (last = i; last + 1 < host->slots && host->ids[last + 1] == host->ids[last] + 1;) last++;
        int n = snprintf(part, sizeof part, last > i ? "%s%d-%d" : "%s%d", i ? "," : "", host->ids[i],
                         host->ids[last]);
        if (used + (size_t)n + sizeof "…" > n_bytes) {
            snprintf(out + used, n_bytes - used, "…");
            return;
        }
        memcpy(out + used, part, (size_t)n + 1);
        used += (size_t)n;
    }
}

err_t hosts_write_table(const hosts_t *hosts, FILE *out)
{
    table_t table = {.columns = {{"host", true},
                                 {"slots"},
                                 {"GPUs", true},
                                 {"port"},
                                 {"user", true},
                                 {"chief", true},
                                 {"Gbit/s"},
                                 {"key", true}},
                     .n_columns = 8};
    int64_t n_slots = 0, n_gpus = 0;
    int n_open = 0;
    for (int i = 0; i < hosts->n; i++) {
        const host_t *host = &hosts->at[i];
        char ids[64];
        format_ids(host, ids, sizeof ids);
        table_cell(&table, "%s", host->address);
        table_cell(&table, host->slots ? "%d" : "-", host->slots);
        table_cell(&table, "%s", ids);
        table_cell(&table, host->port ? "%d" : "-", host->port);
        table_cell(&table, "%.80s", or_dash(host->user));
        table_cell(&table, "%s", host->chief ? "yes" : "no");
        table_cell(&table, host->bandwidth_gbits > 0 ? "%g" : "-", host->bandwidth_gbits);
        table_cell(&table, "%s", or_dash(host->key_file));
        n_slots += host->slots;
        n_open += host->slots == 0;
        n_gpus += host->gpus == HOST_GPUS_KNOWN ? host->slots : 0;
    }
    err_t err = table_print(&table, out);
    table_free(&table);
    TRY(err);
    fprintf(out, "%d host%s, %" PRId64 " slot%s", hosts->n, hosts->n == 1 ? "" : "s", n_slots,
            n_slots == 1 ? "" : "s");
    if (n_gpus) fprintf(out, ", %" PRId64 " GPU%s", n_gpus, n_gpus == 1 ? "" : "s");
    if (n_open)
        fprintf(out,
                "; and on %d host%s without slots as many as GPUs where the job uses them, otherwise cores",
                n_open, n_open == 1 ? "" : "s");
    fputc('\n', out);
    return ERR_OK;
}

static void json_number_or_null(json_t *j, const char *key, int value)
{
    if (value)
        json_int(j, key, value);
    else
        json_raw(j, key, "null");
}

err_t hosts_write_json(const hosts_t *hosts, FILE *out)
{
    json_t j = {0};
    json_object_begin(&j, NULL);
    json_string(&j, "source", hosts->source);
    json_array_begin(&j, "hosts");
    for (int i = 0; i < hosts->n; i++) {
        const host_t *host = &hosts->at[i];
        json_object_begin(&j, NULL);
        json_string(&j, "address", host->address);
        json_number_or_null(&j, "slots", host->slots);
        json_number_or_null(&j, "max_slots", host->max_slots);
        if (host->gpus != HOST_GPUS_NONE && !host->ids) {
            json_raw(&j, "gpu_ids", "null");
        } else {
            json_array_begin(&j, "gpu_ids");
            for (int k = 0; has_ids(host) && k < host->slots; k++) json_int(&j, NULL, host->ids[k]);
            json_array_end(&j);
        }
        json_bool(&j, "chief", host->chief);
        json_number_or_null(&j, "port", host->port);
        json_string(&j, "user", host->user);
        json_string(&j, "key_file", host->key_file);
        json_string(&j, "ssh_group", host->ssh_group);
        json_object_begin(&j, "shared_envs");
        for (int k = 0; k < host->n_envs; k++) json_string(&j, host->envs[k].name, host->envs[k].value);
        json_object_end(&j);
        json_string(&j, "env_file", host->env_file);
        json_string(&j, "setup", host->setup);
        json_real(&j, "network_bandwidth_gbits", host->bandwidth_gbits > 0 ? host->bandwidth_gbits : NAN);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
    err_t err = j.status;
    if (err == ERR_OK) fprintf(out, "%s\n", j.text);
    json_free(&j);
    return err;
}
