/* SPDX-License-Identifier: MIT */
/* Loads NCCL at run time, when gradients are on GPUs, and turns its errors into messages with advice. */
#include <stdio.h>
#include <string.h>

#include "base/process.h"
#include "cluster/comm/nccl/nccl.h"

nccl_table_t nccl_lib;

err_t nccl_load(void)
{
    static const char *const names[] = {"libnccl.so.2", "libnccl.so", NULL};
    static const char hint[] = "install NCCL 2 (scripts/install_deps.sh --cuda), or add its folder to "
                               "LD_LIBRARY_PATH";
#define NCCL_ENTRY(name) {"nccl" #name, &nccl_lib.name},
    const dl_function_t functions[] = {NCCL_FUNCTIONS(NCCL_ENTRY)};
    const dl_function_t more[] = {NCCL_REGISTER_FUNCTIONS(NCCL_ENTRY)};
#undef NCCL_ENTRY
    const dl_function_t debug[] = {{"ncclResetDebugInit", &nccl_lib.reset_debug}};
    if (nccl_lib.AllReduce) return ERR_OK;
    err_t err = dl_load(names, functions, sizeof functions / sizeof functions[0], hint);
    if (err != ERR_OK) {
        nccl_lib.AllReduce = NULL;
        return err;
    }
    nccl_lib.can_register = dl_load(names, more, sizeof more / sizeof more[0], hint) == ERR_OK;
    if (dl_load(names, debug, 1, hint) != ERR_OK) nccl_lib.reset_debug = NULL;
    return ERR_OK;
}

const char *nccl_last_words(ncclResult_t status)
{
    const char *words = nccl_lib.GetLastError(NULL);
    return words && words[0] ? words : nccl_lib.GetErrorString(status);
}

/* Advice, by the words NCCL uses for the usual causes. */
static const char *hint_for(ncclResult_t status, const char *words)
{
    static const struct {
        const char *word, *hint;
    } hints[] = {
        {"Duplicate GPU", "ranks that share a GPU need --comm mpi, or a different NCCL_HOSTID each (slow)"},
        {"peer access", "the GPUs cannot reach each other's memory: try NCCL_P2P_DISABLE=1"},
        {"P2P", "the GPUs cannot reach each other's memory: try NCCL_P2P_DISABLE=1"},
        {"shared memory", "/dev/shm is too small or inaccessible: docker --shm-size, or NCCL_SHM_DISABLE=1"},
        {"/dev/shm", "/dev/shm is too small or inaccessible: docker --shm-size, or NCCL_SHM_DISABLE=1"},
        {"socket interface", "name the network interface in NCCL_SOCKET_IFNAME"},
        {"onnect", "check NCCL_SOCKET_IFNAME (the network interface) and firewalls between the hosts"},
        {"out of memory", "lower --batch or --workspace"},
        {"version", "all hosts need the same NCCL version, and a driver that supports it"},
    };
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++)
        if (strstr(words, hints[i].word)) return hints[i].hint;
    if (status == ncclInvalidUsage) return hints[0].hint;
    if (status == ncclRemoteError) return "see the messages of the other ranks";
    if (status == ncclSystemError || status == ncclInternalError)
        return "run again with NCCL_DEBUG=INFO, check NCCL_SOCKET_IFNAME and the size of /dev/shm, and try "
               "NCCL_P2P_DISABLE=1";
    return "run again with NCCL_DEBUG=INFO";
}

err_t nccl_check(ncclResult_t status, const char *what, const char *file, int line)
{
    if (status == ncclSuccess) return ERR_OK;
    const char *words = nccl_last_words(status), *code = nccl_lib.GetErrorString(status);
    err_t err = status == ncclRemoteError ? ERR_PEER : status == ncclInvalidUsage ? ERR_USAGE : ERR_SYSTEM;
    return err_raise(err, file, line, "NCCL: %s: %s%s%s%s; %s", what, words, words != code ? " (" : "",
                     words != code ? code : "", words != code ? ")" : "", hint_for(status, words));
}

err_t nccl_cuda_check(cudaError_t status, const char *what, const char *file, int line)
{
    if (status == cudaSuccess) return ERR_OK;
    cudaGetLastError(); /* otherwise the next launch would report it */
    return err_raise(ERR_SYSTEM, file, line, "CUDA: %s: %s (%s)", what, cudaGetErrorString(status),
                     cudaGetErrorName(status));
}

void nccl_version(char *out, size_t n_bytes)
{
    int v = 0;
    out[0] = '\0';
    if (nccl_load() != ERR_OK) return;
    if (nccl_lib.GetVersion(&v) != ncclSuccess) v = 0;
    /* Up to 2.8, 2804 means 2.8.4. */
    int major = v < 10000 ? v / 1000 : v / 10000, minor = v < 10000 ? v % 1000 / 100 : v % 10000 / 100;
    snprintf(out, n_bytes, "%d.%d.%d", major, minor, v % 100);
}
