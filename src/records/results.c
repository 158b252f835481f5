/* SPDX-License-Identifier: MIT */
/* The results of other commands: eval, predict, check, report compare, report history. */
#include "records/tables.h"

/* Of classifiers and detectors. */
const record_field_t record_eval[] = {
    {TEXT("checkpoint")},
    {FLAG("averaged")},
    {TEXT("model"), .optional = true},
    {TEXT("precision")},
    {TEXT("data")},
    {FLAG("matches_training_data"), .optional = true},
    {TEXT("split")},
    {COUNT("n_samples")},
    {COUNT("n_detections"), .optional = true},
    {REAL("loss"), .nullable = true, .optional = true},
    {REAL("accuracy"), .nullable = true, .optional = true},
    {REAL("top5"), .nullable = true, .optional = true},
    {REAL("map"), .nullable = true, .optional = true},
    {ARRAY("average_precision"), .optional = true},
    {ARRAY("confusion"), .optional = true},
    {OBJECT("bbox"), .optional = true},
    {OBJECT("segm"), .optional = true},
    {0},
};

static const record_field_t class_fields[] = {
    {COUNT("class")},
    {WORDS("name"), .optional = true},
    {REAL("probability"), .nullable = true},
    {0},
};

static const record_field_t object_fields[] = {
    {INTEGER("category_id")}, {WORDS("name"), .optional = true},          {REAL("score"), .nullable = true},
    {ARRAY("bbox")},          {OBJECT("segmentation"), .optional = true}, {0},
};

/* `classes` of a classifier, `objects` of a detector, `error` if the image could not be read. */
const record_field_t record_prediction[] = {
    {TEXT("image")},
    {TEXT("error"), .optional = true},
    {ARRAY("classes"), .of = class_fields, .optional = true},
    {POSITIVE("width"), .optional = true},
    {POSITIVE("height"), .optional = true},
    {ARRAY("objects"), .of = object_fields, .optional = true},
    {0},
};

static const char *const statuses[] = {"ok", "skip", "warn", "fail", NULL};

static const record_field_t line_fields[] = {
    {TEXT("host"), .nullable = true},
    {COUNT("rank"), .nullable = true},
    {TEXT("check")},
    {WORDS("name")},
    {TEXT("status"), .words = statuses},
    {WORDS("found")},
    {NUMBER("value"), .nullable = true, .optional = true},
    {TEXT("advice"), .nullable = true},
    {0},
};

const record_field_t record_check_result[] = {
    {TEXT("time")},
    {POSITIVE("hosts")},
    {POSITIVE("ranks")},
    {FLAG("ready")},
    {ARRAY("lines"), .of = line_fields},
    {0},
};

static const record_field_t side_fields[] = {
    {ARRAY("files")},
    {COUNT("runs")},
    {COUNT("runs_excluded")},
    {TEXT("first"), .nullable = true},
    {TEXT("last"), .nullable = true},
    {TEXT("git"), .nullable = true},
    {0},
};

const record_field_t record_comparison[] = {
    {VERSION("schema")},
    {TEXT("verdict")},
    {FLAG("decided")},
    {OBJECT("n")},
    {OBJECT("options")},
    {OBJECT("base"), .of = side_fields},
    {OBJECT("new"), .of = side_fields},
    {ARRAY("metrics")},
    {ARRAY("notes")},
    {0},
};

static const record_field_t group_fields[] = {
    {WORDS("hardware_id")},
    {WORDS("fabric_id")},
    {REAL("ranks"), .nullable = true},
    {REAL("threads"), .nullable = true},
    {REAL("days"), .nullable = true},
    {ARRAY("recordings")},
    {ARRAY("metrics")},
    {0},
};

const record_field_t record_history[] = {
    {VERSION("schema")}, {OBJECT("options")}, {ARRAY("groups"), .of = group_fields}, {ARRAY("notes")}, {0},
};
