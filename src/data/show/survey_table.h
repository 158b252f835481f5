/* SPDX-License-Identifier: MIT */
/* What a source of images holds, as tables for people. Not collective. */
#ifndef DATA_SHOW_SURVEY_TABLE_H
#define DATA_SHOW_SURVEY_TABLE_H

#include "data/show/survey.h"

/* Prints counts and ranges of each split to the standard output. read: every image's file was read, so that
 * formats are known. */
err_t survey_print(const source_t *source, const survey_t *survey, bool read);

/* The `top` categories with the most objects, or, of sources without annotations, images. */
err_t survey_print_categories(const source_t *source, const survey_t *survey, int64_t top);

#endif
