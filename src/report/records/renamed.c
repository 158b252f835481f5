/* SPDX-License-Identifier: MIT */
/* The table of renamed fields. jsonl.c applies it to every record, so readers see only the present names. */
#include "report/records/renamed.h"

#include <string.h>

static const struct {
    const char *record;
    const char
        *inside; /* the member that holds the field, an object or an array of objects; NULL: the record */
    const char *old, *now;
} renamed[] = {
    {"run", "data", "views", "transform"},
    {"run", "topology", "no_gpu_why", "gpu_unavailable"},
    {"end", NULL, "bad_pictures", "corrupt_samples"},
    {"end", NULL, "why", "reason"},
    {"profile", "layers", "of_peak", "share_of_peak"},
    {"bench_run", NULL, "in_turn_with", "interleaved_with"},
    {"bench_end", NULL, "why", "reason"},
    {"bench", NULL, "loads", "disturbances"},
    {"bench", "metrics", "ranks_at_it", "active_ranks"},
    {"bench", "metrics", "pages_left", "resident_pages"},
};

void records_rename(const json_value_t *record)
{
    const char *kind;
    if (!json_get_text(record, "record", &kind)) return;
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++) {
        if (strcmp(kind, renamed[i].record) != 0) continue;
        const json_value_t *in = renamed[i].inside ? json_get(record, renamed[i].inside) : record;
        bool is_array = in && in->kind == JSON_ARRAY;
        for (const json_value_t *at = is_array ? in->first : in; at; at = is_array ? at->next : NULL) {
            json_value_t *member = (json_value_t *)json_get(at, renamed[i].old); /* writable: in an arena */
            if (member) member->key = renamed[i].now;
        }
    }
}
