/* SPDX-License-Identifier: MIT */
/* A detector at work: an image on its canvas, the network's forward passes, regions, detections and masks. What it
 * finds depends on the image, the weights and the backend's number of threads alone: not on other images, their
 * order, or ranks. Not collective. */
#ifndef TRAIN_DETECT_DETECTOR_H
#define TRAIN_DETECT_DETECTOR_H

#include "compute/graph/exec.h"
#include "data/transform/canvas.h"
#include "train/detect/postprocess.h"

typedef struct detector detector_t;

typedef struct detector_options {
    const graph_t *graph;     /* compute/models/rcnn.h; borrowed, like the other pointers */
    const backend_t *backend; /* opened */
    float *params, *states;   /* of the backend; may change between images */
    /* Of the same graph, parameters and states; NULL: its own. Its owner calls exec_ready before the first image. */
    exec_t *exec;
    const canvases_t *canvases;
    pixel_norm_t norm;
    detections_options_t detections;
    bool masks; /* only of a model with masks */
    /* Called between the parts of an image's work, for progress; may be NULL. */
    void (*tick)(void *context);
    void *context;
} detector_options_t;

/* Plans the network for all canvases, which share one arena, and allocates everything that images need. Algorithms
 * are rcnn_algorithms', or those of options->exec. */
err_t detector_new(const detector_options_t *options, detector_t **out);
void detector_free(detector_t **detector);

typedef struct detector_result {
    int64_t n;
    const detector_object_t *objects; /* best first; valid until the next image */
} detector_result_t;

/* Finds the objects in an image.
 *
 *   info  of the image; one with an orientation is detected as shown, and boxes and masks are those of the image as
 *         stored if `stored` is set, as COCO's annotations are
 *   image  decoded, as shown
 *
 * ERR_DATA or ERR_USAGE as canvas_place. */
err_t detector_run(detector_t *detector, const char *name, const image_info_t *info, const image_t *image,
                   bool stored, detector_result_t *out);

/* Bytes of activations. */
size_t detector_arena_bytes(const detector_t *detector);

/* The sections of rows of a detector's graph (compute/models/rcnn.h). */
enum { SECTION_BOX = 1, SECTION_MASK };

/* Its inputs and outputs by index. */
typedef struct detector_ports {
    int image, box_regions, mask_regions; /* inputs; of a model without masks -1 */
    int logits[PROPOSALS_LEVELS], deltas[PROPOSALS_LEVELS];
    int box_logits, box_deltas, mask_logits; /* outputs; of a model without masks -1 */
} detector_ports_t;

detector_ports_t detector_ports(const graph_t *graph);

/* n rows of a section, rounded up to whole blocks. */
int64_t detector_rows(const graph_t *graph, int section, int64_t n);

/* The shapes of all inputs on each canvas, for exec_prepare_shapes.
 *
 *   out  [canvases->n][GRAPH_MAX_INPUTS]; free it with mem_free */
err_t detector_shapes(const graph_t *graph, const canvases_t *canvases, shape_t **out);

/* The outputs of the proposal head for an image of the batch, by its index. */
void detector_levels(const detector_ports_t *ports, const exec_results_t *results, map_size_t canvas,
                     int64_t image, proposals_level_t levels[PROPOSALS_LEVELS]);

#endif
