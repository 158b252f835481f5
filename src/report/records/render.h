/* SPDX-License-Identifier: MIT */
/* A report's parts, and the forms that they are printed in: a form is a table of functions. Text comes from
 * records: it may hold anything but invalid UTF-8. */
#ifndef REPORT_RECORDS_RENDER_H
#define REPORT_RECORDS_RENDER_H

#include <stdio.h>

#include "base/table.h"

/* A line of a run's head. */
typedef struct fact {
    const char *name, *text;
} fact_t;

typedef struct render {
    void (*heading)(FILE *out, const char *text);
    void (*facts)(FILE *out, const fact_t *facts, int n);
    void (*table)(FILE *out, const table_t *table);
    void (*note)(FILE *out, const char *text);
} render_t;

extern const render_t render_text;     /* aligned columns */
extern const render_t render_markdown; /* GitHub's */

/* A field of RFC 4180: in quotes where it must be. */
void csv_field(FILE *out, const char *text);

#endif
