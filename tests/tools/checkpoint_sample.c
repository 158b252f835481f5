/* SPDX-License-Identifier: MIT */
/* Writes a small checkpoint with something of every kind: checkpoint_sample PATH. With "many" after it: so many
 * names and attributes that HDF5 stores them in B-trees of two levels and heaps of several blocks. */
#include "tests/unit/checkpoint_sample.h"

enum { N_MANY = 64, N_TEXT = 5000 };

static err_t write_many(const char *path)
{
    static ckpt_array_t arrays[N_MANY];
    static ckpt_attr_t attrs[N_MANY];
    static char names[N_MANY][32], text[N_TEXT + 1];
    memset(text, 'x', N_TEXT);
    for (int i = 0; i < N_MANY; i++) {
        snprintf(names[i], sizeof names[i], "/group/array%d", i);
        arrays[i] = (ckpt_array_t){.name = names[i], .dtype = DTYPE_U8, .shape = shape_1d(1), .data = "x"};
        attrs[i] = i == 0 ? ckpt_text("array0", text) : ckpt_int(names[i] + strlen("/group/"), i);
    }
    const ckpt_content_t content = {arrays, N_MANY, attrs, N_MANY};
    return checkpoint_write(path, &content);
}

int main(int n, char **words)
{
    sample_t sample;
    bool many = n == 3 && strcmp(words[2], "many") == 0;
    if (n != 2 && !many) {
        fprintf(stderr, "usage: checkpoint_sample PATH [many]\n");
        return ERR_USAGE;
    }
    sample_fill(&sample, false);
    err_t err = many ? write_many(words[1]) : checkpoint_write(words[1], &sample.content);
    if (err != ERR_OK) fprintf(stderr, "checkpoint_sample: error: %s\n", err_message());
    return err;
}
