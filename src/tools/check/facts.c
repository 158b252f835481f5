/* SPDX-License-Identifier: MIT */
/* Judges facts on rank 0: each host's against those of the other hosts, then against a profile, which it reads and writes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/stats.h"
#include "records/record.h"
#include "tools/check/lines.h"

/* ---- Equals: the facts of one check, name and item ---- */
typedef struct equals {
    int64_t n, *index; /* of their lines */
    int64_t first;     /* line */
    int64_t usual;     /* line with the most frequent value; of speeds, the reference */
    int n_usual;       /* hosts or ranks that have it */
} equals_t;

typedef struct facts {
    equals_t *equals;
    int64_t n, *index; /* of all facts, those of one `equals` after another */
} facts_t;

static void facts_free(facts_t *facts)
{
    mem_free(&facts->equals);
    mem_free(&facts->index);
}

static bool is_equal_to(const check_line_t *a, const check_line_t *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->item, b->item) == 0 && strcmp(a->check, b->check) == 0;
}

static bool same_value(const check_line_t *a, double value, const char *text, double tolerance)
{
    if (!a->measured || isnan(value)) return strcmp(a->found, text) == 0;
    return fabs(a->value - value) <= tolerance * fmax(fabs(a->value), fabs(value));
}

/* The most frequent value, the first of several; of speeds the upper median, which one slow host of two does not move. */
static err_t find_usual(const check_lines_t *lines, equals_t *e)
{
    double *sorted = NULL;
    if (lines->line[e->first].rule == CHECK_SPEED) {
        TRY(mem_new_array(e->n, sizeof *sorted, "speeds", &sorted));
        for (int64_t i = 0; i < e->n; i++) sorted[i] = lines->line[e->index[i]].value;
        stats_sort(sorted, e->n);
    }
    for (int64_t i = 0; i < e->n; i++) {
        const check_line_t *a = &lines->line[e->index[i]];
        int count = 0;
        if (sorted) {
            if (a->value == sorted[e->n / 2]) e->usual = e->index[i];
            continue;
        }
        for (int64_t k = 0; k < e->n; k++) {
            const check_line_t *b = &lines->line[e->index[k]];
            count += same_value(a, b->value, b->found, a->tolerance);
        }
        if (count <= e->n_usual) continue;
        e->n_usual = count;
        e->usual = e->index[i];
    }
    mem_free(&sorted);
    return ERR_OK;
}

static err_t facts_new(const check_lines_t *lines, facts_t *out)
{
    int64_t n_facts = 0;
    *out = (facts_t){0};
    int64_t *of_line = NULL;
    err_t err = mem_new_array(lines->n, sizeof *of_line, "facts", &of_line);
    for (int64_t i = 0; err == ERR_OK && i < lines->n; i++) {
        const check_line_t *line = &lines->line[i];
        int64_t e = 0;
        of_line[i] = -1;
        if (line->rule == CHECK_FINDING) continue;
        while (e < out->n && !is_equal_to(&lines->line[out->equals[e].first], line)) e++;
        if (e == out->n) {
            err = mem_grow(out->n + 1, sizeof *out->equals, "facts", &out->equals);
            if (err != ERR_OK) break;
            out->equals[out->n++] = (equals_t){.first = i};
        }
        out->equals[e].n++;
        of_line[i] = e;
        n_facts++;
    }
    if (err == ERR_OK) err = mem_new_array(n_facts, sizeof *out->index, "facts", &out->index);
    for (int64_t e = 0, at = 0; err == ERR_OK && e < out->n; e++) {
        out->equals[e].index = out->index + at;
        for (int64_t i = 0; i < lines->n; i++)
            if (of_line[i] == e) out->index[at++] = i;
        err = find_usual(lines, &out->equals[e]);
    }
    mem_free(&of_line);
    if (err != ERR_OK) facts_free(out);
    return err;
}

/* ---- Profiles ---- */
typedef struct entry {
    const char *check, *name, *item, *text;
    double value, tolerance; /* value: NAN: the text is compared */
    bool speed;              /* less is worse, more is not */
    bool met;                /* a host has it */
} entry_t;

struct check_profile {
    json_reader_t reader; /* owns the texts */
    char *text;
    entry_t *entries;
    int64_t n;
};

enum { PROFILE_MAX_BYTES = 16 << 20 };

err_t check_profile_read(const char *path, check_profile_t **out)
{
    check_profile_t *p;
    const json_value_t *root;
    size_t n_bytes;
    TRY(mem_new(sizeof *p, "a profile", &p));
    *out = p;
    p->reader.strict = true;
    TRY(fs_read_file(path, PROFILE_MAX_BYTES, &p->text, &n_bytes));
    err_t err = json_read(&p->reader, p->text, n_bytes, &root);
    if (err == ERR_OK) err = record_check(root);
    const char *kind = "";
    if (err == ERR_OK && (!json_get_text(root, "record", &kind) || strcmp(kind, "check_profile") != 0))
        err = err_raise(ERR_DATA, __FILE__, __LINE__, "it is a record of '%s', not of 'check_profile'", kind);
    if (err != ERR_OK) return err_context(err, "--profile %s", path);
    const json_value_t *facts = json_get(root, "facts");
    TRY(mem_new_array(facts->n, sizeof *p->entries, "a profile", &p->entries));
    for (const json_value_t *at = facts->first; at; at = at->next) {
        entry_t *e = &p->entries[p->n++];
        *e = (entry_t){.value = NAN, .item = ""};
        json_get_text(at, "check", &e->check);
        json_get_text(at, "name", &e->name);
        json_get_text(at, "item", &e->item);
        json_get_text(at, "text", &e->text);
        json_get_real(at, "value", &e->value);
        json_get_real(at, "tolerance", &e->tolerance);
        const json_value_t *at_least = json_get(at, "at_least");
        e->speed = at_least && at_least->truth;
    }
    return ERR_OK;
}

void check_profile_free(check_profile_t **profile)
{
    if (!*profile) return;
    json_reader_free(&(*profile)->reader);
    mem_free(&(*profile)->text);
    mem_free(&(*profile)->entries);
    mem_free(profile);
}

err_t check_profile_write(const check_t *check, const check_lines_t *lines, const char *path)
{
    facts_t facts;
    json_t j = {0};
    char now[32];
    TRY(facts_new(lines, &facts));
    clock_utc(now, sizeof now);
    record_begin(&j, RECORD_CHECK_PROFILE);
    json_string(&j, "time", now);
    json_int(&j, "hosts", check->n_hosts);
    json_int(&j, "ranks", check->comm->size);
    json_array_begin(&j, "facts");
    for (int64_t i = 0; i < facts.n; i++) {
        const check_line_t *usual = &lines->line[facts.equals[i].usual];
        if (usual->rule == CHECK_SAME) continue;
        json_object_begin(&j, NULL);
        json_string(&j, "check", usual->check);
        json_string(&j, "name", usual->name);
        if (usual->item[0]) json_string(&j, "item", usual->item);
        json_string(&j, "text", usual->found);
        if (usual->measured) json_real(&j, "value", usual->value);
        if (usual->measured) json_real(&j, "tolerance", usual->tolerance);
        if (usual->rule == CHECK_SPEED) json_bool(&j, "at_least", true);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
    facts_free(&facts);
    err_t err = json_write_file(&j, path);
    if (err != ERR_OK) err_context(err, "--write-profile");
    json_free(&j);
    return err;
}

/* ---- Judging ---- */
static const char *shown(const char *text)
{
    return text[0] ? text : "none";
}

static err_t add_line(check_lines_t *lines, const check_line_t *line)
{
    TRY(mem_grow(lines->n + 1, sizeof *lines->line, "the lines of all ranks", &lines->line));
    lines->line[lines->n++] = *line;
    return ERR_OK;
}

/* Names the item where there are several. */
static err_t set_found(check_lines_t *lines, check_line_t *line, bool names_item, const char *others,
                       const char *theirs)
{
    return arena_format(&lines->texts, &line->found, "%s%s%s; %s %s", names_item ? line->item : "",
                        names_item ? ": " : "", shown(line->found), others, shown(theirs));
}

/* A line against those of other hosts. */
static err_t judge_among_hosts(const check_t *check, check_lines_t *lines, const check_line_t *usual,
                               int64_t n, check_line_t *line)
{
    const check_status_t unequal = line->status;
    line->status = CHECK_OK;
    if (line->rule == CHECK_SPEED) {
        const double lost = 1 - line->value / usual->value;
        char text[80];
        if (!(lost > CHECK_SLOW)) return ERR_OK;
        line->status = lost > CHECK_SLOWER ? CHECK_FAIL : CHECK_WARN;
        snprintf(text, sizeof text, "%.0f %% below the %s", 100 * lost, n > 2 ? "median" : "other");
        return arena_format(&lines->texts, &line->found, "%s, %s", line->found, text);
    }
    if (line->rule == CHECK_KNOWN || same_value(line, usual->value, usual->found, usual->tolerance))
        return ERR_OK;
    line->status = unequal;
    if (unequal == CHECK_OK) return ERR_OK;
    const char *host = usual->scope == CHECK_RANK ? check->ranks[usual->index].host_name
                                                  : check_host_name(check, usual->index);
    char others[TOPO_HOST_MAX + 16];
    snprintf(others, sizeof others, "%s has", host);
    return set_found(lines, line, line->item[0] != '\0', others, usual->found);
}

static err_t judge_by_profile(check_lines_t *lines, check_line_t *line, check_rule_t rule, entry_t *entries,
                              int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        entry_t *e = &entries[i];
        if (strcmp(e->check, line->check) != 0 || strcmp(e->name, line->name) != 0 ||
            strcmp(e->item, line->item) != 0)
            continue;
        e->met = true;
        if (same_value(line, e->value, e->text, e->tolerance)) return ERR_OK;
        if (e->speed && line->measured && line->value > e->value) return ERR_OK;
        line->status = CHECK_FAIL;
        return set_found(lines, line, rule != CHECK_SPEED && line->item[0], "the profile has", e->text);
    }
    return ERR_OK;
}

/* Whether a host has a fact of that name, whatever its item. */
static bool has_name(const check_lines_t *lines, int64_t n, const check_line_t *of, int host)
{
    for (int64_t i = 0; i < n; i++) {
        const check_line_t *line = &lines->line[i];
        if (line->scope == CHECK_HOST && line->index == host && line->rule != CHECK_FINDING &&
            strcmp(line->name, of->name) == 0 && strcmp(line->check, of->check) == 0)
            return true;
    }
    return false;
}

/* Adds lines about hosts that lack an item which most hosts with others of its name have, as a library that is not loaded. */
static err_t name_missing(const check_t *check, check_lines_t *lines, const equals_t *e, int64_t n_lines)
{
    const check_line_t first = lines->line[e->first];
    if (first.rule != CHECK_EQUAL || !first.item[0] || first.scope != CHECK_HOST ||
        2 * e->n <= check->n_hosts)
        return ERR_OK;
    for (int h = 0; e->n < check->n_hosts && h < check->n_hosts; h++) {
        bool has = !has_name(lines, n_lines, &first, h);
        for (int64_t i = 0; i < e->n; i++) has |= lines->line[e->index[i]].index == h;
        if (has) continue;
        check_line_t line = first;
        line.index = h;
        line.measured = false;
        TRY(arena_format(&lines->texts, &line.found, "%s: none; %s has %s", first.item,
                         check_host_name(check, first.index), first.found));
        TRY(add_line(lines, &line));
    }
    return ERR_OK;
}

/* Of each host, items of a name that are as they should be become one line. */
static err_t merge_items(check_lines_t *lines)
{
    int64_t n = 0;
    for (int64_t i = 0; i < lines->n; i++) {
        check_line_t *line = &lines->line[i];
        check_line_t *first = NULL;
        const bool merges = line->rule == CHECK_EQUAL && line->item[0] && line->status == CHECK_OK;
        for (int64_t k = n; merges && k-- > 0 && !first;) {
            check_line_t *other = &lines->line[k];
            if (other->index != line->index || other->scope != line->scope) break;
            if (other->rule == CHECK_EQUAL && other->status == CHECK_OK && other->item[0] &&
                strcmp(other->name, line->name) == 0 && strcmp(other->check, line->check) == 0)
                first = other;
        }
        if (first) {
            first->value++;
            continue;
        }
        lines->line[n] = *line;
        if (merges) lines->line[n].value = 1;
        n++;
    }
    lines->n = n;
    for (int64_t i = 0; i < n; i++) {
        check_line_t *line = &lines->line[i];
        if (line->rule != CHECK_EQUAL || !line->item[0] || line->status != CHECK_OK) continue;
        line->measured = false;
        TRY(arena_format(&lines->texts, &line->found, "%.0f as they should be", line->value));
    }
    return ERR_OK;
}

err_t check_facts_judge(check_t *check, const check_profile_t *profile, check_lines_t *lines)
{
    facts_t facts;
    const int64_t n_lines = lines->n;
    TRY(facts_new(lines, &facts));
    err_t err = ERR_OK;
    /* First, while facts have the status of those that differ. */
    for (int64_t i = 0; err == ERR_OK && i < facts.n; i++)
        err = name_missing(check, lines, &facts.equals[i], n_lines);
    for (int64_t i = 0; err == ERR_OK && i < facts.n; i++) {
        const equals_t *e = &facts.equals[i];
        const check_line_t usual = lines->line[e->usual];
        const bool none = !usual.found[0] && e->n_usual == e->n;
        for (int64_t k = 0; err == ERR_OK && k < e->n; k++) {
            check_line_t *line = &lines->line[e->index[k]];
            err = judge_among_hosts(check, lines, &usual, e->n, line);
            if (err == ERR_OK && profile)
                err = judge_by_profile(lines, line, usual.rule, profile->entries, profile->n);
            if (line->status == CHECK_OK && !line->found[0]) line->found = "none";
            if (none && line->status == CHECK_OK) line->status = CHECK_SKIP;
            if (line->status <= CHECK_SKIP) line->advice = "";
        }
    }
    facts_free(&facts);
    if (err == ERR_OK) err = merge_items(lines);
    for (int64_t i = 0; err == ERR_OK && profile && i < profile->n; i++) {
        const entry_t *e = &profile->entries[i];
        check_line_t line = {.scope = CHECK_JOB,
                             .status = CHECK_FAIL,
                             .check = e->check,
                             .name = e->name,
                             .item = "",
                             .advice = "if that is right, write the profile again (--write-profile)"};
        if (e->met || !check_is_chosen(check->options, e->check)) continue;
        err = arena_format(&lines->texts, &line.found, "none on any host; the profile has %s%s%s", e->item,
                           e->item[0] ? " " : "", e->text);
        if (err == ERR_OK) err = add_line(lines, &line);
    }
    for (int64_t i = 0; i < lines->n; i++) lines->line[i].rule = CHECK_FINDING;
    return err;
}
