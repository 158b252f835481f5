/* SPDX-License-Identifier: MIT */
/* RUN np=0 : the metrics of tasks, and targets. */
#include <math.h>
#include <string.h>

#include "tests/tap.h"
#include "train/guard/target.h"
#include "train/task/task.h"

static task_metrics_t metrics_of(transform_task_t task, int n_classes)
{
    const dataset_info_t info = {.task = task, .n_classes = n_classes};
    return task_metrics(&info, false);
}

static void check_tables(void)
{
    static const transform_task_t ids[] = {TASK_CLASSIFY, TASK_MULTILABEL, TASK_CROPS};
    for (int i = 0; i < 3; i++) {
        const task_t *task = task_get(ids[i]);
        OK(strcmp(task->name, transform_tasks[ids[i]]) == 0, "%s: the name of --task", task->name);
        int n_main = 0, n_plateau = 0;
        for (const task_metric_t *m = task->metrics; m->name; m++)
            n_main += m->is_main, n_plateau += m->steers_plateau;
        OK(n_main == 1 && n_plateau == 1, "one main metric, and one for --schedule plateau");
    }
    task_metrics_t few = metrics_of(TASK_AUTO, 20), many = metrics_of(TASK_CROPS, 21);
    OK(few.n == 2 && task_metrics_find(&few, "top5") == -1, "20 classes: no top-5");
    OK(many.n == 3 && task_metrics_find(&many, "top5") == 2 && many.main == 1, "more: top-5 too");
}

static void check_detection(void)
{
    const dataset_info_t info = {.task = TASK_DETECT, .n_classes = 91};
    const task_metrics_t boxes = task_metrics(&info, false), masks = task_metrics(&info, true);
    OK(strcmp(boxes.at[boxes.main]->name, "ap_box") == 0 && task_metrics_find(&boxes, "loss_mask") < 0,
       "a detector without masks is judged by its boxes");
    OK(strcmp(masks.at[masks.main]->name, "ap_mask") == 0 && masks.plateau == masks.main,
       "one with masks by these");
    const double sums[TASK_N_SUMS] = {[TASK_SUM_LOSS] = 6, [TASK_SUM_FOUND] = 3, [TASK_SUM_OBJECTS] = 4};
    double values[TASK_MAX_METRICS];
    task_metrics_of_training(&masks, sums, 2, values);
    const int recall = task_metrics_find(&masks, "recall");
    OK(values[0] > 2.999 && values[0] < 3.001 && values[recall] > 0.749 && values[recall] < 0.751,
       "losses are means over images, recall over objects");
    const double none[TASK_N_SUMS] = {1};
    task_metrics_of_training(&masks, none, 2, values);
    OK(isnan(values[recall]), "without objects there is no recall");
    json_t j = {0};
    json_object_begin(&j, NULL);
    task_metrics_json(&masks, "val_", false, values, &j);
    json_object_end(&j);
    OK(!strstr(j.text, "loss") && strstr(j.text, "val_ap_small_mask"), "evaluations measure no losses");
    json_free(&j);
}

static void check_order(void)
{
    task_metrics_t m = metrics_of(TASK_CLASSIFY, 10);
    OK(task_metric_better(m.at[0], 1, 2) && !task_metric_better(m.at[0], 2, 2), "a lower loss is better");
    OK(task_metric_better(m.at[1], 0.2, 0.1), "a higher accuracy");
    OK(task_metric_better(m.at[1], 0, NAN) && !task_metric_better(m.at[1], NAN, 0) &&
           !task_metric_better(m.at[0], NAN, NAN),
       "any number is better than none");
}

static void check_texts(void)
{
    task_metrics_t m = metrics_of(TASK_MULTILABEL, 80);
    const double sums[TASK_N_SUMS] = {3, 5}, evaluated[TASK_MAX_METRICS] = {0.25, NAN, 0.5};
    double values[TASK_MAX_METRICS];
    char text[TASK_TEXT_MAX];
    json_t j = {0};
    task_metrics_of_training(&m, sums, 2, values);
    OK(values[0] > 1.4999 && values[0] < 1.5001 && isnan(values[2]), "training measures the loss alone");
    task_metrics_text(&m, evaluated, text);
    OK(strcmp(text, "loss 0.2500 mAP 0.5000") == 0, "values in words: %s", text);
    json_object_begin(&j, NULL);
    task_metrics_json(&m, "val_", false, evaluated, &j);
    task_metrics_json(&m, "train_", true, values, &j);
    json_object_end(&j);
    OK(strcmp(j.text, "{\"val_loss\":0.25,\"val_accuracy\":null,\"val_map\":0.5,\"train_loss\":1.5,"
                      "\"train_accuracy\":null}") == 0,
       "and in records, with the nulls of earlier versions: %s", j.text);
    json_free(&j);
}

static void check_targets(void)
{
    task_metrics_t m = metrics_of(TASK_CLASSIFY, 10);
    train_target_t loss, main, none;
    double best[TASK_MAX_METRICS] = {NAN, NAN};
    OK_CALL(train_target_make("loss=0.5", 0, &m, &loss), "a target for the loss");
    OK_CALL(train_target_make(NULL, 0.9, &m, &main), "one for the main metric");
    OK_CALL(train_target_make(NULL, 0, &m, &none), "none");
    OK(!train_target_reached(&loss, &m, best) && !train_target_reached(&none, &m, best),
       "nothing is reached yet");
    best[0] = 0.5, best[1] = 0.9;
    OK(train_target_reached(&loss, &m, best) && train_target_reached(&main, &m, best) &&
           !train_target_reached(&none, &m, best),
       "the value itself reaches it");
    best[0] = 0.6, best[1] = 0.8;
    OK(!train_target_reached(&loss, &m, best) && !train_target_reached(&main, &m, best), "in its direction");
    OK(train_target_judge(&main, &m, best) == ERR_GATE && strstr(err_message(), "accuracy was 0.8000"),
       "a missed target: %s", err_message());
    OK(train_target_make("map=1", 0, &m, &loss) == ERR_USAGE && strstr(err_message(), "loss, accuracy"),
       "another task's metric: %s", err_message());
    OK(train_target_make("accuracy=98.5", 0, &m, &loss) == ERR_USAGE &&
           strstr(err_message(), "write accuracy=0.985") &&
           train_target_make("accuracy=-1", 0, &m, &loss) == ERR_USAGE,
       "a percentage instead of a fraction: %s", err_message());
    OK_CALL(train_target_make("loss=98.5", 0, &m, &loss), "a loss may be any number");
}

int main(void)
{
    tap_plan(8 + 5 + 3 + 3 + 10);
    check_tables();
    check_detection();
    check_order();
    check_texts();
    check_targets();
    return tap_done();
}
