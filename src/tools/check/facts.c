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
typedef struct entry entry_t; /* of a profile */

typedef struct equals {
    int64_t n, *index; /* of their lines */
    int64_t first;     /* line */
    int64_t usual;     /* line with the most frequent value; of speeds, the reference */
    int64_t n_usual;   /* hosts or ranks that have it */
    int64_t family;    /* the first `equals` of this check and name: theirs are items of one kind */
    int lacking; /* a host that has others of the family: most such hosts lack this item. -1: most have it */
    entry_t *entry; /* of the profile; NULL: none */
} equals_t;

typedef struct facts {
    equals_t *equals;
    int64_t n, *index; /* of all facts, those of one `equals` after another */
    bool *member;      /* [n × n_hosts]: of each family's first, the hosts that have items of it */
    bool *lacks;       /* [n_hosts]: scratch */
    int n_hosts;
} facts_t;

static void facts_free(facts_t *facts)
{
    mem_free(&facts->equals);
    mem_free(&facts->index);
    mem_free(&facts->member);
    mem_free(&facts->lacks);
}

static bool same_family(const check_line_t *a, const check_line_t *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->check, b->check) == 0;
}

static bool same_value(const check_line_t *a, double value, const char *text, double tolerance)
{
    if (!a->measured || isnan(value)) return strcmp(a->found, text) == 0;
    return fabs(a->value - value) <= tolerance * fmax(fabs(a->value), fabs(value));
}

/* Whether hosts that lack an item are to be named: those that have others of its name, such as other libraries. */
static bool is_item_of_hosts(const check_line_t *line)
{
    return line->rule == CHECK_EQUAL && line->item[0] && line->scope == CHECK_HOST;
}

/* The upper median, which one slow host of two does not move. */
static err_t find_usual_speed(const check_lines_t *lines, equals_t *e)
{
    double *sorted = NULL;
    int64_t n = 0;
    TRY(mem_new_array(e->n, sizeof *sorted, "speeds", &sorted));
    for (int64_t i = 0; i < e->n; i++)
        if (lines->line[e->index[i]].measured) sorted[n++] = lines->line[e->index[i]].value;
    const double middle = stats_upper_median(sorted, n);
    for (int64_t i = e->n - 1; i >= 0 && n > 0; i--)
        if (lines->line[e->index[i]].value == middle) e->usual = e->index[i];
    mem_free(&sorted);
    return ERR_OK;
}

/* The most frequent value, the first of several. Different values are few, even of many hosts. */
static err_t find_usual(const check_lines_t *lines, equals_t *e)
{
    typedef struct kind {
        const check_line_t *line;
        int64_t at, n; /* at: line */
    } kind_t;
    kind_t *kinds = NULL;
    int64_t n_kinds = 0;
    e->usual = e->first;
    if (lines->line[e->first].rule == CHECK_SPEED) return find_usual_speed(lines, e);
    TRY(mem_new_array(e->n, sizeof *kinds, "values", &kinds));
    for (int64_t i = 0; i < e->n; i++) {
        const check_line_t *line = &lines->line[e->index[i]];
        int64_t k = 0;
        while (k < n_kinds && !same_value(kinds[k].line, line->value, line->found, 0)) k++;
        if (k == n_kinds) kinds[n_kinds++] = (kind_t){.line = line, .at = e->index[i]};
        kinds[k].n++;
    }
    for (int64_t i = 0; i < n_kinds; i++) {
        const check_line_t *a = kinds[i].line;
        int64_t count = 0;
        for (int64_t k = 0; k < n_kinds; k++)
            if (k == i || same_value(a, kinds[k].line->value, kinds[k].line->found, a->tolerance))
                count += kinds[k].n;
        if (count <= e->n_usual) continue;
        e->n_usual = count;
        e->usual = kinds[i].at;
    }
    mem_free(&kinds);
    return ERR_OK;
}

/* Marks in facts->lacks the hosts that have other items of the family, but not this one; returns their number. */
static int mark_lacking(const facts_t *facts, const check_lines_t *lines, const equals_t *e)
{
    int n = 0;
    memset(facts->lacks, 0, (size_t)facts->n_hosts * sizeof *facts->lacks);
    if (!is_item_of_hosts(&lines->line[e->first])) return 0;
    memcpy(facts->lacks, &facts->member[e->family * facts->n_hosts],
           (size_t)facts->n_hosts * sizeof *facts->lacks);
    for (int64_t i = 0; i < e->n; i++) facts->lacks[lines->line[e->index[i]].index] = false;
    for (int h = 0; h < facts->n_hosts; h++) n += facts->lacks[h];
    return n;
}

/* A host that lacks the item, if most hosts of the family do, or the first of two halves; otherwise -1. */
static int find_lacking(const facts_t *facts, const check_lines_t *lines, const equals_t *e)
{
    const int n = mark_lacking(facts, lines, e);
    int host = 0;
    if (n == 0 || n < e->n) return -1;
    while (!facts->lacks[host]) host++;
    return n > e->n || host < lines->line[e->first].index ? host : -1;
}

static err_t facts_new(const check_t *check, const check_lines_t *lines, facts_t *out)
{
    int64_t n_facts = 0, *of_line = NULL;
    *out = (facts_t){.n_hosts = check->n_hosts};
    err_t err = mem_new_array(lines->n, sizeof *of_line, "facts", &of_line);
    for (int64_t i = 0, guess = 0; err == ERR_OK && i < lines->n; i++) {
        const check_line_t *line = &lines->line[i];
        of_line[i] = -1;
        if (line->rule == CHECK_FINDING) continue;
        /* Most hosts have the same facts in the same order. */
        int64_t e = out->n, family = out->n;
        for (int64_t k = 0; k < out->n && e == out->n; k++) {
            const int64_t at = (guess + k) % out->n;
            const check_line_t *first = &lines->line[out->equals[at].first];
            if (!same_family(first, line)) continue;
            family = out->equals[at].family;
            if (strcmp(first->item, line->item) == 0) e = at;
        }
        if (e == out->n) {
            err = mem_grow(out->n + 1, sizeof *out->equals, "facts", &out->equals);
            if (err != ERR_OK) break;
            out->equals[out->n++] = (equals_t){.first = i, .family = family};
        }
        out->equals[e].n++;
        of_line[i] = e;
        guess = e + 1;
        n_facts++;
    }
    if (err == ERR_OK) err = mem_new_array(n_facts, sizeof *out->index, "facts", &out->index);
    if (err == ERR_OK) err = mem_new_array(out->n * out->n_hosts, sizeof *out->member, "facts", &out->member);
    if (err == ERR_OK) err = mem_new_array(out->n_hosts, sizeof *out->lacks, "facts", &out->lacks);
    if (err == ERR_OK) {
        int64_t *next = out->index;
        for (int64_t e = 0; e < out->n; next += out->equals[e++].n) out->equals[e].index = next;
        for (int64_t e = 0; e < out->n; e++) out->equals[e].n = 0;
    }
    for (int64_t i = 0; err == ERR_OK && i < lines->n; i++) {
        if (of_line[i] < 0) continue;
        equals_t *e = &out->equals[of_line[i]];
        e->index[e->n++] = i;
        if (is_item_of_hosts(&lines->line[i]))
            out->member[e->family * out->n_hosts + lines->line[i].index] = true;
    }
    for (int64_t e = 0; err == ERR_OK && e < out->n; e++) {
        err = find_usual(lines, &out->equals[e]);
        out->equals[e].lacking = find_lacking(out, lines, &out->equals[e]);
    }
    mem_free(&of_line);
    if (err != ERR_OK) facts_free(out);
    return err;
}

/* ---- Profiles ---- */
struct entry {
    const char *check, *name, *item, *text;
    double value, tolerance; /* value: NAN: the text is compared */
    bool speed;              /* less is worse, more is not */
    bool met;                /* a host has it */
};

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
    TRY(facts_new(check, lines, &facts));
    clock_utc(now, sizeof now);
    record_begin(&j, RECORD_CHECK_PROFILE);
    json_string(&j, "time", now);
    json_int(&j, "hosts", check->n_hosts);
    json_int(&j, "ranks", check->comm->size);
    json_array_begin(&j, "facts");
    for (int64_t i = 0; i < facts.n; i++) {
        const check_line_t *usual = &lines->line[facts.equals[i].usual];
        const bool speed = usual->rule == CHECK_SPEED;
        if (usual->rule == CHECK_SAME || facts.equals[i].lacking >= 0 || (speed && !usual->measured))
            continue;
        json_object_begin(&j, NULL);
        json_string(&j, "check", usual->check);
        json_string(&j, "name", usual->name);
        if (usual->item[0]) json_string(&j, "item", usual->item);
        json_string(&j, "text", usual->found);
        if (usual->measured) json_real(&j, "value", usual->value);
        if (usual->measured)
            json_real(&j, "tolerance", speed && usual->tolerance == 0 ? CHECK_SLOWER : usual->tolerance);
        if (speed) json_bool(&j, "at_least", true);
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

/* The place of a fact among its equals. */
typedef struct usual {
    const check_line_t *line; /* as it was found; NULL: most hosts have none */
    const char *host;         /* that has it, or lacks it */
    int64_t n;                /* hosts or ranks that were compared */
    const entry_t *entry;     /* of the profile, or NULL */
} usual_t;

/* What a line, or a host without one, is worse than. `text`: what to add to the finding. */
static err_t judge_among_hosts(const usual_t *usual, check_line_t *line, check_status_t unequal,
                               arena_t *texts, const char **text)
{
    *text = "";
    if (line->rule == CHECK_SPEED) {
        const double lost = 1 - line->value / usual->line->value;
        if (!(lost > CHECK_SLOW)) return ERR_OK;
        const check_status_t slow = lost > CHECK_SLOWER ? CHECK_FAIL : CHECK_WARN;
        if (slow > line->status) line->status = slow;
        return arena_format(texts, text, ", %.0f %% below the %s", 100 * lost,
                            usual->n > 2 ? "median" : "other");
    }
    const bool same = usual->line
                          ? same_value(line, usual->line->value, usual->line->found, usual->line->tolerance)
                          : !line->found[0];
    /* A host that is as the profile says is right, whatever the others are. */
    if (unequal == CHECK_OK || same || usual->entry) return ERR_OK;
    if (unequal > line->status) line->status = unequal;
    return arena_format(texts, text, "; %s has %s", usual->host,
                        usual->line ? shown(usual->line->found) : "none");
}

static bool is_as_in_profile(const check_line_t *line, const entry_t *e)
{
    if (!e || same_value(line, e->value, e->text, e->tolerance)) return true;
    return e->speed && line->measured && line->value > e->value;
}

/* Gives a line its status and the words on what others have. */
static err_t judge_line(const usual_t *usual, check_line_t *line, arena_t *texts)
{
    const check_status_t unequal = line->status;
    const bool names_item = line->rule != CHECK_SPEED && line->item[0];
    const char *among, *known = "";
    line->status = line->alone;
    TRY(judge_among_hosts(usual, line, unequal, texts, &among));
    if (!is_as_in_profile(line, usual->entry)) {
        line->status = CHECK_FAIL;
        TRY(arena_format(texts, &known, "; the profile has %s", shown(usual->entry->text)));
    }
    if (line->status <= CHECK_SKIP) line->advice = "";
    if (!among[0] && !known[0]) return ERR_OK;
    return arena_format(texts, &line->found, "%s%s%s%s%s", names_item ? line->item : "",
                        names_item ? ": " : "", shown(line->found), among, known);
}

/* Adds lines about hosts that lack an item which most hosts of its family have, or the profile: a library that is not loaded. */
static err_t name_missing(const facts_t *facts, const equals_t *e, const usual_t *usual, check_lines_t *lines)
{
    if (mark_lacking(facts, lines, e) == 0) return ERR_OK;
    check_line_t missing = lines->line[e->usual];
    missing.found = "";
    missing.alone = CHECK_OK;
    missing.measured = false;
    for (int h = 0; h < facts->n_hosts; h++) {
        check_line_t line = missing;
        if (!facts->lacks[h]) continue;
        line.index = h;
        TRY(judge_line(usual, &line, &lines->texts));
        if (line.status > CHECK_SKIP) TRY(add_line(lines, &line));
    }
    return ERR_OK;
}

static err_t judge_equals(const check_t *check, const facts_t *facts, const equals_t *e, check_lines_t *lines)
{
    const check_line_t line = lines->line[e->usual];
    const int host = e->lacking >= 0            ? e->lacking
                     : line.scope == CHECK_RANK ? check->ranks[line.index].host
                                                : line.index;
    const usual_t usual = {e->lacking < 0 ? &line : NULL, check_host_name(check, host), e->n, e->entry};
    const bool none = !line.found[0] && e->n_usual == e->n;
    TRY(name_missing(facts, e, &usual, lines));
    for (int64_t k = 0; k < e->n; k++) {
        check_line_t *at = &lines->line[e->index[k]];
        TRY(judge_line(&usual, at, &lines->texts));
        if (none && at->status == CHECK_OK) at->status = CHECK_SKIP;
        at->found = shown(at->found);
    }
    return ERR_OK;
}

/* Of each host or rank, items of a family that are as they should be become one line: the first, with their number. */
static err_t merge_items(const check_t *check, const facts_t *facts, bool judged, check_lines_t *lines)
{
    const int size = check->comm->size;
    int64_t *first = NULL, *count = NULL, n = 0;
    err_t err = mem_new_array(2 * size, sizeof *first, "items", &first);
    if (err == ERR_OK) err = mem_new_array(2 * size, sizeof *count, "items", &count);
    for (int64_t family = 0; err == ERR_OK && family < facts->n; family++) {
        if (facts->equals[family].family != family) continue;
        memset(count, 0, 2 * (size_t)size * sizeof *count);
        for (int64_t e = family; e < facts->n; e++) {
            const equals_t *equals = &facts->equals[e];
            for (int64_t k = 0; equals->family == family && k < equals->n; k++) {
                check_line_t *line = &lines->line[equals->index[k]];
                if (line->rule != CHECK_EQUAL || !line->item[0] || line->status != CHECK_OK) continue;
                const int place = line->index + (line->scope == CHECK_RANK ? size : 0);
                if (count[place]++ == 0)
                    first[place] = equals->index[k];
                else
                    line->check = NULL; /* to be removed */
            }
        }
        for (int place = 0; err == ERR_OK && place < 2 * size; place++) {
            if (count[place] == 0) continue;
            check_line_t *line = &lines->line[first[place]];
            line->measured = false;
            err = arena_format(&lines->texts, &line->found, "%lld %s", (long long)count[place],
                               !judged             ? "found"
                               : count[place] == 1 ? "as it should be"
                                                   : "as they should be");
        }
    }
    for (int64_t i = 0; i < lines->n; i++)
        if (lines->line[i].check) lines->line[n++] = lines->line[i];
    lines->n = n;
    mem_free(&first);
    mem_free(&count);
    return err;
}

/* Facts of the profile that no host has, of checks that found others: some had nothing to do, such as those of pairs of hosts. */
static err_t name_unmet(const check_profile_t *profile, check_lines_t *lines)
{
    const int64_t n_lines = lines->n;
    for (int64_t i = 0; i < profile->n; i++) {
        bool ran = false;
        const entry_t *e = &profile->entries[i];
        check_line_t line = {.scope = CHECK_JOB,
                             .status = CHECK_FAIL,
                             .check = e->check,
                             .name = e->name,
                             .item = "",
                             .advice = "if that is right, write the profile again (--write-profile)"};
        for (int64_t k = 0; !e->met && !ran && k < n_lines; k++)
            ran = lines->line[k].rule != CHECK_FINDING && strcmp(lines->line[k].check, e->check) == 0;
        if (e->met || !ran) continue;
        TRY(arena_format(&lines->texts, &line.found, "none on any host; the profile has %s%s%s", e->item,
                         e->item[0] ? ": " : "", shown(e->text)));
        TRY(add_line(lines, &line));
    }
    return ERR_OK;
}

static void find_entries(const check_profile_t *profile, const check_lines_t *lines, facts_t *facts)
{
    for (int64_t k = 0; k < facts->n; k++) {
        equals_t *equals = &facts->equals[k];
        const check_line_t *line = &lines->line[equals->first];
        if (line->rule == CHECK_SAME) continue;
        for (int64_t i = 0; i < profile->n && !equals->entry; i++) {
            entry_t *e = &profile->entries[i];
            if (strcmp(e->name, line->name) != 0 || strcmp(e->item, line->item) != 0 ||
                strcmp(e->check, line->check) != 0)
                continue;
            e->met = true;
            equals->entry = e;
        }
    }
}

err_t check_facts_judge(check_t *check, const check_profile_t *profile, check_lines_t *lines)
{
    facts_t facts;
    TRY(facts_new(check, lines, &facts));
    err_t err = ERR_OK;
    if (profile) find_entries(profile, lines, &facts);
    for (int64_t i = 0; err == ERR_OK && i < facts.n; i++)
        err = judge_equals(check, &facts, &facts.equals[i], lines);
    if (err == ERR_OK) err = merge_items(check, &facts, profile || check->n_hosts > 1, lines);
    if (err == ERR_OK && profile) err = name_unmet(profile, lines);
    for (int64_t i = 0; i < lines->n; i++) lines->line[i].rule = CHECK_FINDING;
    facts_free(&facts);
    return err;
}
