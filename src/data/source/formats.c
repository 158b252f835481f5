/* SPDX-License-Identifier: MIT */
/* Annotations in other formats than COCO's, told by the start of their files, and the commands that convert them: for
 * messages. What a folder of classes may have beside its images is left alone. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_kind.h"
#include "base/mem.h"
#include "data/image/image.h"
#include "data/source/parts.h"

enum {
    PEEK = 4096,      /* bytes of a file that are looked at */
    FEW_FOLDERS = 16, /* that are looked into */
    FEW_FILES = 4,    /* of each ending, in each of them */
    MOST_ENTRIES = 4096,
};

typedef enum format {
    NO_FORMAT,
    YOLO,
    YOLO_POLYGONS,
    VOC,
    LABELME,
    LABELME_XML,
    VIA,
    CVAT,
    LABEL_STUDIO,
    CREATE_ML,
    DATUMARO,
    SUPERVISELY,
    VOTT,
    KITTI,
    OPEN_IMAGES,
    CSV,
    TFRECORD,
    METADATA,
    MANIFEST,
    RESULTS,
    N_FORMATS
} format_t;

/* In `how`, %L is the folder of the annotations, %F the file that told the format, %I the folder of images, and %D the
 * data's. */
#define GLOBOX "pip install globox && globox convert "
#define DATUM  "pip install 'datumaro[cli]' && datum convert -i %D -f coco_instances -o %D-coco -if "
static const struct {
    const char *name, *how;
} formats[N_FORMATS] = {
    [YOLO] = {"YOLO's", GLOBOX
              "-f yolov5 -d %I -m NAMES.txt -F coco -A %L %D/train.json (NAMES.txt: the name of each class, "
              "in a line of its own)"},
    [YOLO_POLYGONS] =
        {"YOLO's, with polygons",
         "pip install supervision && python3 -c 'import sys, supervision as sv; _, i, l, y, o = "
         "sys.argv; sv.DetectionDataset.from_yolo(i, l, y, force_masks=True)"
         ".as_coco(annotations_path=o)' %I %L %D/data.yaml %D/train.json"},
    [VOC] = {"Pascal VOC's", GLOBOX "-f pascalvoc -d %I -F coco -A %L %D/train.json"},
    [LABELME] = {"LabelMe's",
                 "pip install labelme2coco && labelme2coco %L --export_dir %L --category_id_start 1"},
    [LABELME_XML] = {"LabelMe's (XML)", DATUM "label_me -- --save-media"},
    [VIA] = {"VGG Image Annotator's",
             "in VIA, choose Annotation, Export Annotations (COCO format), and put the file "
             "beside the images"},
    [CVAT] = {"CVAT's (XML)", GLOBOX "-f cvat -F coco -A %F %D/train.json, or export the task as COCO 1.0"},
    [LABEL_STUDIO] = {"Label Studio's", "in Label Studio, choose Export, COCO"},
    [CREATE_ML] = {"Create ML's",
                   DATUM "roboflow_create_ml -- --save-media, or export the data again as COCO"},
    [DATUMARO] = {"Datumaro's", DATUM "datumaro -- --save-media"},
    [SUPERVISELY] = {"Supervisely's", "in Supervisely, run the app Export to COCO"},
    [VOTT] = {"VoTT's", DATUM "vott_json -- --save-media"},
    [KITTI] = {"KITTI's", DATUM "kitti -- --save-media"},
    [OPEN_IMAGES] = {"Open Images' (CSV)", GLOBOX "-f openimage -d %I -F coco -A %F %D/train.json"},
    [CSV] = {"tables of boxes (CSV)", "write a list of COCO's form from it"},
    [TFRECORD] = {"TFRecord", "export the data again as COCO"},
    [METADATA] = {"Hugging Face's metadata", "write a list of COCO's form from it"},
    [MANIFEST] = {"SageMaker's manifest", "write a list of COCO's form from it"},
    [RESULTS] = {"results, which a detector found",
                 "train with the list that has images, annotations and categories"},
};

typedef struct look {
    const char *base;
    format_t format;
    char file[FS_PATH_MAX]; /* that told it */
    int n_image_folders;
} look_t;

static bool has(const char *text, const char *word)
{
    return strstr(text, word) != NULL;
}

/* N numbers after a word or a number in a line: "0 0.5 0.5 0.2 0.1" has 4. */
static int count_numbers(const char *line)
{
    int n = 0;
    const char *at = line + strcspn(line, " \t\r\n");
    for (; *at == ' ' || *at == '\t'; n++) {
        at += strspn(at, " \t");
        const size_t length = strspn(at, "0123456789.+-eE");
        if (length == 0) break;
        at += length;
    }
    return *at == '\0' || *at == '\n' || *at == '\r' ? n : 0;
}

static format_t format_of_json(const char *text)
{
    const bool list = text[strspn(text, "\xEF\xBB\xBF \t\r\n")] == '[';
    if (has(text, "\"shapes\"") && has(text, "\"imagePath\"")) return LABELME;
    if (has(text, "\"shapes\"") && has(text, "\"imageHeight\"")) return LABELME;
    if (has(text, "\"_via_") || (has(text, "\"regions\"") && has(text, "\"shape_attributes\""))) return VIA;
    if (has(text, "\"dm_format") || (has(text, "\"items\"") && has(text, "\"label_groups\"")))
        return DATUMARO;
    if (has(text, "\"classTitle\"") || has(text, "\"geometryType\"")) return SUPERVISELY;
    if (has(text, "\"boundingBox\"") && has(text, "\"regions\"")) return VOTT;
    if (list && has(text, "\"data\"") && (has(text, "\"annotations\"") || has(text, "\"predictions\"")))
        return LABEL_STUDIO;
    if (list && has(text, "\"coordinates\"") && has(text, "\"annotations\"")) return CREATE_ML;
    if (list && has(text, "\"image_id\"") && has(text, "\"score\"")) return RESULTS;
    return NO_FORMAT;
}

static format_t format_of_csv(const char *text)
{
    char line[512];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\r\n"), text);
    for (char *c = line; *c; c++) *c = (char)tolower((unsigned char)*c);
    if (has(line, "imageid") && has(line, "xmin")) return OPEN_IMAGES;
    if (has(line, "xmin") || has(line, "x_min") || has(line, "bbox")) return CSV;
    /* RetinaNet's: path,x1,y1,x2,y2,class */
    int n = 0;
    for (const char *at = strchr(line, ','); at && n < 4 && isdigit((unsigned char)at[1]);
         at = strchr(at + 1, ','))
        n++;
    return n == 4 ? CSV : NO_FORMAT;
}

static format_t format_of_text(const char *name, const char *text)
{
    if (fs_has_suffix(name, ".xml")) {
        if (has(text, "<annotations")) return CVAT;
        if (has(text, "<annotation") && has(text, "<sourceImage")) return LABELME_XML;
        return has(text, "<annotation") ? VOC : NO_FORMAT;
    }
    if (fs_has_suffix(name, ".txt"))
        return isdigit((unsigned char)*text) && count_numbers(text) >= 4
                   ? (count_numbers(text) > 5 ? YOLO_POLYGONS : YOLO)
               : isalpha((unsigned char)*text) && count_numbers(text) >= 14 ? KITTI
                                                                            : NO_FORMAT;
    if (fs_has_suffix(name, ".yaml") || fs_has_suffix(name, ".yml"))
        return has(text, "names:") && (has(text, "train:") || has(text, "nc:") || has(text, "path:"))
                   ? YOLO
                   : NO_FORMAT;
    if (fs_has_suffix(name, ".json")) return format_of_json(text);
    if (fs_has_suffix(name, ".csv")) return format_of_csv(text);
    if (fs_has_suffix(name, ".jsonl") || fs_has_suffix(name, ".ndjson"))
        return has(text, "\"file_name\"") && has(text, "\"objects\"") ? METADATA : NO_FORMAT;
    return fs_has_suffix(name, ".manifest") && has(text, "\"source-ref\"") ? MANIFEST : NO_FORMAT;
}

static format_t format_of_file(const char *path, const char *name)
{
    char text[PEEK + 1];
    size_t n = 0;
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return NO_FORMAT;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || fs_read_all(fd, FS_HERE, text, PEEK, &n) != 0)
        n = 0;
    close(fd);
    if (file_kind(text, n) == FILE_TFRECORD) return TFRECORD;
    size_t n_kept = 0;
    for (size_t i = 0; i < n; i++)
        if (text[i]) text[n_kept++] = text[i]; /* UTF-16 */
    text[n_kept] = '\0';
    return format_of_text(name, text);
}

static bool is_annotation_name(const char *name, int *ending)
{
    static const char *const endings[] = {".txt",   ".xml",    ".json",     ".yaml",     ".yml",   ".csv",
                                          ".jsonl", ".ndjson", ".manifest", ".tfrecord", ".record"};
    for (*ending = 0; *ending < (int)(sizeof endings / sizeof *endings); ++*ending)
        if (fs_has_suffix(name, endings[*ending])) return true;
    return false;
}

/* Looks at some files of a folder. Among images they tell nothing where the folder may be one class of several.
 *
 *   may_be_class  its images may be those of a class */
static void look_into(look_t *l, const char *folder, bool may_be_class)
{
    int n_of[16] = {0}, ending;
    bool has_images = false;
    const struct dirent *entry = NULL;
    char path[FS_PATH_MAX], file[FS_PATH_MAX] = "";
    format_t found = NO_FORMAT;
    DIR *dir = opendir(folder);
    for (int n = 0; dir && n < MOST_ENTRIES && folder_next(dir, folder, &entry) == ERR_OK && entry; n++) {
        has_images = has_images || image_is_named(entry->d_name);
        if (found != NO_FORMAT && found != YOLO && has_images) break;
        if (!is_annotation_name(entry->d_name, &ending) || n_of[ending]++ >= FEW_FILES) continue;
        if (fs_join(path, folder, entry->d_name) != ERR_OK) continue;
        const format_t format = format_of_file(path, entry->d_name);
        if (format == NO_FORMAT || found != NO_FORMAT) continue;
        found = format;
        memcpy(file, path, sizeof file);
    }
    if (dir) closedir(dir);
    if (may_be_class && has_images && l->n_image_folders++ > 0) l->format = NO_FORMAT;
    if (found == NO_FORMAT || (may_be_class && has_images && l->n_image_folders > 1)) return;
    /* Labels tell more than the file that lists their classes. */
    if (l->format == NO_FORMAT || (l->format == YOLO && !fs_has_suffix(l->file, ".txt"))) {
        l->format = found;
        memcpy(l->file, file, sizeof l->file);
    }
}

/* Folders of tools that hold annotations or images, and folders below that. */
static bool is_tools_folder(const char *name)
{
    static const char *const names[] = {
        "images", "img", "imgs", "jpegimages", "labels",  "label", "annotations", "annotation", "ann",
        "anns",   "xml", "xmls", "txt",        "label_2", "data",  "dataset",     "imagesets"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(names[i], name) == 0) return true;
    return false;
}

static void look_below(look_t *l, arena_t *arena)
{
    folder_list_t top = {.n_images = 0}, below = {.n_images = 0};
    char path[FS_PATH_MAX], deeper[FS_PATH_MAX];
    look_into(l, l->base, false);
    if (folder_list(arena, l->base, &top) != ERR_OK) return;
    /* Labels of an image each are beside it. */
    if (fs_has_suffix(l->file, ".txt") && top.n_images == 0 && top.folders.n > 0)
        *l = (look_t){.base = l->base};
    for (int64_t i = 0; i < top.folders.n && i < FEW_FOLDERS; i++) {
        const char *name = top.folders.names[i];
        const bool split = coco_role(name) != FOLDER_OTHER || folder_names_role(name),
                   tools = is_tools_folder(name);
        if (fs_join(path, l->base, name) != ERR_OK) continue;
        look_into(l, path, !split && !tools);
        if (!split && !tools) { /* a data set of a project */
            static const char *const names[] = {"ann", "annotations", "Annotations", "labels"};
            for (size_t k = 0; k < sizeof names / sizeof *names; k++)
                if (fs_join(deeper, path, names[k]) == ERR_OK && fs_is_folder(deeper))
                    look_into(l, deeper, false);
            continue;
        }
        if (folder_list(arena, path, &below) != ERR_OK) continue;
        for (int64_t k = 0; k < below.folders.n && k < FEW_FOLDERS; k++) {
            const char *name_below = below.folders.names[k];
            const bool known =
                is_tools_folder(name_below) || (tools && coco_role(name_below) != FOLDER_OTHER);
            if (known && fs_join(deeper, path, name_below) == ERR_OK) look_into(l, deeper, false);
        }
        folder_list_free(&below);
        below = (folder_list_t){.n_images = 0};
    }
    folder_list_free(&top);
}

/* The folder of the images whose annotations are in `folder`: it, or one beside it; else a word for it. */
static void find_images(const char *base, const char *folder, char out[FS_PATH_MAX])
{
    static const char *const words[] = {"labels", "Annotations", "annotations", "label_2", "ann", "xml"},
                             *const others[] = {"images", "JPEGImages", "img"};
    char path[FS_PATH_MAX];
    snprintf(out, FS_PATH_MAX, "%s", folder);
    if (folder_has_images(folder, 0)) return;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
            const char *at = strstr(folder + strlen(base), words[i]);
            if (!at) continue;
            snprintf(path, sizeof path, "%.*s%s%s", (int)(at - folder), folder, others[k],
                     at + strlen(words[i]));
            if (!folder_has_images(path, 0)) continue;
            memcpy(out, path, sizeof path);
            return;
        }
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (fs_join(path, base, others[k]) == ERR_OK && folder_has_images(path, 0)) {
            memcpy(out, path, sizeof path);
            return;
        }
    snprintf(out, FS_PATH_MAX, "IMAGES");
}

static void fill_in(const look_t *l, char *out, size_t n_bytes)
{
    char labels[FS_PATH_MAX], images[FS_PATH_MAX], quoted[FS_PATH_MAX];
    size_t n = 0;
    snprintf(labels, sizeof labels, "%s", l->file);
    *strrchr(labels, '/') = '\0';
    find_images(l->base, labels, images);
    for (const char *at = formats[l->format].how; *at && n + 1 < n_bytes; at++) {
        const char *path = *at != '%'     ? NULL
                           : at[1] == 'L' ? labels
                           : at[1] == 'F' ? l->file
                           : at[1] == 'I' ? images
                                          : l->base;
        if (!path) {
            out[n++] = *at;
            out[n] = '\0';
            continue;
        }
        fs_quote(path, quoted, sizeof quoted);
        const int n_text = snprintf(out + n, n_bytes - n, "%s", quoted);
        n = n_text < 0 || (size_t)n_text >= n_bytes - n ? n_bytes - 1 : n + (size_t)n_text;
        at++;
    }
}

/* The images of a list, which is beside or above their folder. */
static err_t refuse_part(const char *path)
{
    char name[FS_PATH_MAX], from[FS_PATH_MAX], parent[FS_PATH_MAX], quoted[FS_PATH_MAX];
    if (!folder_has_images(path, 0) || folder_has_folders(path)) return ERR_OK;
    TRY(fs_join(from, "", path));
    for (int up = 0; up < 2; up++, memcpy(from, parent, sizeof from)) {
        if (!folder_find_parent(from, name, parent)) return ERR_OK;
        if (!coco_is(parent)) continue;
        fs_quote(parent, quoted, sizeof quoted);
        RAISE(ERR_DATA,
              "%s holds only images; the list of their objects may be that of the folder above: --data %s",
              path, quoted);
    }
    return ERR_OK;
}

/* Whether the file is in the data's folder or in that of a split: beside folders of classes it only describes them. */
static bool is_above_classes(const look_t *l)
{
    const char *below = l->file + strlen(l->base), *slash;
    char name[NAME_MAX + 1];
    below += strspn(below, "/");
    slash = strchr(below, '/');
    if (!slash) return true;
    snprintf(name, sizeof name, "%.*s", (int)(slash - below), below);
    return !strchr(slash + 1, '/') && coco_role(name) != FOLDER_OTHER;
}

err_t formats_refuse(const char *path)
{
    char how[2048], base[FS_PATH_MAX];
    TRY(refuse_part(path));
    arena_t arena = {0};
    TRY(fs_join(base, "", path));
    for (size_t n = strlen(base); n > 1 && base[n - 1] == '/'; n--) base[n - 1] = '\0';
    look_t l = {.base = base};
    look_below(&l, &arena);
    arena_free(&arena);
    if (l.format == NO_FORMAT) return ERR_OK;
    if (folder_trains_classes(base) && is_above_classes(&l)) return ERR_OK;
    fill_in(&l, how, sizeof how);
    folder_mask_line(l.file);
    RAISE(ERR_DATA,
          "%s has annotations of another format: %s, such as %s; dptrain reads COCO's. To convert: %s", path,
          formats[l.format].name, l.file, how);
}
