/* SPDX-License-Identifier: MIT */
/* The two parts of a data set. */
#ifndef DATA_ANNOTATION_SPLIT_H
#define DATA_ANNOTATION_SPLIT_H

typedef enum split { SPLIT_TRAIN, SPLIT_VAL, SPLIT_COUNT } split_t;

/* Names in options, folders and files: "train", "val", NULL. */
extern const char *const split_names[SPLIT_COUNT + 1];
/* Names in messages: "training", "validation". */
extern const char *const split_words[SPLIT_COUNT];

#endif
