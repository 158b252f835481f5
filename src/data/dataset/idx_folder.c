/* SPDX-License-Identifier: MIT */
/* A data set of four IDX files as a dataset in memory: MNIST and its relatives. Finds the files: names of MNIST and its
 * relatives, several sets in a folder, folders above and below. Classes come from the training labels. idx.c implements
 * the file format. */
#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/mem.h"
#include "data/dataset/idx.h"

enum { IDX_SET_MAX = 64, MAX_SETS = 16, MAX_FOLDERS = 8, MAX_DEPTH = 3 };

/* A data set among the files of a folder. Its files are called [SET-]train-images-idx3-ubyte, …-labels-idx1-ubyte (idx2-int
 * in QMNIST), and t10k or test in place of train; in any case, with '-', '_' or '.' between the words, plain or
 * packed. */
typedef struct idx_set {
    char name[IDX_SET_MAX];                  /* "emnist-letters"; "": the names are MNIST's own */
    char file[SPLIT_COUNT][2][IDX_NAME_MAX]; /* [images] in the folder; "": there is none */
} idx_set_t;

typedef struct idx_found {
    char folder[FS_PATH_MAX];
    idx_set_t set;
    char others[1024]; /* sets of the folder that were not taken, separated by commas */
} idx_found_t;

/* Of a file's name. The lower rank is taken where a set has two files for the same: plain before packed, a dash
 * before a dot, "t10k" before "test". */
typedef struct idx_file {
    split_t split;
    bool images;
    int rank;
    size_t n_set; /* bytes of the set's name, at the start */
} idx_file_t;

typedef struct idx_sets {
    char folder[FS_PATH_MAX];
    idx_set_t set[MAX_SETS];
    int rank[MAX_SETS][SPLIT_COUNT][2];
    int n;
} idx_sets_t;

typedef struct idx_folders {
    char path[MAX_FOLDERS][FS_PATH_MAX];
    int n;
} idx_folders_t;

void idx_name(split_t split, bool images, char out[IDX_NAME_MAX])
{
    snprintf(out, IDX_NAME_MAX, "%s-%s-idx%d-ubyte", split == SPLIT_TRAIN ? "train" : "t10k",
             images ? "images" : "labels", images ? 3 : 1);
}

/* Takes one of the words, and the '-', '_' or '.' before it, off the end of a name. Returns its number, or -1. */
static int take_word(const char *name, size_t *n, const char *const words[])
{
    for (int i = 0; words[i]; i++) {
        size_t n_word = strlen(words[i]);
        if (*n < n_word || strncasecmp(name + *n - n_word, words[i], n_word) != 0) continue;
        size_t before = *n - n_word;
        if (before > 0 && !strchr("-_.", name[before - 1])) continue;
        *n = before > 0 ? before - 1 : 0;
        return i;
    }
    return -1;
}

/* [SET-]{train,t10k,…}-{images,labels}-idx{1,2,3}[-ubyte][.gz] */
static bool parse_name(const char *name, idx_file_t *out)
{
    /* The others are recognised so that reading them says what to do. */
    static const char *const packed[] = {"gz", "xz", "bz2", "zst", "zip", "z", NULL};
    static const char *const type[] = {"ubyte", "int", "byte", NULL};
    static const char *const idx[] = {"idx3", "idx1", "idx2", NULL};
    static const char *const what[] = {"labels", "images", NULL};
    static const char *const split[] = {"train",   "training", "t10k",       "test",
                                        "testing", "val",      "validation", NULL};
    size_t n = strlen(name);
    if (name[0] == '.' || n >= IDX_NAME_MAX) return false;
    const int at_packed = take_word(name, &n, packed);
    take_word(name, &n, type);
    if (take_word(name, &n, idx) < 0) return false;
    const bool dash = name[n] == '-';
    const int at_what = take_word(name, &n, what);
    const int at_split = at_what < 0 ? -1 : take_word(name, &n, split);
    if (at_split < 0 || n >= IDX_SET_MAX) return false;
    for (size_t i = 0; i < n; i++)
        if (name[i] <= ' ' || name[i] > '~' || name[i] == '%') return false;
    *out = (idx_file_t){.split = at_split < 2 ? SPLIT_TRAIN : SPLIT_VAL,
                        .images = at_what == 1,
                        .rank = (at_packed < 0    ? 1
                                 : at_packed == 0 ? 2
                                                  : 8) +
                                (dash ? 0 : 2) + 16 * at_split,
                        .n_set = n};
    return true;
}

static idx_set_t *set_named(idx_sets_t *sets, const char *name, size_t n)
{
    for (int i = 0; i < sets->n; i++)
        if (strncasecmp(sets->set[i].name, name, n) == 0 && sets->set[i].name[n] == '\0')
            return &sets->set[i];
    if (sets->n == MAX_SETS) return NULL;
    idx_set_t *set = &sets->set[sets->n++];
    *set = (idx_set_t){0};
    memcpy(set->name, name, n);
    return set;
}

/* Some archives unpack each file into a folder of its name, or of its name with a dash for its dot. */
static bool file_in_folder(DIR *dir, char name[IDX_NAME_MAX])
{
    struct stat info;
    char inside[IDX_NAME_MAX];
    if (fstatat(dirfd(dir), name, &info, 0) != 0 || !S_ISDIR(info.st_mode)) return true;
    if (snprintf(inside, sizeof inside, "%s/%s", name, name) >= IDX_NAME_MAX) return false;
    char *dash = strcasestr(strchr(inside, '/'), "-idx");
    bool found = fstatat(dirfd(dir), inside, &info, 0) == 0 && S_ISREG(info.st_mode);
    if (!found && dash) {
        *dash = '.';
        found = fstatat(dirfd(dir), inside, &info, 0) == 0 && S_ISREG(info.st_mode);
    }
    if (found) memcpy(name, inside, sizeof inside);
    return found;
}

static int by_name(const void *a, const void *b)
{
    return strcasecmp(((const idx_set_t *)a)->name, ((const idx_set_t *)b)->name);
}

/* The sets of a folder itself. Raises nothing: what cannot be listed has none. */
static bool find_sets(const char *folder, idx_sets_t *out)
{
    out->n = 0;
    memset(out->rank, 0, sizeof out->rank);
    DIR *dir = snprintf(out->folder, FS_PATH_MAX, "%s", folder) < FS_PATH_MAX ? opendir(folder) : NULL;
    if (!dir) return false;
    for (struct dirent *entry; (entry = readdir(dir));) {
        idx_file_t file;
        char name[IDX_NAME_MAX];
        if (!parse_name(entry->d_name, &file)) continue;
        snprintf(name, sizeof name, "%s", entry->d_name);
        if (!file_in_folder(dir, name)) continue;
        idx_set_t *set = set_named(out, name, file.n_set);
        if (!set) continue;
        int *rank = &out->rank[set - out->set][file.split][file.images];
        if (*rank && *rank <= file.rank) continue;
        *rank = file.rank;
        memcpy(set->file[file.split][file.images], name, sizeof name);
    }
    closedir(dir);
    qsort(out->set, (size_t)out->n, sizeof *out->set, by_name);
    return out->n > 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The folders with IDX files: this one, or else those below.
 *
 *   alone  below only where there are no other folders at this level */
static void find_folders(const char *folder, bool alone, int depth, idx_folders_t *out)
{
    char levels[MAX_FOLDERS][IDX_NAME_MAX];
    int n = 0;
    idx_sets_t sets;
    if (out->n == MAX_FOLDERS) return;
    if (find_sets(folder, &sets)) {
        snprintf(out->path[out->n++], FS_PATH_MAX, "%s", folder);
        return;
    }
    DIR *dir = depth < MAX_DEPTH ? opendir(folder) : NULL;
    if (!dir) return;
    bool others = false; /* which may be classes of images, or other data sets */
    for (struct dirent *entry; !others && (entry = readdir(dir));) {
        const char *name = entry->d_name;
        /* A level between the folder that is named and the files, as torchvision and EMNIST's archive have them. */
        const bool level =
            strcasecmp(name, "raw") == 0 || strcasecmp(name, "gzip") == 0 || strcasestr(name, "mnist");
        if (name[0] == '.' || strcasecmp(name, "processed") == 0 || !fs_entry_is_folder(dir, entry)) continue;
        if (level && n < MAX_FOLDERS) snprintf(levels[n++], IDX_NAME_MAX, "%s", name);
        others = alone && depth == 0 && !level;
    }
    closedir(dir);
    if (others) return;
    qsort(levels, (size_t)n, sizeof levels[0], by_text);
    for (int i = 0; i < n; i++) {
        char below[FS_PATH_MAX];
        const bool slash = folder[strlen(folder) - 1] == '/';
        if (snprintf(below, sizeof below, "%s%s%s", folder, slash ? "" : "/", levels[i]) < FS_PATH_MAX)
            find_folders(below, alone, depth + 1, out);
    }
}

/* FOLDER/NAME, or a name alone in the folder ".". Slashes at the end do not count. */
static void split_path(const char *path, char folder[FS_PATH_MAX], char name[FS_PATH_MAX])
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t n_folder = n;
    while (n_folder > 0 && path[n_folder - 1] != '/') n_folder--;
    snprintf(name, FS_PATH_MAX, "%.*s", (int)(n - n_folder), path + n_folder);
    while (n_folder > 1 && path[n_folder - 1] == '/') n_folder--;
    snprintf(folder, FS_PATH_MAX, "%.*s", n_folder ? (int)n_folder : 1, n_folder ? path : ".");
}

static bool is_whole(const idx_set_t *set)
{
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        if (!set->file[split][0][0] || !set->file[split][1][0]) return false;
    return true;
}

/* The set of this name, or with NULL the only one: of several MNIST's own, or the only whole one. */
static const idx_set_t *pick_set(const idx_sets_t *sets, const char *name)
{
    const idx_set_t *whole = NULL;
    int n_whole = 0;
    for (int i = 0; i < sets->n; i++) {
        const idx_set_t *set = &sets->set[i];
        if (name && strcasecmp(set->name, name) == 0) return set;
        if (!is_whole(set)) continue;
        n_whole++;
        if (!whole || !set->name[0]) whole = set;
    }
    if (name) return NULL;
    if (sets->n == 1) return &sets->set[0];
    return n_whole == 1 || (whole && !whole->name[0]) ? whole : NULL;
}

/* The sets but for one, separated by commas. */
static void list_sets(const idx_sets_t *sets, const idx_set_t *but, char *out, size_t n_bytes)
{
    out[0] = '\0';
    for (int i = 0; i < sets->n; i++) {
        const size_t used = strlen(out);
        const idx_set_t *set = &sets->set[i];
        if (set == but) continue;
        snprintf(out + used, n_bytes - used, "%s%s", used ? ", " : "",
                 set->name[0] ? set->name : "train-images…");
    }
}

static void take_set(const idx_sets_t *sets, const idx_set_t *set, idx_found_t *out)
{
    snprintf(out->folder, sizeof out->folder, "%s", sets->folder);
    out->set = *set;
    list_sets(sets, set, out->others, sizeof out->others);
}

/* A folder of sets and the name of one. */
static bool locate_named(const char *where, idx_found_t *out)
{
    char parent[FS_PATH_MAX], name[FS_PATH_MAX];
    split_path(where, parent, name);
    idx_folders_t folders = {.n = 0};
    idx_sets_t sets;
    if (!name[0] || !fs_is_folder(parent)) return false;
    find_folders(parent, false, 0, &folders);
    for (int i = 0; i < folders.n; i++) {
        const idx_set_t *set = find_sets(folders.path[i], &sets) ? pick_set(&sets, name) : NULL;
        if (!set) continue;
        take_set(&sets, set, out);
        out->others[0] = '\0';
        return true;
    }
    return false;
}

bool idx_is(const char *where)
{
    if (!fs_is_folder(where)) {
        idx_found_t found;
        return !fs_exists(where) && locate_named(where, &found);
    }
    idx_folders_t folders = {.n = 0};
    find_folders(where, true, 0, &folders);
    return folders.n > 0;
}

bool idx_has_file(const char *folder, char out[FS_PATH_MAX])
{
    idx_sets_t sets;
    if (!find_sets(folder, &sets)) return false;
    for (int i = 0; i < 2 * SPLIT_COUNT; i++) {
        const char *name = sets.set[0].file[i / 2][i % 2];
        if (name[0]) return fs_join(out, folder, name) == ERR_OK;
    }
    return false;
}

/* Finds the data set that --data names: a folder with one; with MNIST's own names beside others; or FOLDER/SET. The
 * files may be below, in folders called raw, gzip or …mnist…, as torchvision places them. ERR_DATA names the
 * folders or sets to choose from. Files may be missing. */
static err_t idx_locate(const char *where, idx_found_t *out)
{
    idx_folders_t folders = {.n = 0};
    idx_sets_t sets;
    char list[1024] = "";
    *out = (idx_found_t){.others = ""};
    if (!fs_is_folder(where)) {
        if (!fs_exists(where) && locate_named(where, out)) return ERR_OK;
        RAISE(ERR_DATA, "the data folder %s %s; " DATASET_EXPECTED, where,
              fs_exists(where) ? "is not a folder" : "does not exist");
    }
    find_folders(where, true, 0, &folders);
    for (int i = 0; i < folders.n; i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", folders.path[i]);
    }
    if (folders.n > 1)
        RAISE(ERR_DATA, "%s holds IDX files in several folders: %s; point --data to one of them", where,
              list);
    if (folders.n == 0 || !find_sets(folders.path[0], &sets))
        RAISE(ERR_DATA, "no IDX files in the folder %s", where);
    const idx_set_t *set = pick_set(&sets, NULL);
    list_sets(&sets, NULL, list, sizeof list);
    if (!set)
        RAISE(ERR_DATA, "%s holds several data sets: %s; name one of them after the folder: --data %s/%s",
              sets.folder, list, sets.folder, sets.set[sets.n - 1].name);
    take_set(&sets, set, out);
    return ERR_OK;
}

/* The path of a file of the set. ERR_DATA names the missing file. */
static err_t idx_file(const idx_found_t *found, split_t split, bool images, char out[FS_PATH_MAX])
{
    const char *file = found->set.file[split][images];
    if (file[0]) return fs_join(out, found->folder, file);
    char name[IDX_NAME_MAX];
    idx_name(split, images, name);
    RAISE(
        ERR_DATA,
        "no file %s%s%s (or .gz) in the folder %s; download MNIST with data/fetch_mnist.sh, or use --data digits, "
        "which needs no files",
        found->set.name, found->set.name[0] ? "-" : "", name, found->folder);
}

void idx_hint(const char *where, char *out, size_t n_bytes)
{
    static const char *const near[] = {"raw", ""};
    char folder[FS_PATH_MAX], name[FS_PATH_MAX], beside[FS_PATH_MAX], list[1024];
    idx_file_t file;
    idx_sets_t sets;
    idx_folders_t folders = {.n = 0};
    out[0] = '\0';
    split_path(where, folder, name);
    find_folders(fs_is_folder(where) ? where : folder, false, 0, &folders);
    if (fs_exists(where) && !fs_is_folder(where) && parse_name(name, &file)) {
        snprintf(out, n_bytes, "; --data takes the folder of this file: --data %s", folder);
    } else if (!fs_exists(where) && folders.n == 1 && find_sets(folders.path[0], &sets) &&
               sets.set[sets.n - 1].name[0]) {
        list_sets(&sets, NULL, list, sizeof list);
        snprintf(out, n_bytes, "; %s holds the data sets %s", sets.folder, list);
    }
    if (fs_is_folder(where) && folders.n > 0)
        snprintf(out, n_bytes, "; there are IDX files in %s", folders.path[0]);
    for (int i = 0; i < 2 && fs_is_folder(where) && !out[0]; i++)
        if (fs_join(beside, folder, near[i]) == ERR_OK && find_sets(beside, &sets))
            snprintf(out, n_bytes, "; there are IDX files in %s", beside);
}

/* Larger than any set of images that a rank should hold in memory. */
static const int64_t max_file_bytes = (int64_t)8 << 30;

enum { N_LABELS = UINT8_MAX + 1, NAME_BYTES = 8, ABOUT_BYTES = 2048, N_DIGITS = 10, MAX_MAPPING = 1 << 16 };

/* What info points to. */
typedef struct idx_texts {
    char text[N_LABELS][NAME_BYTES];
    const char *names[N_LABELS];
    char about[ABOUT_BYTES];
} idx_texts_t;

typedef struct idx_data {
    idx_found_t found;
    char labels_path[SPLIT_COUNT][FS_PATH_MAX];
    shape_t images[SPLIT_COUNT]; /* [n, h, w] */
    bool seen[N_LABELS];         /* by training */
    int first, last;             /* training labels */
    idx_texts_t *texts;
} idx_data_t;

static void idx_about(idx_texts_t *texts, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void idx_about(idx_texts_t *texts, const char *format, ...)
{
    const size_t used = strlen(texts->about);
    va_list values;
    va_start(values, format);
    if (used) snprintf(texts->about + used, ABOUT_BYTES - used, "\n");
    const size_t at = strlen(texts->about);
    vsnprintf(texts->about + at, ABOUT_BYTES - at, format, values);
    va_end(values);
}

/* Classes are the training labels from 0 up to the largest, so that a label is its class's number. Labels that are counted
 * from 1, as EMNIST's letters are, become classes from 0: nothing could be learned of a class before them. Up to 9 they are
 * rather digits without a zero. */
static err_t number_classes(idx_data_t *d, dataset_t *dataset)
{
    dataset_info_t *info = &dataset->info;
    const uint8_t *train = dataset->labels[SPLIT_TRAIN], *val = dataset->labels[SPLIT_VAL];
    d->first = N_LABELS, d->last = 0;
    for (int64_t i = 0; i < info->n_samples[SPLIT_TRAIN]; i++) d->seen[train[i]] = true;
    for (int k = 0; k < N_LABELS; k++) {
        if (!d->seen[k]) continue;
        if (k < d->first) d->first = k;
        d->last = k;
    }
    d->first = d->first == 1 && d->last >= N_DIGITS ? 1 : 0;
    info->n_classes = d->last + 1 - d->first;
    for (int64_t i = 0; i < info->n_samples[SPLIT_VAL]; i++)
        if (val[i] < d->first || val[i] > d->last)
            RAISE(ERR_DATA,
                  "%s: label %d at sample %" PRId64
                  " is not among the classes of training, whose labels are %d to %d in %s",
                  d->labels_path[SPLIT_VAL], val[i], i, d->first, d->last, d->labels_path[SPLIT_TRAIN]);
    for (split_t split = 0; split < SPLIT_COUNT && d->first > 0; split++)
        for (int64_t i = 0; i < info->n_samples[split]; i++) dataset->labels[split][i] -= (uint8_t)d->first;
    return ERR_OK;
}

/* Names by EMNIST's mapping: a line "LABEL CODE" or "LABEL CODE CODE" (letters: capital and small) per class, codes in ASCII.
 * Labels that training does not have are passed over. False if it does not name every class. */
static bool take_mapping(const idx_data_t *d, int n_classes, char *text)
{
    idx_texts_t *texts = d->texts;
    int n = 0;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        char *at;
        const long label = strtol(line, &at, 10);
        if (at == line) continue;
        long code = 0;
        for (char *end; (void)strtol(at, &end, 10), end != at; at = end) code = strtol(at, NULL, 10);
        if (label < d->first || label > d->last) continue;
        if (code <= ' ' || code > '~') return false;
        const long k = label - d->first;
        if (!texts->names[k]) n++;
        snprintf(texts->text[k], NAME_BYTES, "%c", (int)code);
        texts->names[k] = texts->text[k];
    }
    return n == n_classes;
}

static bool is_emnist(const idx_data_t *d)
{
    return strncasecmp(d->found.set.name, "emnist", 6) == 0;
}

/* EMNIST's sets are known without their mapping. `first`: the label of the first class. */
static const char *known_alphabet(int n_classes, int first)
{
    static const char *const of_0[] = {"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt",
                                       "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"};
    static const char of_1[] = "abcdefghijklmnopqrstuvwxyz";
    if (first == 1) return n_classes == (int)strlen(of_1) ? of_1 : NULL;
    for (int i = 0; i < 2; i++)
        if (n_classes == (int)strlen(of_0[i])) return of_0[i];
    return NULL;
}

/* Leaves the numbers that labels are without names, unless they are counted from 1. */
static err_t name_classes(const idx_data_t *d, dataset_info_t *info)
{
    idx_texts_t *texts = d->texts;
    const idx_set_t *set = &d->found.set;
    const char *alphabet = is_emnist(d) ? known_alphabet(info->n_classes, d->first) : NULL;
    bool mapped = false;
    for (int i = 0; i < 2 && set->name[0] && !mapped; i++) {
        char name[IDX_SET_MAX + 32], path[FS_PATH_MAX], *text = NULL;
        snprintf(name, sizeof name, "%s%s-mapping.txt", i ? "gzip/" : "", set->name);
        TRY(fs_join(path, d->found.folder, name));
        if (!fs_exists(path)) continue;
        if (fs_read_text(path, MAX_MAPPING, &text) == ERR_OK) mapped = take_mapping(d, info->n_classes, text);
        mem_free(&text);
        if (!mapped) idx_about(texts, "%s is not used: it does not name each of the classes", path);
    }
    for (int k = 0; k < info->n_classes && !mapped; k++) {
        if (alphabet)
            snprintf(texts->text[k], NAME_BYTES, "%c", alphabet[k]);
        else
            snprintf(texts->text[k], NAME_BYTES, "%d", k + d->first);
        texts->names[k] = texts->text[k];
    }
    if (mapped || alphabet || d->first > 0) info->class_names = texts->names;
    return ERR_OK;
}

/* EMNIST's images are stored column by column. */
static void transpose(uint8_t *pixels, shape_t *images, uint8_t *space)
{
    const int64_t n = images->dim[0], h = images->dim[1], w = images->dim[2];
    for (int64_t i = 0; i < n; i++) {
        uint8_t *image = pixels + i * h * w;
        memcpy(space, image, (size_t)(h * w));
        for (int64_t y = 0; y < w; y++)
            for (int64_t x = 0; x < h; x++) image[y * h + x] = space[x * w + y];
    }
    images->dim[1] = w;
    images->dim[2] = h;
}

/* What a user may not expect of the classes. */
static void describe_classes(const idx_data_t *d, const dataset_info_t *info)
{
    enum { TOLD = 8 };
    char list[8 * TOLD] = "";
    int n = 0;
    for (int k = d->first; k <= d->last; k++) {
        if (d->seen[k] || n++ >= TOLD) continue;
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%d", used ? ", " : "", k);
    }
    if (d->first > 0)
        idx_about(d->texts, "labels %d to %d are classes 0 to %d, named %s to %s", d->first, d->last,
                  info->n_classes - 1, info->class_names[0], info->class_names[info->n_classes - 1]);
    if (n > 0)
        idx_about(d->texts, "no training image has the label%s %s%s (of %d to %d)", n > 1 ? "s" : "", list,
                  n > TOLD ? ", …" : "", d->first, d->last);
    if (d->found.others[0])
        idx_about(d->texts, "not used: %s; --data %s/NAME chooses another set", d->found.others,
                  d->found.folder);
}

err_t idx_open(const char *where, dataset_t *dataset)
{
    dataset_info_t *info = &dataset->info;
    idx_data_t *d = NULL;
    err_t err = ERR_OK;
    TRY(mem_new(sizeof *d, "a list of files", &d));
    TRY_OUT(err, arena_new(&dataset->arena, sizeof *d->texts, &d->texts));
    memset(d->texts, 0, sizeof *d->texts);
    TRY_OUT(err, idx_locate(where, &d->found));
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        char images_path[FS_PATH_MAX];
        int64_t n_labels;
        TRY_OUT(err, idx_file(&d->found, split, true, images_path));
        TRY_OUT(err, idx_file(&d->found, split, false, d->labels_path[split]));
        TRY_OUT(err,
                idx_read_labels(d->labels_path[split], max_file_bytes, &n_labels, &dataset->labels[split]));
        TRY_OUT(err, idx_read(images_path, 3, max_file_bytes, &d->images[split], &dataset->pixels[split]));
        if (d->images[split].dim[0] != n_labels)
            RAISE_OUT(err, ERR_DATA,
                      "%s holds %" PRId64 " images, but %s holds %" PRId64 " labels; they must match",
                      images_path, d->images[split].dim[0], d->labels_path[split], n_labels);
        info->n_samples[split] = d->images[split].dim[0];
    }
    const shape_t *train = &d->images[SPLIT_TRAIN], *val = &d->images[SPLIT_VAL];
    if (train->dim[1] != val->dim[1] || train->dim[2] != val->dim[2])
        RAISE_OUT(err, ERR_DATA,
                  "%s: the training images are %" PRId64 "×%" PRId64 " pixels, but those of t10k are %" PRId64
                  "×%" PRId64,
                  where, train->dim[1], train->dim[2], val->dim[1], val->dim[2]);
    TRY_OUT(err, number_classes(d, dataset));
    TRY_OUT(err, name_classes(d, info));
    if (is_emnist(d)) {
        uint8_t *space = NULL;
        TRY_OUT(err, mem_new((size_t)(train->dim[1] * train->dim[2]), "an image", &space));
        for (split_t split = 0; split < SPLIT_COUNT; split++)
            transpose(dataset->pixels[split], &d->images[split], space);
        mem_free(&space);
        idx_about(d->texts, "images are transposed: EMNIST stores them column by column");
    }
    describe_classes(d, info);
    info->kind = "idx";
    info->about = d->texts->about;
    info->height = train->dim[1];
    info->width = train->dim[2];
    info->channels = 1;
    err = d->found.set.name[0] ? fs_join(info->source, d->found.folder, d->found.set.name)
                               : fs_join(info->source, "", d->found.folder);
out:
    mem_free(&d);
    return err;
}
