/* SPDX-License-Identifier: MIT */
/* retable FILE OLD NEW replaces the first OLD in a checkpoint's table of contents and makes its seal right. */
#include "tests/sealed.h"

int main(int n, char **words)
{
    if (n == 4) return sealed_replace(words[1], "checkpoint", words[2], words[3]) ? ERR_OK : ERR_DATA;
    fprintf(stderr, "usage: retable FILE OLD NEW\n");
    return ERR_USAGE;
}
