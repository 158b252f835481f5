/* SPDX-License-Identifier: MIT */
/* oneDNN's C API with our errors and our memory. A pass is one primitive and its memory objects, created once
 * and run on the caller's buffers. A run allocates nothing: the caller provides scratch memory too. */
#ifndef KERNELS_CPU_ONEDNN_H
#define KERNELS_CPU_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

#include "base/err.h"

/* A layout as oneDNN's functions take it. onednn_offers.h has the other differences between versions. */
#if DNNL_VERSION_MAJOR == 2
typedef const dnnl_memory_desc_t *onednn_md_t;
#elif DNNL_VERSION_MAJOR == 3
typedef const_dnnl_memory_desc_t onednn_md_t;
#else
#error "dptrain's cpu backend is written for oneDNN 2 and 3 (libdnnl-dev of Debian 12 and 13)"
#endif

/* Returns ERR_SYSTEM with oneDNN's name for the failure unless the call succeeds. */
#define E_DNNL(call, what) TRY(onednn_check((call), (what), __FILE__, __LINE__))
err_t onednn_check(dnnl_status_t status, const char *what, const char *file, int line);

/* The engine and stream of this process. May be opened twice, and closed without being open. */
err_t onednn_open(void);
void onednn_close(void);
dnnl_engine_t onednn_engine(void);
/* Such as "oneDNN 2.6.3, avx512_core". */
void onednn_describe(char *out, size_t n_bytes);
/* Whether this CPU has instructions for bfloat16 products. Without them oneDNN may still offer such
 * primitives, but slow ones. */
bool onednn_has_bf16(void);
bool onednn_has_amx(void);

enum { ONEDNN_MAX_ARGS = 6 };

typedef struct onednn_pass {
    dnnl_primitive_t primitive; /* NULL: nothing to run */
    int n_args;                 /* the last is the scratchpad */
    dnnl_exec_arg_t arg[ONEDNN_MAX_ARGS];
    size_t n_scratch_bytes;
} onednn_pass_t;

/* One argument of a pass: DNNL_ARG_… and its layout. */
typedef struct onednn_slot {
    int arg;
    onednn_md_t layout;
} onednn_slot_t;

/* Attributes shared by all primitives here: the caller provides the scratchpad. Free with
 * dnnl_primitive_attr_destroy. */
err_t onednn_attr_new(dnnl_primitive_attr_t *out);

/* Slots with arg 0 are skipped. The caller keeps desc. On an error *pass is empty. */
err_t onednn_pass_new(onednn_pass_t *pass, const_dnnl_primitive_desc_t desc, const onednn_slot_t *slots,
                      int n_slots);
/* A copy from one layout to another; arguments: source, destination. */
err_t onednn_pass_reorder(onednn_pass_t *pass, onednn_md_t from, onednn_md_t to);
/* buffers: in the order of the slots that were not skipped. */
err_t onednn_pass_run(const onednn_pass_t *pass, const void *const *buffers, void *scratch);
void onednn_pass_free(onednn_pass_t *pass);

#endif
