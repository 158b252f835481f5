/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * COCO's annotations: a good file in every part, what is mended and counted, every kind of bad file, files
 * cut and damaged everywhere, large ones, and coco_tiny's known numbers. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/fs.h"
#include "base/mem.h"
#include "data/coco/coco.h"
#include "tests/tap.h"

#undef OF /* zlib.h's */

/* Parts of files. */
#define IMAGE_7    "{\"id\":7,\"file_name\":\"b/7.jpg\",\"width\":4,\"height\":3}"
#define CATEGORY_3 "{\"id\":3,\"name\":\"dog\"}"
#define FILE_OF(annotations)                                                                                 \
    "{\"images\":[" IMAGE_7 "],\"categories\":[" CATEGORY_3 "],\"annotations\":[" annotations "]}"
#define ANNOTATION(more)        "{\"id\":1,\"image_id\":7,\"category_id\":3,\"area\":6,\"bbox\":[0,0,2,3]" more "}"
#define SEGMENTED(segmentation) FILE_OF(ANNOTATION(",\"segmentation\":" segmentation))

static const char good[] =
    "{\"info\":{\"deep\":[[{\"images\":[1,null,true]}]]},\"annotations\":["
    "{\"segmentation\":[[0,0,2.5,0,2.5,2],[1,1,3,1,3,2,1.25,2]],\"area\":4.5,\"iscrowd\":0,\"image_id\":7,"
    "\"bbox\":[0,0,3,2],\"category_id\":3,\"id\":11,\"attributes\":{\"a\":[1,{}]},\"keypoints\":[1,2,3]},"
    "{\"id\":12,\"image_id\":5,\"category_id\":1,\"iscrowd\":1,\"area\":2,\"bbox\":[0,0,1,2],"
    "\"segmentation\":{\"counts\":[1,3,2],\"size\":[3,2]}},"
    "{\"id\":13,\"image_id\":7,\"category_id\":1,\"area\":1e1,\"bbox\":[1,1,1,1],\"iscrowd\":true,"
    "\"segmentation\":{\"size\":[3,4],\"other\":{},\"counts\":\"1;\"}},"
    "{\"id\":14,\"image_id\":7,\"category_id\":3,\"area\":0,\"bbox\":[1,1,1,1],\"segmentation\":[]},"
    "{\"id\":15,\"image_id\":7,\"category_id\":3,\"area\":0,\"bbox\":[1.1,1,1,1],\"segmentation\":null}],"
    "\"categories\":[" CATEGORY_3 ",{\"supercategory\":\"person\",\"id\":1,\"name\":\"m\\u00e4n\"}],"
    "\"images\":[" IMAGE_7
    ",{\"width\":2,\"coco_url\":\"http:\\/\\/x\",\"height\":3,\"id\":5,\"file_name\":\"5.jpg\"},"
    "{\"id\":6,\"file_name\":\"6.png\",\"width\":1,\"height\":1}]}";

static err_t read_bytes(const char *text, size_t n_bytes, coco_t **out)
{
    char path[64];
    int fd = memfd_create("coco", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text, n_bytes) != (ssize_t)n_bytes) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    err_t err = coco_read(path, NULL, NULL, out);
    close(fd);
    return err;
}

/* The text is refused as bad data, in a message that names the file and says the words; nothing leaks. */
static bool refused(const char *text, const char *words)
{
    coco_t *coco = NULL;
    int64_t n_live = mem_live();
    err_t err = read_bytes(text, strlen(text), &coco);
    bool right = err == ERR_DATA && !coco && mem_live() == n_live && SAYS("/proc/self/fd/", words);
    if (!right) printf("# got %d of %s\n", err, text);
    coco_free(&coco);
    return right;
}

static void test_good(void)
{
    coco_t *coco = NULL;
    OK_CALL(read_bytes(good, strlen(good), &coco), "a file with all of it, and more than is needed");
    if (!coco) exit(1);
    const category_t *c = coco->categories;
    OK(coco->n_categories == 2 && c[0].id == 1 && strcmp(c[0].name, "m\xc3\xa4n") == 0 &&
           strcmp(c[0].supergroup, "person") == 0 && c[1].id == 3 && strcmp(c[1].name, "dog") == 0 &&
           strcmp(c[1].supergroup, "") == 0,
       "categories by id");
    const coco_image_t *i = coco->images;
    OK(coco->n_images == 3 && i[0].id == 5 && i[0].width == 2 && i[0].height == 3 &&
           strcmp(i[0].name, "5.jpg") == 0 && i[1].id == 6 && i[1].n_annotations == 0 && i[2].id == 7 &&
           strcmp(i[2].name, "b/7.jpg") == 0,
       "images by id, one without annotations");
    OK(coco->n_annotations == 5 && i[0].n_annotations == 1 && i[2].n_annotations == 4 &&
           i[2].annotations[0].id == 11 && i[2].annotations[1].id == 13 && i[2].annotations[3].id == 15,
       "annotations with their images, in the order of the file");
    const annotation_t *a = &i[2].annotations[0];
    OK(a->category == 1 && !a->crowd && a->area == 4.5 && a->box[2] == 3 &&
           a->segmentation == SEGMENTATION_POLYGONS && a->n_polygons == 2 && a->n_points[0] == 3 &&
           a->n_points[1] == 4 && a->points[2] == 2.5F && a->points[6] == 1 && a->points[12] == 1.25F &&
           a->points[13] == 2,
       "polygons");
    a = &i[0].annotations[0];
    OK(a->category == 0 && a->crowd && a->segmentation == SEGMENTATION_RLE && a->n_runs == 3 &&
           a->runs[0] == 1 && a->runs[1] == 3 && a->runs[2] == 2,
       "runs");
    a = &i[2].annotations[1];
    OK(a->crowd && a->area == 10 && a->segmentation == SEGMENTATION_RLE && a->n_runs == 2 &&
           a->runs[0] == 1 && a->runs[1] == 11,
       "compressed runs");
    a = &i[2].annotations[2];
    OK(a[0].segmentation == SEGMENTATION_NONE && a[1].segmentation == SEGMENTATION_NONE && a[0].area == 0 &&
           a[1].box[0] == 1.1,
       "no segmentation, and an area of 0 that is the source's word");
    const coco_flaws_t *f = &coco->flaws;
    OK(f->cut.n + f->empty.n + f->thin.n + f->duplicates.n == 0, "nothing had to be mended");
    coco_free(&coco);
}

/* Evaluation sees the file's annotations where training's were mended. */
static void test_truths(void)
{
    coco_t *coco = NULL;
    static const char text[] = FILE_OF(
        "{\"id\":4,\"image_id\":7,\"category_id\":3,\"area\":6,\"bbox\":[-1,1,3,7]},"
        "{\"id\":2,\"image_id\":7,\"category_id\":3,\"area\":6,\"bbox\":[9,9,3,7],\"iscrowd\":1},"
        "{\"id\":4,\"image_id\":7,\"category_id\":3,\"area\":6,\"bbox\":[0,0,1,1]},"
        "{\"id\":1,\"image_id\":7,\"category_id\":3,\"area\":6,\"bbox\":[0,0,2,3],\"segmentation\":[[1,2,3,4]]},"
        "{\"id\":8,\"image_id\":7,\"category_id\":3,\"area\":6,\"bbox\":[0,0,2,3],\"segmentation\":"
        "[[0.1,0,1.005,1,0,2.33333333333]]}");
    OK_CALL(read_bytes(text, strlen(text), &coco), "a file with much to mend");
    if (!coco) exit(1);
    const coco_image_t *i = coco->images;
    const annotation_t *a = i->annotations, *t = i->truths;
    OK(i->n_annotations == 4 && a[0].id == 4 && a[0].box[0] == 0 && a[0].box[2] == 2 && a[1].id == 4 &&
           a[2].id == 1 && a[2].segmentation == SEGMENTATION_NONE && a[3].id == 8 && i->n_truths == 5 &&
           t[0].id == 4 && t[1].id == 2 && t[2].id == 4 && t[3].id == 1 && t[4].id == 8,
       "truths are all annotations, in the order of the file");
    OK(t && t[0].box[0] == -1 && t[0].box[2] == 3 && t[0].box[3] == 7 && t[1].box[0] == 9 && t[1].crowd &&
           t[3].segmentation == SEGMENTATION_NONE,
       "with the file's boxes");
    OK(a[3].exact && a[3].exact[2] == 1.005 && a[3].exact[5] == 2.33333333333 && a[3].points[2] == 1.005F,
       "points are exact where floats are not");
    coco_free(&coco);
    OK(read_bytes(good, strlen(good), &coco) == ERR_OK && !coco->images[2].truths &&
           coco->images[2].n_truths == 0 && !coco->images[2].annotations[0].exact,
       "nothing mended: there are no others");
    coco_free(&coco);
}

/* The only annotation's box as it is kept; false: it was left out. */
static bool keeps_box(const char *box, double x, double y, double width, double height, int n_cut)
{
    char text[1024];
    coco_t *coco = NULL;
    snprintf(text, sizeof text, FILE_OF("{\"id\":1,\"image_id\":7,\"category_id\":3,\"area\":6,\"bbox\":%s}"),
             box);
    if (read_bytes(text, strlen(text), &coco) != ERR_OK) return false;
    const annotation_t *a = coco->images[0].annotations;
    bool there = coco->n_annotations == 1 && a->box[0] == x && a->box[1] == y && a->box[2] == width &&
                 a->box[3] == height && coco->flaws.cut.n == n_cut && coco->flaws.cut.first == n_cut &&
                 coco->flaws.empty.n == 0;
    if (coco->n_annotations == 0)
        there =
            width == 0 && coco->flaws.empty.n == 1 && coco->flaws.empty.first == 1 && coco->flaws.cut.n == 0;
    coco_free(&coco);
    return there;
}

static void test_flaws(void)
{
    OK(keeps_box("[0.1,0.2,3.9,2.8]", 0.1, 0.2, 3.9, 2.8, 0), "a box as it is");
    OK(keeps_box("[0.1,0.2,3.905,2.8]", 0.1, 0.2, 3.9, 2.8, 0),
       "one that rounding makes too large: cut, not counted");
    OK(keeps_box("[-1,1,3,7]", 0, 1, 2, 2, 1), "one that reaches beyond the image is cut");
    OK(keeps_box("[-1e300,-3,1.5e300,1e9]", 0, 0, 4, 3, 1), "one that is far larger");
    OK(keeps_box("[4,0,3,1]", 0, 0, 0, 0, 0) && keeps_box("[0,-9,3,9]", 0, 0, 0, 0, 0) &&
           keeps_box("[1e308,0,1e308,1]", 0, 0, 0, 0, 0),
       "one outside is left out");
    OK(keeps_box("[1,1,0,1]", 0, 0, 0, 0, 0) && keeps_box("[1,1,1,0]", 0, 0, 0, 0, 0) &&
           keeps_box("[1,1,0,0]", 0, 0, 0, 0, 0),
       "one without area is left out");
}

#define OBJECT(id, area, box)                                                                                \
    "{\"id\":" id ",\"image_id\":7,\"category_id\":3,\"area\":" area ",\"bbox\":" box "}"

/* Reads a text, or ends the test. */
static coco_t *read_text(const char *text)
{
    coco_t *coco = NULL;
    if (read_bytes(text, strlen(text), &coco) == ERR_OK) return coco;
    printf("# %s\n", err_message());
    exit(1);
}

typedef struct told {
    int n;
    char text[2048];
} told_t;

static void add_line(void *context, coco_effect_t effect, const char *line)
{
    (void)effect;
    told_t *told = context;
    size_t n = strlen(told->text);
    told->n++;
    snprintf(told->text + n, sizeof told->text - n, "%s\n", line);
}

/* Scores need ids of their own, training does not. */
static void test_ids(void)
{
    coco_t *coco =
        read_text(FILE_OF(OBJECT("9", "1", "[0,0,1,1]") "," OBJECT("8", "2", "[0,0,1,1]") "," OBJECT(
            "9", "3", "[0,0,0,1]") "," OBJECT("8", "4", "[0,0,1,1]") "," OBJECT("9", "5", "[0,0,1,1]")));
    const annotation_t *a = coco->images[0].annotations;
    OK(coco->n_annotations == 2 && a[0].id == 9 && a[1].id == 8 && coco->flaws.duplicates.n == 2 &&
           coco->flaws.duplicates.first == 8 && coco->flaws.empty.n == 1 && coco->flaws.same_ids.n == 2 &&
           coco->flaws.same_ids.first == 9 && coco_left_out(&coco->flaws) == 3 && coco->n_listed == 5,
       "of annotations that are the same in everything the first stays, others with its id are their own");
    coco_free(&coco);
    coco = read_text(FILE_OF(
        ANNOTATION("") "," ANNOTATION(",\"iscrowd\":1") "," ANNOTATION(",\"segmentation\":[[0,0,2,0,2,2]]") "," ANNOTATION(",\"segmentation\":[[0,0,2,0,2,3]]") "," ANNOTATION(
            ",\"ignore\":1") "," ANNOTATION(",\"segmentation\":[[0,0,2,0,2,3]]") "," ANNOTATION(",\"segmentation\":{\"counts\":[1,11],\"size\":[3,4]}") "," ANNOTATION(",\"iscrowd\":false")));
    OK(coco->n_annotations == 6 && coco->flaws.same_ids.n == 6 && coco->flaws.same_ids.first == 1 &&
           coco->flaws.duplicates.n == 2,
       "objects that differ in their mask, as crowds or as ignored, stay");
    coco_free(&coco);
    coco = read_text(FILE_OF("{\"image_id\":7,\"category_id\":3,\"area\":6,\"bbox\":[0,0,2,3]},"
                             "{\"id\":null,\"image_id\":7,\"category_id\":3,\"area\":6,\"bbox\":[0,0,2,3]},"
                             "{\"id\":0,\"image_id\":7,\"category_id\":3,\"area\":6,\"bbox\":[0,0,2,3]}"));
    a = coco->images[0].annotations;
    OK(coco->n_annotations == 3 && a[0].id < ANNOTATION_FIRST_ID && a[1].id == a[0].id + 1 && a[2].id == 0 &&
           coco->flaws.no_ids.n == 2 && coco->flaws.same_ids.n + coco->flaws.duplicates.n == 0,
       "annotations without ids stay, also the same");
    told_t told = {0};
    coco_tell(coco, &told, add_line);
    OK(told.n == 1 && strstr(told.text, "2 annotations have no integer") &&
           strstr(told.text, "annotations[0]"),
       "and are told of");
    coco_free(&coco);
    coco = read_text(FILE_OF(OBJECT("\"5f1c-a\"", "6", "[0,0,2,3]") "," OBJECT("\"\"", "6", "[0,0,2,3]")));
    OK(coco->n_annotations == 2 && coco->flaws.no_ids.n == 2 && coco->flaws.texts.n == 0,
       "as do ids of letters");
    coco_free(&coco);
    OK(refused("{\"images\":[{\"id\":\"a\"}]}", "number the images") &&
           refused("{\"categories\":[{\"id\":\"a\"}]}", "number the categories") &&
           refused("{\"annotations\":[{\"image_id\":\"a\"}]}", "number the images") &&
           refused("{\"annotations\":[{\"category_id\":\"a\"}]}", "number the categories") &&
           refused("{\"images\":[{\"width\":\"a\"}]}", "\"width\": the string 'a'"),
       "all other ids are to be numbered: %s", err_message());
    /* Many with one id: no pair is compared with each other. */
    enum { N = 60000 };
    char *text = malloc(N * 80 + 1000);
    if (!text) abort();
    size_t n =
        (size_t)sprintf(text, "{\"images\":[" IMAGE_7 "],\"categories\":[" CATEGORY_3 "],\"annotations\":[");
    for (int i = 0; i < N; i++)
        n += (size_t)sprintf(text + n, "%s" OBJECT("0", "6", "[0,0,2,%.6f]"), i ? "," : "",
                             1 + (i % (N / 2)) * 1e-6);
    sprintf(text + n, "]}");
    coco = read_text(text);
    OK(coco->n_annotations == N / 2 && coco->flaws.duplicates.n == N / 2 && coco->flaws.same_ids.n == N / 2,
       "%d annotations with one id", N);
    coco_free(&coco);
    free(text);
}

static void test_masks(void)
{
    coco_t *coco = read_text(SEGMENTED("[[],[1,1,2,2],[0,0,2,0,2,2]]"));
    const annotation_t *a = coco->images[0].annotations;
    OK(coco->n_annotations == 1 && coco->flaws.thin.n == 1 && coco->flaws.no_mask.n == 0 &&
           a->n_polygons == 1 && a->points[2] == 2,
       "polygons of fewer than three points are left out");
    coco_free(&coco);
    static const char *const bare[] = {"[[1,1,2,2]]",   "[[1,1]]",         "[1,1,2,2]",
                                       "[[1,1],[2,2]]", "[[[1,1],[2,2]]]", "[[1,1,2,2],[0,0,1,1]]"};
    bool all = true;
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++) {
        char text[1024];
        snprintf(text, sizeof text, SEGMENTED("%s"), bare[i]);
        coco = read_text(text);
        a = coco->images[0].annotations;
        all &= coco->n_annotations == 1 && coco->flaws.no_mask.n == 1 && coco->flaws.no_mask.first == 1 &&
               coco->flaws.thin.n + coco_left_out(&coco->flaws) == 0 &&
               a->segmentation == SEGMENTATION_NONE && a->n_polygons == 0 && !coco->images[0].truths;
        coco_free(&coco);
    }
    OK(all, "where there are no others, the box stays");
    static const char *const none[] = {"[]", "[[]]", "[[],[]]", "{}", "\"\"", "null"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char text[1024];
        told_t told = {0};
        snprintf(text, sizeof text, SEGMENTED("%s"), none[i]);
        coco = read_text(text);
        coco_tell(coco, &told, add_line);
        all &= coco->images[0].annotations->segmentation == SEGMENTATION_NONE && told.n == 0;
        coco_free(&coco);
    }
    OK(all, "no segmentation, in every way to write it");
    static const char *const loose[] = {"[0,0,2,0,2,2]",         "[[0,0],[2,0],[2,2]]",
                                        "[[[0,0],[2,0],[2,2]]]", "[[[0,0],[2,0],[2,2]],[]]",
                                        "[[[0,0,2,0,2,2]]]",     "[\"0\",0,\"2.0\",0,2,\"2\"]"};
    for (size_t i = 0; i < sizeof loose / sizeof *loose; i++) {
        char text[1024];
        snprintf(text, sizeof text, SEGMENTED("%s"), loose[i]);
        coco = read_text(text);
        a = coco->images[0].annotations;
        all &= a->n_polygons == 1 && a->n_points[0] == 3 && a->points[2] == 2 && a->points[5] == 2 &&
               coco->flaws.loose.n == 1 && coco->flaws.thin.n == 0;
        coco_free(&coco);
    }
    OK(all, "one polygon, or its points, in other brackets");
    coco = read_text(SEGMENTED("[[3,3],[0,0,2,0,2,2],[1,1],[0,0,1,0,1,1]]"));
    a = coco->images[0].annotations;
    OK(a->n_polygons == 2 && a->points[2] == 2 && a->points[8] == 1 && coco->flaws.thin.n == 1 &&
           coco->flaws.loose.n == 0,
       "points among polygons are no polygon");
    coco_free(&coco);
}

/* The area and the box of the only annotation, with these members. */
static bool measures(const char *more, double area, double x, double y, double width, double height)
{
    char text[1024];
    snprintf(text, sizeof text, FILE_OF("{\"id\":1,\"image_id\":7,\"category_id\":3,%s}"), more);
    coco_t *coco = read_text(text);
    const annotation_t *a = coco->images[0].annotations;
    bool right = coco->n_annotations == 1 && fabs(a->area - area) < 1e-12 && a->box[0] == x &&
                 a->box[1] == y && a->box[2] == width && a->box[3] == height;
    if (!right) printf("# %s: %g, %g %g %g %g\n", more, a->area, a->box[0], a->box[1], a->box[2], a->box[3]);
    coco_free(&coco);
    return right;
}

static void test_measures(void)
{
    OK(measures("\"bbox\":[1,0,2.5,3]", 7.5, 1, 0, 2.5, 3) &&
           measures("\"area\":null,\"bbox\":[1,0,2,3],\"segmentation\":[]", 6, 1, 0, 2, 3) &&
           measures("\"bbox\":[1,0,2,3],\"segmentation\":[[1,1,2,2]]", 6, 1, 0, 2, 3),
       "an area from the box");
    OK(measures("\"bbox\":[0,0,4,3],\"segmentation\":[[0,0,2,0,2,2],[1,1,1,3,3,3,3,1]]", 6, 0, 0, 4, 3),
       "from polygons");
    OK(measures("\"bbox\":[0,0,4,3],\"segmentation\":{\"counts\":[1,3,2,2,4],\"size\":[3,4]}", 5, 0, 0, 4,
                3) &&
           measures("\"bbox\":[0,0,4,3],\"segmentation\":{\"counts\":\"1;\",\"size\":[3,4]}", 11, 0, 0, 4, 3),
       "and from runs");
    OK(measures("\"area\":\"\",\"bbox\":null,\"segmentation\":[[0.5,1,2,1,2,2.5]]", 1.125, .5, 1, 1.5, 1.5) &&
           measures("\"area\":1,\"bbox\":[],\"segmentation\":[0,0,2,0,2,2]", 1, 0, 0, 2, 2) &&
           measures("\"area\":1,\"segmentation\":{\"counts\":[4,1,7],\"size\":[3,4]}", 1, 1, 1, 1, 1),
       "a box from polygons and from runs");
    coco_t *coco =
        read_text(FILE_OF("{\"id\":5,\"image_id\":7,\"category_id\":3,\"segmentation\":[[0,0,2,0,2,2]]}"));
    OK(coco->flaws.no_areas.n == 1 && coco->flaws.no_areas.first == 5 && coco->flaws.no_boxes.first == 5,
       "both are counted");
    coco_free(&coco);
    coco = read_text(FILE_OF(OBJECT("1", "6", "[3,1,-2,1]") "," OBJECT("2", "6", "[3,3,1,-1]")));
    OK(coco->n_annotations == 0 && coco->flaws.negative.n == 2 && coco->flaws.negative.first == 1 &&
           coco->flaws.empty.n == 0 && coco->images[0].truths[0].box[2] == -2,
       "a negative size is left out, and named");
    coco_free(&coco);
}

/* Boxes that are corners or shares of their image are refused. */
static void test_meaning(void)
{
#define SCREEN(annotations)                                                                                  \
    "{\"images\":[{\"id\":7,\"file_name\":\"a\",\"width\":96,\"height\":72}],\"categories\":[" CATEGORY_3    \
    "],\"annotations\":[" annotations "]}"
    OK(refused(SCREEN(OBJECT("4", "6", "[6,9,36,33]") "," OBJECT("8", "6", "[6,5,36,29]") "," OBJECT(
                   "5", "6", "[46,9,76,33]") "," OBJECT("6", "6", "[60,40,90,70]")),
               "2 of its 4 boxes exceed their image as x, y, width, height"),
       "corners: %s", err_message());
    coco_t *coco = read_text(SCREEN(OBJECT("4", "6", "[46,9,30,24]") "," OBJECT(
        "5", "6", "[46,9,70,33]") "," OBJECT("6", "6", "[60,40,90,70]")));
    OK(coco->n_annotations == 3 && coco->flaws.cut.n == 2, "not where one cannot be corners");
    coco_free(&coco);
    coco = read_text(SCREEN(OBJECT("5", "6", "[46,9,76,33]") "," OBJECT("6", "6", "[60,40,90,70]")));
    OK(coco->flaws.cut.n == 2, "and not of two");
    coco_free(&coco);
    coco = read_text(SCREEN(OBJECT("5", "6", "[1,1,96,72]") "," OBJECT("6", "6", "[1,0,96,72]") "," OBJECT(
        "7", "6", "[0,1,96,72]")));
    OK(coco->flaws.cut.n == 3, "nor where a pixel is too much");
    coco_free(&coco);
    OK(refused(SCREEN(OBJECT("4", "0.1", "[0.1,0.2,0.5,0.25]") "," OBJECT("5", "1", "[0,0,1,1]")),
               "between 0 and 1"),
       "shares: %s", err_message());
    coco = read_text(SCREEN(OBJECT("4", "0.1", "[0.1,0.2,0.5,0.25]") "," OBJECT("5", "1", "[0,0,1,2]")));
    OK(coco->n_annotations == 2, "not where one is larger");
    coco_free(&coco);
    OK(refused(SCREEN(OBJECT("4", "6", "[6,9,36,33]") "," OBJECT("8", "0", "[0,0,0,0]") "," OBJECT(
                   "5", "0", "[46,9,46,33]") "," OBJECT("6", "6", "[60,40,90,70]")),
               "exceed their image as x, y, width, height"),
       "corners, some without area: %s", err_message());
    OK(refused(SCREEN(OBJECT("4", "0.1", "[-0.01,0.2,0.5,0.25]") "," OBJECT(
                   "5", "1", "[0,0,1.02,1]") "," OBJECT("6", "0", "[0,0,0,0]")),
               "between 0 and 1"),
       "shares beyond the image, or none: %s", err_message());
    coco = read_text(SCREEN(OBJECT("4", "0", "[0,0,0,0]") "," OBJECT("5", "0", "[0,0,0,0]")));
    OK(coco->flaws.empty.n == 2, "boxes of zeros alone are no shares");
    coco_free(&coco);
}

static void test_dialects(void)
{
    coco_t *coco = read_text(
        "{\"images\":[{\"id\":\"000000000139\",\"file_name\":\"a\",\"width\":\"4\",\"height\":3.0,\"coco_url\":7}],"
        "\"categories\":[{\"id\":\"3\",\"name\":\"dog\"}],\"annotations\":[{\"id\":1e0,\"image_id\":139.0,"
        "\"category_id\":\"3\",\"iscrowd\":\"1\",\"area\":\"6.5\",\"bbox\":[\"0\",\"0.5\",2,1e0],"
        "\"segmentation\":{\"counts\":[\"12\"],\"size\":[3.0,\"4\"]}}]}");
    const annotation_t *a = coco->images[0].annotations;
    OK(coco->images[0].id == 139 && coco->images[0].width == 4 && a->id == 1 && a->crowd && a->area == 6.5 &&
           a->box[1] == .5 && a->box[2] == 2 && a->n_runs == 1 && coco->flaws.texts.n == 3 &&
           coco->flaws.texts.first == 139,
       "numbers in strings, and integers with a fraction of 0");
    coco_free(&coco);
    coco = read_text(FILE_OF(ANNOTATION(",\"iscrowd\":null") "," OBJECT(
        "2", "6",
        "[0,0,1,1]") ","
                     "{\"id\":3,\"image_id\":7,\"category_id\":3,\"area\":6,\"bbox\":[0,0,2,3],\"iscrowd\":\"\"}"));
    OK(coco->n_annotations == 3 && !coco->images[0].annotations[0].crowd, "no word of crowds");
    coco_free(&coco);
    static const char *const ignored[] = {"1", "true", "\"1\"", "1.0"};
    bool all = true;
    for (size_t i = 0; i < 4; i++) {
        char text[1024];
        snprintf(text, sizeof text, FILE_OF(ANNOTATION(",\"ignore\":%s")), ignored[i]);
        coco = read_text(text);
        const coco_image_t *image = coco->images;
        all &= image->n_annotations == 1 && image->annotations[0].crowd == CROWD_IGNORED &&
               image->n_truths == 1 && !image->truths[0].crowd && coco->flaws.ignored.n == 1;
        coco_free(&coco);
    }
    OK(all, "ignored: a crowd in training, an object in truths");
    static const char *const counted[] = {"0", "false", "null", "\"0\""};
    for (size_t i = 0; i < 4; i++) {
        char text[1024];
        snprintf(text, sizeof text, FILE_OF(ANNOTATION(",\"ignore\":%s")), counted[i]);
        coco = read_text(text);
        all &= !coco->images[0].annotations[0].crowd && !coco->images[0].truths && coco->flaws.ignored.n == 0;
        coco_free(&coco);
    }
    OK(all, "and not ignored");
    coco = read_text("{\"images\":[" IMAGE_7 "],\"annotations\":[" ANNOTATION(
        "") "],\"categories\":[" CATEGORY_3
            ",{\"id\":0,\"name\":\"dog\"},{\"id\":4},{\"id\":5,\"name\":null},"
            "{\"id\":6,\"name\":\"\"},{\"id\":7,\"name\":12,\"supercategory\":0}]}");
    const category_t *c = coco->categories;
    OK(coco->n_categories == 6 && c[0].id == 0 && strcmp(c[2].name, "category 4") == 0 &&
           strcmp(c[5].name, "12") == 0 && coco->flaws.no_names.n == 3 && coco->flaws.no_names.first == 4 &&
           coco->flaws.same_names.n == 1 && coco->flaws.same_names.first == 3,
       "categories without a name, and with another's");
    coco_free(&coco);
    coco = read_text(
        "{\"images\":[{\"id\":7,\"coco_url\":\"http://images.org/val2017/7.jpg?x=/y\",\"width\":4,"
        "\"height\":3,\"neg_category_ids\":[1]},{\"id\":8,\"file_name\":null,\"path\":\"/data/b/8.png\","
        "\"width\":4,\"height\":3}],\"categories\":[" CATEGORY_3 "],\"annotations\":[]}");
    OK(strcmp(coco->images[0].name, "7.jpg") == 0 && strcmp(coco->images[1].name, "8.png") == 0 &&
           coco->flaws.no_files.n == 2 && coco->flaws.federated.n == 1,
       "images by their path or their URL");
    coco_free(&coco);
    OK(refused("{\"shapes\":[],\"imagePath\":\"a\"}", "LabelMe") &&
           refused("{\"images\":[" IMAGE_7 "],\"categories\":[" CATEGORY_3 "]}", "no \"annotations\"") &&
           refused("{\"images\":[" IMAGE_7 "],\"annotations\":[{\"image_id\":7,\"segments_info\":[]}]}",
                   "panoptic"),
       "lists of other formats and tasks");
}

static void test_not_files(void)
{
    coco_t *coco = NULL;
    OK(coco_read("/nonexistent/x.json", NULL, NULL, &coco) == ERR_DATA && SAYS("/nonexistent/x.json"),
       "a missing file");
    OK(coco_read("/tmp", NULL, NULL, &coco) == ERR_DATA && SAYS("/tmp", "not a regular file"), "a folder");
    OK(refused("", "is empty"), "an empty file");
    OK(refused(" \n", "truncated"), "white space");
    OK(refused("12", "it is a number"), "a number");
    OK(refused("[{\"image_id\":1}]", "it is a list"), "a list, as results are");
    OK(refused("{}", "no \"images\""), "an object with nothing in it");
    OK(refused("{\"images\":[" IMAGE_7 "],\"annotations\":[]}", "no \"categories\""),
       "captions have no categories");
    OK(refused("{\"images\":[],\"categories\":[" CATEGORY_3 "],\"annotations\":[]}", "no images"),
       "no images");
    OK(refused("{\"images\":[" IMAGE_7 "],\"categories\":[],\"annotations\":[]}", "no categories"),
       "no categories");
    OK(refused(FILE_OF("") "x", "not JSON"), "something behind it");
}

/* The text in UTF-16. Returns its bytes. */
static size_t widen(const char *text, bool big, char *out)
{
    size_t n = 0;
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        unsigned c = *s++;
        if (c >= 0xF0) {
            c = (c & 7u) << 18 | (s[0] & 63u) << 12 | (s[1] & 63u) << 6 | (s[2] & 63u), s += 3;
        } else if (c >= 0xE0) {
            c = (c & 15u) << 12 | (s[0] & 63u) << 6 | (s[1] & 63u), s += 2;
        } else if (c >= 0xC0) {
            c = (c & 31u) << 6 | (s[0] & 63u), s += 1;
        }
        const unsigned units[2] = {c < 0x10000 ? c : 0xD800 + ((c - 0x10000) >> 10),
                                   0xDC00 + ((c - 0x10000) & 0x3FF)};
        for (int i = 0; i <= (c >= 0x10000); i++, n += 2) {
            out[n + big] = (char)units[i];
            out[n + !big] = (char)(units[i] >> 8);
        }
    }
    return n;
}

/* What gzip -9 makes of a text. Returns its bytes. */
static size_t pack(const char *text, size_t n_text, char *out, size_t n_out)
{
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)text, .avail_in = (uInt)n_text};
    if (deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) abort();
    z.next_out = (unsigned char *)out;
    z.avail_out = (uInt)n_out;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END) abort();
    deflateEnd(&z);
    return n_out - z.avail_out;
}

/* The bytes are read as `good` or the like, and told of in one line with this word; NULL: in none. */
static bool reads(const char *bytes, size_t n_bytes, const char *word)
{
    coco_t *coco = NULL;
    told_t told = {0};
    err_t err = read_bytes(bytes, n_bytes, &coco);
    if (coco) coco_tell(coco, &told, add_line);
    bool right = err == ERR_OK && coco->n_annotations > 0 && told.n == (word != NULL) &&
                 (!word || strstr(told.text, word));
    if (!right) printf("# got %d, %s\n", err, err == ERR_OK ? told.text : err_message());
    coco_free(&coco);
    return right;
}

static bool bytes_refused(const char *bytes, size_t n_bytes, const char *words)
{
    coco_t *coco = NULL;
    bool right = read_bytes(bytes, n_bytes, &coco) == ERR_DATA && SAYS(words);
    if (!right) printf("# got %s\n", coco ? "a list" : err_message());
    coco_free(&coco);
    return right;
}

static void test_encodings(void)
{
    enum { ROOM = 1 << 16, LARGE = 3 << 20 };
    static const char emoji[] = "{\"images\":[" IMAGE_7 "],\"annotations\":[" ANNOTATION(
        "") "],\"categories\":[{\"id\":3,\"name\":\"\xf0\x9f\x90\x95 \xe7\x8a\xac m\xc3\xa4n\"}]}";
    static char wide[2 * ROOM], packed[2 * ROOM];
    coco_t *coco = NULL;
    OK(reads("\xef\xbb\xbf" FILE_OF(ANNOTATION("")), 3 + strlen(FILE_OF(ANNOTATION(""))), "byte order mark"),
       "a byte order mark");
    OK(bytes_refused("\xef\xbb\xbf", 3, "truncated") && bytes_refused("\xef\xbb\xbf<html>", 9, "web page"),
       "a byte order mark alone, and before a web page");
    for (int big = 0; big <= 1; big++) {
        memcpy(wide, big ? "\xfe\xff" : "\xff\xfe", 2);
        size_t n = 2 + widen(emoji, big, wide + 2);
        OK(reads(wide, n, "UTF-16") && read_bytes(wide, n, &coco) == ERR_OK &&
               strcmp(coco->categories[0].name, "\xf0\x9f\x90\x95 \xe7\x8a\xac m\xc3\xa4n") == 0,
           "UTF-16, %s endian", big ? "big" : "little");
        coco_free(&coco);
        OK(reads(wide + 2, n - 2, "UTF-16"), "and without a byte order mark");
        OK(bytes_refused(wide, n - 1, "truncated") && bytes_refused(wide, n - 2, "truncated"), "cut off");
        memcpy(wide + 20, big ? "\xdc\x00" : "\x00\xdc", 2);
        OK(bytes_refused(wide, n, "byte 20: it is not UTF-16"), "half a character: %s", err_message());
        memcpy(wide + 20, big ? "\xd8\x00" : "\x00\xd8", 2);
        OK(bytes_refused(wide, n, "byte 20: it is not UTF-16"), "the other half");
    }
    OK(bytes_refused("\xff\xfe\0\0{\0\0\0", 8, "UTF-32"), "UTF-32");
    size_t n = pack(good, strlen(good), packed, sizeof packed);
    OK(reads(packed, n, "gzip"), "gzip");
    OK(bytes_refused(packed, n - 9, "truncated") && bytes_refused(packed, n - 1, "truncated"), "cut off");
    packed[n] = 'x';
    OK(bytes_refused(packed, n + 1, "foreign bytes"), "something behind it");
    size_t n_more = pack(" \n ", 3, packed + n, sizeof packed - n);
    OK(reads(packed, n + n_more, "gzip"), "two members");
    packed[n / 2] = (char)(packed[n / 2] + 1);
    OK(read_bytes(packed, n, &coco) == ERR_DATA && SAYS("damaged"), "a flipped bit: %s", err_message());
    n = pack("", 0, packed, sizeof packed);
    OK(bytes_refused(packed, n, "empty"), "nothing in it");
    /* Pieces of 1 MiB, with characters of three and four bytes across their borders. */
    char *large = malloc(LARGE + 1), *larger = malloc(2 * LARGE + 2);
    if (!large || !larger) abort();
    size_t at = (size_t)sprintf(large, "{\"x\":[\"a");
    while (at < LARGE - 1000)
        at += (size_t)sprintf(large + at, "\xf0\x9f\x90\x95\xe7\x8a\xac%s", at % 1000 < 7 ? "\",\"" : "");
    sprintf(large + at, "\"],%s", good + 1);
    n = widen(large, false, larger);
    OK(reads(larger, n, "UTF-16"), "3 MB of UTF-16");
    free(large);
    free(larger);
    /* 80 MB of zeros in 80 KB. */
    char *bomb = malloc(80 << 20);
    if (!bomb) abort();
    for (size_t i = 0; i < 80 << 20; i++) bomb[i] = i % 2 ? ',' : '0';
    memcpy(bomb, "{\"x\":[", 6);
    n = pack(bomb, 80 << 20, packed, sizeof packed);
    OK(bytes_refused(packed, n, "more than 100 times"), "a small file that grows: %s", err_message());
    free(bomb);
}

typedef struct wrong {
    const char *text, *words;
} wrong_t;

static void test_wrong_images(void)
{
#define WITH_IMAGES(images) "{\"images\":" images ",\"categories\":[" CATEGORY_3 "],\"annotations\":[]}"
#define NAMED(name)         WITH_IMAGES("[{\"id\":7,\"width\":1,\"height\":1,\"file_name\":" name "}]")
#define SIZED(width, height)                                                                                 \
    WITH_IMAGES("[{\"id\":7,\"file_name\":\"a\",\"width\":" width ",\"height\":" height "}]")
    static const wrong_t wrong[] = {
        {WITH_IMAGES("7"), "\"images\" is a number; expected a list"},
        {WITH_IMAGES("{}"), "\"images\" is an object"},
        {WITH_IMAGES("[],\"images\":[]"), "duplicate \"images\""},
        {WITH_IMAGES("[" IMAGE_7 ",null]"), "images[1]: it is null"},
        {WITH_IMAGES("[[]]"), "images[0]: it is a list"},
        {WITH_IMAGES("[" IMAGE_7 "," IMAGE_7 "]"), "duplicate image id 7"},
        {WITH_IMAGES("[{\"file_name\":\"a\",\"width\":1,\"height\":1}]"), "no \"id\""},
        {WITH_IMAGES("[{\"id\":7,\"width\":1,\"height\":1}]"), "images[0] (id 7): no \"file_name\""},
        {WITH_IMAGES("[{\"id\":7,\"id\":8}]"), "duplicate \"id\""},
        {WITH_IMAGES("[{\"id\":\"IMG_7\"}]"), "\"id\": the string 'IMG_7' is not an integer"},
        {WITH_IMAGES("[{\"id\":7.5}]"), "\"id\": 7.5 is not a 64-bit integer"},
        {WITH_IMAGES("[{\"id\":9223372036854775808}]"), "not a 64-bit integer"},
        {WITH_IMAGES("[{\"id\":1111111111111111111111111111111111111111111}]"),
         "11… is not a 64-bit integer"},
        {WITH_IMAGES("[{\"id\":{}}]"), "\"id\" is an object"},
        {NAMED("3"), "\"file_name\" is a number; expected a string"},
        {NAMED("\"\""), "\"file_name\" is empty"},
        {NAMED("\"a\\u0000b\""), "NUL character"},
        {NAMED("\"a\\u001b[2J\""), "control character"},
        {NAMED("\"\\u202eab\""), "control character"},
        {NAMED("\"a\xff\""), "not JSON"},
        {NAMED("\"\xed\xa0\x80\""), "UTF-8"},
        {SIZED("0", "1"), "0 × 1 pixels"},
        {SIZED("1", "-1"), "1 × -1 pixels"},
        {SIZED("100000", "100000"), "100000 × 100000 pixels"},
        {SIZED("9223372036854775807", "9223372036854775807"), "pixels"},
        {SIZED("640.5", "1"), "640.5 is not a 64-bit integer"},
        {SIZED("null", "1"), "no \"width\""},
    };
    bool all = true;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) all &= refused(wrong[i].text, wrong[i].words);
    OK(all, "images: %zu kinds of wrong ones", sizeof wrong / sizeof *wrong);
    coco_t *coco = NULL;
    const char *fine = NAMED("\"..a/...b..\"");
    OK(read_bytes(fine, strlen(fine), &coco) == ERR_OK && strcmp(coco->images[0].name, "..a/...b..") == 0,
       "dots that lead nowhere");
    coco_free(&coco);
}

static void test_wrong_annotations(void)
{
#define OF(image, category)                                                                                  \
    FILE_OF("{\"id\":1,\"image_id\":" image ",\"category_id\":" category ",\"area\":6,\"bbox\":[0,0,2,3]}")
#define BOXED(box)         FILE_OF("{\"bbox\":" box ",\"id\":1,\"image_id\":7,\"category_id\":3,\"area\":6}")
#define RUNS(counts, size) SEGMENTED("{\"counts\":" counts ",\"size\":" size "}")
    static const wrong_t wrong[] = {
        {OF("8", "3"), "annotation 1: image 8"},
        {OF("7", "4"), "annotation 1 (image 7): category 4"},
        {FILE_OF("{\"id\":1,\"image_id\":7,\"area\":6,\"bbox\":[0,0,2,3]}"), "no \"category_id\""},
        {FILE_OF("{\"id\":1,\"image_id\":7,\"category_id\":3,\"area\":6}"),
         "annotations[0] (id 1): no \"bbox\""},
        {FILE_OF("{\"id\":1,\"image_id\":7,\"caption\":\"A dog.\"}"), "captions"},
        {FILE_OF("{\"id\":1,\"area\":NaN}"), "JSON has no NaN"},
        {FILE_OF("{\"id\":1,\"area\":Infinity}"), "no Infinity"},
        {FILE_OF("{\"id\":1,\"area\":-Infinity}"), "no Infinity"},
        {FILE_OF("{\"id\":1,\"area\":1e999}"), "\"area\": 1e999 is too large"},
        {FILE_OF("{\"id\":1,\"area\":\"6,5\"}"), "\"area\": the string '6,5' is not a number"},
        {FILE_OF(ANNOTATION(",\"iscrowd\":2")), "\"iscrowd\" is 2"},
        {FILE_OF(ANNOTATION(",\"iscrowd\":[0]")), "\"iscrowd\" is a list; expected 0 or 1"},
        {FILE_OF("{\"id\":1,\"image_id\":7,\"category_id\":3,\"area\":-1,\"bbox\":[0,0,2,3]}"),
         "\"area\" is -1"},
        {BOXED("[1,2,3]"), "\"bbox\" has 3 numbers"},
        {BOXED("[1,2,3,4,5]"), "\"bbox\" has more than 4"},
        {BOXED("[]"), "no \"bbox\""},
        {BOXED("[0,0,1,null]"), "\"bbox\" holds null; expected numbers"},
        {BOXED("[0,0,1,-1e400]"), "\"bbox\": -1e400 is too large"},
        {BOXED("[[0,0,1,1]]"), "\"bbox\" holds a list"},
        {BOXED("{}"), "\"bbox\" is an object; expected a list of 4 numbers"},
        {BOXED("null"), "no \"bbox\""},
        {BOXED("\"[0,0,1,1]\""), "\"bbox\" is a string"},
        {SEGMENTED("[1,2,3,4,5]"), "a polygon of 5 numbers"},
        {SEGMENTED("[[1,2,3,4,5,6],7]"), "\"segmentation\" holds a number; expected polygons"},
        {SEGMENTED("[7,[1,2,3,4,5,6]]"), "\"segmentation\" holds a list"},
        {SEGMENTED("[[1,2,3,4,5,6,7]]"), "a polygon of 7 numbers"},
        {SEGMENTED("[[1,2,3,4,5,\"b\"]]"), "\"segmentation\": the string 'b' is not a number"},
        {SEGMENTED("[[1,2,3,4,5,1e300]]"), "coordinate 1e+300"},
        {SEGMENTED("[[[1,2,3]]]"), "a point of 3 numbers"},
        {SEGMENTED("[{}]"), "\"segmentation\" holds an object; expected polygons"},
        {SEGMENTED("7"), "\"segmentation\" is a number; expected a list of polygons or an object"},
        {SEGMENTED("{\"x\":1}"), "without \"counts\""},
        {SEGMENTED("{\"counts\":[12]}"), "without a \"size\""},
        {RUNS("[12]", "[3]"), "without a \"size\" of 2"},
        {RUNS("[12]", "[3,4,5]"), "more than 2"},
        {RUNS("[12]", "[4,3]"), "annotation 1: its mask is 3 × 4 pixels, but image 7 is 4 × 3"},
        {RUNS("[11]", "[3,4]"), "11 pixels"},
        {RUNS("[12,1]", "[3,4]"), "13 pixels"},
        {RUNS("[13,-1]", "[3,4]"), "a run of -1"},
        {RUNS("[1.5]", "[3,4]"), "1.5 is not a 64-bit integer"},
        {RUNS("[4294967308]", "[3,4]"), "a run of 4294967308"},
        {RUNS("{}", "[3,4]"), "\"counts\" is an object"},
        {RUNS("\"1\"", "[3,4]"), "1 pixels"},
        {RUNS("\"1/\"", "[3,4]"), "character"},
        {RUNS("[12]", "[1000000000000,12]"), "the mask is 12 × 1000000000000 pixels"},
        {RUNS("[12]", "7"), "\"size\" is a number"},
        {RUNS("[12],\"counts\":[12]", "[3,4]"), "duplicate \"counts\""},
        {"{\"images\":[" IMAGE_7 "],\"categories\":[" CATEGORY_3 "," CATEGORY_3 "],\"annotations\":[]}",
         "duplicate category id 3"},
    };
    bool all = true;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) all &= refused(wrong[i].text, wrong[i].words);
    OK(all, "annotations: %zu kinds of wrong ones", sizeof wrong / sizeof *wrong);
}

/* FRONT, N times MIDDLE, BACK. */
static bool refused_long(const char *front, const char *middle, size_t n, const char *back, const char *words)
{
    size_t n_middle = strlen(middle), n_front = strlen(front);
    char *text = malloc(n_front + n * n_middle + strlen(back) + 1);
    if (!text) abort();
    memcpy(text, front, n_front);
    for (size_t i = 0; i < n; i++) memcpy(text + n_front + i * n_middle, middle, n_middle);
    memcpy(text + n_front + n * n_middle, back, strlen(back) + 1);
    coco_t *coco = NULL;
    err_t err = read_bytes(text, strlen(text), &coco);
    bool right = err == ERR_DATA && !coco && SAYS(words);
    free(text);
    coco_free(&coco);
    return right;
}

static void test_limits(void)
{
    OK(refused_long("{\"info\":", "[", 100000, "", "deeper than 32"), "nesting");
    OK(refused_long("{\"info\":\"", "x", 3 << 20, "\"}", "takes more than"), "a text of 3 MB");
    OK(refused_long("{\"info\":", "1", 3 << 20, "}", "takes more than"), "a number of 3 MB");
    OK(refused_long("{\"images\":[{\"file_name\":\"", "x", 1024, "\"}]}", "longer than 1023"), "a long name");
    OK(refused_long("{\"annotations\":[{\"area\":", "1", 600, "}]}", "too long"), "a long number");
    OK(refused_long("{\"annotations\":[{\"segmentation\":[[1", ",1", 2 << 20, "]]}]}",
                    "more than 1048576 points"),
       "points of an segmentation");
    OK(refused_long("{\"annotations\":[{\"segmentation\":{\"counts\":[1", ",1", 4 << 20, "]}}]}",
                    "more than 4194304 runs"),
       "runs of a mask");
    OK(refused_long("{\"categories\":[{\"id\":1,\"name\":\"a\"}", ",{\"id\":1,\"name\":\"a\"}", 70000, "]}",
                    "more than 65536 categories"),
       "categories");
}

/* Every beginning of the text is refused as cut off. */
static bool cuts_refused(const char *text, size_t n_text, size_t step)
{
    bool all = true;
    for (size_t n = 1; n < n_text; n += n + 400 < n_text ? step : 1) {
        coco_t *coco = NULL;
        if (read_bytes(text, n, &coco) == ERR_DATA && strstr(err_message(), "truncated")) continue;
        printf("# cut after %zu bytes: %s\n", n, err_message());
        coco_free(&coco);
        all = false;
    }
    return all;
}

static void test_damage(void)
{
    static const char put[] = "\0\"\\,:[]{}019-.eE tn\x80\xff";
    char text[sizeof good];
    int n_odd = 0, n_fine = 0;
    OK(cuts_refused(good, strlen(good), 1), "cut after every byte");
    for (size_t i = 0; i < strlen(good); i++)
        for (size_t k = 0; k + 1 < sizeof put; k += UNDER_SANITIZER ? 3 : 1) {
            coco_t *coco = NULL;
            memcpy(text, good, sizeof good);
            text[i] = put[k];
            err_t err = read_bytes(text, strlen(good), &coco);
            n_odd += err != ERR_OK && err != ERR_DATA;
            n_fine += err == ERR_OK;
            coco_free(&coco);
        }
    OK(n_odd == 0 && n_fine > 0, "every byte exchanged: bad data, or (%d times) another good file", n_fine);
}

static void tell(void *context, int64_t n_read, int64_t n_bytes)
{
    int64_t *last = context;
    if (n_read < last[0]) abort();
    last[0] = n_read;
    last[1] = n_bytes;
}

/* Several pieces: values lie across their borders. */
static void test_pieces(void)
{
    enum { N = 40000 };
    char path[] = "/tmp/dptrain-coco-XXXXXX";
    int64_t told[2] = {0}, n_right = 0;
    int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    coco_t *coco = NULL;
    if (!file) abort();
    fputs("{\"images\":[", file);
    for (int i = 0; i < 100; i++)
        fprintf(file, "%s{\"id\":%d,\"file_name\":\"%d.jpg\",\"width\":4000,\"height\":41000}", i ? "," : "",
                100 - i, i);
    fputs("],\"categories\":[" CATEGORY_3 "],\"annotations\":[", file);
    for (int i = 0; i < N; i++)
        fprintf(file,
                "%s{\"id\":%d,\"image_id\":%d,\"category_id\":3,\"area\":%d.25,\"bbox\":[1,%d,3,1],"
                "\"segmentation\":"
                "[[1.5,%d,2,3.75,4,5.01]]}",
                i ? "," : "", i, 1 + i % 100, i, i, i);
    fputs("]}", file);
    if (fclose(file) != 0) abort();
    OK_CALL(coco_read(path, tell, told, &coco), "a file of %d annotations", N);
    for (int64_t i = 0; coco && i < coco->n_images; i++)
        for (int32_t k = 0; k < coco->images[i].n_annotations; k++) {
            const annotation_t *a = &coco->images[i].annotations[k];
            n_right += a->id == i + 100 * k && a->area == (double)a->id + .25 && a->box[1] == (double)a->id &&
                       a->points[1] == (float)a->id && a->points[3] == 3.75F && a->points[5] == 5.01F;
        }
    OK(n_right == N && coco->n_annotations == N, "all of them are right");
    OK(told[0] == told[1] && told[1] > 3 << 20, "progress was told to the end, of %lld bytes",
       (long long)told[1]);
    coco_free(&coco);
    unlink(path);
}

static void test_tiny(const char *folder, bool val)
{
    char path[FS_PATH_MAX];
    coco_t *coco = NULL;
    int n_crowd = 0, n_polygons = 0, n_runs = 0, most = 0, n_used = 0, n_empty = 0;
    bool used[80] = {false};
    snprintf(path, sizeof path, "%s/coco_tiny/annotations/instances_%s2017.json", folder,
             val ? "val" : "train");
    OK_CALL(coco_read(path, NULL, NULL, &coco), "coco_tiny, %s", val ? "val2017" : "train2017");
    if (!coco) exit(1);
    for (int64_t i = 0; i < coco->n_images; i++) {
        n_empty += coco->images[i].n_annotations == 0;
        for (int32_t k = 0; k < coco->images[i].n_annotations; k++) {
            const annotation_t *a = &coco->images[i].annotations[k];
            n_crowd += a->crowd;
            n_polygons += a->segmentation == SEGMENTATION_POLYGONS;
            n_runs += a->segmentation == SEGMENTATION_RLE;
            if (a->n_polygons > most) most = a->n_polygons;
            n_used += !used[a->category];
            used[a->category] = true;
        }
    }
    OK(coco->n_images == 50 && coco->n_categories == 80 && coco->n_annotations == (val ? 382 : 470) &&
           n_crowd == 5 && n_runs == 5 && n_polygons == (val ? 377 : 465) && most == (val ? 3 : 4) &&
           n_used == (val ? 48 : 49) && n_empty == (val ? 2 : 1),
       "the numbers that its README has");
    const coco_flaws_t *f = &coco->flaws;
    OK(f->cut.n + f->empty.n + f->thin.n + f->duplicates.n == 0, "nothing had to be mended");
    coco_free(&coco);
}

static void test_tiny_cut(const char *folder)
{
    char path[FS_PATH_MAX], *text = NULL;
    snprintf(path, sizeof path, "%s/coco_tiny/annotations/instances_train2017.json", folder);
    OK_CALL(fs_read_text(path, 1 << 20, &text), "coco_tiny's text");
    OK(text && cuts_refused(text, strlen(text), UNDER_SANITIZER ? 50021 : 10007),
       "cut in many places, and near its end");
    mem_free(&text);
}

int main(void)
{
    char path[FS_PATH_MAX] = "";
    const char *data = getenv("DPTRAIN_DATA");
    tap_plan(9 + 5 + 8 + 5 + 5 + 9 + 6 + 7 + 11 + 21 + 3 + 8 + 2 + 3 + 8 + 1);
    test_good();
    test_truths();
    test_flaws();
    test_ids();
    test_masks();
    test_measures();
    test_meaning();
    test_dialects();
    test_not_files();
    test_encodings();
    test_wrong_images();
    test_wrong_annotations();
    test_limits();
    test_damage();
    test_pieces();
    if (data) snprintf(path, sizeof path, "%s/coco_tiny", data);
    if (data && fs_is_folder(path)) {
        test_tiny(data, false);
        test_tiny(data, true);
        test_tiny_cut(data);
    } else {
        for (int i = 0; i < 8; i++) tap_skip("DPTRAIN_DATA names no folder with coco_tiny");
    }
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
