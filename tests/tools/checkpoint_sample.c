/* SPDX-License-Identifier: MIT */
/* Writes a small checkpoint with something of every kind: checkpoint_sample PATH. */
#include "tests/unit/checkpoint_sample.h"

int main(int n, char **words)
{
    sample_t sample;
    if (n != 2) {
        fprintf(stderr, "usage: checkpoint_sample PATH\n");
        return ERR_USAGE;
    }
    sample_fill(&sample, false);
    err_t err = checkpoint_write(words[1], &sample.content);
    if (err != ERR_OK) fprintf(stderr, "checkpoint_sample: error: %s\n", err_message());
    return err;
}
