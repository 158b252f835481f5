/* SPDX-License-Identifier: MIT */
/* `dptrain report --check`: checks records against the documented schema (report/records/schema.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cmd/report_files.h"
#include "report/records/schema.h"

static err_t check_one(void *context, int fd, const char *name)
{
    return schema_check_file(fd, name, stdout, context);
}

err_t report_check(const char *const *names, int n, err_t *worst)
{
    schema_counts_t counts = {0};
    TRY(report_files_each(names, n, check_one, &counts, worst));
    print_out("%lld record%s checked\n", (long long)counts.n_records, counts.n_records == 1 ? "" : "s");
    if (fflush(stdout) != 0 || ferror(stdout))
        RAISE(ERR_SYSTEM, "cannot write standard output: %s", strerror(errno));
    if (counts.n_records == 0 && *worst == ERR_OK) RAISE(ERR_DATA, "no record to check");
    if (counts.n_bad == 0) return ERR_OK;
    RAISE(ERR_DATA, "%lld of %lld record%s %s not match docs/records.md", (long long)counts.n_bad,
          (long long)counts.n_records, counts.n_records == 1 ? "" : "s", counts.n_bad == 1 ? "does" : "do");
}
