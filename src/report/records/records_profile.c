/* SPDX-License-Identifier: MIT */
/* Reads what a forecast needs of a training run: its profile and its setting. */
#include <math.h>

#include "report/records/profile.h"
#include "report/records/records.h"

static err_t read_layers(const report_input_t *in, report_profile_t *profile)
{
    const json_value_t *list = json_get(in->record, "layers");
    report_layer_t *layers = NULL;
    if (!list || list->kind != JSON_ARRAY || list->n == 0) return ERR_OK;
    TRY(arena_new(&in->report->arena, (size_t)list->n * sizeof *layers, &layers));
    for (const json_value_t *at = list->first; at; at = at->next) {
        report_layer_t *layer = &layers[profile->n_layers++];
        TRY(report_copy_text(in->report, at, "name", &layer->name));
        layer->forward_sec = report_get_real(at, "forward_sec");
        layer->backward_sec = report_get_real(at, "backward_sec");
        if (!isfinite(layer->forward_sec) || !isfinite(layer->backward_sec))
            RAISE(ERR_DATA, "profile record: layer \"%.40s\" has no times", layer->name);
    }
    profile->layers = layers;
    return ERR_OK;
}

static err_t read_samples(const report_input_t *in, report_profile_t *profile)
{
    const json_value_t *list = json_get(in->record, "rank_samples");
    double *samples = NULL;
    if (!list || list->kind != JSON_ARRAY || !list->first) return ERR_OK;
    TRY(arena_new(&in->report->arena, (size_t)list->n * sizeof *samples, &samples));
    for (const json_value_t *at = list->first; at; at = at->next)
        if (json_as_real(at, &samples[profile->n_rank_samples]) && samples[profile->n_rank_samples] > 0)
            profile->n_rank_samples++;
    profile->rank_samples = samples;
    return ERR_OK;
}

err_t train_profile_read(const report_input_t *in, report_train_t *train)
{
    report_profile_t *profile = NULL;
    TRY(arena_new(&in->report->arena, sizeof *profile, &profile));
    *profile = (report_profile_t){.steps = report_get_real(in->record, "steps"),
                                  .ranks = report_get_real(in->record, "ranks"),
                                  .step_sec = report_get_real(in->record, "step_sec"),
                                  .data_wait_sec = report_get_real(in->record, "data_wait_sec"),
                                  .forward_sec = report_get_real(in->record, "forward_sec"),
                                  .backward_sec = report_get_real(in->record, "backward_sec"),
                                  .optimizer_sec = report_get_real(in->record, "optimizer_sec"),
                                  .other_sec = report_get_real(in->record, "other_sec")};
    TRY(read_layers(in, profile));
    TRY(read_samples(in, profile));
    train->profile = profile;
    return ERR_OK;
}

err_t train_setting_read(const report_input_t *in, report_train_t *train)
{
    const json_value_t *options = json_get(in->record, "options"),
                       *topology = json_get(in->record, "topology"), *data = json_get(in->record, "data"),
                       *allreduce = json_get(topology, "allreduce");
    report_setting_t *s = train->setting;
    if (!s) TRY(arena_new(&in->report->arena, sizeof *s, &s));
    if (!train->setting) *s = (report_setting_t){0};
    train->setting = s;
    TRY(report_copy_text(in->report, topology, "comm", &s->comm));
    TRY(report_copy_text(in->report, allreduce, "gradients", &s->gradients));
    TRY(report_copy_text(in->report, topology, "host_of_rank_0", &s->host));
    TRY(report_copy_text(in->report, data, "kind", &s->data_kind));
    s->n_train = report_get_real(data, "n_train");
    s->n_val = report_get_real(data, "n_val");
    s->n_classes = report_get_real(data, "n_classes");
    s->input_size = report_get_real(options, "input-size");
    s->epochs = report_get_real(options, "epochs");
    s->accumulate = report_get_real(options, "accumulate");
    s->bucket_bytes = report_get_real(allreduce, "bucket_bytes");
    s->start_sec = report_get_real(in->record, "start_sec");
    return ERR_OK;
}

void train_setting_add(const json_value_t *record, const char *field, double *sum, int64_t *n)
{
    const double sec = report_get_real(record, field);
    if (!isfinite(sec)) return;
    *sum += sec;
    (*n)++;
}
