/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * dptrain report reads every kind of record that the program can write, and --check has rules for each. */
#include "tests/tap.h"

#include "base/json.h"
#include "report/records/records.h"
#include "report/records/schema_rules.h"

int main(void)
{
    tap_plan(2 * N_RECORD_KINDS + 1);
    for (int k = 0; k < N_RECORD_KINDS; k++) {
        const char *name = record_names[k];
        OK(record_reader_find(name) != NULL, "dptrain report reads records of the kind %s", name);
        OK(schema_checker_find(name) != NULL, "dptrain report --check knows the kind %s", name);
    }
    OK(!record_reader_find("steps") && !schema_checker_find("steps"), "a kind that nobody writes is unknown");
    return tap_done();
}
