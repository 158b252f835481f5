/* SPDX-License-Identifier: MIT */
/* Lists of COCO's form in a folder, as COCO and labelling tools lay them out: which of them serves as which split. Where
 * the images of a list are is left to coco_images.c, reading to data/coco. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "data/image/image.h"
#include "data/source/parts.h"

enum {
    MAX_LISTS = 64,      /* more of them are not looked at */
    FEW_FOLDERS = 16,    /* without a list elsewhere, so many folders are looked into */
    MOST_ENTRIES = 4096, /* of a folder that may hold very many images */
    PEEK = 1 << 16,      /* bytes of a file that tell whether it is a list */
};

/* A list's place, by its rank: the lower is taken. */
enum { RANK_FOLDER = 1, RANK_BELOW = 2, RANK_WORDS = 10, RANK_PLAIN = 100, RANK_KEYPOINTS = 200 };

typedef struct found {
    const char *path, *below; /* below: without the folder that was given */
    char word[NAME_MAX + 1];  /* the split's: "train2017" of instances_train2017.json */
    folder_role_t role;
    int rank;
    char first[FS_PATH_MAX]; /* the first image's name; "": unknown */
} found_t;

typedef struct search {
    arena_t arena;
    const char *base;
    folder_list_t top;
    found_t *lists; /* [n] */
    int n;
} search_t;

/* The end of a string in JSON; NULL: beyond the text. */
static const char *end_of_string(const char *at)
{
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && at[1]) at++;
    return *at ? at : NULL;
}

/* A list that is empty or begins with an object; the text may end before that. */
static bool is_list_of_objects(const char *value)
{
    if (*value != '[') return false;
    value += 1 + strspn(value + 1, " \t\r\n");
    return !*value || *value == '{' || *value == ']';
}

/* A name as it is in JSON; "" where that has escapes other than of slashes. */
static void copy_name(const char *from, const char *end, char out[FS_PATH_MAX])
{
    size_t n = 0;
    for (from++; from < end && n < FS_PATH_MAX - 1; from++) {
        if (*from == '\\' && !strchr("/\\", *++from)) break;
        out[n++] = *from;
    }
    out[from == end ? n : 0] = '\0';
}

/* Whether a text is a list: an object that has images and annotations, which are objects, too; of the start of a text,
 * one of them.
 *
 *   first  the first file_name */
static bool is_list(const char *text, char first[FS_PATH_MAX])
{
    static const char *const keys[] = {"images", "annotations"};
    bool has[2] = {false}, whole = false;
    int depth = 0;
    first[0] = '\0';
    text += strspn(text, "\xEF\xBB\xBF\xFE\xFF \t\r\n");
    if (*text != '{') return false;
    for (const char *at = text; *at && !whole; at++) {
        if (*at == '{' || *at == '[') depth++;
        if (*at == '}' || *at == ']') whole = --depth == 0;
        if (*at != '"') continue;
        const char *end = end_of_string(at);
        if (!end) break;
        const char *value = end + 1 + strspn(end + 1, " \t\r\n");
        if (*value == ':') {
            const size_t n = (size_t)(end - at - 1);
            value += 1 + strspn(value + 1, " \t\r\n");
            for (int k = 0; k < 2 && depth == 1; k++)
                has[k] |=
                    strlen(keys[k]) == n && strncmp(at + 1, keys[k], n) == 0 && is_list_of_objects(value);
            const char *value_end = *value == '"' ? end_of_string(value) : NULL;
            if (!first[0] && value_end && n == 9 && strncmp(at + 1, "file_name", n) == 0)
                copy_name(value, value_end, first);
        }
        at = end;
    }
    return whole ? has[0] && has[1] : has[0] || has[1];
}

/* Of a file, also of a compressed one or one in UTF-16, of which only the zeros are left out. */
static bool is_list_file(const char *path, char first[FS_PATH_MAX])
{
    struct stat info;
    char *text = NULL;
    gunzip_t *gunzip = NULL;
    size_t n = 0, n_kept = 0;
    first[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
        mem_new(PEEK + 1, "the start of a list", &text) != ERR_OK) {
        close(fd);
        return false;
    }
    if (fs_read_all(fd, FS_HERE, text, PEEK, &n) == 0 && gunzip_begins(text, n) &&
        lseek(fd, 0, SEEK_SET) == 0 && gunzip_new(fd, &gunzip) == ERR_OK)
        (void)gunzip_read(gunzip, text, PEEK, &n);
    for (size_t i = 0; i < n; i++)
        if (text[i]) text[n_kept++] = text[i];
    text[n_kept] = '\0';
    const bool is = is_list(text, first);
    gunzip_free(&gunzip);
    mem_free(&text);
    close(fd);
    return is;
}

static bool begins(const char *text, const char *with)
{
    return strncasecmp(text, with, strlen(with)) == 0;
}

/* The length of a list's name without its ending; 0: it is not the name of one. */
static size_t stem_length(const char *name)
{
    static const char *const endings[] = {".json", ".json.gz"};
    for (size_t i = 0; i < 2; i++)
        if (fs_has_suffix(name, endings[i])) return strlen(name) - strlen(endings[i]);
    return 0;
}

/* COCO's lists of other things than objects. */
static bool is_other_kind(const char *name)
{
    static const char *const prefixes[] = {"captions_",  "image_info_",        "stuff_", "panoptic_", "sem_",
                                           "unlabeled_", "lvis_v1_image_info_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (begins(name, prefixes[i])) return true;
    return false;
}

bool coco_is_list_folder(const char *name)
{
    static const char *const names[] = {"annotations", "annotation", "annos", "ann",
                                        "anns",        "labels",     "json",  "coco"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i]) == 0) return true;
    return false;
}

/* The role by the words of a name, of which a year may be part: "instances_train2017". Two roles: the later, as of
 * "test-dev"; with training: none.
 *
 *   n_words  of the name */
static folder_role_t role_of_words(const char *name, size_t n_name, int *n_words)
{
    folder_role_t role = FOLDER_OTHER;
    *n_words = 0;
    for (size_t at = 0, n, n_letters; at < n_name; at += n) {
        for (n = 0; at + n < n_name && isalnum((unsigned char)name[at + n]); n++) continue;
        for (n_letters = 0; n_letters < n && isalpha((unsigned char)name[at + n_letters]); n_letters++)
            continue;
        char word[NAME_MAX + 1];
        snprintf(word, sizeof word, "%.*s", (int)n_letters, name + at);
        size_t n_digits = strspn(name + at + n_letters, "0123456789");
        const folder_role_t this = n_digits + n_letters >= n ? folder_role(word) : FOLDER_OTHER;
        if (n > 0) ++*n_words;
        if (n == 0) n = 1;
        if (this == FOLDER_OTHER) continue;
        if (role == FOLDER_OTHER || (role != FOLDER_TRAIN && this > role)) role = this;
        if (role != this && (role == FOLDER_TRAIN || this == FOLDER_TRAIN)) return FOLDER_OTHER;
    }
    return role;
}

folder_role_t coco_role(const char *name)
{
    int n_words;
    const folder_role_t role = role_of_words(name, strlen(name), &n_words);
    return n_words == 1 || folder_role(name) != FOLDER_OTHER ? role : FOLDER_OTHER;
}

/* What a list's name and its folder's name say.
 *
 *   folder  the name of its folder; "": the one that was given */
static void name_list(found_t *f, const char *folder, const char *name)
{
    const bool objects = begins(name, "instances_"), keypoints = begins(name, "person_keypoints_");
    const char *rest = name + (objects ? strlen("instances_") : keypoints ? strlen("person_keypoints_") : 0);
    const bool apart = folder[0] && !coco_is_list_folder(folder);
    int n_words = 0;
    f->role = role_of_words(rest, stem_length(rest), &n_words);
    snprintf(f->word, sizeof f->word, "%.*s", (int)stem_length(rest), rest);
    if (apart && f->role == FOLDER_OTHER) {
        f->role = coco_role(folder);
        snprintf(f->word, sizeof f->word, "%s", folder);
        n_words = 1;
    }
    f->rank = RANK_WORDS * (n_words - 1) +
              (objects     ? 0
               : keypoints ? RANK_KEYPOINTS
                           : RANK_PLAIN) +
              (!folder[0] ? RANK_FOLDER
               : apart    ? RANK_BELOW
                          : 0);
}

/* Takes a file if it is a list. Names of COCO's and Roboflow's are lists whatever is in the file, and names of splits if
 * nobody can look into it, which reading then tells. */
static err_t add_list(search_t *s, const char *folder, const char *name)
{
    char path[FS_PATH_MAX];
    found_t f = {.role = FOLDER_OTHER};
    for (int i = 0; i < s->n; i++) {
        const char *known = strrchr(s->lists[i].path, '/') + 1;
        const size_t n_folder = (size_t)(known - 1 - s->lists[i].path);
        if (strcmp(known, name) == 0 && strlen(folder) == n_folder &&
            strncmp(s->lists[i].path, folder, n_folder) == 0)
            return ERR_OK;
    }
    if (s->n == MAX_LISTS || is_other_kind(name) || fs_join(path, folder, name) != ERR_OK) return ERR_OK;
    int n_words;
    const bool named =
        begins(name, "instances_") || begins(name, "_annotations.coco.json") ||
        (access(path, R_OK) != 0 && role_of_words(name, stem_length(name), &n_words) != FOLDER_OTHER);
    struct stat info;
    if (!is_list_file(path, f.first) && !(named && lstat(path, &info) == 0)) return ERR_OK;
    const char *last = strrchr(folder, '/');
    name_list(&f, strcmp(folder, s->base) == 0 ? "" : last ? last + 1 : folder, name);
    TRY(arena_text(&s->arena, path, strlen(path), &f.path));
    f.below = f.path + strlen(s->base);
    while (*f.below == '/') f.below++;
    TRY(mem_grow(s->n + 1, sizeof *s->lists, "lists of objects", &s->lists));
    s->lists[s->n++] = f;
    return ERR_OK;
}

static int compare_stems(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    const size_t n = strcspn(x, "."), m = strcspn(y, ".");
    const int order = strncmp(x, y, n < m ? n : m);
    return order ? order : (n > m) - (n < m);
}

/* Adds the lists in a folder. Files beside images of the same name are of one image: LabelMe's. */
static err_t add_lists(search_t *s, const char *folder, int most_entries)
{
    DIR *dir = NULL;
    const struct dirent *entry;
    folder_names_t images = {0}, files = {0};
    err_t err = ERR_OK;
    static const char *const usual[] = {"_annotations.coco.json", "annotations.json", "labels.json",
                                        "annotation_coco.json",   "coco.json",        "instances.json"};
    if (folder_open(folder, &dir) != ERR_OK) return ERR_OK; /* it may be anyone's */
    int n = 0;
    for (; n < most_entries; n++) {
        TRY_OUT(err, folder_next(dir, folder, &entry));
        if (!entry) break;
        if (image_is_named(entry->d_name))
            TRY_OUT(err, folder_add_name(&s->arena, &images, entry->d_name));
        else if (stem_length(entry->d_name) > 0)
            TRY_OUT(err, folder_add_name(&s->arena, &files, entry->d_name));
    }
    if (images.n > 0) qsort(images.names, (size_t)images.n, sizeof *images.names, compare_stems);
    folder_sort_names(&files);
    for (size_t i = 0; n == most_entries && i < sizeof usual / sizeof *usual; i++)
        TRY_OUT(err, add_list(s, folder, usual[i]));
    for (int64_t i = 0, n_looked = 0; i < files.n && n_looked < MAX_LISTS; i++) {
        if (images.n > 0 &&
            bsearch(&files.names[i], images.names, (size_t)images.n, sizeof *images.names, compare_stems))
            continue;
        n_looked++;
        TRY_OUT(err, add_list(s, folder, files.names[i]));
    }
out:
    closedir(dir);
    mem_free(&images.names);
    mem_free(&files.names);
    return err;
}

/* The lists in the folder itself, in folders of lists, and in folders of splits; without any, in one of a few others. */
static err_t begin_search(search_t *s, const char *where)
{
    char path[FS_PATH_MAX], below[FS_PATH_MAX];
    if (!fs_is_folder(where)) { /* a list */
        const char *slash = strrchr(where, '/'), *name = slash ? slash + 1 : where;
        found_t f = {.role = FOLDER_OTHER};
        if (stem_length(name) == 0 || !is_list_file(where, f.first)) return ERR_OK;
        TRY(arena_text(&s->arena, slash ? where : ".", slash > where ? (size_t)(slash - where) : 1,
                       &s->base));
        return add_list(s, s->base, name);
    }
    TRY(folder_list(&s->arena, where, &s->top));
    TRY(arena_text(&s->arena, where, strlen(where), &s->base));
    char *end = (char *)s->base + strlen(s->base);
    while (end > s->base + 1 && end[-1] == '/') *--end = '\0';
    const folder_names_t *folders = &s->top.folders;
    for (int64_t i = 0; i < folders->n; i++)
        if (coco_is_list_folder(folders->names[i]) && fs_join(path, s->base, folders->names[i]) == ERR_OK)
            TRY(add_lists(s, path, INT32_MAX));
    TRY(add_lists(s, s->base, INT32_MAX));
    for (int i = 0; i < s->n; i++)
        if (s->lists[i].role == FOLDER_TRAIN) return ERR_OK;
    for (int64_t i = 0; i < folders->n; i++)
        if (coco_role(folders->names[i]) != FOLDER_OTHER &&
            fs_join(path, s->base, folders->names[i]) == ERR_OK)
            TRY(add_lists(s, path, MOST_ENTRIES));
    if (s->n > 0 || folders->n > FEW_FOLDERS || s->top.n_images > 0) return ERR_OK;
    int n_with_images = 0;
    for (int64_t i = 0; i < folders->n; i++)
        n_with_images += fs_join(path, s->base, folders->names[i]) == ERR_OK && folder_has_images(path, 0);
    const bool classes = n_with_images > 1;
    for (int64_t i = 0; i < folders->n; i++) {
        if (fs_join(path, s->base, folders->names[i]) != ERR_OK) continue;
        if (classes && folder_has_images(path, 0)) continue; /* the list is of one class */
        TRY(add_lists(s, path, MOST_ENTRIES));
        if (fs_join(below, path, "annotations") == ERR_OK && fs_is_folder(below))
            TRY(add_lists(s, below, MOST_ENTRIES));
    }
    return ERR_OK;
}

static void end_search(search_t *s)
{
    folder_list_free(&s->top);
    mem_free(&s->lists);
    arena_free(&s->arena);
}

/* The digits at the end of a split's word. */
static const char *year_of(const char *word)
{
    const char *end = word + strlen(word);
    while (end > word && isdigit((unsigned char)end[-1])) end--;
    return end;
}

/* A folder of images, not of classes, that is named as COCO's are: a split and a year. */
static const char *find_year_folder(const search_t *s, bool (*wanted)(folder_role_t role))
{
    char path[FS_PATH_MAX];
    for (int64_t i = 0; i < s->top.folders.n; i++) {
        const char *name = s->top.folders.names[i];
        if (strlen(year_of(name)) == 4 && wanted(coco_role(name)) && fs_join(path, s->base, name) == ERR_OK &&
            folder_has_images(path, 0))
            return name;
    }
    return NULL;
}

static bool trains(folder_role_t role)
{
    return role == FOLDER_TRAIN;
}

static bool validates(folder_role_t role)
{
    return role == FOLDER_VAL;
}

static bool trains_or_validates(folder_role_t role)
{
    return trains(role) || validates(role);
}

/* Whether a list gives images categories, but no boxes, as iNaturalist's: by the file's end. */
static bool has_no_boxes(const found_t *f)
{
    struct stat info;
    char *text = NULL;
    ssize_t n = 0;
    bool none = false;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && mem_new(PEEK + 1, "a list", &text) == ERR_OK) {
        n = pread(fd, text, PEEK, info.st_size > PEEK ? info.st_size - PEEK : 0);
        text[n > 0 ? n : 0] = '\0';
        none =
            strstr(text, "\"category_id\"") && !strstr(text, "\"bbox\"") && !strstr(text, "\"segmentation\"");
    }
    mem_free(&text);
    close(fd);
    return none;
}

bool coco_is(const char *path)
{
    search_t s = {.n = 0};
    bool is = begin_search(&s, path) == ERR_OK;
    if (is && s.n > 0) { /* the folders of training images may be classes, which the lists only repeat */
        bool classes = s.top.n_images == 0 && folder_trains_classes(s.base);
        for (int i = 0; classes && i < s.n; i++) classes = has_no_boxes(&s.lists[i]);
        is = !classes;
    } else if (is) {
        is = s.base && find_year_folder(&s, trains_or_validates);
    }
    end_search(&s);
    return is;
}

/* Whether the images of a list may be here: it has a folder of its split's name, or its first image is found. */
static bool may_have_images(const search_t *s, const found_t *f)
{
    coco_roots_t roots = {.n = 0};
    char file[FS_PATH_MAX];
    bool here = true;
    if (coco_roots_find(s->base, f->path, f->word, &roots) == ERR_OK && !roots.own && f->first[0])
        here = coco_roots_have(&roots, f->first, file) != NULL;
    coco_roots_free(&roots);
    return here;
}

/* Leaves those that are wanted, unless there are none. */
static int keep_wanted(bool *kept, const bool *wanted, int n)
{
    int n_wanted = 0, n_kept = 0;
    for (int i = 0; i < n; i++) n_wanted += kept[i] && wanted[i];
    for (int i = 0; i < n; i++) {
        kept[i] = kept[i] && (wanted[i] || n_wanted == 0);
        n_kept += kept[i];
    }
    return n_kept;
}

/* The list of a role; NULL: none. Of several, one whose images are here; then with the most usual name; then of the
 * year, and of 2017. */
static err_t choose(const search_t *s, folder_role_t role, const char *year, const found_t **out)
{
    bool kept[MAX_LISTS] = {false}, wanted[MAX_LISTS] = {false};
    const found_t *two[2] = {NULL};
    int n = 0, least = INT32_MAX;
    for (int i = 0; i < s->n; i++) n += kept[i] = s->lists[i].role == role;
    for (int i = 0; n > 1 && i < s->n; i++) wanted[i] = kept[i] && may_have_images(s, &s->lists[i]);
    if (n > 1) n = keep_wanted(kept, wanted, s->n);
    for (int i = 0; i < s->n; i++)
        if (kept[i] && s->lists[i].rank < least) least = s->lists[i].rank;
    for (int i = 0; i < s->n; i++) wanted[i] = s->lists[i].rank == least;
    if (n > 1) n = keep_wanted(kept, wanted, s->n);
    for (int i = 0; i < s->n; i++) wanted[i] = strcmp(year_of(s->lists[i].word), year) == 0;
    if (n > 1) n = keep_wanted(kept, wanted, s->n);
    for (int i = 0; i < s->n; i++) wanted[i] = strcmp(year_of(s->lists[i].word), "2017") == 0;
    if (n > 1) n = keep_wanted(kept, wanted, s->n);
    for (int i = s->n - 1; i >= 0; i--) {
        if (!kept[i]) continue;
        two[1] = two[0];
        two[0] = &s->lists[i];
    }
    *out = two[0];
    if (n < 2) return ERR_OK;
    RAISE(ERR_DATA,
          "%s has %d lists %s, such as %.200s and %.200s; %s, or give one of them: --data LIST.json", s->base,
          n, role == FOLDER_OTHER ? "whose names do not tell their splits" : "for the same split",
          two[0]->below, two[1]->below,
          role == FOLDER_OTHER ? "call them train.json and val.json" : "keep one of them");
}

static err_t set_list(const found_t *f, split_t split, coco_layout_t *out)
{
    if (!f) return ERR_OK;
    snprintf(out->word[split], sizeof out->word[split], "%s", f->word);
    return fs_join(out->list[split], "", f->path);
}

/* "stuff.json, unlabeled2017/ and 3 more" */
void coco_add_unused(coco_layout_t *out, const char *name, const char *end)
{
    const size_t used = strlen(out->unused), room = sizeof out->unused - used;
    if (out->n_unused++ >= COCO_UNUSED_SHOWN) return;
    int n = snprintf(out->unused + used, room, "%s%.120s%s", used ? ", " : "", name, end);
    if (n < 0 || (size_t)n >= room) out->unused[used] = '\0';
    folder_mask_line(out->unused + used);
}

/* Of lists without a split in their name: the one whose images are here, or CVAT's "default". */
static err_t choose_splits(search_t *s, coco_layout_t *out)
{
    const found_t *of[FOLDER_ROLES + 1] = {NULL}, *train, *val;
    TRY(choose(s, FOLDER_TRAIN, "2017", &of[FOLDER_TRAIN]));
    train = of[FOLDER_TRAIN];
    if (!train) TRY(choose(s, FOLDER_OTHER, "", &of[FOLDER_OTHER]));
    if (!train) train = of[FOLDER_OTHER];
    const char *year = train ? year_of(train->word) : "2017";
    int role = FOLDER_VAL;
    for (; role < FOLDER_OTHER; role++) {
        TRY(choose(s, (folder_role_t)role, year, &of[role]));
        if (of[role]) break;
    }
    val = role < FOLDER_OTHER ? of[role] : NULL;
    out->tests = val && role == FOLDER_TEST;
    if (train && val) { /* as when only one split of COCO was downloaded */
        const bool here[SPLIT_COUNT] = {may_have_images(s, train), may_have_images(s, val)};
        for (split_t split = 0; split < SPLIT_COUNT; split++)
            if (!here[split] && here[!split])
                out->absent[split] = strlen(year_of((split == SPLIT_TRAIN ? train : val)->word)) == 4
                                         ? COCO_ABSENT /* COCO's own, as it lacks its folder */
                                         : COCO_MAY_BE_ABSENT;
    }
    TRY(set_list(train, SPLIT_TRAIN, out));
    return set_list(val, SPLIT_VAL, out);
}

err_t coco_find(const char *path, coco_layout_t *out)
{
    search_t s = {.n = 0};
    err_t err = ERR_OK;
    *out = (coco_layout_t){.n_unused = 0};
    TRY_OUT(err, begin_search(&s, path));
    if (!s.base) goto out;
    TRY_OUT(err, fs_join(out->base, "", s.base));
    if (!fs_is_folder(path)) {
        const bool val = s.n > 0 && (s.lists[0].role == FOLDER_VAL || s.lists[0].role == FOLDER_DEV);
        if (s.n > 0) TRY_OUT(err, set_list(&s.lists[0], val ? SPLIT_VAL : SPLIT_TRAIN, out));
        char name[FS_PATH_MAX], parent[FS_PATH_MAX]; /* images are beside a folder of lists */
        if (folder_find_parent(out->base, name, parent) && coco_is_list_folder(name))
            memcpy(out->base, parent, sizeof parent);
        goto out;
    }
    TRY_OUT(err, choose_splits(&s, out));
    /* COCO's folders of images need their lists. */
    const char *alone[SPLIT_COUNT] = {find_year_folder(&s, trains), find_year_folder(&s, validates)};
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        const bool wanted = !out->list[split][0] && alone[split];
        if (!wanted || (out->list[!split][0] && strcmp(out->word[!split], alone[split]) == 0)) continue;
        RAISE_OUT(err, ERR_DATA, "the annotations of %s/%s are missing: %s/annotations/instances_%s.json",
                  s.base, alone[split], s.base, alone[split]);
    }
    for (int i = 0; i < s.n; i++) { /* those of keypoints of the same images are COCO's own */
        const found_t *f = &s.lists[i];
        bool used = false;
        for (split_t split = 0; split < SPLIT_COUNT; split++)
            used = used || strcmp(out->list[split], f->path) == 0 ||
                   (f->rank >= RANK_KEYPOINTS && strcmp(out->word[split], f->word) == 0);
        if (!used) coco_add_unused(out, f->below, "");
    }
out:
    end_search(&s);
    return err;
}

err_t source_coco_list(const char *path, split_t split, char out[FS_PATH_MAX])
{
    char folder[FS_PATH_MAX], name[64];
    coco_layout_t *layout = NULL;
    TRY(mem_new(sizeof *layout, "a folder's lists", &layout));
    err_t err = coco_find(path, layout);
    if (err == ERR_OK && layout->list[split][0]) {
        memcpy(out, layout->list[split], FS_PATH_MAX);
    } else if (err == ERR_OK) {
        snprintf(name, sizeof name, "instances_%s2017.json", split_names[split]);
        err = fs_join(folder, path, "annotations");
        if (err == ERR_OK) err = fs_join(out, folder, name);
    }
    mem_free(&layout);
    return err;
}
