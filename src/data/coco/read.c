/* SPDX-License-Identifier: MIT */
/* Feeds a file to the parser, then arranges the records. */
#include "base/mem.h"
#include "data/coco/records.h"
#include "data/coco/stream.h"

static err_t feed_parser(void *context, const void *bytes, size_t n_bytes)
{
    return coco_parser_feed(context, bytes, n_bytes);
}

static err_t read_file(const char *path, coco_progress_t progress, void *context, coco_records_t *records,
                       coco_t *out)
{
    err_t err = ERR_OK;
    coco_parser_t *parser = NULL;
    TRY(coco_parser_new(records, &parser));
    const coco_stream_t stream = {parser, feed_parser, context, progress, &out->encoding};
    TRY_OUT(err, coco_stream(path, &stream));
    TRY_OUT(err, coco_parser_end(parser));
    TRY_OUT(err, coco_arrange(records, out));
out:
    coco_parser_free(&parser);
    return err;
}

err_t coco_read(const char *path, coco_progress_t progress, void *context, coco_t **out)
{
    coco_t *coco = NULL;
    arena_t *kept = NULL;
    coco_records_t records = {0};
    err_t err = ERR_OK;
    TRY_OUT(err, mem_new(sizeof *coco, "COCO's annotations", &coco));
    TRY_OUT(err, mem_new(sizeof *kept, "COCO's annotations", &kept));
    coco->memory = kept;
    err = read_file(path, progress, context, &records, coco);
    *kept = records.kept;
    if (err == ERR_OK) {
        *out = coco;
        coco = NULL;
    } else {
        err_context(err, "%s", path);
    }
out:
    arena_free(&records.arena);
    coco_free(&coco);
    return err;
}

void coco_free(coco_t **coco)
{
    if (!*coco) return;
    if ((*coco)->memory) arena_free((*coco)->memory);
    mem_free(&(*coco)->memory);
    mem_free(coco);
}
