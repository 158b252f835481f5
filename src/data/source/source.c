/* SPDX-License-Identifier: MIT */
/* Dispatches calls to the kind of source. registry.c lists the kinds. */
#include "data/source/source.h"

#include "base/log.h"
#include "base/mem.h"

void source_close(source_t **source)
{
    if (!*source) return;
    (*source)->ops->close(*source);
    mem_free(source);
}

err_t source_read(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                  sample_t *out)
{
    ASSERT(index >= 0 && index < source->n_samples[split]);
    return source->ops->read(source, split, index, buffer, out);
}

err_t source_describe(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                      sample_t *out)
{
    ASSERT(index >= 0 && index < source->n_samples[split]);
    return (source->ops->describe ? source->ops->describe : source->ops->read)(source, split, index, buffer,
                                                                               out);
}

err_t source_info(const sample_t *sample, const char *name, image_info_t *out)
{
    TRY(image_info((image_bytes_t){name, sample->bytes, sample->n_bytes}, out));
    if (!sample->shown) return ERR_OK;
    out->stored_width = out->width;
    out->stored_height = out->height;
    out->orientation = 1;
    return ERR_OK;
}

void source_free_buffer(const source_t *source, source_buffer_t *buffer)
{
    if (source->ops->free_buffer) source->ops->free_buffer(buffer);
    mem_free(&buffer->block);
    *buffer = (source_buffer_t){0};
}

void source_warn_notes(const source_t *source)
{
    int n;
    for (const char *rest = source->notes, *line; (line = print_next_line(&rest, &n));)
        if (n > 0) log_warn("%.*s", n, line);
}

int64_t source_stored_bytes(const source_t *source, const source_entry_t *entry)
{
    return source->ops->raw ? (int64_t)entry->width * entry->height : entry->n_bytes;
}
