/* SPDX-License-Identifier: MIT */
/* What the launcher reads of others: answers of hosts, hostfiles, lists and specifications, Slurm's slots. The first byte selects which. */
#include <string.h>

#include "base/log.h"
#include "launch/job.h"
#include "tests/fuzz/fuzz.h"

static void must_be_printable(const char *text)
{
    char masked[8192];
    snprintf(masked, sizeof masked, "%s", text);
    print_mask(masked);
    MUST(strlen(text) >= sizeof masked || strcmp(masked, text) == 0);
}

static void answer(const char *text, size_t n)
{
    arena_t arena = {0};
    answer_t a;
    answer_read(text, n, "/opt/a /opt/b", &arena, &a);
    const char *const texts[] = {a.name, a.shell, a.machine, a.program, a.full, a.swept};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) must_be_printable(texts[i]);
    const words_t *const lists[] = {&a.gpu_cpus, &a.fails, &a.same, &a.phases};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        MUST(lists[i]->n <= ANSWER_LINES);
        for (int k = 0; k < lists[i]->n; k++) must_be_printable(lists[i]->at[k]);
    }
    MUST(a.n_addresses <= ANSWER_ADDRESSES && a.n_cores >= -1 && a.n_gpus >= -1 && a.port_high <= 65535);
    MUST(!a.name[0] || word_is_name(a.name));
    MUST(!a.ofi || strcmp(a.ofi, "/opt/a") == 0 || strcmp(a.ofi, "/opt/b") == 0);
    answer_free(&a);
    arena_free(&arena);
}

static void hosts(char kind, const char *text)
{
    hosts_t table = {0};
    const err_t err = kind == 1   ? hosts_read_hostfile(text, "hosts", &table)
                      : kind == 2 ? hosts_read_list(text, &table)
                                  : hosts_read_spec(text, "hosts.yaml", &table);
    MUST(err == ERR_OK || err == ERR_DATA || err == ERR_USAGE);
    MUST(err != ERR_OK || table.n > 0);
    for (int i = 0; i < table.n; i++) {
        must_be_printable(table.at[i].address);
        MUST(table.at[i].address[0] != '-' && table.at[i].slots >= 0 && table.at[i].slots <= HOSTS_MAX_SLOTS);
    }
    hosts_free(&table);
}

static void slurm(const char *text)
{
    int slots[100];
    hosts_slurm_slots(text, slots, 100);
    for (int i = 0; i < 100; i++) MUST(slots[i] >= 1 && slots[i] <= HOSTS_MAX_SLOTS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *text = NULL;
    if (n == 0) return 0;
    MUST(mem_new(n + 1, "an input", &text) == ERR_OK);
    memcpy(text, data + 1, n - 1);
    if (data[0] == 0)
        answer(text, n - 1);
    else if (data[0] <= 3)
        hosts((char)data[0], text);
    else
        slurm(text);
    mem_free(&text);
    return 0;
}
