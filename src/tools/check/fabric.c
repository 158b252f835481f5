/* SPDX-License-Identifier: MIT */
/* Reads ports and byte counters of network devices (InfiniBand, RoCE, EFA, Ethernet) from sysfs, and
 * finds the one that carried a transfer. transport_judge.c reports findings. */
#include "tools/check/fabric.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"

const char *const fabric_kind_names[FABRIC_KINDS] = {"TCP", "InfiniBand", "RoCE", "EFA"};

/* InfiniBand counts 4-byte units: "port_xmit_data: octets divided by 4" (specification, PortCounters). */
enum { IB_UNIT = 4 };

static bool read_word(const char *folder, const char *file, char *out, size_t n_bytes)
{
    char path[FS_PATH_MAX];
    out[0] = '\0';
    return fs_join(path, folder, file) == ERR_OK && fs_read_line(path, out, n_bytes);
}

static int64_t read_count(const char *folder, const char *file)
{
    char text[32];
    int64_t n;
    return read_word(folder, file, text, sizeof text) && sscanf(text, "%" SCNd64, &n) == 1 ? n : -1;
}

/* The last component of a link's target. */
static void read_link(const char *folder, const char *file, char *out, size_t n_bytes)
{
    char path[FS_PATH_MAX], to[FS_PATH_MAX];
    ssize_t n = fs_join(path, folder, file) == ERR_OK ? readlink(path, to, sizeof to - 1) : 0;
    to[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(to, '/');
    snprintf(out, n_bytes, "%.*s", (int)n_bytes - 1, slash ? slash + 1 : to);
}

/* To the kernel, an EFA is an InfiniBand device with a special link layer. */
static fabric_kind_t port_kind(const char *device, const char *port, const char *driver)
{
    char vendor[16], layer[32];
    if (strcmp(driver, "efa") == 0) return FABRIC_EFA;
    if (read_word(device, "device/vendor", vendor, sizeof vendor) && strcmp(vendor, "0x1d0f") == 0)
        return FABRIC_EFA;
    read_word(port, "link_layer", layer, sizeof layer);
    return strcmp(layer, "Ethernet") == 0 ? FABRIC_ROCE : FABRIC_IB;
}

static void add_port(const char *device, const char *name, const char *number, fabric_t *out)
{
    char ports[FS_PATH_MAX], port[FS_PATH_MAX], state[32];
    if (out->n == FABRIC_MAX || fs_join(ports, device, "ports") != ERR_OK ||
        fs_join(port, ports, number) != ERR_OK)
        return;
    fabric_port_t *p = &out->port[out->n++];
    *p = (fabric_port_t){0};
    snprintf(p->name, sizeof p->name, "%.32s:%.8s", name, number);
    read_link(device, "device/driver", p->driver, sizeof p->driver);
    p->kind = port_kind(device, port, p->driver);
    /* "4: ACTIVE" */
    p->active = read_word(port, "state", state, sizeof state) && strstr(state, "ACTIVE");
    int64_t words = read_count(port, "counters/port_xmit_data");
    p->sent = words < 0 ? -1 : IB_UNIT * words;
    if (p->kind == FABRIC_EFA) p->sent = read_count(port, "hw_counters/tx_bytes");
}

static void add_net_device(const char *device, const char *name, fabric_t *out)
{
    char state[32];
    if (out->n == FABRIC_MAX || strcmp(name, "lo") == 0) return;
    fabric_port_t *p = &out->port[out->n++];
    *p = (fabric_port_t){.kind = FABRIC_TCP};
    snprintf(p->name, sizeof p->name, "%.40s", name);
    read_link(device, "device/driver", p->driver, sizeof p->driver);
    read_word(device, "operstate", state, sizeof state);
    p->active = strcmp(state, "down") != 0;
    p->sent = read_count(device, "statistics/tx_bytes");
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void each_port(const char *device, const char *name, fabric_t *out)
{
    char folder[FS_PATH_MAX];
    struct dirent **entries;
    if (fs_join(folder, device, "ports") != ERR_OK) return;
    int n = scandir(folder, &entries, is_visible, alphasort);
    for (int i = 0; i < n; i++) {
        add_port(device, name, entries[i]->d_name, out);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}

static void each_device(const char *folder, void (*add)(const char *device, const char *name, fabric_t *out),
                        fabric_t *out)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, is_visible, alphasort);
    for (int i = 0; i < n; i++) {
        char device[FS_PATH_MAX];
        if (fs_join(device, folder, entries[i]->d_name) == ERR_OK) add(device, entries[i]->d_name, out);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}

void fabric_read(const char *infiniband, const char *net, fabric_t *out)
{
    out->n = 0;
    each_device(infiniband, each_port, out);
    each_device(net, add_net_device, out);
}

static int64_t bytes_moved(const fabric_t *before, const fabric_port_t *after)
{
    for (int i = 0; i < before->n; i++)
        if (strcmp(before->port[i].name, after->name) == 0 && before->port[i].sent >= 0 && after->sent >= 0)
            return after->sent - before->port[i].sent;
    return 0;
}

fabric_use_t fabric_compare(const fabric_t *before, const fabric_t *after, int64_t n_bytes, bool sockets)
{
    static const fabric_kind_t order[] = {FABRIC_TCP, FABRIC_IB, FABRIC_ROCE, FABRIC_EFA, FABRIC_TCP};
    int64_t sums[FABRIC_KINDS] = {0};
    fabric_use_t use = {0};
    for (int i = 0; i < after->n; i++) sums[after->port[i].kind] += bytes_moved(before, &after->port[i]);
    for (int i = sockets ? 0 : 1; i < 5 && !use.known; i++) {
        use.known = sums[order[i]] >= n_bytes / 10 * 8;
        use.kind = order[i];
    }
    for (int i = 0; use.known && i < after->n; i++) {
        const fabric_port_t *p = &after->port[i];
        size_t used = strlen(use.names);
        /* Ports with a share of the transfer; the others carried only background traffic. */
        if (p->kind != use.kind || bytes_moved(before, p) < n_bytes / 20) continue;
        if (used + strlen(p->name) + 3 < sizeof use.names)
            snprintf(use.names + used, sizeof use.names - used, "%s%s", used ? ", " : "", p->name);
    }
    return use;
}
