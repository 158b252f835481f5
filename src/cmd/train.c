#include "train/train.h"

#include "cmd/cmd.h"

err_t cmd_train(const cmd_context_t *context)
{
    train_options_t options;
    opt_group_t groups[TRAIN_N_GROUPS];
    err_t err = train_options_bind(&options, groups);
    if (err == ERR_OK &&
        cmd_wants_help(context, "usage: mpirun -np N dptrain train [options]\n", groups, TRAIN_N_GROUPS))
        return ERR_OK;
    if (err == ERR_OK) err = opt_parse(groups, TRAIN_N_GROUPS, context->argc, context->argv, NULL, 0, NULL);
    if (err == ERR_OK) err = train_options_check(&options, groups);
    if (err != ERR_OK) return cmd_fail(err);
    return train_run(&options, groups, context->abort_job);
}
