/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Blocks that are given back together, and texts that are kept once. */
#include "tests/tap.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static void check_arena(void)
{
    enum { N = 2000 };
    static char *blocks[N];
    arena_t arena = {0};
    int n_bad = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            size_t n_bytes = (size_t)(i * 37 % 300) + (i % 500 == 7 ? 200000 : 0);
            if (arena_new(&arena, n_bytes, &blocks[i]) != ERR_OK) exit(4);
            n_bad += (uintptr_t)blocks[i] % 16 != 0;
            memset(blocks[i], i % 251, n_bytes);
        }
        for (int i = 0; i < N; i++) {
            size_t n_bytes = (size_t)(i * 37 % 300) + (i % 500 == 7 ? 200000 : 0);
            for (size_t b = 0; b < n_bytes; b++) n_bad += (unsigned char)blocks[i][b] != i % 251;
        }
        if (round == 0) {
            OK(n_bad == 0, "blocks are aligned and apart (%d are not)", n_bad);
            arena_reset(&arena);
        } else if (round == 1) {
            int64_t count = mem_count();
            arena_reset(&arena);
            OK(n_bad == 0 && mem_count() == count, "they are again after a reset");
        } else {
            OK(n_bad == 0, "and again");
        }
    }
    const char *text = NULL, *copy = NULL;
    OK(arena_text(&arena, "abcdef", 3, &text) == ERR_OK && strcmp(text, "abc") == 0, "text of some bytes");
    OK(arena_format(&arena, &copy, "%s-%d", text, 7) == ERR_OK && strcmp(copy, "abc-7") == 0,
       "formatted text");
    void *block = NULL;
    OK(arena_new(&arena, SIZE_MAX - 5, &block) == ERR_SYSTEM, "too much is an error: %s", err_message());
    arena_free(&arena);
    OK(mem_live() == 0 && !arena.first, "everything is given back");
}

static void check_intern(void)
{
    enum { N = 5000 };
    static const char *first[N];
    intern_t words = {0};
    char text[32];
    int n_bad = 0;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < N; i++) {
            const char *word = NULL;
            snprintf(text, sizeof text, "%d", i);
            if (intern_text(&words, text, &word) != ERR_OK) exit(4);
            n_bad += strcmp(word, text) != 0 || (round == 1 && word != first[i]);
            first[i] = word;
        }
    OK(n_bad == 0 && words.n == N, "equal texts are one, others are not (%d wrong)", n_bad);
    const char *empty = NULL, *again = NULL;
    OK(intern_text(&words, "", &empty) == ERR_OK && intern_text(&words, "", &again) == ERR_OK &&
           empty == again,
       "no text is one too");
    intern_free(&words);
    OK(mem_live() == 0, "everything is given back");
}

int main(void)
{
    tap_plan(10);
    check_arena();
    check_intern();
    return tap_done();
}
