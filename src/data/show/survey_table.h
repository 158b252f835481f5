/* SPDX-License-Identifier: MIT */
/* Prints a survey as tables. Not collective. */
#ifndef DATA_SHOW_SURVEY_TABLE_H
#define DATA_SHOW_SURVEY_TABLE_H

#include "data/show/survey.h"

/* Prints counts and ranges of each split to standard output. read: survey_options_t's, formats are known. */
err_t survey_print(const source_t *source, const survey_t *survey, bool read);

/* Prints the `top` categories with the most objects or, for sources without annotations, images. */
err_t survey_print_categories(const source_t *source, const survey_t *survey, int64_t top);

#endif
