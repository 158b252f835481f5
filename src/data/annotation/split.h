/* SPDX-License-Identifier: MIT */
/* The two parts of a data set. */
#ifndef DATA_ANNOTATION_SPLIT_H
#define DATA_ANNOTATION_SPLIT_H

typedef enum split { SPLIT_TRAIN, SPLIT_VAL, SPLIT_COUNT } split_t;

/* As options, folders and files call them, and NULL after the last: "train", "val". */
extern const char *const split_names[SPLIT_COUNT + 1];
/* As people call them: "training", "validation". */
extern const char *const split_words[SPLIT_COUNT];

#endif
