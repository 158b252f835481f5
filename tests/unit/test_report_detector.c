/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Records of a detector's training: the schema, and what the tables show of its twenty metrics. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "records/record.h"
#include "report/records/print.h"
#include "report/records/report.h"
#include "tests/tap.h"

#define SECONDS                                                                                              \
    "'step_sec':1,'data_wait_sec':0,'forward_sec':0.5,'backward_sec':0.4,'exposed_comm_sec':0,"              \
    "'optimizer_sec':0.1}"
#define LOSSES                                                                                               \
    "'recall':null,'loss_objectness':1,'loss_rpn_box_reg':0.5,'loss_classifier':0.25,'loss_box_reg':0.125"
#define IMAGE "{'image':7,'canvas':'800x1088','objects':3,'positives':12,'sec':0.5,'rank':0}"
static const char *const lines[] = {
    "{'record':'step','step':0,'epoch':0,'loss':1.9," LOSSES ",'loss_mask':0.025,'positives':12.5,'lr':0.02,"
    "'images':[" IMAGE "]," SECONDS,
    "{'record':'step','step':1,'epoch':0,'loss':1.875," LOSSES ",'positives':0,'lr':0.02," SECONDS,
    "{'record':'epoch','epoch':0,'step':1,'train_loss':1.5,'train_recall':0.5,'train_loss_objectness':1,"
    "'train_positives':9,'val_ap_box':0.25,'val_ap50_box':0.5,'val_ap_mask':0.125,'images_per_sec':2,"
    "'train_sec':8}",
    "{'record':'evaluation','step':1,'epoch':0,'val_ap_box':null,'val_ap_mask':0.5,'eval_sec':3}",
};
enum { N_LINES = sizeof lines / sizeof *lines, TEXT = 4096 };

static const char run[] =
    "{'record':'run','schema':1,'metrics':["
    "{'name':'loss','label':'loss','unit':'number','better':'lower','main':false,'training':true,"
    "'training_only':true},"
    "{'name':'recall','label':'proposal recall','unit':'fraction','better':'higher','main':false,'training':true,"
    "'training_only':true},"
    "{'name':'positives','label':'positives','unit':'number','better':'neither','main':false,'training':true,"
    "'training_only':true,'detail':true},"
    "{'name':'ap_box','label':'box AP','unit':'fraction','better':'higher','main':true,'training':false},"
    "{'name':'ap50_box','label':'box AP50','unit':'fraction','better':'higher','main':false,'training':false},"
    "{'name':'ap_mask','label':'mask AP','unit':'fraction','better':'higher','main':true,'training':false}]}";

static const char *quoted(const char *from, char out[TEXT])
{
    snprintf(out, TEXT, "%s", from);
    for (char *at = out; *at; at++)
        if (*at == '\'') *at = '"';
    return out;
}

/* The check of a record in which `from` is replaced by `to`; NULL: as it is. */
static err_t check(const char *line, const char *from, const char *to)
{
    char text[TEXT], changed[TEXT];
    json_reader_t reader = {0};
    const json_value_t *record = NULL;
    const char *at = from ? strstr(line, from) : line;
    if (!at) exit(4);
    snprintf(changed, TEXT, "%.*s%s%s", (int)(at - line), line, from ? to : "",
             at + (from ? strlen(from) : 0));
    quoted(changed, text);
    err_t err = json_read(&reader, text, strlen(text), &record);
    if (err == ERR_OK) err = record_check(record);
    json_reader_free(&reader);
    return err;
}

static void test_schema(void)
{
    static const struct {
        int line;
        const char *from, *to;
    } faults[] = {
        {0, "'loss_box_reg':0.125,", ""}, {0, "'positives':12.5", "'positives':-1"},
        {0, "'recall'", "'accuracy'"},    {0, "'canvas':'800x1088'", "'canvas':7"},
        {0, "'rank':0", "'host':0"},      {1, "'positives':0,", "'positives':0,'more':1,"},
        {2, "'train_loss':1.5,", ""},     {2, "'val_ap_box':0.25,", ""},
        {2, "'train_sec':8", "'sec':8"},  {3, "'val_ap_mask':0.5", "'val_ap_mask':'x'"},
        {3, "'eval_sec':3", "'other':3"},
    };
    for (int i = 0; i < N_LINES; i++) OK_CALL(check(lines[i], NULL, NULL), "record %d keeps the schema", i);
    int n_passed = 0;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (check(lines[faults[i].line], faults[i].from, faults[i].to) == ERR_DATA) continue;
        printf("# %s for %s was let pass\n", faults[i].to, faults[i].from);
        n_passed++;
    }
    OK(n_passed == 0, "each of %zu faults is found", sizeof faults / sizeof *faults);
}

static void test_table(void)
{
    char text[TEXT], line[TEXT], *printed = NULL;
    size_t n_bytes;
    report_t report = {0};
    FILE *out = open_memstream(&printed, &n_bytes);
    if (!out) exit(4);
    snprintf(text, sizeof text, "%s\n%s\n", run, lines[2]);
    quoted(text, line);
    const int fd = memfd_create("records", MFD_CLOEXEC);
    if (fd < 0 || write(fd, line, strlen(line)) < 0 || lseek(fd, 0, SEEK_SET) != 0) exit(4);
    OK_CALL(report_read(&report, fd, "run"), "a run with an epoch");
    OK_CALL(report_print(&report, &render_text, out), "is printed");
    fclose(out);
    close(fd);
    const char *table = strstr(printed, "epoch  train loss");
    OK(table && strstr(table, "train proposal recall  val box AP  val box AP50  val mask AP  images/s"),
       "with what each half measures, in the order of the table");
    OK(table && !strstr(table, "val loss") && !strstr(table, "positives"),
       "not with what only training measures, as a validation, nor details");
    OK(table && strstr(table, "1.500") && strstr(table, "25.0 %") && strstr(table, "12.5 %"),
       "and the values");
    const report_train_t *train = report.runs->train;
    OK(strcmp(train->metrics[train->main_metric].name, "ap_mask") == 0, "the mask's precision judges");
    free(printed);
    report_free(&report);
}

int main(void)
{
    tap_plan(N_LINES + 1 + 6 + 1);
    test_schema();
    test_table();
    OK(mem_live() == 0, "everything is given back");
    return tap_done();
}
