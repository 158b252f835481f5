/* SPDX-License-Identifier: MIT */
/* oneDNN: engine, stream, errors and memory objects, so that no other file handles them; DPTRAIN_MAX_ISA caps its
 * instruction set here. Layouts and implementations of versions 2 and 3: version 2 describes an operation in a struct
 * and iterates over implementations; in 3 a primitive descriptor steps from one implementation to the next. And the
 * reorders around a primitive whose layouts or types differ from ours; which primitive, and in which layouts, is
 * the operator's choice. */
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

const char *onednn_offer_name(const_dnnl_primitive_desc_t desc)
{
    const char *info = "", *prefix = "x64:";
    dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&info);
    return strncmp(info, prefix, strlen(prefix)) == 0 ? info + strlen(prefix) : info;
}

#if DNNL_VERSION_MAJOR == 2

struct onednn_offers {
    dnnl_primitive_desc_iterator_t iterator; /* NULL: none */
    dnnl_primitive_attr_t attr;
    union { /* the iterator points at it */
        dnnl_convolution_desc_t conv;
        dnnl_inner_product_desc_t inner;
    } desc;
    bool begun;
};

err_t onednn_layout_by_tag(onednn_layout_t *out, int n_dims, const int64_t *dims, dnnl_data_type_t type,
                           dnnl_format_tag_t tag, const char *what)
{
    E_DNNL(dnnl_memory_desc_init_by_tag(&out->desc, n_dims, dims, type, tag), what);
    return ERR_OK;
}

err_t onednn_layout_by_strides(onednn_layout_t *out, int n_dims, const int64_t *dims, dnnl_data_type_t type,
                               const int64_t *strides, const char *what)
{
    E_DNNL(dnnl_memory_desc_init_by_strides(&out->desc, n_dims, dims, type, strides), what);
    return ERR_OK;
}

onednn_md_t onednn_md(const onednn_layout_t *layout)
{
    return &layout->desc;
}

void onednn_layout_free(onednn_layout_t *layout)
{
    *layout = (onednn_layout_t){0};
}

static dnnl_status_t describe_conv(const onednn_product_t *p, dnnl_convolution_desc_t *out)
{
    onednn_md_t x = onednn_md(p->x), weight = onednn_md(p->weight), y = onednn_md(p->y);
    onednn_md_t bias = p->bias ? onednn_md(p->bias) : NULL;
    dnnl_prop_kind_t kind = p->training ? dnnl_forward_training : dnnl_forward_inference;
    if (p->pass == OP_FORWARD)
        return dnnl_dilated_convolution_forward_desc_init(out, kind, p->conv, x, weight, bias, y, p->strides,
                                                          p->dilation, p->padding, p->padding);
    if (p->pass == OP_BACKWARD_DATA)
        return dnnl_dilated_convolution_backward_data_desc_init(out, p->conv, x, weight, y, p->strides,
                                                                p->dilation, p->padding, p->padding);
    return dnnl_dilated_convolution_backward_weights_desc_init(out, p->conv, x, weight, bias, y, p->strides,
                                                               p->dilation, p->padding, p->padding);
}

static dnnl_status_t describe_inner(const onednn_product_t *p, dnnl_inner_product_desc_t *out)
{
    onednn_md_t x = onednn_md(p->x), weight = onednn_md(p->weight), y = onednn_md(p->y);
    onednn_md_t bias = p->bias ? onednn_md(p->bias) : NULL;
    dnnl_prop_kind_t kind = p->training ? dnnl_forward_training : dnnl_forward_inference;
    if (p->pass == OP_FORWARD) return dnnl_inner_product_forward_desc_init(out, kind, x, weight, bias, y);
    if (p->pass == OP_BACKWARD_DATA) return dnnl_inner_product_backward_data_desc_init(out, x, weight, y);
    return dnnl_inner_product_backward_weights_desc_init(out, x, weight, bias, y);
}

static dnnl_status_t offers_find(onednn_offers_t *o, const onednn_product_t *p)
{
    bool conv = p->conv != dnnl_alg_kind_undef;
    dnnl_status_t status = conv ? describe_conv(p, &o->desc.conv) : describe_inner(p, &o->desc.inner);
    if (status != dnnl_success) return status;
    status = dnnl_primitive_desc_iterator_create(&o->iterator, &o->desc, o->attr, onednn_engine(), NULL);
    if (status != dnnl_success) o->iterator = NULL;
    return status;
}

dnnl_primitive_desc_t onednn_offers_next(onednn_offers_t *o)
{
    bool there = o->iterator && (!o->begun || dnnl_primitive_desc_iterator_next(o->iterator) == dnnl_success);
    o->begun = true;
    return there ? dnnl_primitive_desc_iterator_fetch(o->iterator) : NULL;
}

static void offers_forget(onednn_offers_t *o)
{
    if (o->iterator) dnnl_primitive_desc_iterator_destroy(o->iterator);
}

#else

struct onednn_offers {
    dnnl_primitive_desc_t at; /* NULL: none */
    dnnl_primitive_attr_t attr;
    bool begun;
};

err_t onednn_layout_by_tag(onednn_layout_t *out, int n_dims, const int64_t *dims, dnnl_data_type_t type,
                           dnnl_format_tag_t tag, const char *what)
{
    E_DNNL(dnnl_memory_desc_create_with_tag(&out->desc, n_dims, dims, type, tag), what);
    return ERR_OK;
}

err_t onednn_layout_by_strides(onednn_layout_t *out, int n_dims, const int64_t *dims, dnnl_data_type_t type,
                               const int64_t *strides, const char *what)
{
    E_DNNL(dnnl_memory_desc_create_with_strides(&out->desc, n_dims, dims, type, strides), what);
    return ERR_OK;
}

onednn_md_t onednn_md(const onednn_layout_t *layout)
{
    return layout->desc;
}

void onednn_layout_free(onednn_layout_t *layout)
{
    if (layout->desc) dnnl_memory_desc_destroy(layout->desc);
    layout->desc = NULL;
}

static dnnl_status_t find_conv(dnnl_primitive_desc_t *out, const onednn_product_t *p,
                               dnnl_primitive_attr_t attr)
{
    onednn_md_t x = onednn_md(p->x), weight = onednn_md(p->weight), y = onednn_md(p->y);
    onednn_md_t bias = p->bias ? onednn_md(p->bias) : NULL;
    dnnl_prop_kind_t kind = p->training ? dnnl_forward_training : dnnl_forward_inference;
    if (p->pass == OP_FORWARD)
        return dnnl_convolution_forward_primitive_desc_create(out, engine, kind, p->conv, x, weight, bias, y,
                                                              p->strides, p->dilation, p->padding, p->padding,
                                                              attr);
    if (p->pass == OP_BACKWARD_DATA)
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, engine, p->conv, x, weight, y, p->strides, p->dilation, p->padding, p->padding, NULL, attr);
    return dnnl_convolution_backward_weights_primitive_desc_create(out, engine, p->conv, x, weight, bias, y,
                                                                   p->strides, p->dilation, p->padding,
                                                                   p->padding, NULL, attr);
}

static dnnl_status_t find_inner(dnnl_primitive_desc_t *out, const onednn_product_t *p,
                                dnnl_primitive_attr_t attr)
{
    onednn_md_t x = onednn_md(p->x), weight = onednn_md(p->weight), y = onednn_md(p->y);
    onednn_md_t bias = p->bias ? onednn_md(p->bias) : NULL;
    dnnl_prop_kind_t kind = p->training ? dnnl_forward_training : dnnl_forward_inference;
    if (p->pass == OP_FORWARD)
        return dnnl_inner_product_forward_primitive_desc_create(out, engine, kind, x, weight, bias, y, attr);
    if (p->pass == OP_BACKWARD_DATA)
        return dnnl_inner_product_backward_data_primitive_desc_create(out, engine, x, weight, y, NULL, attr);
    return dnnl_inner_product_backward_weights_primitive_desc_create(out, engine, x, weight, bias, y, NULL,
                                                                     attr);
}

static dnnl_status_t offers_find(onednn_offers_t *o, const onednn_product_t *p)
{
    bool conv = p->conv != dnnl_alg_kind_undef;
    dnnl_status_t status = (conv ? find_conv : find_inner)(&o->at, p, o->attr);
    if (status != dnnl_success) o->at = NULL;
    return status;
}

dnnl_primitive_desc_t onednn_offers_next(onednn_offers_t *o)
{
    dnnl_primitive_desc_t copy = NULL;
    bool there = o->at && (!o->begun || dnnl_primitive_desc_next_impl(o->at) == dnnl_success);
    o->begun = true;
    return there && dnnl_primitive_desc_clone(&copy, o->at) == dnnl_success ? copy : NULL;
}

static void offers_forget(onednn_offers_t *o)
{
    if (o->at) dnnl_primitive_desc_destroy(o->at);
}

#endif

void onednn_offers_close(onednn_offers_t **offers)
{
    onednn_offers_t *o = *offers;
    if (!o) return;
    offers_forget(o);
    if (o->attr) dnnl_primitive_attr_destroy(o->attr);
    mem_free(offers);
}

err_t onednn_offers_open(const onednn_product_t *product, const char *what, onednn_offers_t **out)
{
    onednn_offers_t *o;
    TRY(mem_new(sizeof *o, "oneDNN's implementations", &o));
    err_t err = onednn_attr_new(&o->attr);
    if (err == ERR_OK) {
        dnnl_status_t status = offers_find(o, product);
        if (status != dnnl_unimplemented) err = onednn_check(status, what, __FILE__, __LINE__);
    }
    if (err == ERR_OK)
        *out = o;
    else
        onednn_offers_close(&o);
    return err;
}

void onednn_tensors_free(onednn_tensors_t *t)
{
    onednn_layout_t *const layouts[] = {&t->x,     &t->weight,     &t->bias, &t->y,
                                        &t->our_x, &t->our_weight, &t->our_y};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) onednn_layout_free(layouts[i]);
}

typedef struct operand {
    int arg; /* DNNL_ARG_…; 0: absent */
    onednn_md_t ours;
    bool is_output;
} operand_t;

typedef struct link {
    onednn_pass_t reorder; /* between our layout and the primitive's; empty if they are equal */
    size_t offset;         /* of the primitive's copy in the workspace */
    int operand;           /* index of the caller's buffer */
    bool is_output;
} link_t;

struct onednn_chain {
    onednn_pass_t compute;
    link_t link[ONEDNN_OPERANDS];
    int n_links;
    size_t n_copy_bytes; /* copies, before the scratchpad */
    size_t n_scratch_bytes;
};

void onednn_chain_free(onednn_chain_t **chain)
{
    onednn_chain_t *c = *chain;
    if (!c) return;
    onednn_pass_free(&c->compute);
    for (int i = 0; i < c->n_links; i++) onednn_pass_free(&c->link[i].reorder);
    mem_free(chain);
}

static void need_scratch(onednn_chain_t *chain, const onednn_pass_t *pass)
{
    if (pass->n_scratch_bytes > chain->n_scratch_bytes) chain->n_scratch_bytes = pass->n_scratch_bytes;
}

static err_t add_link(onednn_chain_t *chain, const operand_t *ours, onednn_md_t theirs, int operand)
{
    link_t *l = &chain->link[chain->n_links++];
    l->operand = operand;
    l->is_output = ours->is_output;
    if (dnnl_memory_desc_equal(theirs, ours->ours)) return ERR_OK;
    l->offset = chain->n_copy_bytes;
    chain->n_copy_bytes += mem_round(dnnl_memory_desc_get_size(theirs));
    TRY(ours->is_output ? onednn_pass_reorder(&l->reorder, theirs, ours->ours)
                        : onednn_pass_reorder(&l->reorder, ours->ours, theirs));
    need_scratch(chain, &l->reorder);
    return ERR_OK;
}

static err_t chain_fill(onednn_chain_t *chain, const_dnnl_primitive_desc_t desc, op_pass_t pass,
                        const onednn_tensors_t *t)
{
    onednn_md_t x = onednn_md(&t->our_x), y = onednn_md(&t->our_y), weight = onednn_md(&t->our_weight);
    onednn_md_t bias = onednn_md(&t->bias);
    const operand_t operands[OP_PASS_COUNT][ONEDNN_OPERANDS] = {
        [OP_FORWARD] = {{DNNL_ARG_SRC, x, false},
                        {DNNL_ARG_WEIGHTS, weight, false},
                        {DNNL_ARG_DST, y, true},
                        {t->has_bias ? DNNL_ARG_BIAS : 0, bias, false}},
        [OP_BACKWARD_DATA] = {{DNNL_ARG_DIFF_DST, y, false},
                              {DNNL_ARG_WEIGHTS, weight, false},
                              {DNNL_ARG_DIFF_SRC, x, true}},
        [OP_BACKWARD_WEIGHTS] = {{DNNL_ARG_SRC, x, false},
                                 {DNNL_ARG_DIFF_DST, y, false},
                                 {DNNL_ARG_DIFF_WEIGHTS, weight, true},
                                 {t->has_bias ? DNNL_ARG_DIFF_BIAS : 0, bias, true}}};
    onednn_slot_t slots[ONEDNN_OPERANDS];
    for (int i = 0; i < ONEDNN_OPERANDS; i++) {
        const operand_t *operand = &operands[pass][i];
        if (!operand->arg) continue;
        onednn_md_t theirs = dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, operand->arg);
        slots[chain->n_links] = (onednn_slot_t){operand->arg, theirs};
        TRY(add_link(chain, operand, theirs, i));
    }
    TRY(onednn_pass_new(&chain->compute, desc, slots, chain->n_links));
    need_scratch(chain, &chain->compute);
    return ERR_OK;
}

err_t onednn_chain_new(const_dnnl_primitive_desc_t desc, op_pass_t pass, const onednn_tensors_t *tensors,
                       onednn_chain_t **out, size_t *n_workspace_bytes)
{
    onednn_chain_t *chain;
    TRY(mem_new(sizeof *chain, "the plan of a product", &chain));
    err_t err = chain_fill(chain, desc, pass, tensors);
    if (err != ERR_OK) {
        onednn_chain_free(&chain);
        return err;
    }
    *n_workspace_bytes = chain->n_copy_bytes + chain->n_scratch_bytes;
    *out = chain;
    return ERR_OK;
}

err_t onednn_chain_run(const onednn_chain_t *chain, const void *const *buffers, void *workspace)
{
    const void *theirs[ONEDNN_OPERANDS];
    char *scratch = (char *)workspace + chain->n_copy_bytes;
    for (int i = 0; i < chain->n_links; i++) {
        const link_t *l = &chain->link[i];
        const void *ours = buffers[l->operand];
        theirs[i] = l->reorder.primitive ? (char *)workspace + l->offset : ours;
        if (l->reorder.primitive && !l->is_output)
            TRY(onednn_pass_run(&l->reorder, (const void *[]){ours, theirs[i]}, scratch));
    }
    TRY(onednn_pass_run(&chain->compute, theirs, scratch));
    for (int i = 0; i < chain->n_links; i++) {
        const link_t *l = &chain->link[i];
        if (l->reorder.primitive && l->is_output)
            TRY(onednn_pass_run(&l->reorder, (const void *[]){theirs[i], buffers[l->operand]}, scratch));
    }
    return ERR_OK;
}
