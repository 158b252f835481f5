/* SPDX-License-Identifier: MIT */
/* Parses a table of tensor names and applies its rules. At the end, the built-in tables: dptrain, torchvision,
 * Detectron2, TensorPack, Hugging Face. */
#include "train/weights/transfer.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "text/opt.h"

enum { TEXT_MAX = 1 << 16, N_LETTERS = 26, NUMBER_DIGITS = 4 };

/* The values that the left side of a rule matched. */
typedef struct found {
    int number[N_LETTERS]; /* -1: unbound */
    const char *any;       /* the text that % matched */
    size_t n_any;
} found_t;

/* Parses "{s}" or "{s+1}" into its letter and the number added. Returns its length, 0 if there is none. */
static size_t parse_placeholder(const char *text, int *letter, int *add)
{
    if (text[0] != '{' || !islower((unsigned char)text[1])) return 0;
    *letter = text[1] - 'a';
    *add = 0;
    if (text[2] == '}') return 3;
    if ((text[2] != '+' && text[2] != '-') || !isdigit((unsigned char)text[3]) || text[4] != '}') return 0;
    *add = text[2] == '+' ? text[3] - '0' : '0' - text[3];
    return 5;
}

/* Parses the number that a text begins with, without leading zeros. Returns its length, or 0. */
static size_t leading_number(const char *text, int *out)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > NUMBER_DIGITS || (n > 1 && text[0] == '0')) return 0;
    *out = 0;
    for (size_t i = 0; i < n; i++) *out = 10 * *out + (text[i] - '0');
    return n;
}

static bool match_name(const char *pattern, const char *name, found_t *found)
{
    while (*pattern) {
        int letter, add, number;
        size_t n = parse_placeholder(pattern, &letter, &add);
        if (n > 0) {
            size_t n_digits = leading_number(name, &number);
            if (n_digits == 0 || (found->number[letter] >= 0 && found->number[letter] != number))
                return false;
            found->number[letter] = number;
            pattern += n, name += n_digits;
        } else if (*pattern == '%') {
            /* Only plain text follows a %: check_rule has made sure. */
            size_t length = strlen(name), rest = strlen(pattern + 1);
            if (length <= rest || strcmp(name + length - rest, pattern + 1) != 0) return false;
            found->any = name, found->n_any = length - rest;
            return true;
        } else if (*pattern++ != *name++) {
            return false;
        }
    }
    return *name == '\0';
}

static bool expand_name(const char *pattern, const found_t *found, char *out)
{
    size_t used = 0;
    while (*pattern) {
        int letter, add, n = 0;
        size_t room = NAME_THEIRS_MAX - used, n_pattern = parse_placeholder(pattern, &letter, &add);
        if (n_pattern > 0) {
            if (found->number[letter] + add < 0) return false;
            n = snprintf(out + used, room, "%d", found->number[letter] + add);
            pattern += n_pattern;
        } else if (*pattern == '%') {
            n = snprintf(out + used, room, "%.*s", (int)found->n_any, found->any);
            pattern++;
        } else {
            n = snprintf(out + used, room, "%c", *pattern++);
        }
        if ((size_t)n >= room) return false;
        used += (size_t)n;
    }
    out[used] = '\0';
    return true;
}

bool name_table_find(const name_table_t *table, const char *ours, int nth, char *out)
{
    for (int i = 0; i < table->n; i++) {
        found_t found = {.any = NULL};
        for (int k = 0; k < N_LETTERS; k++) found.number[k] = -1;
        if (match_name(table->rules[i].ours, ours, &found) && nth-- == 0)
            return expand_name(table->rules[i].theirs, &found, out);
    }
    return false;
}

/* The error in a rule, or NULL. */
static const char *check_rule(const name_rule_t *rule)
{
    bool bound[N_LETTERS] = {false}, any = false;
    int letter, add;
    for (const char *p = rule->ours; *p;) {
        size_t n = parse_placeholder(p, &letter, &add);
        if (any && (n > 0 || *p == '%')) return "on the left, only plain text may follow a %";
        if (n > 0 && add != 0) return "a shifted number such as {a+1} is allowed only on the right";
        if (n == 0 && strchr("{}", *p)) return "invalid number: expected {a} … {z}";
        if (n > 0) bound[letter] = true;
        any |= *p == '%';
        p += n > 0 ? n : 1;
    }
    for (const char *p = rule->theirs; *p;) {
        size_t n = parse_placeholder(p, &letter, &add);
        if (n > 0 && !bound[letter]) return "the right has a number that is missing on the left";
        if (*p == '%' && !any) return "the right has a % that is missing on the left";
        if (n == 0 && strchr("{}", *p)) return "invalid number: expected {a} … {z}, or {a+1}";
        p += n > 0 ? n : 1;
    }
    return NULL;
}

static bool is_layout(const char *text)
{
    return strlen(text) == 4 && strchr(text, 'O') && strchr(text, 'H') && strchr(text, 'W') &&
           strchr(text, 'I');
}

/* Reads a setting such as "layout OIHW". False: the line is a rule. */
static bool read_setting(name_table_t *table, const char *key, const char *value, const char **wrong)
{
    static const char *const layouts[] = {"layout", "flat", "deconv", NULL},
                             *const inputs[] = {"RGB", "BGR", NULL},
                             *const backgrounds[] = {"logits", "deltas", "masks", NULL},
                             *const places[] = {"first", "last", "none", NULL};
    char *const layout_of[] = {table->layout, table->flat, table->deconv};
    const int layout = opt_index(layouts, key), background = opt_index(backgrounds, key);
    int found = 0;
    if (layout >= 0) {
        if (!is_layout(value))
            *wrong = "invalid layout: expected O, I, H and W in some order";
        else
            strcpy(layout_of[layout], value);
    } else if (background >= 0) {
        found = opt_index(places, value);
        if (found < 0 || (background == 0 && found == BACKGROUND_NONE))
            *wrong = "invalid place of the background: expected first, last, or, but for logits, none";
        table->background[HEAD_LOGITS + background] = (background_t)found;
    } else if (strcmp(key, "input") == 0) {
        found = opt_index(inputs, value);
        if (found < 0) *wrong = "invalid input: expected RGB or BGR";
        table->bgr = found == 1;
    } else if (strcmp(key, "ending") == 0) {
        if (strlen(value) >= sizeof table->ending)
            *wrong = "the ending is too long";
        else
            strcpy(table->ending, value);
    } else if (strcmp(key, "heads") == 0) {
        found = opt_index(model_heads, value);
        if (found < 0) *wrong = "invalid heads: expected torchvision, tensorpack or detectron2";
        table->heads = (model_heads_t)found;
    } else {
        return false;
    }
    return true;
}

static const char *read_rule(name_table_t *table, char *line)
{
    char *rest = NULL, *left = strtok_r(line, " \t\r", &rest);
    char *right = strtok_r(NULL, " \t\r", &rest);
    const char *wrong = NULL;
    if (!left || left[0] == '#') return NULL;
    if (!right || strtok_r(NULL, " \t\r", &rest))
        return "invalid rule: expected dptrain's name and the file's";
    if (read_setting(table, left, right, &wrong)) return wrong;
    if (table->n == NAME_TABLE_RULES) return "too many rules";
    if (strlen(left) >= NAME_PATTERN_MAX || strlen(right) >= NAME_PATTERN_MAX) return "the name is too long";
    name_rule_t *rule = &table->rules[table->n++];
    memcpy(rule->ours, left, strlen(left) + 1);
    memcpy(rule->theirs, right, strlen(right) + 1);
    return check_rule(rule);
}

err_t name_table_read(const char *which, name_table_t *out)
{
    char *text = NULL, names[128] = "";
    const name_table_text_t *built_in = name_tables;
    for (; built_in->name && strcmp(built_in->name, which) != 0; built_in++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", built_in->name);
    }
    if (!built_in->name && !fs_exists(which))
        RAISE(ERR_USAGE, "unknown name table '%s': expected %s, or a file", which, names);
    int number = 0;
    err_t err;
    TRY_OUT(err, built_in->name ? mem_strdup(built_in->text, &text) : fs_read_text(which, TEXT_MAX, &text));
    *out = (name_table_t){.layout = "OIHW"};
    for (char *line = text, *end; line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = '\0';
        number++;
        const char *wrong = read_rule(out, line);
        if (wrong) RAISE_OUT(err, ERR_USAGE, "%s, line %d: %s", which, number, wrong);
    }
    if (out->n == 0) RAISE_OUT(err, ERR_USAGE, "%s contains no rules", which);
    if (!out->flat[0]) memcpy(out->flat, out->layout, sizeof out->flat);
    /* A transposed convolution's inputs are a convolution's outputs. */
    for (int i = 0; i < 4 && !out->deconv[3]; i++) {
        char c = out->layout[i];
        out->deconv[i] = c == 'O' ? 'I' : c == 'I' ? 'O' : c;
    }
out:
    mem_free(&text);
    return err;
}

static const char dptrain[] = "layout OHWI\n"
                              "deconv HWOI\n"
                              "% %\n";

/* As in torchvision.models' state_dict; timm's ResNets have the same names. Then those of detectors saved by
 * torchvision up to 0.12. */
#define LAYER(OURS, THEIRS) OURS "/weight " THEIRS ".weight\n" OURS "/bias " THEIRS ".bias\n"
static const char torchvision[] = "layout OIHW\n"
                                  "%/gamma %.weight\n"
                                  "%/beta  %.bias\n"
                                  "%/weight %.weight\n"
                                  "%/bias %.bias\n"
                                  "%/running_mean %.running_mean\n"
                                  "%/running_var %.running_var\n" //
    LAYER("backbone.fpn.inner_blocks.{k}.0", "backbone.fpn.inner_blocks.{k}")
        LAYER("backbone.fpn.layer_blocks.{k}.0", "backbone.fpn.layer_blocks.{k}")
            LAYER("rpn.head.conv.0.0", "rpn.head.conv")
                LAYER("roi_heads.mask_head.{k}.0", "roi_heads.mask_head.mask_fcn{k+1}");

/* As tools/convert-torchvision-to-d2.py of Detectron2 renames torchvision's trunk, also behind a detector's prefix; the
 * heads as its FPN configurations build them. */
#define D2_NORM(OURS, THEIRS)                                                                                \
    OURS "/gamma " THEIRS ".weight\n" OURS "/beta " THEIRS ".bias\n" OURS "/running_mean " THEIRS            \
         ".running_mean\n" OURS "/running_var " THEIRS ".running_var\n"
#define D2_TRUNK(OURS, THEIRS)                                                                               \
    OURS "conv1/weight " THEIRS "stem.conv1.weight\n" D2_NORM(OURS "bn1", THEIRS "stem.conv1.norm") OURS     \
        "layer{s}.{b}.conv{c}/weight " THEIRS "res{s+1}.{b}.conv{c}.weight\n" D2_NORM(                       \
            OURS "layer{s}.{b}.bn{c}", THEIRS "res{s+1}.{b}.conv{c}.norm") OURS                              \
        "layer{s}.{b}.downsample.0/weight " THEIRS "res{s+1}.{b}.shortcut.weight\n" D2_NORM(                 \
            OURS "layer{s}.{b}.downsample.1", THEIRS "res{s+1}.{b}.shortcut.norm")
#define D2_HEADS                                                                                             \
    LAYER("backbone.fpn.inner_blocks.{k}.0", "backbone.fpn_lateral{k+2}")                                    \
    LAYER("backbone.fpn.layer_blocks.{k}.0", "backbone.fpn_output{k+2}")                                     \
    LAYER("rpn.head.conv.0.0", "proposal_generator.rpn_head.conv")                                           \
    LAYER("rpn.head.cls_logits", "proposal_generator.rpn_head.objectness_logits")                            \
    LAYER("rpn.head.bbox_pred", "proposal_generator.rpn_head.anchor_deltas")                                 \
    LAYER("roi_heads.box_head.fc{k}", "roi_heads.box_head.fc{k-5}")                                          \
    LAYER("roi_heads.box_predictor.%", "roi_heads.box_predictor.%")                                          \
    LAYER("roi_heads.mask_head.{k}.0", "roi_heads.mask_head.mask_fcn{k+1}")                                  \
    LAYER("roi_heads.mask_predictor.conv5_mask", "roi_heads.mask_head.deconv")                               \
    LAYER("roi_heads.mask_predictor.mask_fcn_logits", "roi_heads.mask_head.predictor")
static const char detectron2[] = "layout OIHW\n"
                                 "heads detectron2\n"
                                 "logits last\n"
                                 "deltas none\n"
                                 "masks none\n" //
    D2_TRUNK("", "")                            //
    "fc/weight stem.fc.weight\n"
    "fc/bias stem.fc.bias\n"                          //
    D2_TRUNK("backbone.body.", "backbone.bottom_up.") //
    D2_HEADS;

/* ResNets of TensorPack's examples and model zoo, and the detectors of its examples/FasterRCNN; files written from a
 * TensorFlow session have ":0" behind the names. Only those trained with padding on both sides ("AlignPadding", as all
 * detectors) compute the same. */
#define TP_NORM(OURS, THEIRS)                                                                                \
    OURS "/gamma " THEIRS "/bn/gamma\n" OURS "/beta " THEIRS "/bn/beta\n" OURS "/running_mean " THEIRS       \
         "/bn/mean/EMA\n" OURS "/running_var " THEIRS "/bn/variance/EMA\n"
#define TP_BLOCK "group{s-1}/block{b}/"
#define TP_TRUNK(OURS)                                                                                       \
    OURS "conv1/weight conv0/W\n" TP_NORM(OURS "bn1", "conv0") OURS                                          \
        "layer{s}.{b}.conv{c}/weight " TP_BLOCK                                                              \
        "conv{c}/W\n" TP_NORM(OURS "layer{s}.{b}.bn{c}", TP_BLOCK "conv{c}") OURS                            \
        "layer{s}.{b}.downsample.0/weight " TP_BLOCK                                                         \
        "convshortcut/W\n" TP_NORM(OURS "layer{s}.{b}.downsample.1", TP_BLOCK "convshortcut")
#define TP_LAYER(OURS, THEIRS) OURS "/weight " THEIRS "/W\n" OURS "/bias " THEIRS "/b\n"
#define TP_HEADS                                                                                             \
    TP_LAYER("backbone.fpn.inner_blocks.{k}.0", "fpn/lateral_1x1_c{k+2}")                                    \
    TP_LAYER("backbone.fpn.layer_blocks.{k}.0", "fpn/posthoc_3x3_p{k+2}")                                    \
    TP_LAYER("rpn.head.conv.0.0", "rpn/conv0")                                                               \
    TP_LAYER("rpn.head.cls_logits", "rpn/class")                                                             \
    TP_LAYER("rpn.head.bbox_pred", "rpn/box")                                                                \
    TP_LAYER("roi_heads.box_head.%", "fastrcnn/%")                                                           \
    TP_LAYER("roi_heads.box_predictor.cls_score", "fastrcnn/outputs/class")                                  \
    TP_LAYER("roi_heads.box_predictor.bbox_pred", "fastrcnn/outputs/box")                                    \
    TP_LAYER("roi_heads.mask_head.{k}.0", "maskrcnn/fcn{k}")                                                 \
    TP_LAYER("roi_heads.mask_predictor.conv5_mask", "maskrcnn/deconv")                                       \
    TP_LAYER("roi_heads.mask_predictor.mask_fcn_logits", "maskrcnn/conv")
static const char tensorpack[] = "layout HWIO\n"
                                 "flat IHWO\n"
                                 "input BGR\n"
                                 "heads tensorpack\n"
                                 "masks none\n"
                                 "ending :0\n"                       //
    TP_TRUNK("") TP_LAYER("fc", "linear") TP_TRUNK("backbone.body.") //
    TP_HEADS;

/* transformers' ResNetForImageClassification (microsoft/resnet-50). */
#define STAGE "resnet.encoder.stages.{s-1}.layers.{b}."
static const char huggingface[] =
    "layout OIHW\n"
    "conv1/weight resnet.embedder.embedder.convolution.weight\n"
    "bn1/gamma resnet.embedder.embedder.normalization.weight\n"
    "bn1/beta resnet.embedder.embedder.normalization.bias\n"
    "bn1/running_mean resnet.embedder.embedder.normalization.running_mean\n"
    "bn1/running_var resnet.embedder.embedder.normalization.running_var\n"
    "layer{s}.{b}.conv{c}/weight " STAGE "layer.{c-1}.convolution.weight\n"
    "layer{s}.{b}.bn{c}/gamma " STAGE "layer.{c-1}.normalization.weight\n"
    "layer{s}.{b}.bn{c}/beta " STAGE "layer.{c-1}.normalization.bias\n"
    "layer{s}.{b}.bn{c}/running_mean " STAGE "layer.{c-1}.normalization.running_mean\n"
    "layer{s}.{b}.bn{c}/running_var " STAGE "layer.{c-1}.normalization.running_var\n"
    "layer{s}.{b}.downsample.0/weight " STAGE "shortcut.convolution.weight\n"
    "layer{s}.{b}.downsample.1/gamma " STAGE "shortcut.normalization.weight\n"
    "layer{s}.{b}.downsample.1/beta " STAGE "shortcut.normalization.bias\n"
    "layer{s}.{b}.downsample.1/running_mean " STAGE "shortcut.normalization.running_mean\n"
    "layer{s}.{b}.downsample.1/running_var " STAGE "shortcut.normalization.running_var\n"
    "fc/weight classifier.1.weight\n"
    "fc/bias classifier.1.bias\n";

const name_table_text_t name_tables[] = {
    {"torchvision", torchvision}, {"detectron2", detectron2}, {"tensorpack", tensorpack},
    {"huggingface", huggingface}, {"dptrain", dptrain},       {NULL, NULL},
};
