/* SPDX-License-Identifier: MIT */
/* Looks up named values and formats them with the units that their names imply (base/figure.c). */
#include "report/records/fields.h"

#include <math.h>
#include <string.h>

const report_field_t *fields_find(report_fields_t fields, const char *name)
{
    /* Names within a report are interned: comparing pointers usually suffices. */
    for (int i = 0; i < fields.n; i++)
        if (fields.at[i].name == name || strcmp(fields.at[i].name, name) == 0) return &fields.at[i];
    return NULL;
}

const char *fields_text(const report_field_t *field, figure_t *room)
{
    const char *unit;
    quantity_t quantity = figure_quantity(field->name, &unit);
    if (field->text && (field->kind == FIELD_TEXT || quantity == QUANTITY_NUMBER)) return field->text;
    *room = figure_of(quantity, field->kind == FIELD_NUMBER ? field->number : NAN);
    return room->text;
}
