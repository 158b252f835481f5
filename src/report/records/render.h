/* SPDX-License-Identifier: MIT */
/* Output formats of a report, each a table of functions. Texts come from records: they may hold anything
 * except invalid UTF-8. */
#ifndef REPORT_RECORDS_RENDER_H
#define REPORT_RECORDS_RENDER_H

#include <stdio.h>

#include "text/table.h"

/* A name and a value, printed on one line. */
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
extern const render_t render_markdown; /* GitHub Markdown */

/* Writes a CSV field, quoted as RFC 4180 requires. */
void csv_field(FILE *out, const char *text);

#endif
