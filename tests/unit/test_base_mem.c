/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Counted memory: the counters, zeroing, alignment, growing, and requests that cannot be met. */
#include "tests/tap.h"

#include <string.h>

#include "base/mem.h"

static bool all_zero(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i]) return false;
    return true;
}

static void check_counters(void)
{
    int64_t live = mem_live(), count = mem_count(), bytes = mem_live_bytes();
    char *a = NULL, *b = NULL;
    OK_CALL(mem_new(100, "a test", &a), "a block of 100 bytes");
    OK_CALL(mem_new_array(3, 7, "a test", &b), "an array of 3 × 7 bytes");
    OK(mem_live() == live + 2 && mem_count() == count + 2, "two more blocks are counted");
    OK(mem_live_bytes() == bytes + 121, "121 more bytes are counted");
    OK((uintptr_t)a % MEM_ALIGN == 0 && (uintptr_t)b % MEM_ALIGN == 0, "both are aligned");
    OK(all_zero(a, 100) && all_zero(b, 21), "both are zeroed");
    mem_free(&a);
    mem_free(&b);
    OK(!a && !b, "mem_free nulls the pointers");
    mem_free(&a);
    OK(mem_live() == live && mem_live_bytes() == bytes, "freeing balances, and NULL is fine");
    OK(mem_count() == count + 2, "mem_count does not go back");
}

static void check_zero_bytes(void)
{
    char *block = NULL;
    int64_t live = mem_live();
    OK(mem_new(0, "nothing", &block) == ERR_OK && block, "0 bytes give a valid block");
    OK(mem_live() == live + 1, "that is counted");
    mem_free(&block);
}

static void check_resize(void)
{
    char *block = NULL;
    int64_t live = mem_live();
    OK_CALL(mem_resize(8, "a test", &block), "mem_resize makes a block from NULL");
    memset(block, 'x', 8);
    OK_CALL(mem_resize(5000, "a test", &block), "and grows it");
    OK(memcmp(block, "xxxxxxxx", 8) == 0, "old contents are kept");
    OK(all_zero(block + 8, 4992), "the rest is zero");
    OK(mem_live() == live + 1, "it is still one block");
    char *before = block;
    OK(mem_resize(SIZE_MAX, "a test", &block) == ERR_SYSTEM && block == before && block[0] == 'x',
       "growing that fails leaves the block alone");
    mem_free(&block);
    OK(mem_live() == live, "and it is freed once");
}

static void check_grow(void)
{
    int *array = NULL, *before;
    int64_t live = mem_live(), count;
    OK_CALL(mem_grow(0, sizeof *array, "a test", &array), "mem_grow makes a block from NULL");
    OK(array && mem_live() == live + 1, "for no element, too");
    count = mem_count();
    bool kept = true;
    for (int i = 0; i < 10000; i++) {
        kept = kept && mem_grow(i + 1, sizeof *array, "a test", &array) == ERR_OK;
        kept = kept && array[i] == 0;
        array[i] = i;
    }
    for (int i = 0; i < 10000; i++) kept = kept && array[i] == i;
    OK(kept, "10000 elements, added one by one, are kept, and new room is zero");
    OK(mem_count() - count <= 9, "in %d blocks", (int)(mem_count() - count));
    count = mem_count();
    before = array;
    OK_CALL(mem_grow(10000, sizeof *array, "a test", &array), "room that is there");
    OK(array == before && mem_count() == count, "is not made again");
    OK(mem_grow(100000, sizeof *array, "a test", &array) == ERR_OK && array[9999] == 9999 &&
           mem_live() == live + 1,
       "more than twice the room is made at once");
    before = array;
    OK(mem_grow(INT64_MAX, sizeof *array, "the moon", &array) == ERR_SYSTEM &&
           strstr(err_message(), "the moon"),
       "a product that overflows is an error: %s", err_message());
    OK(mem_grow(-1, sizeof *array, "a test", &array) == ERR_SYSTEM, "so is a negative count");
    OK(array == before && array[9999] == 9999, "which leave the block alone");
    mem_free(&array);
}

static void check_impossible(void)
{
    char *block = (char *)&block;
    int64_t count = mem_count();
    OK(mem_new(SIZE_MAX, "the moon", &block) == ERR_SYSTEM, "too much memory is a system error");
    OK(strstr(err_message(), "the moon") != NULL, "whose message says what for: %s", err_message());
    OK(block == (char *)&block, "the pointer is left as it was");
    OK(mem_new_array(INT64_MAX, 16, "x", &block) == ERR_SYSTEM, "a product that overflows is an error");
    OK(mem_new_array(-1, 1, "x", &block) == ERR_SYSTEM, "so is a negative count");
    OK(mem_count() == count, "none of them is counted");
}

static void check_helpers(void)
{
    char *copy = NULL;
    OK(mem_strdup("wörd", &copy) == ERR_OK && strcmp(copy, "wörd") == 0, "mem_strdup copies");
    mem_free(&copy);
    OK(mem_round(0) == 0 && mem_round(1) == 64 && mem_round(64) == 64 && mem_round(65) == 128,
       "mem_round rounds up to 64");
    if (mem_new(10000, "pages", &copy) == ERR_OK) {
        memset(copy, 'y', 10000);
        mem_touch(copy, 10000);
    }
    OK(copy && copy[0] == 'y' && copy[9999] == 'y', "mem_touch changes nothing");
    mem_free(&copy);
}

int main(void)
{
    tap_plan(38);
    check_counters();
    check_zero_bytes();
    check_resize();
    check_grow();
    check_impossible();
    check_helpers();
    OK(mem_live() == 0 && mem_live_bytes() == 0, "nothing is left at the end");
    return tap_done();
}
