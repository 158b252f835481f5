/* SPDX-License-Identifier: MIT */
/* Options of lists without pointers, and their defaults. */
#include "data/annotation/list_rules.h"

#include <stdlib.h>
#include <string.h>

const char *const list_boxes[LIST_BOXES_COUNT + 1] = {"auto", "stored", "shown", NULL};

list_rules_t list_rules(const list_rule_options_t *o, int64_t max_bad)
{
    list_rules_t rules = {.skip_missing = o->skip_missing,
                          .max_bad = max_bad,
                          .max_left_out = o->max_left_out > 0 ? o->max_left_out : -1};
    while (o->boxes && strcmp(list_boxes[rules.boxes], o->boxes) != 0) rules.boxes++;
    return rules;
}

double list_rules_most(const list_rules_t *rules)
{
    if (rules->max_left_out < 0) return 0;
    return rules->max_left_out > 0 ? rules->max_left_out : strtod(LIST_MAX_LEFT_OUT, NULL);
}

void list_rules_inherit(list_rules_t *rules, const list_rules_t *saved)
{
    const list_rules_t zero = {0};
    const double most = list_rules_most(rules), usual = list_rules_most(&zero);
    if (rules->boxes == LIST_BOXES_AUTO) rules->boxes = saved->boxes;
    rules->skip_missing |= saved->skip_missing;
    if (!(most < usual) && !(most > usual)) rules->max_left_out = saved->max_left_out;
}
