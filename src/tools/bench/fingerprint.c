/* SPDX-License-Identifier: MIT */
/* Describes hardware, fabric and software in the head of a bench run, hashes each, and warns about ranks that
 * differ from rank 0. */
#include "tools/bench/fingerprint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <xxhash.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/hosts/machine.h"

static void describe_hardware(const runtime_t *runtime, json_t *j)
{
    json_object_begin(j, NULL);
    machine_record(runtime->backend->name, j);
    json_object_end(j);
}

static void describe_fabric(const runtime_t *runtime, json_t *j)
{
    machine_port_t ports[MACHINE_MAX_PORTS];
    int n = machine_ports(ports);
    json_object_begin(j, NULL);
    json_int(j, "hosts", runtime->comm->topo.n_hosts);
    json_array_begin(j, "ports");
    for (int i = 0; i < n; i++) {
        json_object_begin(j, NULL);
        json_string(j, "name", ports[i].name);
        json_real(j, "gbit_per_sec", ports[i].bits_per_sec / 1e9);
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}

static void describe_software(const runtime_t *runtime, json_t *j)
{
    struct utsname os;
    uname(&os);
    json_object_begin(j, NULL);
    runtime_record_software(runtime, j);
    json_string(j, "kernel", os.release);
    json_object_end(j);
}

typedef void (*part_t)(const runtime_t *runtime, json_t *j);
enum { HARDWARE, FABRIC, SOFTWARE, N_PARTS };
static const part_t parts[N_PARTS] = {describe_hardware, describe_fabric, describe_software};
static const char *const names[N_PARTS] = {"hardware", "fabric", "software"};

static err_t warn_if_hosts_differ(const runtime_t *runtime, const uint64_t ids[N_PARTS])
{
    const comm_t *comm = runtime->comm;
    struct host_ids {
        uint64_t ids[N_PARTS];
        char host[TOPO_HOST_MAX];
    } mine, *all;
    memset(&mine, 0, sizeof mine);
    memcpy(mine.ids, ids, sizeof mine.ids);
    memcpy(mine.host, comm->topo.host_name, sizeof mine.host);
    TRY(mem_new_array(comm->size, sizeof *all, "the hosts' fingerprints", &all));
    err_t err = comm_allgather(runtime->comm, &mine, sizeof mine, all, "comparing hosts");
    for (int part = 0; part < N_PARTS && err == ERR_OK; part++)
        for (int r = 1; r < comm->size; r++) {
            if (part == FABRIC || all[r].ids[part] == all[0].ids[part]) continue;
            log_warn(
                "the %s of %s (rank %d) differs from that of %s; results are recorded under the latter's "
                "fingerprint",
                names[part], all[r].host, r, all[0].host);
            break;
        }
    mem_free(&all);
    return err;
}

err_t fingerprint_record(const runtime_t *runtime, json_t *j)
{
    json_t text[N_PARTS] = {{0}};
    uint64_t ids[N_PARTS];
    err_t err = ERR_OK;
    for (int i = 0; i < N_PARTS; i++) {
        parts[i](runtime, &text[i]);
        if (err == ERR_OK) err = text[i].status;
        ids[i] = text[i].text ? XXH3_64bits(text[i].text, text[i].n_bytes) : 0;
    }
    err = comm_agree(runtime->comm, err, "the fingerprint");
    if (err == ERR_OK) err = warn_if_hosts_differ(runtime, ids);
    if (err == ERR_OK && j) {
        json_object_begin(j, "fingerprint");
        for (int i = 0; i < N_PARTS; i++) {
            char key[32], id[20];
            snprintf(key, sizeof key, "%s_id", names[i]);
            snprintf(id, sizeof id, "%016" PRIx64, ids[i]);
            json_string(j, key, id);
        }
        for (int i = 0; i < N_PARTS; i++) json_raw(j, names[i], text[i].text);
        json_object_end(j);
    }
    for (int i = 0; i < N_PARTS; i++) json_free(&text[i]);
    return err;
}
