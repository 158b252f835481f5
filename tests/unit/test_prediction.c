/* SPDX-License-Identifier: MIT */
/* RUN np=0 : the best classes of an image, and image lists. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "data/load/image_files.h"
#include "tests/folder.h"
#include "tests/tap.h"
#include "train/inference/trained_model.h"
#include "train/task/evaluate.h"

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static void check_rank(void)
{
    const float logits[] = {1, 3, NAN, 3, -INFINITY, 2};
    prediction_class_t best[6];
    prediction_rank(logits, 6, task_get(TASK_CLASSIFY)->scoring->probability, 4, best);
    OK(best[0].class == 1 && best[1].class == 3 && best[2].class == 5 && best[3].class == 0,
       "best first, of equal scores the lower class, NaN last");
    prediction_rank(logits, 6, task_get(TASK_CLASSIFY)->scoring->probability, 6, best);
    OK(best[4].class == 4 && best[5].class == 2, "all classes");
    OK(isnan(best[0].probability), "with NaN among the scores, no probability is known");
    const float finite[] = {0, 1000, 999, -1000};
    prediction_rank(finite, 4, task_get(TASK_CLASSIFY)->scoring->probability, 2, best);
    OK(near(best[0].probability, 1 / (1 + exp(-1))) && near(best[1].probability, 1 / (1 + exp(1))),
       "softmax of large scores, over all classes");
    prediction_rank(finite, 4, task_get(TASK_MULTILABEL)->scoring->probability, 3, best);
    OK(best[2].class == 0 && near(best[2].probability, 0.5) && near(best[0].probability, 1),
       "sigmoid of each");
    prediction_rank(finite, 1, task_get(TASK_CLASSIFY)->scoring->probability, 1, best);
    OK(best[0].class == 0 && near(best[0].probability, 1), "a single class");
}

static bool ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), n_end = strlen(end);
    return n >= n_end && strcmp(path + n - n_end, end) == 0;
}

static void check_list(void)
{
    static const char *const files[] = {"b.png",       "a/2.JPG",     "a/1.jpeg",
                                        "a/notes.txt", ".hidden.png", "c/d/e.png"};
    static const char *const expected[] = {"x.bin", "/a/1.jpeg", "/a/2.JPG", "/b.png", "/c/d/e.png"};
    image_list_t list = {.n = 0};
    bool same = true;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) folder_put(files[i], "", 0);
    if (image_list_add(&list, "x.bin") || image_list_add(&list, folder)) abort();
    for (int64_t i = 0; i < list.n && i < 5; i++) same = same && ends_in(list.paths[i], expected[i]);
    OK(list.n == 5 && same, "a file by its name, and the images below a folder, sorted");
    const char *empty = folder_path("empty");
    if (fs_make_folder(empty)) abort();
    OK(image_list_add(&list, empty) == ERR_DATA && list.n == 5, "a folder without images: %s", err_message());
    image_list_free(&list);
}

int main(void)
{
    tap_plan(6 + 2 + 1);
    check_rank();
    if (!folder_begin()) return 1;
    check_list();
    folder_clear();
    rmdir(folder);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
