/* SPDX-License-Identifier: MIT */
/* RUN np=1,2,3
 *
 * A detector's profile by rank, from made-up times: layers and the host's seconds by part, the order of ranks, the
 * record, and the table of few and of many ranks. */
#include <math.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "compute/ops/backend.h"
#include "tests/mpi/everyone.h"
#include "tests/small_rcnn.h"
#include "train/output/profile.h"

enum { N_STEPS = 4, MANY = PROFILE_PARTS_ROWS + 1, TEXT = 8192 };

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

/* Every layer takes 1 + rank seconds a step forward, and twice that backward. */
static void make_costs(const exec_t *exec, int rank)
{
    exec_cost_t *costs = (exec_cost_t *)(uintptr_t)exec_costs(exec);
    for (int i = 0; i < exec_graph(exec)->n_nodes; i++)
        costs[i] =
            (exec_cost_t){.forward_sec = N_STEPS * (1.0 + rank), .backward_sec = N_STEPS * 2 * (1.0 + rank)};
}

static bool is_rank(const profile_parts_t *p, const graph_t *graph, int rank)
{
    double layers = 0, host[RCNN_PARTS] = {[RCNN_PROPOSALS] = 3, [RCNN_MASK] = 5};
    bool ok = near(p->host, 8) && near(p->waiting, 10.0 + rank) && near(p->total, 100000);
    for (int part = 0; part < RCNN_PARTS; part++) {
        int n = 0;
        for (int i = 0; i < graph->n_nodes; i++) n += (int)rcnn_part(&graph->nodes[i]) == part;
        ok &= n > 0 && near(p->part[part], 3.0 * (1 + rank) * n + host[part]);
        layers += p->part[part];
    }
    return ok && near(profile_parts_other(p), 100000 - layers - 10 - rank);
}

/* What `print` logs, on rank 0. */
static void catch_table(const profile_parts_t *ranks, int n, char out[TEXT])
{
    FILE *file = tmpfile();
    ASSERT(file);
    fflush(stdout);
    const int before = dup(STDOUT_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    profile_parts_print(ranks, n);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    rewind(file);
    out[fread(out, 1, TEXT - 1, file)] = '\0';
    fclose(file);
}

static int count_lines(const char *text)
{
    int n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static void test_gather(comm_t *comm, const exec_t *exec)
{
    const profile_split_t sums = {.comm = N_STEPS * (10.0 + comm->rank), .total = N_STEPS * 100000.0};
    const backend_t *backend;
    char why[BACKEND_WHY_MAX];
    must(backend_find("ref", &backend, why), "a backend");
    const profile_run_t run = {.exec = exec,
                               .backend = backend,
                               .sums = &sums,
                               .n_steps = N_STEPS,
                               .n_layer_steps = N_STEPS,
                               .boxes_sec = N_STEPS * 3.0,
                               .masks_sec = N_STEPS * 5.0};
    profile_t p = {0};
    json_t j = {0};
    char text[TEXT];
    make_costs(exec, comm->rank);
    OK_ALL(profile_gather(comm, &run, &p) == ERR_OK && p.ranks, "a detector's profile");
    bool right = true;
    for (int r = 0; r < comm->size; r++) right &= is_rank(&p.ranks[r], exec_graph(exec), r);
    OK_ALL(right, "layers, the host's seconds and waiting of each rank");
    json_object_begin(&j, NULL);
    profile_json(&p, &j);
    json_object_end(&j);
    const char *parts = strstr(j.text, "\"parts\":[{\"rank\":0,\"trunk_sec\":");
    OK_ALL(parts && strstr(parts, "\"host_sec\":8,\"exposed_comm_sec\":10,") && strstr(parts, "\"hints\""),
           "are in the record");
    json_free(&j);
    catch_table(p.ranks, comm->size, text);
    OK_ALL(!log_speaks() || (count_lines(text) == 2 + comm->size && strstr(text, "\n  0  ")),
           "and in a table");
    profile_free(&p);
}

/* Rank r waits 1 + r seconds, and is busy in the trunk for the rest of 20. */
static void test_many(void)
{
    profile_parts_t ranks[MANY];
    char text[TEXT];
    for (int r = 0; r < MANY; r++)
        ranks[r] = (profile_parts_t){.part = {[RCNN_TRUNK] = 19.0 - r}, .waiting = 1.0 + r, .total = 20};
    catch_table(ranks, MANY, text);
    OK_ALL(!log_speaks() ||
               (count_lines(text) == 5 && strstr(text, "\n  min     11000.000  ") &&
                strstr(text, "\n  median  15000.000 ") && strstr(text, "\n  max     19000.000 ") &&
                strstr(text, " 9000.000 ") && !strstr(text, "\n  8 ")),
           "of many ranks, quantiles");
}

int main(void)
{
    comm_t *comm = NULL;
    const comm_options_t options = {.name = "mpi", .timeout_sec = 60, .abort_job = abort_job};
    if (comm_open(&options, &comm) != ERR_OK) return 1;
    tap_quiet = !log_speaks();
    tap_plan(6);
    const backend_t *backend;
    char why[BACKEND_WHY_MAX];
    graph_t *graph = small_rcnn(64, 64, 3, 4, 64, 4);
    exec_t *exec = NULL;
    float *params = NULL, *states = NULL;
    must(graph_finish(graph), "a graph");
    must(backend_find("ref", &backend, why), "a backend");
    must(backend_open(backend, 1), "a backend");
    must(mem_new_array(2 * graph->n_flat_params, sizeof *params, "weights", &params), "weights");
    must(mem_new_array(graph->n_flat_states, sizeof *states, "states", &states), "states");
    const exec_options_t exec_options = {.graph = graph,
                                         .backend = backend,
                                         .params = params,
                                         .grads = params + graph->n_flat_params,
                                         .states = states};
    must(exec_new(&exec_options, &exec), "an executor");
    test_gather(comm, exec);
    test_many();
    exec_free(&exec);
    graph_free(&graph);
    mem_free(&params);
    mem_free(&states);
    if (backend->close) backend->close();
    comm_close(&comm);
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
