/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * The parts of a detector's step by rank, from made-up times: what is counted where, the table, the record. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "records/record.h"
#include "tests/small_rcnn.h"
#include "tests/tap.h"
#include "train/output/profile.h"

enum { TEXT = 4096 };

/* Every layer takes 2 s forward and 1 s backward in 3 steps. */
static void test_layers(void)
{
    graph_t *g = small_rcnn(64, 64, 3, 4, 16, 4);
    exec_cost_t *costs = NULL;
    profile_parts_t p = {.waiting = 2};
    must(graph_finish(g), "a graph");
    must(mem_new_array(g->n_nodes, sizeof *costs, "costs", &costs), "costs");
    for (int i = 0; i < g->n_nodes; i++) costs[i] = (exec_cost_t){.forward_sec = 2, .backward_sec = 1};
    profile_parts_add(g, costs, 3, &p);
    double sum = 0;
    bool all = true;
    for (int i = 0; i < RCNN_PARTS; i++) {
        sum += p.part[i];
        all = all && p.part[i] >= 1;
    }
    OK(sum == g->n_nodes && all, "each layer counts in one part, and every part has layers");
    p.total = sum + 2.5;
    OK(profile_parts_other(&p) == 0.5, "the rest of a step is neither in parts nor waiting");
    p.total = sum;
    OK(profile_parts_other(&p) == 0, "and never negative");
    mem_free(&costs);
    graph_free(&g);
}

/* What the table of n ranks prints: waiting is 1 ms on rank 0, 2 ms on rank 1, ...; a step has 10 ms more than that. */
static const char *table_of(const profile_parts_t *ranks, int n, char out[TEXT])
{
    char name[] = "/tmp/test_profile_parts.XXXXXX";
    const int fd = mkstemp(name), kept = dup(STDOUT_FILENO);
    if (fd < 0 || kept < 0) exit(4);
    unlink(name);
    fflush(stdout);
    dup2(fd, STDOUT_FILENO);
    profile_parts_print(ranks, n);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    const ssize_t n_bytes = pread(fd, out, TEXT - 1, 0);
    close(fd);
    out[n_bytes > 0 ? n_bytes : 0] = '\0';
    return out;
}

/* Whether a line of the table begins with these words, apart from spaces. */
static bool has_line(const char *table, const char *words)
{
    for (const char *at = table; at; at = strchr(at, '\n')) {
        if (*at == '\n') at++;
        const char *w = words;
        for (; *at && *at != '\n' && *w; at++) {
            if (*at == ' ') continue;
            while (*w == ' ') w++;
            if (*at != *w) break;
            w++;
        }
        if (!*w) return true;
    }
    return false;
}

static void test_table(const profile_parts_t *ranks)
{
    char text[TEXT];
    table_of(ranks, 2, text);
    OK(has_line(text, "rank trunk pyramid proposals boxes masks waiting other step"), "the columns");
    OK(has_line(text, "0 1.000 1.000 1.000 1.000 1.000 1.000 5.000 11.000") &&
           has_line(text, "1 1.000 1.000 1.000 1.000 1.000 2.000 5.000 12.000"),
       "a row for each rank");
    table_of(ranks, PROFILE_PARTS_ROWS + 1, text);
    OK(has_line(text, "min 1.000 1.000 1.000 1.000 1.000 1.000 5.000 11.000") &&
           has_line(text, "median 1.000 1.000 1.000 1.000 1.000 5.000 5.000 15.000") &&
           has_line(text, "max 1.000 1.000 1.000 1.000 1.000 9.000 5.000 19.000") &&
           !has_line(text, "0 1.000"),
       "of more ranks the least, the median and the greatest");
}

static void test_record(const profile_parts_t *ranks)
{
    static const char *const numbers[] = {"step_sec",         "data_wait_sec", "forward_sec", "backward_sec",
                                          "exposed_comm_sec", "optimizer_sec", "other_sec"};
    json_t j = {0};
    json_reader_t reader = {0};
    const json_value_t *record = NULL;
    json_object_begin(&j, NULL);
    json_string(&j, "record", "profile");
    json_int(&j, "steps", 1);
    json_int(&j, "ranks", 2);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) json_real(&j, numbers[i], 1);
    json_array_begin(&j, "layers");
    json_array_end(&j);
    profile_parts_json(ranks, 2, &j);
    json_array_begin(&j, "hints");
    json_array_end(&j);
    json_object_end(&j);
    OK_CALL(json_read(&reader, j.text, strlen(j.text), &record), "a record with parts");
    OK_CALL(record_check(record), "is as its schema says");
    OK(strstr(j.text, "\"rank\":1,\"trunk_sec\":0.001") && strstr(j.text, "\"exposed_comm_sec\":0.002"),
       "with the seconds of each rank");
    json_reader_free(&reader);
    json_free(&j);
}

int main(void)
{
    profile_parts_t ranks[PROFILE_PARTS_ROWS + 1];
    for (int r = 0; r <= PROFILE_PARTS_ROWS; r++) {
        ranks[r] = (profile_parts_t){.waiting = 1e-3 * (r + 1), .total = 1e-3 * (r + 11)};
        for (int i = 0; i < RCNN_PARTS; i++) ranks[r].part[i] = 1e-3;
    }
    tap_plan(10);
    test_layers();
    test_table(ranks);
    test_record(ranks);
    OK(mem_live() == 0, "everything is given back");
    return tap_done();
}
