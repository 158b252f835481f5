/* SPDX-License-Identifier: MIT */
/* Engine, stream, errors and memory objects of oneDNN, so that no other file handles them. DPTRAIN_MAX_ISA
 * caps its instruction set here. */
#include "kernels/cpu/onednn.h"

#include <oneapi/dnnl/dnnl_debug.h>
#include <stdio.h>
#include <string.h>

#include "base/isa.h"
#include "base/mem.h"

static dnnl_engine_t engine;
static dnnl_stream_t stream;

err_t onednn_check(dnnl_status_t status, const char *what, const char *file, int line)
{
    if (status == dnnl_success) return ERR_OK;
    return err_raise(ERR_SYSTEM, file, line, "oneDNN, %s: %s", what, dnnl_status2str(status));
}

/* Once, before oneDNN detects the CPU. Without our cap, oneDNN's own environment variable applies. */
static err_t cap_isa(void)
{
    static const dnnl_cpu_isa_t isas[] = {[ISA_BASE] = dnnl_cpu_isa_sse41,
                                          [ISA_AVX2] = dnnl_cpu_isa_avx2,
                                          [ISA_AVX512] = dnnl_cpu_isa_avx512_core_vnni,
                                          [ISA_AVX512_BF16] = dnnl_cpu_isa_avx512_core_bf16,
                                          [ISA_AMX] = (dnnl_cpu_isa_t)0 /* all */};
    static bool done;
    isa_t cap;
    if (done || !isa_capped(&cap)) return ERR_OK;
    done = true;
    E_DNNL(dnnl_set_max_cpu_isa(isas[cap]), "capping the instruction set (DPTRAIN_MAX_ISA)");
    return ERR_OK;
}

/* oneDNN ends by SIGSEGV or SIGABRT where it cannot allocate code or tables of a primitive. */
static err_t check_room(void)
{
    return mem_check_room("oneDNN's primitives");
}

err_t onednn_open(void)
{
    if (engine) return ERR_OK;
    TRY(check_room());
    TRY(cap_isa());
    E_DNNL(dnnl_engine_create(&engine, dnnl_cpu, 0), "creating the CPU engine");
    dnnl_status_t status = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    if (status != dnnl_success) onednn_close();
    E_DNNL(status, "creating a stream");
    return ERR_OK;
}

void onednn_close(void)
{
    if (stream) dnnl_stream_destroy(stream);
    if (engine) dnnl_engine_destroy(engine);
    stream = NULL, engine = NULL;
}

dnnl_engine_t onednn_engine(void)
{
    ASSERT(engine);
    return engine;
}

void onednn_describe(char *out, size_t n_bytes)
{
    const dnnl_version_t *v = dnnl_version();
    const char *isa = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa()), *prefix = "cpu_isa_";
    if (strncmp(isa, prefix, strlen(prefix)) == 0) isa += strlen(prefix);
    snprintf(out, n_bytes, "oneDNN %d.%d.%d, %s", v->major, v->minor, v->patch, isa);
}

/* Instruction sets are bit masks; larger sets include smaller ones. */
static bool has_isa(unsigned need)
{
    unsigned have = dnnl_get_effective_cpu_isa();
    return (have & need) == need;
}

bool onednn_has_bf16(void)
{
    return has_isa(dnnl_cpu_isa_avx512_core_bf16);
}

bool onednn_has_amx(void)
{
    return has_isa(dnnl_cpu_isa_avx512_core_amx);
}

err_t onednn_attr_new(dnnl_primitive_attr_t *out)
{
    dnnl_primitive_attr_t attr;
    TRY(check_room());
    E_DNNL(dnnl_primitive_attr_create(&attr), "creating attributes");
    dnnl_status_t status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status != dnnl_success) dnnl_primitive_attr_destroy(attr);
    E_DNNL(status, "setting the scratchpad mode");
    *out = attr;
    return ERR_OK;
}

static err_t add_argument(onednn_pass_t *pass, int arg, onednn_md_t layout)
{
    ASSERT(pass->n_args < ONEDNN_MAX_ARGS);
    dnnl_exec_arg_t *a = &pass->arg[pass->n_args];
    E_DNNL(dnnl_memory_create(&a->memory, layout, engine, DNNL_MEMORY_NONE), "creating a memory object");
    a->arg = arg;
    pass->n_args++;
    return ERR_OK;
}

err_t onednn_pass_new(onednn_pass_t *pass, const_dnnl_primitive_desc_t desc, const onednn_slot_t *slots,
                      int n_slots)
{
    err_t err = ERR_OK;
    *pass = (onednn_pass_t){.n_args = 0};
    TRY(check_room());
    for (int i = 0; i < n_slots; i++)
        if (slots[i].arg) TRY_OUT(err, add_argument(pass, slots[i].arg, slots[i].layout));
    onednn_md_t scratch = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    TRY_OUT(err, add_argument(pass, DNNL_ARG_SCRATCHPAD, scratch));
    pass->n_scratch_bytes = dnnl_memory_desc_get_size(scratch);
    TRY_OUT(err, onednn_check(dnnl_primitive_create(&pass->primitive, desc), "creating a primitive", __FILE__,
                              __LINE__));
out:
    if (err != ERR_OK) onednn_pass_free(pass);
    return err;
}

err_t onednn_pass_reorder(onednn_pass_t *pass, onednn_md_t from, onednn_md_t to)
{
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t desc;
    *pass = (onednn_pass_t){.n_args = 0};
    TRY(onednn_attr_new(&attr));
    dnnl_status_t status = dnnl_reorder_primitive_desc_create(&desc, from, engine, to, engine, attr);
    dnnl_primitive_attr_destroy(attr);
    E_DNNL(status, "describing a reorder");
    const onednn_slot_t slots[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    err_t err = onednn_pass_new(pass, desc, slots, 2);
    dnnl_primitive_desc_destroy(desc);
    return err;
}

err_t onednn_pass_run(const onednn_pass_t *pass, const void *const *buffers, void *scratch)
{
    int n_buffers = pass->n_args - 1;
    for (int i = 0; i < n_buffers; i++)
        E_DNNL(dnnl_memory_set_data_handle(pass->arg[i].memory, (void *)buffers[i]), "binding a buffer");
    E_DNNL(dnnl_memory_set_data_handle(pass->arg[n_buffers].memory, scratch), "binding the scratchpad");
    E_DNNL(dnnl_primitive_execute(pass->primitive, stream, pass->n_args, pass->arg), "running a primitive");
    E_DNNL(dnnl_stream_wait(stream), "waiting for a primitive");
    return ERR_OK;
}

void onednn_pass_free(onednn_pass_t *pass)
{
    if (pass->primitive) dnnl_primitive_destroy(pass->primitive);
    for (int i = 0; i < pass->n_args; i++) dnnl_memory_destroy(pass->arg[i].memory);
    *pass = (onednn_pass_t){.n_args = 0};
}
