/* SPDX-License-Identifier: MIT */
/* The table of algorithm choices and its text form, kept in caches and checkpoints. Measuring candidates is
 * left to measure.c. */
#include "compute/graph/algorithms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

void algorithms_free(algorithms_t *table)
{
    mem_free(&table->entries);
    *table = (algorithms_t){.n = 0};
}

static algorithm_t *find_entry(const algorithms_t *table, const char *key, op_pass_t pass)
{
    for (int i = 0; i < table->n; i++)
        if (table->entries[i].pass == pass && strcmp(table->entries[i].key, key) == 0)
            return &table->entries[i];
    return NULL;
}

const char *algorithms_find(const algorithms_t *table, const op_desc_t *desc, op_pass_t pass)
{
    char key[OP_KEY_MAX];
    op_key(desc, key);
    const algorithm_t *entry = find_entry(table, key, pass);
    return entry ? entry->name : NULL;
}

/* Reads the batch size of a key and the lengths of the text before and after it. False: it has none. */
static bool split_key(const char *key, int64_t *n, size_t *before, const char **after)
{
    const char *at = strstr(key, " n=");
    if (!at) return false;
    char *end;
    *before = (size_t)(at - key);
    *n = strtoll(at + 3, &end, 10);
    *after = end;
    return *n > 0;
}

/* Share of the vectors of 16 samples that n samples fill. */
static double vector_share(int64_t n)
{
    return (double)n / (double)((n + 15) / 16 * 16);
}

const char *algorithms_find_near(const algorithms_t *table, const op_desc_t *desc, op_pass_t pass)
{
    const char *exact = algorithms_find(table, desc, pass), *name = NULL, *after, *other_after;
    char key[OP_KEY_MAX];
    int64_t n, other;
    size_t before, other_before;
    double nearest = 4;
    op_key(desc, key);
    if (exact || !split_key(key, &n, &before, &after)) return exact;
    for (int i = 0; i < table->n; i++) {
        const algorithm_t *e = &table->entries[i];
        if (e->pass != pass || !split_key(e->key, &other, &other_before, &other_after)) continue;
        if (other_before != before || memcmp(e->key, key, before) != 0 || strcmp(other_after, after) != 0)
            continue;
        const double ratio = other > n ? (double)other / (double)n : (double)n / (double)other;
        const double fill = vector_share(n) / vector_share(other);
        if (ratio > nearest || fill < 0.9 || fill > 1 / 0.9) continue;
        nearest = ratio;
        name = e->name;
    }
    return name;
}

void algorithms_get(const algorithms_t *table, const op_desc_t *desc, op_algorithms_t *out)
{
    *out = (op_algorithms_t){0};
    for (int pass = 0; pass < OP_PASS_COUNT; pass++) {
        const char *name = algorithms_find(table, desc, (op_pass_t)pass);
        if (name) snprintf(out->name[pass], OP_ALGORITHM_MAX, "%s", name);
    }
}

static err_t set_entry(algorithms_t *table, const char *key, op_pass_t pass, const char *name)
{
    algorithm_t *entry = find_entry(table, key, pass);
    if (!entry) {
        TRY(mem_grow(table->n + 1, sizeof *table->entries, "a table of algorithms", &table->entries));
        entry = &table->entries[table->n++];
        entry->pass = pass;
        snprintf(entry->key, sizeof entry->key, "%s", key);
    }
    snprintf(entry->name, sizeof entry->name, "%s", name);
    return ERR_OK;
}

err_t algorithms_set(algorithms_t *table, const op_desc_t *desc, op_pass_t pass, const char *name)
{
    char key[OP_KEY_MAX];
    op_key(desc, key);
    return set_entry(table, key, pass, name);
}

void algorithms_drop(algorithms_t *table, const op_desc_t *desc, op_pass_t pass)
{
    char key[OP_KEY_MAX];
    op_key(desc, key);
    algorithm_t *entry = find_entry(table, key, pass);
    if (entry) *entry = table->entries[--table->n];
}

/* Trims blanks at both ends. */
static char *trim_blanks(char *text)
{
    text += strspn(text, " \t\r");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r", text[n - 1])) n--;
    text[n] = '\0';
    return text;
}

/* A known operator, a type, and one or more name=value words, separated by single blanks, as op_key writes
 * them. */
static bool is_key(const char *key)
{
    int n_words = 0;
    bool known = false;
    while (true) {
        size_t n = strcspn(key, " \t");
        const char *equals = memchr(key, '=', n);
        for (int kind = 0; n_words == 0 && kind < OP_KIND_COUNT; kind++) {
            const char *name = op_traits((op_kind_t)kind)->name;
            known |= strlen(name) == n && strncmp(key, name, n) == 0;
        }
        if (n == 0 || (n_words < 2) != !equals || (equals && (equals == key || equals == key + n - 1)))
            return false;
        n_words++;
        if (key[n] != ' ') return key[n] == '\0' && known && n_words > 2;
        key += n + 1;
    }
}

static bool pass_of(const char *name, op_pass_t *out)
{
    for (int pass = 0; pass < OP_PASS_COUNT; pass++)
        if (strcmp(name, op_pass_names[pass]) == 0) {
            *out = (op_pass_t)pass;
            return true;
        }
    return false;
}

/* *wrong: why the line is invalid, or NULL. */
static err_t read_line(algorithms_t *table, char *line, const char **wrong)
{
    *wrong = NULL;
    char *equals = strstr(line, " = ");
    if (!equals) {
        *wrong = "expected 'OPERATOR SHAPE PASS = ALGORITHM'";
        return ERR_OK;
    }
    *equals = '\0';
    char *left = trim_blanks(line), *name = trim_blanks(equals + 3), *space = strrchr(left, ' ');
    op_pass_t pass;
    if (strcmp(left, "machine") == 0) {
        snprintf(table->machine, sizeof table->machine, "%s", name);
        return ERR_OK;
    }
    if (!space || !pass_of(space + 1, &pass)) {
        *wrong = "expected forward, backward_data or backward_weights before the =";
        return ERR_OK;
    }
    *space = '\0';
    left = trim_blanks(left);
    if (strlen(left) >= OP_KEY_MAX || !is_key(left))
        *wrong = "expected an operator and its shape, such as 'conv2d float32 n=64 x=12x12x20 k=50x5x5 …'";
    else if (!name[0] || strlen(name) >= OP_ALGORITHM_MAX || strpbrk(name, " \t"))
        *wrong = "expected the name of one algorithm after the =";
    return *wrong ? ERR_OK : set_entry(table, left, pass, name);
}

err_t algorithms_read(algorithms_t *table, const char *text, const char *source, bool strict)
{
    err_t err = ERR_OK;
    char *copy = NULL;
    int number = 0;
    TRY_OUT(err, mem_strdup(text, &copy));
    for (char *line = copy, *end; line && *line; line = end) {
        const char *wrong;
        number++;
        end = strchr(line, '\n');
        if (end) *end++ = '\0';
        char *words = trim_blanks(line);
        if (!words[0] || words[0] == '#') continue;
        TRY_OUT(err, read_line(table, words, &wrong));
        if (wrong && strict) RAISE_OUT(err, ERR_USAGE, "%s, line %d: %s", source, number, wrong);
        if (wrong) log_warn("%s, line %d is ignored: %s", source, number, wrong);
    }
out:
    mem_free(&copy);
    return err;
}

err_t algorithms_write(const algorithms_t *table, char **out)
{
    enum { LINE_MAX_BYTES = OP_KEY_MAX + OP_ALGORITHM_MAX + 32 };
    char *text;
    size_t room = 64 + ALGORITHMS_MACHINE_MAX + (size_t)table->n * LINE_MAX_BYTES;
    TRY(mem_new(room, "a table of algorithms", &text));
    size_t n = (size_t)snprintf(text, room, "# dptrain's algorithms, format %d\n", ALGORITHMS_FORMAT);
    if (table->machine[0]) n += (size_t)snprintf(text + n, room - n, "machine = %s\n", table->machine);
    for (int i = 0; i < table->n; i++) {
        const algorithm_t *e = &table->entries[i];
        n += (size_t)snprintf(text + n, room - n, "%s %s = %s\n", e->key, op_pass_names[e->pass], e->name);
    }
    ASSERT(n < room);
    *out = text;
    return ERR_OK;
}

void batch_size_add(batch_size_t *sizes, int *n_sizes, int64_t n, bool training)
{
    for (int i = 0; i < *n_sizes; i++)
        if (sizes[i].n == n && sizes[i].training == training) return;
    if (n > 0 && *n_sizes < ALGORITHMS_MAX_SIZES)
        sizes[(*n_sizes)++] = (batch_size_t){.n = n, .training = training};
}
