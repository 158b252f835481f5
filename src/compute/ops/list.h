/* SPDX-License-Identifier: MIT */
/* The list of operators. A row makes OP_KIND; the shared code then expects op_NAME_traits of NAME.c in this
 * folder, and each backend's table ref_NAME, cpu_NAME or cuda_NAME of the file with the operator's name; both norms are
 * in norm.c. */
#ifndef COMPUTE_OPS_LIST_H
#define COMPUTE_OPS_LIST_H

/* Operators that every backend has. */
#define OP_LIST_ALL(X)                                                                                       \
    X(CONV2D, conv2d)                                                                                        \
    X(LINEAR, linear)                                                                                        \
    X(POOL2D, pool2d)                                                                                        \
    X(RELU, relu)                                                                                            \
    X(DROPOUT, dropout)                                                                                      \
    X(ADD, add)                                                                                              \
    X(BATCH_NORM, batch_norm)                                                                                \
    X(GROUP_NORM, group_norm)                                                                                \
    X(SOFTMAX_XENT, softmax_xent)                                                                            \
    X(SIGMOID_BCE, sigmoid_bce)                                                                              \
    X(UPSAMPLE_ADD, upsample_add)                                                                            \
    X(SMOOTH_L1, smooth_l1)                                                                                  \
    X(SIGMOID_BCE_AT, sigmoid_bce_at)                                                                        \
    X(DECONV2D, deconv2d)                                                                                    \
    X(ROI_ALIGN, roi_align)

/* Operators that only the host backends have so far: none. */
#define OP_LIST_HOST(X)

#define OP_LIST(X) OP_LIST_ALL(X) OP_LIST_HOST(X)

#endif
