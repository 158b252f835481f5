/* SPDX-License-Identifier: MIT */
/* Changes a checkpoint in one of the ways of tests/h5_craft.h: h5_craft FILE NAME; h5_craft lists the names. h5_craft FILE OLD
 * NEW overwrites the first place of a text. */
#include "tests/h5_craft.h"

int main(int n, char **words)
{
    for (int i = 0; n == 1 && i < N_CRAFTS; i++) puts(crafts[i].name);
    if (n == 1) return ERR_OK;
    for (int i = 0; n == 3 && i < N_CRAFTS; i++) {
        if (strcmp(words[2], crafts[i].name) != 0) continue;
        if (!craft_patch(words[1], &crafts[i])) return ERR_DATA;
        craft_seal(words[1], "checkpoint", 0);
        return ERR_OK;
    }
    if (n == 4) {
        const craft_t text = {
            .find = words[2], .n_find = strlen(words[2]), .bytes = words[3], .n_bytes = strlen(words[3])};
        if (text.n_bytes != text.n_find || !craft_patch(words[1], &text)) return ERR_DATA;
        craft_seal(words[1], "checkpoint", 0);
        return ERR_OK;
    }
    fprintf(stderr, "usage: h5_craft [FILE NAME | FILE OLD NEW]\n");
    return ERR_USAGE;
}
