/* SPDX-License-Identifier: MIT */
/* Layouts and implementations of oneDNN 2 and 3. Version 2 describes an operation in a struct and iterates over
 * implementations; in 3 a primitive descriptor steps from one implementation to the next. */
#include "kernels/cpu/onednn_offers.h"

#include <string.h>

#include "base/mem.h"

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
    if (p->direction == ONEDNN_FORWARD)
        return dnnl_dilated_convolution_forward_desc_init(out, kind, p->conv, x, weight, bias, y, p->strides,
                                                          p->dilation, p->padding, p->padding);
    if (p->direction == ONEDNN_BACKWARD_DATA)
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
    if (p->direction == ONEDNN_FORWARD)
        return dnnl_inner_product_forward_desc_init(out, kind, x, weight, bias, y);
    if (p->direction == ONEDNN_BACKWARD_DATA)
        return dnnl_inner_product_backward_data_desc_init(out, x, weight, y);
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
    dnnl_engine_t engine = onednn_engine();
    dnnl_prop_kind_t kind = p->training ? dnnl_forward_training : dnnl_forward_inference;
    if (p->direction == ONEDNN_FORWARD)
        return dnnl_convolution_forward_primitive_desc_create(out, engine, kind, p->conv, x, weight, bias, y,
                                                              p->strides, p->dilation, p->padding, p->padding,
                                                              attr);
    if (p->direction == ONEDNN_BACKWARD_DATA)
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
    dnnl_engine_t engine = onednn_engine();
    dnnl_prop_kind_t kind = p->training ? dnnl_forward_training : dnnl_forward_inference;
    if (p->direction == ONEDNN_FORWARD)
        return dnnl_inner_product_forward_primitive_desc_create(out, engine, kind, x, weight, bias, y, attr);
    if (p->direction == ONEDNN_BACKWARD_DATA)
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
