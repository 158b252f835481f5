/* SPDX-License-Identifier: MIT */
/* Loads cuDNN at run time, asks its heuristics for engines, and runs their plans. What is listed is kept until
 * the backend is closed: an operator asks for the same list several times. */
#include "kernels/cuda/dnn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kernels/cuda/cuda.h"

enum { WHAT_MAX = 288, X = 'x', W = 'w', Y = 'y' };

typedef struct listing listing_t;

struct dnn {
    dnn_spec_t spec;
    char what[WHAT_MAX];
    void *plan[2]; /* that writes; that adds */
    size_t n_workspace_bytes;
};

/* Operands once each. dx is written whole, or added to where windows read x. */
static void count_operands(const dnn_spec_t *spec, bool adds)
{
    const conv_shape_t *s = &spec->shape;
    const bool whole = spec->pass == OP_BACKWARD_DATA && !adds;
    const int64_t x = whole ? s->n * s->h * s->w * s->c : conv_elements_read(s);
    const int64_t weights = (int64_t)s->k * s->kernel_h * s->kernel_w * (s->c / s->groups);
    traffic_report("cudnn", (x * (adds ? 2 : 1) + s->n * s->oh * s->ow * s->k + weights) *
                                (spec->compute == DTYPE_BF16 ? 2 : 4));
}

void dnn_free(dnn_t **dnn)
{
    mem_free(dnn);
}

size_t dnn_workspace_bytes(const dnn_t *dnn)
{
    return dnn->n_workspace_bytes;
}

static err_t new_dnn(const dnn_spec_t *spec, dnn_t **out)
{
    dnn_t *d;
    TRY(mem_new(sizeof *d, "the plan of a convolution", &d));
    d->spec = *spec;
    snprintf(d->what, sizeof d->what, "%s", spec->what);
    d->spec.what = d->what;
    *out = d;
    return ERR_OK;
}

#ifdef DPTRAIN_CUDNN

#include <cudnn.h>

#include "base/process.h"

/* cudnn's functions, without the prefix. */
#define DNN_FUNCTIONS(X)                                                                                     \
    X(GetVersion)                                                                                            \
    X(GetErrorString)                                                                                        \
    X(GetLastErrorString)                                                                                    \
    X(Create)                                                                                                \
    X(Destroy)                                                                                               \
    X(SetStream)                                                                                             \
    X(BackendCreateDescriptor)                                                                               \
    X(BackendDestroyDescriptor)                                                                              \
    X(BackendSetAttribute)                                                                                   \
    X(BackendGetAttribute)                                                                                   \
    X(BackendFinalize)                                                                                       \
    X(BackendExecute)

static struct {
#define DNN_MEMBER(name) __typeof__(&cudnn##name) name;
    DNN_FUNCTIONS(DNN_MEMBER)
#undef DNN_MEMBER
} dnn;

typedef cudnnBackendDescriptor_t descriptor_t;

/* Older headers cannot describe a device that is not there. */
#if CUDNN_VERSION >= 91100
#define DEVICE_OF(KIND) CUDNN_ATTR_##KIND##_DEVICEPROP
#else
#define DEVICE_OF(KIND) ((cudnnBackendAttributeName_t)0)
#endif

enum { MADE = 24, KEY = 256 };

/* What cuDNN proposes for a pass. */
struct listing {
    char key[KEY];
    int n, n_made;
    descriptor_t plan[DNN_PROPOSALS];
    int64_t engine[DNN_PROPOSALS], n_workspace_bytes[DNN_PROPOSALS];
    descriptor_t made[MADE]; /* all that the plans were made of, and they */
    listing_t *next;
};

static struct {
    bool tried, found; /* to load it; it is there, of the right version */
    bool said;         /* why there are no engines */
    char why[256];     /* not */
    cudnnHandle_t handle;
    descriptor_t pretended; /* device */
    listing_t *listings;
} self;

/* Returns ERR_SYSTEM with cuDNN's messages unless the call succeeds. */
#define E_OF(call, what)  dnn_check((call), (what), __FILE__, __LINE__)
#define E_DNN(call, what) TRY(E_OF(call, what))
static err_t dnn_check(cudnnStatus_t status, const char *what, const char *file, int line)
{
    char more[256] = "";
    if (status == CUDNN_STATUS_SUCCESS) return ERR_OK;
    dnn.GetLastErrorString(more, sizeof more);
    more[strcspn(more, "\r\n")] = '\0';
    return err_raise(ERR_SYSTEM, file, line, "cuDNN: %s: %s%s%s", what, dnn.GetErrorString(status),
                     more[0] ? ": " : "", more);
}

/* 91900 → "9.19.0"; until version 8: 8907 → "8.9.7" */
static int spell_version(size_t v, char out[32])
{
    const size_t major = v < 10000 ? v / 1000 : v / 10000, rest = v < 10000 ? v % 1000 : v % 10000;
    snprintf(out, 32, "%zu.%zu.%zu", major, rest / 100, rest % 100);
    return (int)major;
}

/* The library, once. */
static err_t load(void)
{
    static const char *const names[] = {"libcudnn.so." DL_TEXT(CUDNN_MAJOR), "libcudnn.so", NULL};
    static const char hint[] = "install cuDNN " DL_TEXT(CUDNN_MAJOR) ", or add its folder to LD_LIBRARY_PATH";
    const dl_function_t version = {"cudnnGetVersion", &dnn.GetVersion};
#define DNN_ENTRY(name) {"cudnn" #name, &dnn.name},
    const dl_function_t functions[] = {DNN_FUNCTIONS(DNN_ENTRY)};
#undef DNN_ENTRY
    char text[32];
    TRY(dl_load(names, &version, 1, hint));
    if (spell_version(dnn.GetVersion(), text) != CUDNN_MAJOR)
        RAISE(ERR_SYSTEM, "cuDNN %s is not used: this build is for version " DL_TEXT(CUDNN_MAJOR), text);
    return dl_load(names, functions, sizeof functions / sizeof functions[0], hint);
}

static bool is_loaded(void)
{
    if (self.tried) return self.found;
    self.tried = true;
    self.found = load() == ERR_OK;
    if (!self.found) snprintf(self.why, sizeof self.why, "%s", err_message());
    return self.found;
}

static err_t open_handle(void)
{
    E_DNN(dnn.Create(&self.handle), "creating its handle");
    E_DNN(dnn.SetStream(self.handle, cuda_stream()), "setting its stream");
    return ERR_OK;
}

/* Whether there are engines to be asked for. Says once why not. */
static bool is_ready(void)
{
    if (is_loaded() && !self.handle && !self.pretended && open_handle() != ERR_OK) {
        self.found = false;
        snprintf(self.why, sizeof self.why, "%s", err_message());
    }
    if (!self.found && !self.said) log_detail("no convolutions by cuDNN: %s", self.why);
    self.said = self.said || !self.found;
    return self.found;
}

void dnn_describe(bool now, char *out, size_t n_bytes)
{
    char text[32];
    out[0] = '\0';
    if (!now && !self.tried) return;
    if (is_loaded())
        spell_version(dnn.GetVersion(), text), snprintf(out, n_bytes, "cuDNN %s", text);
    else
        snprintf(out, n_bytes, "%s", dnn.GetVersion ? self.why : "cuDNN missing");
}

typedef struct attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t n;
    const void *values;
} attribute_t;

/* Creates a descriptor, sets its attributes and finalizes it. l: will destroy it; NULL: the caller. */
static err_t make(listing_t *l, cudnnBackendDescriptorType_t type, const attribute_t *attributes, int n,
                  const char *what, descriptor_t *out)
{
    descriptor_t d;
    ASSERT(!l || l->n_made < MADE);
    E_DNN(dnn.BackendCreateDescriptor(type, &d), what);
    err_t err = ERR_OK;
    for (const attribute_t *a = attributes; a < attributes + n && err == ERR_OK; a++)
        err = E_OF(dnn.BackendSetAttribute(d, a->name, a->type, a->n, a->values), what);
    if (err == ERR_OK) err = E_OF(dnn.BackendFinalize(d), what);
    if (err != ERR_OK)
        dnn.BackendDestroyDescriptor(d);
    else {
        *out = d;
        if (l) l->made[l->n_made++] = d;
    }
    return err;
}
#define MAKE(l, KIND, attributes, what, out)                                                                 \
    make((l), CUDNN_BACKEND_##KIND##_DESCRIPTOR, (attributes), sizeof(attributes) / sizeof *(attributes),    \
         (what), (out))

/* dims: [n, c, h, w]; in memory channels are neighbours. */
static err_t make_tensor(listing_t *l, const dnn_spec_t *spec, int64_t id, const int64_t dims[4],
                         descriptor_t *out)
{
    const cudnnDataType_t type = spec->compute == DTYPE_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    const int64_t strides[4] = {dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1]};
    const int64_t alignment = (int64_t)spec->alignment;
    const attribute_t attributes[] = {
        {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type},
        {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims},
        {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides},
        {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id},
        {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment},
    };
    return MAKE(l, TENSOR, attributes, "describing a tensor", out);
}

static err_t make_convolution(listing_t *l, const conv_shape_t *s, descriptor_t *out)
{
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t n = 2, pads[2] = {s->pad_h, s->pad_w}, strides[2] = {s->stride_h, s->stride_w};
    const int64_t dilations[2] = {s->dilation_h, s->dilation_w};
    const attribute_t attributes[] = {
        {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n},
        {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums},
        {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode},
        {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pads},
        {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pads},
        {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations},
        {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides},
    };
    return MAKE(l, CONVOLUTION, attributes, "describing a convolution", out);
}

/* The graph of one operation. */
static err_t make_graph(listing_t *l, const dnn_spec_t *spec, bool adds, descriptor_t *out)
{
    static const struct {
        cudnnBackendDescriptorType_t type;
        cudnnBackendAttributeName_t alpha, beta, convolution, w, x, y;
    } kinds[] = {
#define KIND(PASS, SHORT, w, x, y)                                                                           \
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_##PASS##_DESCRIPTOR,                                                \
     NAME(SHORT, ALPHA),                                                                                     \
     NAME(SHORT, BETA),                                                                                      \
     NAME(SHORT, CONV_DESC),                                                                                 \
     NAME(SHORT, w),                                                                                         \
     NAME(SHORT, x),                                                                                         \
     NAME(SHORT, y)}
#define NAME(SHORT, of) CUDNN_ATTR_OPERATION_CONVOLUTION_##SHORT##_##of
        [OP_FORWARD] = KIND(FORWARD, FORWARD, W, X, Y),
        [OP_BACKWARD_DATA] = KIND(BACKWARD_DATA, BWD_DATA, W, DX, DY),
        [OP_BACKWARD_WEIGHTS] = KIND(BACKWARD_FILTER, BWD_FILTER, DW, X, DY)};
    const conv_shape_t *s = &spec->shape;
    const float alpha = 1, beta = adds ? 1 : 0;
    descriptor_t x, w, y, convolution, operation;
    TRY(make_tensor(l, spec, X, (int64_t[]){s->n, s->c, s->h, s->w}, &x));
    TRY(make_tensor(l, spec, W, (int64_t[]){s->k, s->c / s->groups, s->kernel_h, s->kernel_w}, &w));
    TRY(make_tensor(l, spec, Y, (int64_t[]){s->n, s->k, s->oh, s->ow}, &y));
    TRY(make_convolution(l, s, &convolution));
    const attribute_t attributes[] = {
        {kinds[spec->pass].x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x},
        {kinds[spec->pass].w, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w},
        {kinds[spec->pass].y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y},
        {kinds[spec->pass].convolution, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &convolution},
        {kinds[spec->pass].alpha, CUDNN_TYPE_FLOAT, 1, &alpha},
        {kinds[spec->pass].beta, CUDNN_TYPE_FLOAT, 1, &beta}};
    TRY(make(l, kinds[spec->pass].type, attributes, 6, "describing an operation", &operation));
    /* The handle comes last: a device that is pretended has none. */
    const attribute_t graph[] = {
        {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation},
        {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &self.handle}};
    return make(l, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, graph, self.pretended ? 1 : 2,
                "describing a graph", out);
}

/* Which engine a configuration is of, and whether it may be used. Tensor cores read float32 as tf32. An order of sums
 * that varies would change a run's bits; Winograd, FFT and sums of less precision have larger errors than the other
 * algorithms. */
static bool ask_engine(const dnn_spec_t *spec, descriptor_t config, int64_t *index)
{
    enum { MOST = CUDNN_NUMERICAL_NOTE_TYPE_COUNT };
    cudnnBackendNumericalNote_t notes[MOST];
    descriptor_t engine = NULL;
    int64_t n, n_notes = 0;
    bool ok =
        !dnn.BackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) &&
        !dnn.BackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                                 &engine) &&
        !dnn.BackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n, index) &&
        !dnn.BackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, MOST,
                                 &n_notes, notes);
    for (int64_t i = 0; i < n_notes && ok; i++)
        ok = notes[i] == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP ||
             (notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && spec->compute != DTYPE_F32);
    if (engine) dnn.BackendDestroyDescriptor(engine);
    return ok;
}

/* Makes the plan of a configuration; whether it is listed, because it can be used. */
static bool list_config(listing_t *l, const dnn_spec_t *spec, descriptor_t config)
{
    const attribute_t attributes[] = {
        {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config},
        self.pretended
            ? (attribute_t){DEVICE_OF(EXECUTION_PLAN), CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &self.pretended}
            : (attribute_t){CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &self.handle}};
    descriptor_t plan;
    int64_t n, n_bytes = INT64_MAX;
    if (MAKE(NULL, EXECUTION_PLAN, attributes, "preparing an engine", &plan) != ERR_OK) return false;
    dnn.BackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n,
                            &n_bytes);
    if (n_bytes > (int64_t)spec->n_workspace_bytes) {
        dnn.BackendDestroyDescriptor(plan);
        return false;
    }
    l->n_workspace_bytes[l->n] = n_bytes;
    l->made[l->n_made++] = config;
    l->made[l->n_made++] = l->plan[l->n++] = plan;
    return true;
}

/* Lists what a heuristic proposes, in its order. */
static err_t ask_heuristic(listing_t *l, const dnn_spec_t *spec, descriptor_t graph,
                           cudnnBackendHeurMode_t mode)
{
    enum { MOST = 64 };
    static const char what[] = "asking for engines";
    const cudnnBackendAttributeName_t results = CUDNN_ATTR_ENGINEHEUR_RESULTS;
    const attribute_t attributes[] = {
        {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph},
        {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode},
        {DEVICE_OF(ENGINEHEUR), CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &self.pretended}};
    int64_t n = 0, n_found = 0;
    descriptor_t heuristic, configs[MOST] = {NULL};
    err_t err = ERR_OK;
    TRY(make(l, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, attributes, self.pretended ? 3 : 2, what, &heuristic));
    E_DNN(dnn.BackendGetAttribute(heuristic, results, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &n, NULL), what);
    if (n > MOST) n = MOST;
    for (int64_t i = 0; i < n && err == ERR_OK; i++)
        err = E_OF(dnn.BackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]), what);
    if (err == ERR_OK && n > 0)
        err = E_OF(
            dnn.BackendGetAttribute(heuristic, results, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, &n_found, configs),
            what);
    for (int64_t i = 0; i < n_found && err == ERR_OK && l->n < DNN_PROPOSALS; i++)
        if (ask_engine(spec, configs[i], &l->engine[l->n]) && list_config(l, spec, configs[i]))
            configs[i] = NULL;
    for (int64_t i = 0; i < n; i++)
        if (configs[i]) dnn.BackendDestroyDescriptor(configs[i]);
    return err;
}

static void spell_key(const dnn_spec_t *spec, bool adds, char out[KEY])
{
    const conv_shape_t *s = &spec->shape;
    snprintf(out, KEY, "%d %d %d %zu %zu %" PRId64 "x%dx%dx%d %dx%dx%d %dx%d s%dx%d p%dx%d d%dx%d g%d",
             spec->pass, spec->compute, adds, spec->alignment, spec->n_workspace_bytes, s->n, s->h, s->w,
             s->c, s->oh, s->ow, s->k, s->kernel_h, s->kernel_w, s->stride_h, s->stride_w, s->pad_h, s->pad_w,
             s->dilation_h, s->dilation_w, s->groups);
}

/* NULL if memory runs out. If the library fails, the list ends with what it had proposed until then. */
static const listing_t *list(const dnn_spec_t *spec, bool adds)
{
    listing_t *l;
    char key[KEY];
    descriptor_t graph = NULL;
    spell_key(spec, adds, key);
    for (l = self.listings; l; l = l->next)
        if (strcmp(l->key, key) == 0) return l;
    if (mem_new(sizeof *l, "algorithms of cuDNN", &l) != ERR_OK) return NULL;
    memcpy(l->key, key, sizeof key);
    l->next = self.listings;
    self.listings = l;
    const err_t made = make_graph(l, spec, adds, &graph);
    err_t err = made;
    if (made == ERR_OK) err = ask_heuristic(l, spec, graph, CUDNN_HEUR_MODE_A);
    /* Engines for any shape, seldom fast. */
    if (made == ERR_OK && l->n == 0) err = ask_heuristic(l, spec, graph, CUDNN_HEUR_MODE_FALLBACK);
    if (l->n == 0)
        log_detail("cuDNN has no engine for %s%s%s%s", spec->what, adds ? ", adding" : "",
                   err == ERR_OK ? "" : ": ", err == ERR_OK ? "" : err_message());
    return l;
}

int dnn_count(const dnn_spec_t *spec)
{
    if (traffic_counts) return 1;
    if (!is_ready()) return 0;
    const listing_t *l = list(spec, false);
    const int n = l ? l->n : 0;
    if (n == 0 || spec->pass != OP_BACKWARD_DATA) return n;
    l = list(spec, true);
    return l && l->n > 0 ? n : 0;
}

/* The same engine, if it adds: in the same place of its list, which has the same knobs, or in another. */
static int find_adding(const listing_t *writing, const listing_t *adding, int i)
{
    int at = 0;
    if (i < adding->n && adding->engine[i] == writing->engine[i]) return i;
    while (at < adding->n && adding->engine[at] != writing->engine[i]) at++;
    return at < adding->n ? at : 0;
}

err_t dnn_new(const dnn_spec_t *spec, dnn_t **out)
{
    if (traffic_counts) return new_dnn(spec, out);
    if (spec->proposal >= dnn_count(spec))
        RAISE(ERR_SYSTEM, "cuDNN has no engine for %s%s%s", spec->what, self.why[0] ? ": " : "", self.why);
    TRY(new_dnn(spec, out));
    for (int adds = 0; adds < (spec->pass == OP_BACKWARD_DATA ? 2 : 1); adds++) {
        const listing_t *l = list(spec, adds);
        const int i = adds ? find_adding(list(spec, false), l, spec->proposal) : spec->proposal;
        (*out)->plan[adds] = l->plan[i];
        if ((size_t)l->n_workspace_bytes[i] > (*out)->n_workspace_bytes)
            (*out)->n_workspace_bytes = (size_t)l->n_workspace_bytes[i];
    }
    return ERR_OK;
}

err_t dnn_run(dnn_t *d, const gemm_call_t *call)
{
    static const int64_t ids[][3] = {
        [OP_FORWARD] = {X, W, Y}, [OP_BACKWARD_DATA] = {Y, W, X}, [OP_BACKWARD_WEIGHTS] = {Y, X, W}};
    const bool adds = call->beta != 0;
    const void *const operands[3] = {call->a, call->b, call->d};
    const attribute_t attributes[] = {
        {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids[d->spec.pass]},
        {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, operands},
        {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &call->workspace}};
    descriptor_t pack;
    if (traffic_counts) return count_operands(&d->spec, adds), ERR_OK;
    TRY(MAKE(NULL, VARIANT_PACK, attributes, d->what, &pack));
    err_t err = E_OF(dnn.BackendExecute(self.handle, d->plan[adds], pack), d->what);
    dnn.BackendDestroyDescriptor(pack);
    return err;
}

void dnn_close(void)
{
    while (self.listings) {
        listing_t *l = self.listings;
        self.listings = l->next;
        while (l->n_made > 0) dnn.BackendDestroyDescriptor(l->made[--l->n_made]);
        mem_free(&l);
    }
    if (self.handle) dnn.Destroy(self.handle);
    self.handle = NULL;
    self.tried = self.found = self.said = false;
    self.why[0] = '\0';
}

err_t dnn_pretend(const char *device)
{
    dnn_close();
    if (self.pretended) dnn.BackendDestroyDescriptor(self.pretended);
    self.pretended = NULL;
    if (!device) return ERR_OK;
    if (!is_loaded()) RAISE(ERR_SYSTEM, "%s", self.why);
#if CUDNN_VERSION >= 91100
    const attribute_t text[] = {
        {CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)strlen(device), device}};
    return MAKE(NULL, DEVICEPROP, text, "pretending a device", &self.pretended);
#else
    RAISE(ERR_SYSTEM, "cuDNN's headers of this build know no described devices");
#endif
}

#else

/* Only for the counting backend: without engines nothing else is planned. */
static const char none[] = "this build has no cuDNN";

int dnn_count(const dnn_spec_t *spec)
{
    (void)spec;
    return traffic_counts;
}

err_t dnn_new(const dnn_spec_t *spec, dnn_t **out)
{
    return new_dnn(spec, out);
}

err_t dnn_run(dnn_t *d, const gemm_call_t *call)
{
    return count_operands(&d->spec, call->beta != 0), ERR_OK;
}

void dnn_close(void)
{
}

void dnn_describe(bool load, char *out, size_t n_bytes)
{
    snprintf(out, n_bytes, "%s", load ? none : "");
}

err_t dnn_pretend(const char *device)
{
    (void)device;
    RAISE(ERR_SYSTEM, "%s", none);
}

#endif
