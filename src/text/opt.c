/* SPDX-License-Identifier: MIT */
/* Option tables: values by their type; the command line and config files, which are parsed against a table; hints for what
 * is not in it; given options that change nothing. Help is left to opt_help.c, checks across options to the owner of a
 * table. */
#include "text/opt.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

enum { MAX_KEYS = 256, MAX_KEY = 64, MAX_GROUPS = 24, MAX_WORD = 64, MAX_TEXT = 128 };

/* ---- Lists of words ---- */
void opt_join(const char *const *list, const char *separator, char *out, size_t n_bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (; *list && used < n_bytes; list++)
        used += (size_t)snprintf(out + used, n_bytes - used, "%s%s", used ? separator : "", *list);
}

int opt_index(const char *const *list, const char *word)
{
    for (int i = 0; list[i]; i++)
        if (strcmp(list[i], word) == 0) return i;
    return -1;
}

bool opt_listed(const char *const *list, const char *word)
{
    return list && opt_index(list, word) >= 0;
}

bool opt_is_among(const char *word, const char *words)
{
    const size_t n = strlen(word);
    while (words && *words) {
        const size_t length = strcspn(words, "|");
        if (length == n && strncmp(word, words, n) == 0) return true;
        words += length + (words[length] == '|');
    }
    return false;
}

const char *opt_placeholder(const opt_t *opt, char *out, size_t n_bytes)
{
    if (opt->type == OPT_FLAG) return "";
    if (opt->type != OPT_CHOICE) return opt->unit;
    opt_join(opt->choices, "|", out, n_bytes);
    return out;
}

/* ---- Values ---- */
static void *opt_field(const opt_group_t *group, const opt_t *opt)
{
    return (char *)group->values + opt->offset;
}

static size_t field_bytes(const opt_t *opt)
{
    static const size_t n_bytes[] = {
        [OPT_INT] = sizeof(int64_t),   [OPT_SIZE] = sizeof(int64_t), [OPT_REAL] = sizeof(double),
        [OPT_STRING] = sizeof(char *), [OPT_FLAG] = sizeof(bool),    [OPT_CHOICE] = sizeof(char *),
    };
    return n_bytes[opt->type];
}

static err_t check_range(const opt_t *opt, double value, const char *text)
{
    if (opt->min < opt->max && (value < opt->min || value > opt->max))
        RAISE(ERR_USAGE, "invalid --%s '%s': out of range; expected a value from %.10g to %.10g", opt->key,
              text, opt->min, opt->max);
    return ERR_OK;
}

/* A size whose default is "auto" accepts that word; its value is 0. */
static bool may_be_auto(const opt_t *opt)
{
    return opt->type == OPT_SIZE && opt->initial && strcmp(opt->initial, "auto") == 0;
}

static err_t parse_integer(const opt_t *opt, const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    int64_t unit = 1;
    if (may_be_auto(opt) && strcmp(text, "auto") == 0) {
        *out = 0;
        return ERR_OK;
    }
    if (opt->type == OPT_SIZE && *end && end > text) {
        const char *suffix = strchr("KMG", *end & ~0x20);
        if (suffix && *suffix) {
            unit = (int64_t)1 << (10 * (suffix - "KMG" + 1));
            end++;
            if ((*end & ~0x20) == 'B') end++;
        }
    }
    int64_t product;
    if (end == text || *end)
        RAISE(ERR_USAGE, "invalid --%s '%s': expected %s%s", opt->key, text,
              opt->type == OPT_SIZE ? "a size such as 4096, 64K, 8M or 1G" : "a whole number",
              may_be_auto(opt) ? ", or auto" : "");
    if (errno == ERANGE || __builtin_mul_overflow((int64_t)value, unit, &product))
        RAISE(ERR_USAGE, "invalid --%s '%s': the number is too large", opt->key, text);
    TRY(check_range(opt, (double)product, text));
    *out = product;
    return ERR_OK;
}

bool opt_duration(const char *text, double *out_sec)
{
    static const struct {
        char unit;
        double sec;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char *end;
    const double value = strtod(text, &end);
    if (end == text || !(value > 0) || !isfinite(value) || !*end || end[1]) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (*end != units[i].unit) continue;
        *out_sec = value * units[i].sec;
        return true;
    }
    return false;
}

static err_t parse_real(const opt_t *opt, const char *text, double *out)
{
    char *end;
    double value = strtod(text, &end);
    if (end > text && strcmp(end, "%") == 0) {
        value /= 100;
        end++;
    }
    if (end == text || *end || !isfinite(value))
        RAISE(ERR_USAGE, "invalid --%s '%s': expected a number", opt->key, text);
    TRY(check_range(opt, value, text));
    *out = value;
    return ERR_OK;
}

static err_t parse_choice(const opt_t *opt, const char *text, const char **out)
{
    char list[512];
    for (const char *const *choice = opt->choices; *choice; choice++)
        if (strcmp(*choice, text) == 0) {
            *out = *choice;
            return ERR_OK;
        }
    opt_join(opt->choices, ", ", list, sizeof list);
    RAISE(ERR_USAGE, "invalid --%s '%s': expected one of %s", opt->key, text, list);
}

/* Sets one option from text. It does not count as given. */
static err_t opt_set(opt_group_t *group, int index, const char *text)
{
    const opt_t *opt = &group->table[index];
    void *value = opt_field(group, opt);
    switch (opt->type) {
    case OPT_INT:
    case OPT_SIZE:
        return parse_integer(opt, text, value);
    case OPT_REAL:
        return parse_real(opt, text, value);
    case OPT_CHOICE:
        return parse_choice(opt, text, value);
    case OPT_STRING:
        memcpy(value, &text, sizeof text);
        return ERR_OK;
    case OPT_FLAG:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            RAISE(ERR_USAGE, "--%s takes no value; use --%s or --no-%s", opt->key, opt->key, opt->key);
        *(bool *)value = text[0] == 't';
        return ERR_OK;
    }
    return ERR_OK;
}

err_t opt_defaults(opt_group_t *groups, int n_groups)
{
    for (int g = 0; g < n_groups; g++) {
        ASSERT(groups[g].n <= 64);
        groups[g].given = 0;
        for (int i = 0; i < groups[g].n; i++) {
            const opt_t *opt = &groups[g].table[i];
            memset(opt_field(&groups[g], opt), 0, field_bytes(opt));
            if (opt->initial) TRY(opt_set(&groups[g], i, opt->initial));
        }
    }
    return ERR_OK;
}

void opt_text(const opt_group_t *group, int index, char *out, size_t n_bytes)
{
    const opt_t *opt = &group->table[index];
    const void *value = opt_field(group, opt);
    const char *text;
    out[0] = '\0';
    switch (opt->type) {
    case OPT_INT:
    case OPT_SIZE:
        if (may_be_auto(opt) && *(const int64_t *)value == 0)
            snprintf(out, n_bytes, "auto");
        else
            snprintf(out, n_bytes, "%" PRId64, *(const int64_t *)value);
        break;
    case OPT_REAL:
        snprintf(out, n_bytes, "%s", json_number(*(const double *)value).text);
        break;
    case OPT_FLAG:
        snprintf(out, n_bytes, "%s", *(const bool *)value ? "true" : "false");
        break;
    case OPT_STRING:
    case OPT_CHOICE:
        memcpy(&text, value, sizeof text);
        snprintf(out, n_bytes, "%s", text ? text : "");
        break;
    }
}

void opt_copy(opt_group_t *to, const opt_group_t *from, int index)
{
    ASSERT(to->table == from->table);
    const opt_t *opt = &to->table[index];
    memcpy(opt_field(to, opt), opt_field(from, opt), field_bytes(opt));
}

void opt_json(const opt_group_t *groups, int n_groups, json_t *j, const char *key)
{
    json_object_begin(j, key);
    for (int g = 0; g < n_groups; g++)
        for (int i = 0; i < groups[g].n; i++) {
            const opt_t *opt = &groups[g].table[i];
            const void *value = opt_field(&groups[g], opt);
            const char *text;
            if (opt->type == OPT_INT || opt->type == OPT_SIZE)
                json_int(j, opt->key, *(const int64_t *)value);
            else if (opt->type == OPT_REAL)
                json_real(j, opt->key, *(const double *)value);
            else if (opt->type == OPT_FLAG)
                json_bool(j, opt->key, *(const bool *)value);
            else {
                memcpy(&text, value, sizeof text);
                json_string(j, opt->key, text);
            }
        }
    json_object_end(j);
}

/* ---- Hints for what is not in a table ---- */
static int edit_distance(const char *a, const char *b)
{
    int row[MAX_WORD + 1];
    int n = (int)strlen(b);
    if (n > MAX_WORD) return MAX_WORD;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

/* Whether one word is the other with parts added: batch-size and batch. */
static bool extends(const char *a, const char *b)
{
    while (*a && *a == *b) a++, b++;
    return (!*a && *b == '-') || (!*b && *a == '-');
}

const char *opt_nearest(const char *word, const char *const *candidates, int n)
{
    const char *nearest = NULL;
    int best = (int)strlen(word) / 3 + 2; /* anything farther is not a typing error */
    for (int i = 0; i < n; i++) {
        int distance = edit_distance(word, candidates[i]);
        if (distance < best) {
            best = distance;
            nearest = candidates[i];
        }
    }
    if (nearest && best <= 2) return nearest;
    best = MAX_WORD;
    for (int i = 0; i < n; i++) {
        int distance = extends(word, candidates[i]) ? edit_distance(word, candidates[i]) : MAX_WORD;
        if (distance < best) {
            best = distance;
            nearest = candidates[i];
        }
    }
    return nearest;
}

/* Options of other programs: PyTorch's examples and references, timm, Horovod's examples, Lightning, DeepSpeed; nccl-tests
 * and perf tools. */
static const struct {
    const char *words; /* joined by |, with dashes for underscores */
    const char *key;   /* the hint is given where this option exists */
    const char *text;  /* after "write"; or "omit it: …" */
} hints[] = {
    {"batch-size|train-batch-size|total-batch-size|bs", "batch",
     "--batch N over all ranks, or --batch-per-rank N"},
    {"batch-size|bs", "step-batch", "--step-batch N"},
    {"batch-size-per-gpu|per-gpu-batch-size|per-device-batch-size|train-micro-batch-size-per-gpu",
     "batch-per-rank", "--batch-per-rank N"},
    {"learning-rate|base-lr|blr", "lr", "--lr X"},
    {"num-epochs|max-epochs|n-epochs", "epochs", "--epochs N"},
    {"max-steps|num-steps|iterations|max-iter", "steps", "--steps N"},
    {"workers|num-workers|data-workers|loader-workers", "loader-threads", "--loader-threads N"},
    {"gpu|gpu-ids|device-ids|devices", "gpus", "--gpus LIST"},
    {"cpu|no-cuda|no-gpu", "device", "--device cpu"},
    {"cuda|use-cuda", "device", "--device cuda"},
    {"dist-backend|backend", "comm", "--comm nccl or --comm mpi"},
    {"evaluate|eval-only|test-only", "eval-every", "dptrain eval CHECKPOINT"},
    {"arch|network|net", "model", "--model NAME"},
    {"dataset|data-dir|data-path|train-dir", "data", "--data DIR"},
    {"output|output-dir|log-dir|save-dir|checkpoint-dir", "out", "--out DIR"},
    {"wd", "weight-decay", "--weight-decay X"},
    {"opt|optim", "optimizer", "--optimizer NAME"},
    {"lr-scheduler|scheduler|sched|lr-schedule", "schedule", "--schedule NAME"},
    {"lr-warmup-epochs|warmup-epochs", "warmup", "--warmup EPOCHS"},
    {"lr-steps|lr-step-size", "lr-milestones", "--schedule step with --lr-milestones or --lr-step"},
    {"amp|bf16|fp16|half|mixed-precision|use-amp", "precision", "--precision bf16"},
    {"fp16-allreduce|bf16-allreduce", "wire", "--wire bf16, with NCCL"},
    {"dtype|torch-dtype", "precision", "--precision bf16 or --precision fp32"},
    {"dtype", "datatype", "--datatype LIST"},
    {"test-batch-size|val-batch-size|validation-batch-size|eval-batch-size|per-device-eval-batch-size",
     "eval-crop", "omit it: evaluation sets its own batch size"},
    {"nesterov|use-nesterov", "optimizer", "--optimizer nesterov"},
    {"world-size|nproc-per-node|num-processes|n-gpus|ngpus|num-gpus", "gpus",
     "mpirun -np N dptrain …, or dptrain run -np N"},
    {"local-rank|rank|node-rank|dist-url|master-addr|master-port", "gpus", "omit it: mpirun sets the ranks"},
    {"checkpoint|ckpt|checkpoint-path|resume", "per-category", "dptrain eval CHECKPOINT"},
    {"pretrained|init-checkpoint", "weights", "--weights FILE"},
    {"print-freq|log-interval|display-interval", "log-every", "--log-every N"},
    {"sync-batchnorm|syncbn", "sync-bn", "--sync-bn"},
    {"accum-iter|gradient-accumulation-steps|accumulation-steps|batches-per-allreduce", "accumulate",
     "--accumulate N"},
    {"clip-grad|clip-grad-norm|max-grad-norm|gradient-clip-val", "clip-norm", "--clip-norm X"},
    {"smoothing", "label-smoothing", "--label-smoothing X"},
    {"model-ema|model-ema-decay", "ema", "--ema DECAY"},
    {"precision", "ci", "--ci X, the precision of a median"},
};

static bool is_key(const char *key, const char *const *keys, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

/* What to do instead of giving an option of another program, such as --batch-size, if one of the `keys` means
 * it: "write --batch N …" or "omit it: …". False: nothing is known. */
static bool opt_hint(const char *key, const char *const *keys, int n, char *out, size_t n_bytes)
{
    char word[MAX_WORD];
    snprintf(word, sizeof word, "%s", key);
    for (char *at = word; *at; at++)
        if (*at == '_') *at = '-';
    if (is_key(word, keys, n)) {
        snprintf(out, n_bytes, "write --%s", word);
        return true;
    }
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (opt_is_among(word, hints[i].words) && is_key(hints[i].key, keys, n)) {
            const char *text = hints[i].text;
            snprintf(out, n_bytes, "%s%s", strncmp(text, "omit ", 5) == 0 ? "" : "write ", text);
            return true;
        }
    return false;
}

/* ---- The command line ---- */
/* *group and *index are set if the option exists. */
static bool find_option(const opt_group_t *groups, int n_groups, const char *key, int *group, int *index)
{
    for (int g = 0; g < n_groups; g++)
        for (int i = 0; i < groups[g].n; i++)
            if (strcmp(groups[g].table[i].key, key) == 0) {
                *group = g;
                *index = i;
                return true;
            }
    return false;
}

static err_t raise_unknown(const opt_group_t *groups, int n_groups, const char *key)
{
    const char *keys[MAX_KEYS];
    int n = 0;
    for (int g = 0; g < n_groups; g++)
        for (int i = 0; i < groups[g].n && n < MAX_KEYS; i++)
            if (groups[g].table[i].level != OPT_HIDDEN) keys[n++] = groups[g].table[i].key;
    char hint[96];
    if (opt_hint(key, keys, n, hint, sizeof hint)) RAISE(ERR_USAGE, "unknown option --%s; %s", key, hint);
    const char *nearest = opt_nearest(key, keys, n);
    if (nearest) RAISE(ERR_USAGE, "unknown option --%s; did you mean --%s?", key, nearest);
    RAISE(ERR_USAGE, "unknown option --%s; --help all lists the options", key);
}

/* One option at argv[*at]; *at moves to the last word it used. */
static err_t parse_one(opt_group_t *groups, int n_groups, int argc, char **argv, int *at)
{
    const char *word = argv[*at] + 2;
    const char *equals = strchr(word, '=');
    size_t n_key = equals ? (size_t)(equals - word) : strlen(word);
    char key[MAX_KEY];
    if (n_key == 0 || n_key >= sizeof key)
        RAISE(ERR_USAGE, "'%s' is not an option; --help all lists them", argv[*at]);
    memcpy(key, word, n_key);
    key[n_key] = '\0';

    int g, i;
    const char *value = equals ? equals + 1 : NULL;
    if (!find_option(groups, n_groups, key, &g, &i)) {
        bool negated = strncmp(key, "no-", 3) == 0 && find_option(groups, n_groups, key + 3, &g, &i) &&
                       groups[g].table[i].type == OPT_FLAG && !value;
        if (!negated) return raise_unknown(groups, n_groups, key);
        value = "false";
    } else if (groups[g].table[i].type == OPT_FLAG) {
        if (!value) value = "true";
    } else if (!value) {
        char choices[96];
        if (*at + 1 >= argc || strncmp(argv[*at + 1], "--", 2) == 0)
            RAISE(ERR_USAGE, "--%s requires a value (%s)", key,
                  opt_placeholder(&groups[g].table[i], choices, sizeof choices));
        value = argv[++*at];
    }
    if (groups[g].given >> i & 1) RAISE(ERR_USAGE, "--%s is given twice", groups[g].table[i].key);
    TRY(opt_set(&groups[g], i, value));
    groups[g].given |= (uint64_t)1 << i;
    return ERR_OK;
}

/* The long form of -q or -v; NULL: another word. */
static char *long_form(const char *word)
{
    static char quiet[] = "--quiet", verbose[] = "--verbose";
    return strcmp(word, "-q") == 0 ? quiet : strcmp(word, "-v") == 0 ? verbose : NULL;
}

err_t opt_parse(opt_group_t *groups, int n_groups, int argc, char **argv, const char **positional,
                int max_positional, int *n_positional)
{
    bool options_end = false;
    int n = 0;
    for (int i = 0; i < argc; i++) {
        char *form = options_end ? NULL : long_form(argv[i]);
        if (form) {
            TRY(parse_one(groups, n_groups, 1, &form, &(int){0}));
        } else if (!options_end && strcmp(argv[i], "--") == 0) {
            options_end = true;
        } else if (!options_end && strncmp(argv[i], "--", 2) == 0) {
            TRY(parse_one(groups, n_groups, argc, argv, &i));
        } else if (!options_end && argv[i][0] == '-' && argv[i][1]) {
            bool has_quiet = find_option(groups, n_groups, "quiet", &(int){0}, &(int){0});
            RAISE(ERR_USAGE, "unknown option %s; short options: -h%s; --help all lists the others", argv[i],
                  has_quiet ? ", -q, -v" : "");
        } else if (n >= max_positional) {
            RAISE(ERR_USAGE, "unexpected argument '%s'", argv[i]);
        } else {
            positional[n++] = argv[i];
        }
    }
    if (n_positional) *n_positional = n;
    return ERR_OK;
}

bool opt_given(const opt_group_t *groups, int n_groups, const char *key)
{
    int g, i;
    const bool is_known = find_option(groups, n_groups, key, &g, &i);
    ASSERT(is_known);
    return is_known && groups[g].given >> i & 1;
}

bool opt_typed(const opt_group_t *groups, int n_groups, const uint64_t *typed, const char *key)
{
    int g, i;
    const bool is_known = find_option(groups, n_groups, key, &g, &i);
    ASSERT(is_known);
    return is_known && typed[g] >> i & 1;
}

/* ---- Config files ---- */
/* Whether read_line reads the value back unchanged. */
static bool reads_back(const char *value)
{
    size_t n = strlen(value);
    if (n == 0) return true;
    if (strchr(" \t\r#", value[0]) || strchr(" \t\r", value[n - 1]) || strchr(value, '\n')) return false;
    return !strstr(value, " #") && !strstr(value, "\t#");
}

err_t opt_config_write(const opt_group_t *groups, int n_groups, const char *const *without, char **out)
{
    size_t used = 0;
    *out = NULL;
    for (int g = 0; g < n_groups; g++)
        for (int i = 0; i < groups[g].n; i++) {
            char value[4200];
            opt_text(&groups[g], i, value, sizeof value);
            bool unset = !groups[g].table[i].initial && !(groups[g].given >> i & 1);
            if (opt_listed(without, groups[g].table[i].key)) continue;
            if (unset && (value[0] == '\0' || strcmp(value, "0") == 0)) continue;
            if (!reads_back(value)) {
                mem_free(out);
                RAISE(
                    ERR_USAGE,
                    "--%s '%s' cannot be written to a config file: remove line breaks, blanks at either end, "
                    "and # at the start or after a blank",
                    groups[g].table[i].key, value);
            }
            size_t need = used + strlen(groups[g].table[i].key) + strlen(value) + 8;
            err_t err = mem_grow((int64_t)need, 1, "options", out);
            if (err != ERR_OK) mem_free(out);
            TRY(err);
            used += (size_t)snprintf(*out + used, need - used, "%s = %s\n", groups[g].table[i].key, value);
        }
    return *out ? ERR_OK : mem_new(1, "options", out);
}

static char *trim_blanks(char *text)
{
    while (*text == ' ' || *text == '\t') text++;
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r", text[n - 1])) text[--n] = '\0';
    return text;
}

/* before: per group, the options given before the first line. */
static err_t read_line(opt_group_t *groups, int n_groups, const uint64_t *before, char *line)
{
    for (char *c = line; (c = strchr(c, '#')); c++)
        if (c == line || c[-1] == ' ' || c[-1] == '\t') {
            *c = '\0';
            break;
        }
    char *key = trim_blanks(line);
    if (!*key) return ERR_OK;
    char *equals = strchr(key, '=');
    if (!equals) RAISE(ERR_USAGE, "invalid line '%s': expected key = value", key);
    *equals = '\0';
    key = trim_blanks(key);
    int g, i;
    if (!find_option(groups, n_groups, key, &g, &i)) return raise_unknown(groups, n_groups, key);
    if (before[g] >> i & 1) return ERR_OK;
    if (groups[g].given >> i & 1) RAISE(ERR_USAGE, "%s is given twice", key);
    TRY(opt_set(&groups[g], i, trim_blanks(equals + 1)));
    groups[g].given |= (uint64_t)1 << i;
    return ERR_OK;
}

err_t opt_config_read(opt_group_t *groups, int n_groups, const char *text, const char *name, char **storage)
{
    uint64_t before[MAX_GROUPS];
    ASSERT(n_groups <= MAX_GROUPS);
    for (int g = 0; g < n_groups; g++) before[g] = groups[g].given;
    TRY(mem_strdup(text, storage));
    int number = 1;
    for (char *line = *storage, *end; line; line = end, number++) {
        end = strchr(line, '\n');
        if (end) *end++ = '\0';
        err_t err = read_line(groups, n_groups, before, line);
        if (err != ERR_OK) {
            mem_free(storage);
            return err_context(err, "%s, line %d", name, number);
        }
    }
    return ERR_OK;
}

/* ---- Given options that change nothing ---- */
/* "--optimizer sgd, nesterov or lars" */
static void format_needs(const opt_when_t *when, char *out, size_t n_bytes)
{
    size_t used = (size_t)snprintf(out, n_bytes, "--%s", when->needs);
    for (const char *at = when->values; at && *at && used < n_bytes;) {
        const int length = (int)strcspn(at, "|");
        const bool first = at == when->values, last = at[length] == '\0';
        used += (size_t)snprintf(out + used, n_bytes - used, "%s%.*s",
                                 first  ? " "
                                 : last ? " or "
                                        : ", ",
                                 length, at);
        at += length + !last;
    }
}

/* Whether the condition of an option holds. A condition on what the command does not have holds. */
static bool applies(const opt_group_t *groups, int n_groups, const opt_when_t *when, const opt_fact_t *facts)
{
    char text[MAX_TEXT];
    const char *value = NULL;
    int g, i;
    for (; facts && facts->name && !value; facts++)
        if (strcmp(facts->name, when->needs) == 0) value = facts->value;
    if (!value && find_option(groups, n_groups, when->needs, &g, &i)) {
        opt_text(&groups[g], i, text, sizeof text);
        value = text;
    }
    if (!value) return true;
    return when->values ? opt_is_among(value, when->values)
                        : value[0] && !opt_is_among(value, "0|false|none|off");
}

static void warn(const opt_when_t *when, const char *key)
{
    char needs[MAX_TEXT];
    format_needs(when, needs, sizeof needs);
    if (when->text)
        log_warn("--%s changes nothing in this run: it is for %s", key, when->text);
    else if (when->values)
        log_warn("--%s changes nothing in this run: it is for %s", key, needs);
    else
        log_warn("--%s changes nothing without %s", key, needs);
}

int opt_warn_idle(const opt_group_t *groups, int n_groups, const opt_when_t *whens, const opt_fact_t *facts,
                  const uint64_t *typed)
{
    int n = 0;
    for (int g = 0; g < n_groups; g++)
        for (int i = 0; i < groups[g].n; i++) {
            const char *key = groups[g].table[i].key;
            if (!((typed ? typed[g] : groups[g].given) >> i & 1)) continue;
            for (const opt_when_t *when = whens; when->keys; when++)
                if (opt_is_among(key, when->keys) && !applies(groups, n_groups, when, facts)) {
                    warn(when, key);
                    n++;
                    break;
                }
        }
    return n;
}
