/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Scores of detections: small cases that can be counted, results in memory and as files, and every kind of bad
 * file. Sets that pycocotools scores too: tests/cli/score.bats. */
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/annotation/mask.h"
#include "data/score/score.h"
#include "tests/tap.h"

static char truth_path[64], results_path[64];
static int truth_fd, results_fd;

static void open_memory(int *fd, char path[64])
{
    *fd = memfd_create("score", MFD_CLOEXEC);
    if (*fd < 0) abort();
    snprintf(path, 64, "/proc/self/fd/%d", *fd);
}

static void put(int fd, const char *text)
{
    size_t n = strlen(text);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, n, 0) != (ssize_t)n) abort();
}

#define TRUTHS(annotations)                                                                                     \
    "{\"images\":[{\"id\":9007199254740993,\"file_name\":\"b\",\"width\":40,\"height\":30},"                    \
    "{\"id\":5,\"file_name\":\"a\",\"width\":100,\"height\":100}],\"categories\":[{\"id\":1,\"name\":\"dog\"}," \
    "{\"id\":3,\"name\":\"cat\"}],\"annotations\":[" annotations "]}"
#define TRUTH(id, box, area, more)                                                                           \
    "{\"id\":" #id ",\"image_id\":5,\"category_id\":1,\"bbox\":" box ",\"area\":" #area more "}"
#define FOUND(box, score) "{\"image_id\":5,\"category_id\":1,\"bbox\":" box ",\"score\":" #score "}"

static truths_t *read_truths(const char *text)
{
    truths_t *truths = NULL;
    put(truth_fd, text);
    if (truths_read(truth_path, SPLIT_VAL, NULL, &truths) != ERR_OK) printf("# %s\n", err_message());
    return truths;
}

/* Reads, scores and frees. */
static err_t score_text(const char *truth_text, const char *results_text, score_type_t type, score_t *out)
{
    truths_t *truths = read_truths(truth_text);
    results_t *results = NULL;
    score_t *score = NULL;
    if (!truths) abort();
    put(results_fd, results_text);
    err_t err = results_read(results_path, truths, SCORE_TYPE_COUNT, NULL, &results);
    if (err == ERR_OK) err = score_results(results, truths, type, NULL, &score);
    if (err == ERR_OK) *out = *score;
    score_free(&score);
    results_free(&results);
    truths_free(&truths);
    return err;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-12;
}

/* AP, AP50 and AR100 of boxes. */
static bool gives(const char *truth_text, const char *results_text, double ap, double ap50, double ar)
{
    score_t s = {0};
    bool right = score_text(truth_text, results_text, SCORE_BBOX, &s) == ERR_OK && near(s.numbers[0], ap) &&
                 near(s.numbers[1], ap50) && near(s.numbers[8], ar);
    if (!right)
        printf("# AP %.15g AP50 %.15g AR100 %.15g %s\n", s.numbers[0], s.numbers[1], s.numbers[8],
               err_message());
    return right;
}

static void test_counted(void)
{
#define ONE TRUTHS(TRUTH(7, "[10,10,20,20]", 400, ""))
#define TWO TRUTHS(TRUTH(7, "[10,10,20,20]", 400, "") "," TRUTH(8, "[60,60,20,20]", 400, ""))
    OK(gives(ONE, "[" FOUND("[10,10,20,20]", 0.5) "]", 1, 1, 1), "one object, found");
    OK(gives(ONE, "[" FOUND("[50,50,20,20]", 0.5) "]", 0, 0, 0), "not found");
    OK(gives(ONE, "[" FOUND("[10,10,20,10]", 0.5) "]", .1, 1, .1), "IoU on a threshold is enough");
    OK(gives(TWO, "[" FOUND("[10,10,20,20]", 0.5) "]", 51. / 101, 51. / 101, .5),
       "one of two: precision 1 up to a recall of a half");
    OK(gives(ONE, "[" FOUND("[50,50,20,20]", 0.9) "," FOUND("[10,10,20,20]", 0.5) "]", .5, .5, 1),
       "after a false one");
    OK(gives(ONE, "[" FOUND("[10,10,20,20]", 0.5) "," FOUND("[50,50,20,20]", 0.5) "]", 1, 1, 1),
       "equal scores are taken in the order of the file");
    OK(gives(ONE, "[" FOUND("[10,10,20,20]", 1) "," FOUND("[10,10,20,20]", 0.5) "]", 1, 1, 1),
       "an object is found once");
    OK(gives(TRUTHS(TRUTH(7, "[10,10,20,20]", 400, "") "," TRUTH(8, "[0,0,90,90]", 9, ",\"iscrowd\":1")),
             "[" FOUND("[50,50,20,20]", 1) "," FOUND("[40,40,20,20]", 1) "," FOUND("[10,10,20,20]", 0.5) "]",
             1, 1, 1),
       "a crowd takes any number of detections, which are ignored");
    OK(gives(TRUTHS(TRUTH(7, "[10,10,20,20]", 400, "") "," TRUTH(8, "[60,60,20,20]", 400, ",\"ignore\":1")),
             "[" FOUND("[10,10,20,20]", 0.5) "]", 51. / 101, 51. / 101, .5),
       "\"ignore\" is overwritten by iscrowd, as in pycocotools");
    OK(gives(TRUTHS(TRUTH(0, "[10,10,20,20]", 400, "")), "[" FOUND("[10,10,20,20]", 0.5) "]", 0, 0, 0),
       "id 0 counts as not found, as in pycocotools");
    OK(gives(TRUTHS(TRUTH(8, "[0,0,90,90]", 9, ",\"iscrowd\":1")), "[" FOUND("[10,10,20,20]", 0.5) "]", -1,
             -1, -1),
       "nothing to find");
    OK(gives(TRUTHS(TRUTH(7, "[-50,-10,30,20]", 400, "")), "[" FOUND("[-50,-10,30,20]", 0.5) "]", 1, 1, 1),
       "a box outside its image is the file's");
    OK(gives(
           TRUTHS("{\"id\":1,\"image_id\":9007199254740993,\"category_id\":3,\"area\":9,\"bbox\":[1,1,9,9]}"),
           "[{\"image_id\":9007199254740993,\"category_id\":3.0,\"bbox\":[1,1,9,9],\"score\":-1}]", 1, 1, 1),
       "an image id beyond 2^53, a category id with a fraction of 0");
    OK(gives(ONE,
             "[" FOUND("[10,10,20,20]",
                       0.5) ",{\"image_id\":5,\"category_id\":3,\"bbox\":[1,1,2,2],\"score\":1}]",
             1, 1, 1),
       "a category that occurs only in the results does not count towards the mean");
    OK(gives("{\"images\":[{\"id\":0,\"file_name\":\"a\",\"width\":100,\"height\":100}],\"categories\":["
             "{\"id\":900,\"name\":\"a\"},{\"id\":0,\"name\":\"b\"}],\"annotations\":["
             "{\"id\":4,\"image_id\":0,\"category_id\":0,\"bbox\":[1,1,9,9],\"area\":81},"
             "{\"id\":5,\"image_id\":0,\"category_id\":900,\"bbox\":[1,1,9,9],\"area\":81}]}",
             "[{\"image_id\":0,\"category_id\":0,\"bbox\":[1,1,9,9],\"score\":1}]", .5, .5, .5),
       "categories and images numbered from 0, unsorted, with gaps; one that only the annotations have");
}

/* Results that are near the truths. */
static results_t *make_results(const truths_t *truths, rng_t *rng)
{
    results_t *results = NULL;
    mask_scratch_t scratch = {0};
    rle_t rle = {0};
    char text[4096];
    if (results_new(true, true, &results) != ERR_OK) abort();
    for (int64_t i = 0; i < truths->n_images; i++)
        for (int32_t k = 0; k < 3 * truths->images[i].n_annotations; k++) {
            const truth_image_t *image = &truths->images[i];
            annotation_t a = image->annotations[k / 3];
            detection_t d = {.image = (int32_t)i, .category = a.category, .score = rng_uniform(rng) / 3};
            for (int c = 0; c < 4; c++) d.box[c] = a.box[c] * (.9 + .2 * rng_uniform(rng));
            a.segmentation = SEGMENTATION_NONE;
            memcpy(a.box, d.box, sizeof a.box);
            if (mask_encode(&a, image->width, image->height, &scratch, &rle) != ERR_OK ||
                rle.n * RLE_TEXT_PER_RUN >= (int)sizeof text)
                abort();
            rle_format(&rle, text);
            d.mask = text;
            if (results_add(results, &d) != ERR_OK) abort();
        }
    rle_free(&rle);
    mask_scratch_free(&scratch);
    return results;
}

/* What is scored is what is written. */
static void test_written(void)
{
    truths_t *truths = read_truths(
        TRUTHS(TRUTH(1, "[10,10,20,20]", 400, ",\"segmentation\":[[10,10,30,10,30,30,10,30]]") "," TRUTH(
            2, "[35,40,30,30]", 900,
            ",\"segmentation\":[[35,40,65,40,65,70,36.5,70]]") "," TRUTH(3, "[5,60,40,33]", 1300,
                                                                         ",\"segmentation\":[[5,60,45,60,45,93,5,93]]")));
    rng_t rng = rng_new(11, RNG_TEST, 0);
    char path[] = "/tmp/dptrain-score-XXXXXX";
    int fd = mkstemp(path);
    if (!truths || fd < 0 || close(fd) != 0) abort();
    for (score_type_t type = 0; type < SCORE_TYPE_COUNT; type++) {
        int n_same = 0, n_found = 0;
        enum { N = 20 };
        for (int i = 0; i < N; i++) {
            results_t *results = make_results(truths, &rng), *again = NULL;
            score_t *one = NULL, *two = NULL;
            if (score_results(results, truths, type, NULL, &one) != ERR_OK ||
                results_write(results, truths, type, path) != ERR_OK ||
                results_read(path, truths, SCORE_TYPE_COUNT, NULL, &again) != ERR_OK ||
                score_results(again, truths, type, NULL, &two) != ERR_OK)
                abort();
            bool same = again->n == results->n && again->has[type] && !again->has[!type] &&
                        memcmp(one->numbers, two->numbers, sizeof one->numbers) == 0;
            for (int64_t k = 0; same && k < results->n; k++) {
                const detection_t *x = &results->detections[k], *y = &again->detections[k];
                same = memcmp(&x->score, &y->score, sizeof x->score) == 0 && x->image == y->image &&
                       (type == SCORE_BBOX ? memcmp(x->box, y->box, sizeof x->box) == 0
                                           : strcmp(x->mask, y->mask) == 0);
            }
            n_same += same;
            n_found += one->numbers[0] > 0;
            score_free(&one);
            score_free(&two);
            results_free(&results);
            results_free(&again);
        }
        OK(n_same == N && n_found > N / 2, "%s in memory, written and read: the same bits",
           score_type_names[type]);
    }
    unlink(path);
    truths_free(&truths);
}

static bool refused(const char *text, const char *words)
{
    truths_t *truths = read_truths(ONE);
    results_t *results = NULL;
    if (!truths) abort();
    int64_t n_live = mem_live();
    put(results_fd, text);
    err_t err = results_read(results_path, truths, SCORE_TYPE_COUNT, NULL, &results);
    bool right = err == ERR_DATA && !results && mem_live() == n_live && SAYS("/proc/self/fd/", words);
    if (!right) printf("# got %d of %s\n", err, text);
    results_free(&results);
    truths_free(&truths);
    return right;
}

#define MASK(segmentation)                                                                                   \
    "[{\"image_id\":5,\"category_id\":1,\"score\":1,\"segmentation\":" segmentation "}]"
#define PART(members) "[{\"image_id\":5,\"category_id\":1," members "}]"

/* AP of boxes; -2: an error. */
static double ap_of(const char *text)
{
    score_t s = {0};
    if (score_text(ONE, text, SCORE_BBOX, &s) == ERR_OK) return s.numbers[0];
    printf("# %s: %s\n", text, err_message());
    return -2;
}

/* What other programs write is read as they mean it. */
static void test_taken(void)
{
#define WITH(members)  "[{\"image_id\":5,\"category_id\":1,\"score\":1," members "}]"
#define BOXED(members) WITH("\"bbox\":[10,10,20,20]," members)
    static const char *const boxes[] = {
        BOXED("\"segmentation\":[]"),
        BOXED("\"segmentation\":{}"),
        BOXED("\"segmentation\":null"),
        BOXED("\"segmentation\":\"\""),
        BOXED("\"segmentation\":[[]]"),
        BOXED("\"segmentation\":{\"size\":[],\"counts\":\"\"}"),
        BOXED("\"segmentation\":{\"size\":null,\"counts\":null}"),
        BOXED("\"segmentation\":{\"counts\":[]}"),
        BOXED("\"id\":null,\"area\":\"\",\"iscrowd\":0,\"keypoints\":[1,[2]],\"file_name\":7,"
              "\"category_name\":{\"a\":[{}]},\"bboxes\":[]"),
        "{\"annotations\":" BOXED("\"id\":1") "}",
        "[{\"image_id\":\"000005\",\"category_id\":\"1\",\"score\":\"0.5\",\"bbox\":[\"10\",1e1,\" 20.0\",20]}]",
        "{\"info\":{\"annotations\":1},\"images\":[{\"id\":[]}],\"results\":" BOXED(
            "\"id\":1") ",\"x\":[[1]]}",
        "{\"detections\":" BOXED("\"id\":1") "}",
        "{\"predictions\":" BOXED("\"id\":1") "}"};
    static const char *const masks[] = {"\"bbox\":[],", "\"bbox\":null,", "\"bbox\":{},", "\"bbox\":\"\",",
                                        ""};
    int n_right = 0, n = sizeof boxes / sizeof *boxes, n_masks = sizeof masks / sizeof *masks;
    truths_t *truths = read_truths(ONE);
    results_t *results = NULL;
    char text[256];
    for (int i = 0; i < n; i++) n_right += near(ap_of(boxes[i]), 1);
    OK(n_right == n, "empty masks, other members and an object around the list: %d boxes as if without", n);
    n_right = 0;
    for (int i = 0; truths && i < n_masks; i++) {
        snprintf(text, sizeof text, WITH("%s\"segmentation\":{\"size\":[1e2,\"100\"],\"counts\":[10000]}"),
                 masks[i]);
        put(results_fd, text);
        n_right += results_read(results_path, truths, SCORE_TYPE_COUNT, NULL, &results) == ERR_OK &&
                   results->has[SCORE_SEGM] && !results->has[SCORE_BBOX] && !results->box_areas;
        results_free(&results);
    }
    OK(n_right == n_masks, "empty boxes: masks, with their own areas");
    /* A wanted type. */
    put(results_fd, BOXED("\"segmentation\":[[1,1,9,1,9,9]]"));
    OK(results_read(results_path, truths, SCORE_BBOX, NULL, &results) == ERR_OK && results->has[SCORE_BBOX] &&
           !results->has[SCORE_SEGM],
       "where boxes are wanted, polygons do not matter");
    results_free(&results);
    OK(results_read(results_path, truths, SCORE_SEGM, NULL, &results) == ERR_DATA && !results &&
           SAYS("polygons"),
       "where masks are, they do");
    put(results_fd, BOXED("\"segmentation\":{\"size\":[100,100],\"counts\":[10000]}"));
    OK(results_read(results_path, truths, SCORE_SEGM, NULL, &results) == ERR_OK &&
           !results->has[SCORE_BBOX] && results->has[SCORE_SEGM] && results->box_areas,
       "masks of a file with boxes keep the boxes' areas");
    results_free(&results);
    put(results_fd, BOXED("\"id\":1"));
    OK(results_read(results_path, truths, SCORE_SEGM, NULL, &results) == ERR_DATA &&
           SAYS("segmentation", "segm"),
       "a file without what is wanted is refused");
    for (int i = 0; i < 3; i++) {
        static const char *const empty[] = {"[]", " [\n]\n", "{\"annotations\":[]}"};
        put(results_fd, empty[i]);
        OK(results_read(results_path, truths, SCORE_TYPE_COUNT, NULL, &results) == ERR_OK &&
               results->n == 0 && !results->has[SCORE_BBOX] && !results->has[SCORE_SEGM],
           "no detections: %s", i ? "with blanks, or in an object" : empty[i]);
        results_free(&results);
    }
    truths_free(&truths);
}

/* Results with these categories, refused with these words. Truths: dog 1, cat 3. */
static bool tells(const char *const ids[2], const char *words)
{
    char text[512];
    snprintf(text, sizeof text,
             "[{\"image_id\":5,\"category_id\":%s,\"bbox\":[1,1,2,2],\"score\":1},"
             "{\"image_id\":5,\"category_id\":%s,\"bbox\":[1,1,2,2],\"score\":1}]",
             ids[0], ids[1]);
    return refused(text, words);
}

/* Categories that the ground truth lacks. */
static void test_strangers(void)
{
    OK(tells((const char *[]){"0", "1"}, "result 0 (image 5): category 0 is not") &&
           SAYS("1 to 3", "from 0", "1 for the first (dog)"),
       "rows of the list of categories, from 0");
    OK(tells((const char *[]){"0", "2"}, "category 0 is not") && SAYS("from 0"), "ids that are one less");
    OK(tells((const char *[]){"1", "2"}, "result 1 (image 5): category 2 is not") && SAYS("from 1"),
       "rows, from 1");
    OK(tells((const char *[]){"4", "2"}, "result 0 (image 5): category 4 is not") && SAYS("one more"),
       "ids that are one more");
    OK(tells((const char *[]){"3", "7"}, "result 1 (image 5): category 7 is not") && SAYS("(1 of 2"),
       "one that is just unknown");
    OK(tells((const char *[]){"-9223372036854775808", "9223372036854775807"}, "(2 of 2"), "far ones");
}

static void test_refused(void)
{
    static const struct {
        const char *text, *words;
    } files[] = {
        {"", "it is empty"},
        {" \n", "incomplete"},
        {"{}", "an object; expected a list"},
        {"{\"images\":[{\"id\":5}]}", "an object; expected a list"},
        {"{\"annotations\":{}}", "\"annotations\" is an object; expected a list"},
        {"{\"results\":[],\"predictions\":[]}", "\"results\" and \"predictions\""},
        {"{\"annotations\":[{\"id\":1,\"image_id\":5,\"category_id\":1,\"bbox\":[1,1,2,2]}]}",
         "result 0 (image 5): no \"score\"; without scores it is a list of annotations, which --data takes"},
        {"{\"annotations\":[{\"image_id\":5,\"segmentation\":[[1,1,9,1,9,9]]}]}", "--data"},
        {FOUND("[1,1,2,2]", 1) "\n" FOUND("[1,1,2,2]", 1) "\n", "jq -s"},
        {"{\"record\":\"prediction\",\"image\":\"a.jpg\",\"objects\":[]}\n", "--write-results"},
        {"[7]", "a number; expected an object"},
        {"[" FOUND("[1,1,2,2]", 0.5) ",", "truncated"},
        {"[" FOUND("[1,1,2,2]", 0.5), "truncated"},
        {"[" FOUND("[1,1,2,2]", NaN) "]", "no NaN"},
        {"[" FOUND("[1,1,2,2]", 1e999) "]", "1e999"},
        {"[" FOUND("[1,1,-2,2]", 1) "]", "a negative width, -2"},
        {"[" FOUND("[1,1,2,-1e-9]", 1) "]", "result 0 (image 5): \"bbox\": a negative height"},
        {"[" FOUND("[1,1,2]", 1) "]", "3 numbers"},
        {"[" FOUND("[1,1,2,3,4]", 1) "]", "more than 4"},
        {"[" FOUND("\"1 1 2 2\"", 1) "]", "a string; expected a list of 4 numbers"},
        {"[" FOUND("[]", 1) "]", "no \"bbox\" and no \"segmentation\""},
        {"[" FOUND("[]", 1) ",7]", "no \"bbox\" and no \"segmentation\""},
        {PART("\"bbox\":[1,1,2,2]"), "no \"score\""},
        {PART("\"bbox\":[1,1,2,2],\"scores\":1"), "no \"score\", but \"scores\""},
        {PART("\"boxes\":[1,1,2,2],\"score\":1"), "no \"bbox\", but \"boxes\""},
        {PART("\"bbox\":{\"x\":1},\"score\":1"), "\"bbox\" is an object; expected a list of 4"},
        {PART("\"bbox\":[1,1,2,2],\"score\":\"\""), "\"score\": the string ''"},
        {"[{\"image_id\":\"IMG_5\",\"category_id\":1,\"score\":1}]", "\"image_id\": the string 'IMG_5'"},
        {PART("\"bbox\":[1,1,2,2],\"score\":null"), "null; expected a number"},
        {PART("\"bbox\":[1,1,2,2],\"score\":1,\"score\":2"), "duplicate \"score\""},
        {"[{\"category_id\":1,\"bbox\":[1,1,2,2],\"score\":1}]", "no \"image_id\""},
        {"[{\"image_id\":5,\"bbox\":[1,1,2,2],\"score\":1}]", "no \"category_id\""},
        {"[{\"image_id\":6,\"category_id\":1,\"bbox\":[1,1,2,2],\"score\":1}]",
         "image 6 is not one of the 2"},
        {"[{\"image_id\":5,\"category_id\":2,\"bbox\":[1,1,2,2],\"score\":1}]", "category 2 is not one of"},
        {"[{\"image_id\":5.5,\"category_id\":1,\"bbox\":[1,1,2,2],\"score\":1}]", "5.5 is not"},
        {"[{\"image_id\":99999999999999999999,\"category_id\":1,\"score\":1}]", "not a 64-bit integer"},
        {"[{\"image_id\":9007199254740992,\"category_id\":1,\"bbox\":[1,1,2,2],\"score\":1}]",
         "image 9007199254740992 is not one"},
        {"[{\"image_id\":9.007199254740993e15,\"category_id\":1,\"score\":1}]", "not a 64-bit integer"},
        {"[" FOUND("[1,1,2,2]", 1) "," FOUND("null", 1) "]", "result 1 (image 5): no \"bbox\""},
        {"[" FOUND("[1,1,2,2]", 1) ",{\"image_id\":5,\"category_id\":1,\"score\":1,\"segmentation\":"
                                   "{\"size\":[100,100],\"counts\":\"`h9\"}}]",
         "unlike the first result"},
        {"[" FOUND("[1,1,2,2]", 1) ",{\"image_id\":5,\"category_id\":1,\"bbox\":[1,1,2,2],\"score\":1,"
                                   "\"segmentation\":{\"size\":[100,100],\"counts\":[10000]}}]",
         "--score bbox"},
        {"[null]", "it is null; expected an object"},
        {"[[]]", "it is a list; expected an object"},
        {"null", "it is null; expected a list"},
        {"{\"5\":[{\"image_id\":5}]}", "an object; expected a list"},
        {MASK("[[1,1,9,1,9,9]]"), "a list of polygons"},
        {MASK("[[],[1]]"), "a list of polygons"},
        {MASK("[]"), "no \"bbox\" and no \"segmentation\""},
        {MASK("\"`h9\""), "a string; expected an object with counts and size"},
        {MASK("{\"counts\":\"`h9\"}"), "no \"size\""},
        {MASK("{\"size\":[100,100]}"), "no \"counts\""},
        {MASK("{\"size\":[100],\"counts\":\"`h9\"}"), "no \"size\" of 2"},
        {MASK("{\"size\":[100,99],\"counts\":\"`h9\"}"),
         "99 × 100 pixels (width × height), but the image has 100 × 100"},
        {MASK("{\"size\":[100,100],\"counts\":\"`h8\"}"), "add up to"},
        {MASK("{\"size\":[100,100],\"counts\":\"`h\"}"), "ends within a number"},
        {MASK("{\"size\":[100,100],\"counts\":\"`h 9\"}"), "invalid character"},
        {MASK("{\"size\":[100,100],\"counts\":\"\"}"), "no \"counts\""},
        {MASK("{\"size\":[100,100],\"counts\":null}"), "no \"counts\""},
        {MASK("{\"size\":[100,100],\"counts\":[]}"), "add up to 0"},
        {MASK("{\"size\":[100,100],\"counts\":[10000,-1]}"), "a run of -1"},
        {MASK("{\"size\":[100,100],\"size\":[100,100],\"counts\":[10000]}"), "duplicate \"size\""},
        {MASK("{\"size\":[100,100,3],\"counts\":[10000]}"), "more than 2"},
        {"[{\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}]",
         "deeper than 32"},
    };
    int n_right = 0, n = sizeof files / sizeof *files;
    for (int i = 0; i < n; i++) n_right += refused(files[i].text, files[i].words);
    OK(n_right == n, "%d kinds of bad files are refused by name, place and reason", n);
    test_strangers();
    score_t s;
    OK(score_text(ONE, MASK("{\"size\":[100,100],\"counts\":[10000]}"), SCORE_SEGM, &s) == ERR_DATA &&
           SAYS("annotation 7 (image 5) has no segmentation"),
       "annotations without masks are not scored as masks");
    OK(score_text(ONE, PART("\"bbox\":[10,10,20,20],\"score\":1,\"segmentation\":null,\"x\":{\"y\":[{}]}"),
                  SCORE_BBOX, &s) == ERR_OK &&
           near(s.numbers[0], 1),
       "other members are skipped");
    truths_t *truths = NULL;
    put(truth_fd, TRUTHS(TRUTH(7, "[1,1,2,2]", 4, "") "," TRUTH(7, "[1,1,2,2]", 4, "")));
    OK(truths_read(truth_path, SPLIT_VAL, NULL, &truths) == ERR_DATA && !truths && SAYS("id 7 occurs twice"),
       "annotations with the same id are refused");
    put(truth_fd, TRUTHS(TRUTH(7, "[1,1,2,2]", 4, "") "," TRUTH(7, "[1,1,2,3]", 6, "")));
    OK(truths_read(truth_path, SPLIT_VAL, NULL, &truths) == ERR_DATA && !truths &&
           SAYS("id 7 occurs twice", "jq"),
       "also if they differ");
    put(truth_fd, TRUTHS("{\"image_id\":5,\"category_id\":3,\"area\":4,\"bbox\":[1,1,2,2]}"));
    OK(truths_read(truth_path, SPLIT_VAL, NULL, &truths) == ERR_DATA && !truths &&
           SAYS("1 annotation has no integer"),
       "and annotations without ids: %s", err_message());
}

int main(void)
{
    tap_plan(15 + 2 + 9 + 6 + 6 + 1);
    open_memory(&truth_fd, truth_path);
    open_memory(&results_fd, results_path);
    test_counted();
    test_written();
    test_taken();
    test_refused();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
