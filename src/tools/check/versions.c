/* SPDX-License-Identifier: MIT */
/* The check `versions`: compares program, libraries, kernel, CPU, config file and data over all hosts. */
#include <errno.h>
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/fs.h"
#include "base/hash.h"
#include "base/version.h"
#include "cluster/comm/device.h"
#include "cluster/hosts/machine.h"
#include "data/dataset/dataset.h"
#include "store/h5/file.h"
#include "tools/check/cases.h"
#include "tools/check/content.h"
#include "tools/check/process.h"

static const char own_binary[] = "/proc/self/exe"; /* needs no probe: it is running */

enum { HASH_TEXT = 40, READ_BYTES = 1 << 16 };

static err_t hash_file(const char *path, char out[HASH_TEXT])
{
    char buffer[READ_BYTES];
    size_t n;
    XXH3_state_t *state = XXH3_createState();
    FILE *file = fopen(path, "re");
    int why = errno;
    bool ok = state && file && XXH3_64bits_reset(state) == XXH_OK;
    while (ok && (n = fread(buffer, 1, sizeof buffer, file)) > 0)
        ok = XXH3_64bits_update(state, buffer, n) == XXH_OK;
    if (file && ferror(file)) {
        why = errno;
        ok = false;
    }
    if (ok) snprintf(out, HASH_TEXT, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(state));
    if (file) fclose(file);
    XXH3_freeState(state);
    if (!ok) RAISE(ERR_DATA, "cannot read '%s': %s", path, strerror(why));
    return ERR_OK;
}

/* Collective. Compares the hash of a file that every host needs; a host that cannot read it reports that. */
static err_t compare_file(check_t *check, const char *name, const char *path, const char *advice)
{
    char hash[HASH_TEXT] = "";
    bool speaks = check_host(check).speaks, own = strcmp(path, own_binary) == 0;
    err_t err = speaks && !own ? process_probe(path, check->options->shared_timeout_sec) : ERR_OK;
    if (err != ERR_OK) advice = check_hung_advice;
    if (err == ERR_OK && speaks) err = hash_file(path, hash);
    if (err != ERR_OK) check_line(check, check_host(check), name, CHECK_FAIL, advice, "%s", err_message());
    return check_same(check, name, CHECK_FAIL, advice, err == ERR_OK ? hash : NULL);
}

/* Collective. The argument of --data, or what rank 0 would choose for `train`. */
static err_t versions_choose_data(check_t *check, char where[FS_PATH_MAX])
{
    char why[128];
    if (check->options->data) {
        snprintf(where, FS_PATH_MAX, "%s", check->options->data);
        return ERR_OK;
    }
    where[0] = '\0';
    err_t err = check->comm->rank == 0 ? dataset_choose(check->options->data, where, why) : ERR_OK;
    TRY(comm_agree(check->comm, err, "choosing the data"));
    return comm_broadcast(check->comm, where, FS_PATH_MAX, 0, "choosing the data");
}

/* *usable: the data could be opened; the error is then that it is nothing to train on. */
static err_t versions_hash_data(const check_t *check, const char *where, char out[HASH_TEXT], bool *usable)
{
    dataset_t *dataset = NULL;
    TRY(process_probe(where, check->options->shared_timeout_sec));
    TRY(dataset_open(where, NULL, &dataset));
    *usable = true;
    err_t err = dataset_check_training(dataset);
    snprintf(out, HASH_TEXT, "%s%s", dataset_hash(&dataset->info).text,
             dataset->content ? " of names and sizes" : "");
    dataset_close(&dataset);
    return err;
}

/* Collective. */
static err_t compare_data(check_t *check)
{
    static const char advice[] =
        "copy the same data to this path on every host (scripts/on_hosts.sh --copy), or use "
        "a shared folder";
    char where[FS_PATH_MAX], hash[HASH_TEXT] = "";
    TRY(versions_choose_data(check, where));
    if (dataset_is_built_in(where)) {
        check_line(check, check_job(check), "data", CHECK_SKIP, NULL, "%s are generated, not read", where);
        return ERR_OK;
    }
    bool usable = false;
    err_t err = check_host(check).speaks ? versions_hash_data(check, where, hash, &usable) : ERR_OK;
    if (err != ERR_OK)
        check_line(check, check_host(check), "data", CHECK_FAIL,
                   err == ERR_PEER ? check_hung_advice
                   : usable        ? "docs/data.md shows how a folder of images has to look"
                                   : advice,
                   "%s", err_message());
    TRY(check_same(check, "data", CHECK_FAIL, advice, err == ERR_OK ? hash : NULL));
    if (!check->options->content) return ERR_OK;
    int32_t failed = err != ERR_OK;
    TRY(comm_allreduce(check->comm, &failed, 1, DTYPE_I32, COMM_MAX, "comparing data"));
    return failed ? ERR_OK : check_content(check, where);
}

static err_t compare_libraries(check_t *check)
{
    static const char same[] = "install the same version on all hosts";
    char text[256];
    struct utsname os;
    comm_describe(check->comm, text, sizeof text);
    TRY(check_same(check, "MPI", CHECK_FAIL,
                   "install the same MPI on all hosts; check PATH and LD_LIBRARY_PATH", text));
    comm_library_version("nccl", text, sizeof text);
    TRY(check_same(check, "NCCL", CHECK_FAIL, "install the same NCCL on all hosts; check LD_LIBRARY_PATH",
                   text));
    h5_version(text, sizeof text);
    TRY(check_same(check, "HDF5", CHECK_WARN, same, text));
    TRY(check_same(check, "C library", CHECK_WARN, same, gnu_get_libc_version()));
    snprintf(text, sizeof text, "%s", uname(&os) == 0 ? os.release : "");
    TRY(check_same(check, "kernel", CHECK_WARN, "update the hosts to the same kernel", text));
    machine_cpu_t cpu;
    machine_cpu(&cpu);
    snprintf(text, sizeof text, "%s%s%s", cpu.name, cpu.type[0] ? ", " : "", cpu.type);
    return check_same(check, "CPU", CHECK_WARN, "all ranks wait for the slowest; exclude hosts that differ",
                      text);
}

static err_t versions_run(check_t *check)
{
    TRY(compare_file(
        check, "dptrain", own_binary,
        "copy the same binary to all hosts (scripts/on_hosts.sh --copy), or start it from a shared folder"));
    TRY(compare_libraries(check));
    if (check->options->config)
        TRY(compare_file(
            check, "config", check->options->config,
            "copy the file to all hosts (scripts/on_hosts.sh --copy), or put it in a shared folder"));
    return compare_data(check);
}

const check_case_t check_versions = {
    "versions", "same binary, libraries, kernel, --config and --data on all hosts", true, versions_run};
