/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Every kind of record has a table of fields and a reader; what the table lacks is neither written nor accepted. */
#include "tests/tap.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "records/record.h"
#include "report/records/records.h"

enum written { IN_TABLE, UNKNOWN, OTHER_TYPE, UNKNOWN_INSIDE, READ_UNKNOWN };

static void write_record(enum written what)
{
    json_t j = {0};
    record_begin(&j, RECORD_CHECK);
    json_string(&j, "time", NULL);
    if (what == UNKNOWN) json_int(&j, "host", 1);
    if (what == OTHER_TYPE)
        json_string(&j, "ranks", "2");
    else
        json_int(&j, "ranks", 2);
    json_array_begin(&j, "lines");
    json_object_begin(&j, NULL);
    json_string(&j, what == UNKNOWN_INSIDE ? "ranks" : "check", "cpu");
    json_object_end(&j);
    json_array_end(&j);
    json_object_end(&j);
    json_object_begin(&j, NULL); /* no record: not guarded */
    json_int(&j, "anything", 1);
    json_object_end(&j);
    json_free(&j);
}

/* The signal that ends a child which writes; 0: none. */
static int signal_of(enum written what)
{
    fflush(stdout);
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        const report_input_t none = {.kind = RECORD_CHECK};
        if (what == READ_UNKNOWN)
            report_get_real(&none, "host");
        else
            write_record(what);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static bool says(const char *text, const char *fault)
{
    json_reader_t reader = {0};
    const json_value_t *record = NULL;
    err_t err = json_read(&reader, text, strlen(text), &record);
    if (err == ERR_OK) err = record_check(record);
    json_reader_free(&reader);
    return fault ? err == ERR_DATA && strstr(err_message(), fault) : err == ERR_OK;
}

#define POINT                                                                                                \
    "{\"record\":\"bench\",\"schema\":1,\"run\":\"a\",\"case\":\"c\",\"test\":\"t\",\"key\":{%s},"           \
    "\"metrics\":{%s}}"

static bool point_says(const char *key, const char *metrics, const char *fault)
{
    char text[512];
    snprintf(text, sizeof text, POINT, key, metrics);
    return says(text, fault);
}

int main(void)
{
    tap_plan(2 * N_RECORD_KINDS + 14);
    for (int k = 0; k < N_RECORD_KINDS; k++) {
        const char *name = record_kinds[k].name;
        OK(record_readers[k] != NULL, "dptrain report reads records of the kind %s", name);
        OK(record_find(name) == &record_kinds[k] && record_kinds[k].fields, "%s has a table", name);
    }
    OK(!record_find("steps"), "a kind that nobody writes is unknown");

    OK(signal_of(IN_TABLE) == 0,
       "fields of a table are written, also as null, and anything after the record");
    OK(signal_of(UNKNOWN) == SIGABRT, "a field that the table lacks is not");
    OK(signal_of(OTHER_TYPE) == SIGABRT, "nor one of another type");
    OK(signal_of(UNKNOWN_INSIDE) == SIGABRT, "nor one inside an array");
    OK(signal_of(READ_UNKNOWN) == SIGABRT, "nor is it read");

    OK(point_says("\"bytes\":8,\"name\":null", "\"gbs\":1.5,\"ok\":true", NULL), "free names have scalars");
    OK(point_says("\"bytes\":[8]", "", "\"bytes\""), "a list is not a scalar");
    OK(point_says("", "\"gbs\":1e999", "\"gbs\""), "nor is infinity");
    OK(point_says("", "\"gbs\":1,\"gbs\":2", "\"gbs\" appears twice"), "each name once");
    OK(point_says("", "\"active_ranks\":-1", "\"active_ranks\""), "a row among free names counts");
    OK(says("{\"record\":\"job_wait\",\"time\":\"t\",\"sec\":NaN,\"reason\":\"r\",\"min_ranks\":1}",
            "\"sec\""),
       "NaN is not a number");
    OK(says("{\"record\":\"job_wait\",\"time\":\"\",\"sec\":1,\"reason\":\"r\",\"min_ranks\":1}",
            "expected a text"),
       "what was expected is named");
    OK(says("{\"record\":\"step\",\"recall\":1,\"accuracy\":1}", "\"accuracy\""),
       "fields of the other variant are unknown");
    return tap_done();
}
