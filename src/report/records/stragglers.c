/* SPDX-License-Identifier: MIT */
/* The table of stragglers. Reading their records is left to records_train.c. */
#include "report/records/stragglers.h"

static err_t row_of_straggler(arena_t *arena, const report_straggler_t *s, const char **cell)
{
    if (s->n_ranks > 1)
        TRY(arena_format(arena, cell++, "%s, and all others of the host", figure_number(s->rank).text));
    else
        TRY(arena_format(arena, cell++, "%s", figure_number(s->rank).text));
    *cell++ = s->host;
    *cell++ = s->phase;
    TRY(arena_format(arena, cell++, "%s", figure_time(s->sec).text));
    TRY(arena_format(arena, cell++, "%s", figure_time(s->usual_sec).text));
    return arena_format(arena, cell, "%s to %s", figure_number(s->first_step).text,
                        figure_number(s->last_step).text);
}

err_t train_stragglers(arena_t *arena, const report_train_t *train, table_t *out)
{
    *out =
        (table_t){.title = "stragglers",
                  .caption = "slow ranks, with their time per step in the phase, and that of the usual rank",
                  .columns = {{"rank", true},
                              {"host", true},
                              {"phase", true},
                              {"per step", false},
                              {"usual", false},
                              {"in steps", true}},
                  .n_columns = 6};
    for (const report_straggler_t *s = train->stragglers; s; s = s->next) out->n_rows++;
    if (out->n_rows == 0) return ERR_OK;
    TRY(arena_new(arena, sizeof *out->cells * (size_t)out->n_rows * 6, &out->cells));
    const char **cell = out->cells;
    for (const report_straggler_t *s = train->stragglers; s; s = s->next, cell += 6)
        TRY(row_of_straggler(arena, s, cell));
    return ERR_OK;
}
