/* SPDX-License-Identifier: MIT */
/* `dptrain forecast`: options of a forecast from records. Runs without MPI, so that it works on a login node. */
#include "tools/forecast/forecast.h"

#include "cmd/report_files.h"

static const char usage[] =
    "usage: dptrain forecast RECORD… --hosts 2,16,128 [options]\n"
    "\n"
    "Says how a job will scale, with a 90 % interval, from records in any order:\n"
    "metrics.jsonl of a training run (50 steps or more, to the end) for the times of\n"
    "layers and steps, and bench comm --test all_reduce on 2 hosts or more for the\n"
    "network. Every input is marked as measured, given or assumed.\n"
    "\n"
    "Racks and shared links are not modelled: bench comm has to cross them.\n"
    "Exit codes: 2 options; 3 the records do not tell, and what to record.\n";

typedef struct options {
    forecast_options_t forecast;
    const char *out, *format;
} options_t;

static const char *const wires[] = {"fp32", "bf16", NULL}, *const overlaps[] = {"auto", "on", "off", NULL},
                         *const algorithms[] = {"auto", "ring", "tree", NULL},
                         *const formats[] = {"table", "json", NULL};

#define FIELD(name)    offsetof(options_t, name)
#define FORECAST(name) offsetof(options_t, forecast.name)
static const opt_t table[] = {
    {"hosts", OPT_STRING, FORECAST(hosts), NULL, 0, 0, NULL, "LIST", "numbers of hosts, such as 2,16,128",
     OPT_COMMON},
    {"gbps", OPT_STRING, FORECAST(rates), NULL, 0, 0, NULL, "LIST",
     "line rates of other networks, in Gbit/s: scales the measured bandwidth [the measured network]",
     OPT_COMMON},
    {"model", OPT_STRING, FORECAST(model), NULL, 0, 0, NULL, "NAME",
     "model; one that was not trained takes times by its multiply-adds [the trained one]", OPT_COMMON},
    {"batch", OPT_INT, FORECAST(batch), "0", 0, 1 << 20, NULL, "N", "samples per rank; 0: as trained",
     OPT_COMMON},
    {"wire", OPT_CHOICE, FORECAST(wire), NULL, 0, 0, wires, NULL,
     "number format of gradients on the network [fp32]", OPT_COMMON},
    {"bucket", OPT_SIZE, FORECAST(bucket_bytes), "auto", 0, 1e12, NULL, "SIZE",
     "size of gradient buckets, as train's", OPT_COMMON},
    {"job", OPT_FLAG, FORECAST(job), NULL, 0, 0, NULL, NULL,
     "also the whole job: start, evaluations, checkpoints, hours", OPT_COMMON},
    {"epochs", OPT_REAL, FORECAST(epochs), "0", 0, 1e6, NULL, "N", "of the job; 0: as trained", OPT_COMMON},
    {"samples", OPT_INT, FORECAST(samples), "0", 0, 1e15, NULL, "N", "of an epoch of the job; 0: as trained",
     OPT_COMMON},
    {"out", OPT_STRING, FIELD(out), NULL, 0, 0, NULL, "FILE",
     "also writes the record for dptrain report and report html", OPT_COMMON},
    {"format", OPT_CHOICE, FIELD(format), "table", 0, 0, formats, NULL, "output format", OPT_COMMON},
    {"overlap", OPT_CHOICE, FORECAST(overlap), "auto", 0, 0, overlaps, NULL,
     "sum gradients during the backward pass; auto: as train does with the measured communicator", OPT_MORE},
    {"algorithm", OPT_CHOICE, FORECAST(algorithm), "auto", 0, 0, algorithms, NULL,
     "of the allreduce; auto: the one that fits the measurements, if they tell", OPT_MORE},
    {"gflops", OPT_REAL, FORECAST(gflops), "0", 0, 1e9, NULL, "X",
     "of a rank, for a model that was not trained; 0: as the trained one", OPT_MORE},
    {"input-size", OPT_INT, FORECAST(input_size), "0", 0, 1 << 14, NULL, "N",
     "of such a model's images; 0: 224, for models of digits 28", OPT_MORE},
    {"seed", OPT_INT, FORECAST(seed), "1", 0, 1e15, NULL, "N", "of the draws for the interval", OPT_MORE},
};

static err_t print_record(const void *context, FILE *out)
{
    json_t j = {0};
    forecast_json(context, &j);
    err_t err = j.status;
    if (err == ERR_OK) fprintf(out, "%s\n", j.text);
    json_free(&j);
    return err;
}

static err_t print_table(const void *context, FILE *out)
{
    return forecast_print(context, out);
}

static err_t make_and_print(const options_t *options, report_t *report, forecast_t *forecast,
                            const char *const *names, int n)
{
    err_t worst = ERR_OK;
    if (n == 0) RAISE(ERR_USAGE, "dptrain forecast: expected files of records or run folders");
    if (!options->forecast.hosts)
        RAISE(ERR_USAGE, "dptrain forecast: expected --hosts, such as --hosts 2,16,128");
    TRY(report_files_read(report, names, n, &worst));
    if (worst != ERR_OK) RAISE(worst, "a file of records could not be read: no forecast from the others");
    TRY(forecast_make(report, &options->forecast, forecast));
    if (options->out) TRY(report_files_write(options->out, print_record, forecast));
    return report_files_write(NULL, options->format[0] == 'j' ? print_record : print_table, forecast);
}

static err_t run_forecast(const void *values, const char *const *names, int n)
{
    report_t report = {.keep_samples = true};
    forecast_t forecast = {0};
    err_t err = make_and_print(values, &report, &forecast, names, n);
    cmd_fail(err);
    forecast_free(&forecast);
    report_free(&report);
    return err;
}

err_t cmd_forecast(const cmd_context_t *context)
{
    options_t options = {0};
    opt_group_t group = {"Options", table, sizeof table / sizeof table[0], &options, 0};
    return report_files_command(context, usage, &group, run_forecast);
}
