/* SPDX-License-Identifier: MIT */
/* RUN device=ref,cpu san=cpu : the time of a training step runs within its limit, for any kind of loss, and leaves
 * nothing behind. */
#include <math.h>

#include "base/mem.h"
#include "compute/graph/measure.h"
#include "compute/models/model.h"
#include "tests/op_util.h"
#include "tests/tap.h"
#include "train/start/train.h"

static graph_t *build(const char *name, bool multi_label)
{
    graph_t *graph = NULL;
    model_options_t options = {
        .sample = shape_3d(28, 28, 1), .n_classes = 10, .compute = DTYPE_F32, .multi_label = multi_label};
    must(model_build(name, &options, &graph), name);
    return graph;
}

int main(int argc, char **argv)
{
    const backend_t *device = util_open(argc, argv, 1);
    tap_plan(6);
    graph_t *lenet = build("lenet5", false), *many = build("mnist-cnn-bn", true);
    const int64_t before = mem_live();
    step_time_t time;
    OK(fabs(measure_step_macs(lenet, 4) - 3 * 4 * 2293000.0) < 0.5, "three times the forward pass: %g",
       measure_step_macs(lenet, 4));
    OK(trial_batch_for(2.3e6) == 64 && trial_batch_for(4.1e9) == 4 && trial_batch_for(15.5e9) == 1 &&
           trial_batch_for(1e12) == 1,
       "dptrain bench step: large models have smaller batches");
    must(measure_step(lenet, device, 4, 600, &time), "a step");
    OK(time.sec > 0 && time.sec < 600, "a step of LeNet-5: %g s", time.sec);
    must(measure_step(many, device, 2, 600, &time), "a step");
    OK(time.sec > 0 && time.sec < 600, "with several labels, batch norm and dropout: %g s", time.sec);
    must(measure_step(lenet, device, 4, 0, &time), "a step");
    OK(isinf(time.sec), "no result without time to measure");
    OK(mem_live() == before, "all memory was freed");
    graph_free(&lenet), graph_free(&many);
    return tap_done();
}
