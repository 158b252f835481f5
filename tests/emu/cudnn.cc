/* SPDX-License-Identifier: MIT */
/* A stand-in for libcudnn: the backend API of single convolutions, channels last, by loops. Its heuristic first proposes
 * engines that must not be taken: nondeterministic, unable to make a plan, with an endless workspace. */
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include <cudnn.h>

#include "emu.h"
#include "narrow.h"

using namespace emu;

struct cudnnContext {
    cudaStream_t stream;
};

namespace
{

constexpr int64_t SOME_WORKSPACE = 1 << 16, ENDLESS = int64_t{1} << 50;

struct node_t;
using link_t = std::shared_ptr<node_t>;

/* A descriptor. Its values are bytes as given; descriptors among them are kept as links. */
struct node_t {
    cudnnBackendDescriptorType_t type;
    bool finalized = false;
    struct value_t {
        cudnnBackendAttributeType_t type;
        int64_t n;
        std::vector<char> bytes;
        std::vector<link_t> links;
    };
    std::map<int, value_t> values;

    template <typename T> T get(int name, int64_t i = 0) const
    {
        T x{};
        auto at = values.find(name);
        if (at == values.end() || at->second.bytes.size() < (static_cast<size_t>(i) + 1) * sizeof x) return x;
        std::memcpy(&x, at->second.bytes.data() + static_cast<size_t>(i) * sizeof x, sizeof x);
        return x;
    }
    const node_t *link(int name) const
    {
        auto at = values.find(name);
        return at == values.end() || at->second.links.empty() ? nullptr : at->second.links[0].get();
    }
    bool has(int name, int64_t n = 1) const
    {
        auto at = values.find(name);
        return at != values.end() && at->second.n == n;
    }
    template <typename T> void put(int name, cudnnBackendAttributeType_t kind, std::vector<T> xs)
    {
        value_t v{kind, static_cast<int64_t>(xs.size()), std::vector<char>(xs.size() * sizeof(T)), {}};
        if (!xs.empty()) std::memcpy(v.bytes.data(), xs.data(), v.bytes.size());
        values[name] = std::move(v);
    }
};

struct handle_t {
    link_t node;
};

std::string last_error;

cudnnStatus_t refuse(cudnnStatus_t status, const char *why)
{
    last_error = why;
    return status;
}

node_t *of(cudnnBackendDescriptor_t d)
{
    return d ? static_cast<handle_t *>(d)->node.get() : nullptr;
}

size_t size_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN: case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_INT64: case CUDNN_TYPE_DOUBLE: case CUDNN_TYPE_VOID_PTR: case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    default: return 4;
    }
}

/* A convolution whose description is complete. */
struct work_t {
    int pass; /* 0: forward, 1: data, 2: weights */
    int64_t n, c, h, w, k, channels, r, s, oh, ow;
    int64_t pad[2], stride[2], dilation[2];
    bool bf16;
    int64_t alignment[3];
    float alpha, beta;
};

struct names_t {
    cudnnBackendDescriptorType_t type;
    int x, w, y, conv, alpha, beta;
};
const names_t passes[3] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

int pass_of(const node_t *operation)
{
    for (int i = 0; i < 3; i++)
        if (operation && operation->type == passes[i].type) return i;
    return -1;
}

int64_t dim(const node_t *tensor, int i)
{
    return tensor->get<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, i);
}

cudnnStatus_t check_tensor(const node_t *t)
{
    if (!t->has(CUDNN_ATTR_TENSOR_DIMENSIONS, 4) || !t->has(CUDNN_ATTR_TENSOR_STRIDES, 4) || !t->has(CUDNN_ATTR_TENSOR_UNIQUE_ID) ||
        !t->has(CUDNN_ATTR_TENSOR_DATA_TYPE) || !t->has(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT))
        return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor's description is incomplete");
    for (int i = 0; i < 4; i++)
        if (dim(t, i) < 1) return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor is empty");
    const int64_t alignment = t->get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    return alignment < 1 || (alignment & (alignment - 1)) ? refuse(CUDNN_STATUS_BAD_PARAM, "the alignment is not a power of two")
                                                          : CUDNN_STATUS_SUCCESS;
}

bool channels_last(const node_t *t)
{
    const int64_t c = dim(t, 1), h = dim(t, 2), w = dim(t, 3), strides[4] = {c * h * w, 1, w * c, c};
    for (int i = 0; i < 4; i++)
        if (t->get<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, i) != strides[i]) return false;
    return true;
}

cudnnDataType_t type_of(const node_t *t)
{
    return t->get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
}

/* Reads an operation; says what the real library would not take. */
cudnnStatus_t read_work(const node_t *operation, work_t *out)
{
    const int pass = pass_of(operation);
    if (pass < 0) return refuse(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "only single convolutions are emulated");
    const names_t &name = passes[pass];
    const node_t *x = operation->link(name.x), *w = operation->link(name.w), *y = operation->link(name.y);
    const node_t *conv = operation->link(name.conv);
    if (!x || !w || !y || !conv || !operation->has(name.alpha) || !operation->has(name.beta))
        return refuse(CUDNN_STATUS_BAD_PARAM, "an operation's description is incomplete");
    work_t t{};
    t.pass = pass;
    t.n = dim(x, 0), t.c = dim(x, 1), t.h = dim(x, 2), t.w = dim(x, 3);
    t.k = dim(w, 0), t.channels = dim(w, 1), t.r = dim(w, 2), t.s = dim(w, 3);
    t.oh = dim(y, 2), t.ow = dim(y, 3);
    t.alpha = operation->get<float>(name.alpha), t.beta = operation->get<float>(name.beta);
    const int64_t in[2] = {t.h, t.w}, window[2] = {t.r, t.s}, outside[2] = {t.oh, t.ow};
    for (int i = 0; i < 2; i++) {
        t.pad[i] = conv->get<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i);
        t.stride[i] = conv->get<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i);
        t.dilation[i] = conv->get<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, i);
        const int64_t padded = in[i] + t.pad[i] + conv->get<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i);
        if (t.stride[i] < 1 || t.dilation[i] < 1 || t.pad[i] < 0 ||
            outside[i] != (padded - t.dilation[i] * (window[i] - 1) - 1) / t.stride[i] + 1)
            return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "the result's shape does not follow from the convolution");
    }
    if (t.c % t.channels || t.k % (t.c / t.channels) || dim(y, 0) != t.n || dim(y, 1) != t.k)
        return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "channels, filters or samples do not fit");
    if (!channels_last(x) || !channels_last(w) || !channels_last(y))
        return refuse(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "only channels last is emulated");
    t.bf16 = type_of(x) == CUDNN_DATA_BFLOAT16;
    if (type_of(x) != type_of(w) || type_of(x) != type_of(y) || (!t.bf16 && type_of(x) != CUDNN_DATA_FLOAT) ||
        conv->get<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) != CUDNN_DATA_FLOAT)
        return refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "no engine mixes types");
    const node_t *tensors[3] = {x, w, y};
    for (int i = 0; i < 3; i++) t.alignment[i] = tensors[i]->get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    *out = t;
    return CUDNN_STATUS_SUCCESS;
}

/* An engine, in its ENGINECFG and ENGINE descriptors' values. */
enum { NAME_CODE = -1, NAME_WORKSPACE = -2 };
enum code_t { EXACT, TENSOR_CORES, NONDETERMINISTIC, WITHOUT_PLAN };

link_t config_of(const link_t &graph, code_t code, int64_t index, int64_t workspace)
{
    link_t engine = std::make_shared<node_t>(), config = std::make_shared<node_t>();
    std::vector<cudnnBackendNumericalNote_t> notes;
    if (code == TENSOR_CORES) notes.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    if (code == NONDETERMINISTIC) notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR, config->type = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
    engine->finalized = config->finalized = true;
    engine->put<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, {index});
    engine->put(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes);
    engine->put<int>(NAME_CODE, CUDNN_TYPE_INT32, {code});
    engine->put<int64_t>(NAME_WORKSPACE, CUDNN_TYPE_INT64, {workspace});
    engine->values[CUDNN_ATTR_ENGINE_OPERATION_GRAPH].links = {graph};
    config->values[CUDNN_ATTR_ENGINECFG_ENGINE] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {engine}};
    return config;
}

/* DPTRAIN_EMU_DNN_ENGINES: how many that can be taken, of every kind. A single one is a fallback. */
std::vector<link_t> propose(const link_t &graph, cudnnBackendHeurMode_t mode)
{
    std::vector<link_t> all;
    work_t work;
    const int64_t n = env_number("DPTRAIN_EMU_DNN_ENGINES", 1), n_first = n > 1 ? n : 0;
    if (n == 0 || read_work(graph->link(CUDNN_ATTR_OPERATIONGRAPH_OPS), &work)) return all;
    const bool first = mode == CUDNN_HEUR_MODE_A;
    all.push_back(config_of(graph, NONDETERMINISTIC, 90, 0));
    all.push_back(config_of(graph, WITHOUT_PLAN, 91, 0));
    all.push_back(config_of(graph, EXACT, 92, ENDLESS));
    for (int64_t i = first ? 0 : n_first; i < (first ? n_first : n); i++) {
        if (!work.bf16) all.push_back(config_of(graph, TENSOR_CORES, 10 + i, 0));
        all.push_back(config_of(graph, work.bf16 ? TENSOR_CORES : EXACT, i, i % 2 ? 0 : SOME_WORKSPACE));
    }
    return all;
}

struct call_t {
    work_t work;
    code_t code;
    int64_t n_workspace;
    void *x, *w, *y, *workspace;
};

int64_t count(const int64_t *dims)
{
    return dims[0] * dims[1] * dims[2] * dims[3];
}

std::vector<float> wide(const call_t &call, const void *from, int64_t n)
{
    std::vector<float> to(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; i++) {
        const float x = call.work.bf16 ? from_bf16(static_cast<const uint16_t *>(from)[i]) : static_cast<const float *>(from)[i];
        to[static_cast<size_t>(i)] = !call.work.bf16 && call.code == TENSOR_CORES ? to_tf32(x) : x;
    }
    return to;
}

void run_convolution(const call_t &call)
{
    static const char *const name = "cudnnBackendExecute";
    const work_t &t = call.work;
    const int64_t dims[3][4] = {{t.n, t.h, t.w, t.c}, {t.k, t.r, t.s, t.channels}, {t.n, t.oh, t.ow, t.k}};
    const size_t element = t.bf16 ? 2 : 4;
    void *const operands[3] = {call.x, call.w, call.y};
    static const char *const words[3] = {"x", "the weight", "y"};
    std::vector<float> values[3];
    const int out = t.pass == 0 ? 2 : t.pass == 1 ? 0 : 1;
    for (int i = 0; i < 3; i++) {
        const int64_t n = count(dims[i]);
        need_range(name, words[i], operands[i], static_cast<size_t>(n) * element);
        if (i != out) values[i] = wide(call, operands[i], n);
        else values[i].assign(static_cast<size_t>(n), 0.0f);
    }
    if (call.n_workspace) {
        need_range(name, "the workspace", call.workspace, static_cast<size_t>(call.n_workspace));
        std::memset(call.workspace, 0xEE, static_cast<size_t>(call.n_workspace)); /* sharing it with another stream shows */
    }
    float *x = values[0].data(), *w = values[1].data(), *y = values[2].data();
    const int64_t filters = t.k / (t.c / t.channels);
    for (int64_t n = 0; n < t.n; n++)
        for (int64_t oh = 0; oh < t.oh; oh++)
            for (int64_t ow = 0; ow < t.ow; ow++)
                for (int64_t k = 0; k < t.k; k++) {
                    float *at_y = y + ((n * t.oh + oh) * t.ow + ow) * t.k + k, sum = 0.0f;
                    const float dy = t.pass ? *at_y : 0.0f;
                    for (int64_t r = 0; r < t.r; r++)
                        for (int64_t s = 0; s < t.s; s++) {
                            const int64_t h = oh * t.stride[0] - t.pad[0] + r * t.dilation[0];
                            const int64_t v = ow * t.stride[1] - t.pad[1] + s * t.dilation[1];
                            if (h < 0 || h >= t.h || v < 0 || v >= t.w) continue;
                            float *at_x = x + ((n * t.h + h) * t.w + v) * t.c + k / filters * t.channels;
                            float *at_w = w + ((k * t.r + r) * t.s + s) * t.channels;
                            for (int64_t c = 0; c < t.channels; c++)
                                if (t.pass == 0) sum += at_x[c] * at_w[c];
                                else if (t.pass == 1) at_x[c] += dy * at_w[c];
                                else at_w[c] += dy * at_x[c];
                        }
                    if (t.pass == 0) *at_y = sum;
                }
    for (int64_t i = 0; i < count(dims[out]); i++) {
        float value = t.alpha * values[out][static_cast<size_t>(i)];
        auto narrow = static_cast<uint16_t *>(operands[out]) + i;
        auto full = static_cast<float *>(operands[out]) + i;
        if (t.beta != 0.0f) value += t.beta * (t.bf16 ? from_bf16(*narrow) : *full);
        if (t.bf16) *narrow = to_bf16(value);
        else *full = value;
    }
}

cudnnStatus_t finalize_plan(node_t *plan)
{
    const node_t *config = plan->link(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const node_t *engine = config ? config->link(CUDNN_ATTR_ENGINECFG_ENGINE) : nullptr;
    if (!engine || !plan->has(CUDNN_ATTR_EXECUTION_PLAN_HANDLE)) return refuse(CUDNN_STATUS_BAD_PARAM, "a plan's description is incomplete");
    if (engine->get<int>(NAME_CODE) == WITHOUT_PLAN) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "this engine cannot do it after all");
    plan->put<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, {engine->get<int64_t>(NAME_WORKSPACE)});
    return CUDNN_STATUS_SUCCESS;
}

} // namespace

size_t cudnnGetVersion(void)
{
    return static_cast<size_t>(env_number("DPTRAIN_EMU_DNN_VERSION", CUDNN_VERSION));
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : status >= CUDNN_STATUS_EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED"
         : status >= CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}

void cudnnGetLastErrorString(char *message, size_t n)
{
    if (n) std::snprintf(message, n, "%s", last_error.c_str());
    last_error.clear();
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    int n;
    if (cudaGetDeviceCount(&n)) return refuse(CUDNN_STATUS_NOT_INITIALIZED, "there is no device");
    *handle = new cudnnContext{nullptr};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    delete handle;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out)
{
    auto *h = new handle_t{std::make_shared<node_t>()};
    h->node->type = type;
    *out = h;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    delete static_cast<handle_t *>(d);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    node_t *node = of(d);
    if (!node || n < 1 || !values) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "nothing is set");
    if (node->finalized) return refuse(CUDNN_STATUS_BAD_PARAM, "the descriptor is finalized");
    node_t::value_t v{type, n, std::vector<char>(static_cast<size_t>(n) * size_of(type)), {}};
    std::memcpy(v.bytes.data(), values, v.bytes.size());
    for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < n; i++) {
        auto *h = static_cast<handle_t *const *>(values)[i];
        if (!h || !h->node->finalized) return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor of it is not finalized");
        v.links.push_back(h->node);
    }
    node->values[name] = std::move(v);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n, int64_t *n_out, void *out)
{
    node_t *node = of(d);
    if (!node || !node->finalized) return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the descriptor is not finalized");
    auto at = node->values.find(name);
    if (at == node->values.end() || at->second.type != type) return refuse(CUDNN_STATUS_BAD_PARAM, "there is no such attribute");
    const node_t::value_t &v = at->second;
    /* What can be had before the results are read is only an upper limit. */
    if (!out) return *n_out = v.n + (name == CUDNN_ATTR_ENGINEHEUR_RESULTS), CUDNN_STATUS_SUCCESS;
    *n_out = std::min(n, v.n);
    for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < *n_out; i++)
        static_cast<handle_t **>(out)[i]->node = v.links[static_cast<size_t>(i)];
    if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR && *n_out > 0) std::memcpy(out, v.bytes.data(), static_cast<size_t>(*n_out) * size_of(type));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d)
{
    node_t *node = of(d);
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    work_t work;
    if (!node || node->finalized) return refuse(CUDNN_STATUS_BAD_PARAM, "nothing to finalize");
    if (node->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) status = check_tensor(node);
    if (pass_of(node) >= 0) {
        status = read_work(node, &work);
        if (status >= CUDNN_STATUS_NOT_SUPPORTED) status = CUDNN_STATUS_SUCCESS; /* then there is no engine */
    }
    if (node->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR && !node->has(CUDNN_ATTR_OPERATIONGRAPH_HANDLE))
        status = refuse(CUDNN_STATUS_BAD_PARAM, "the graph has no handle");
    if (node->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
        auto graph = node->values.find(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
        if (graph == node->values.end()) return refuse(CUDNN_STATUS_BAD_PARAM, "there is no graph");
        std::vector<link_t> results = propose(graph->second.links[0], node->get<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE));
        const int64_t n = static_cast<int64_t>(results.size());
        node->values[CUDNN_ATTR_ENGINEHEUR_RESULTS] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, n, {}, std::move(results)};
    }
    if (node->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) status = finalize_plan(node);
    node->finalized = status == CUDNN_STATUS_SUCCESS;
    return status;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    static int64_t n_executed;
    const node_t *p = of(plan), *v = of(pack);
    if (!handle || !p || !v || !p->finalized || !v->finalized) return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "plan or pack is not finalized");
    const char *fails = std::getenv("DPTRAIN_EMU_FAIL_DNN");
    if (++n_executed && fails && (n_executed == std::atoll(fails) || !std::strcmp(fails, "next"))) return refuse(CUDNN_STATUS_EXECUTION_FAILED, "DPTRAIN_EMU_FAIL_DNN");
    const node_t *engine = p->link(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->link(CUDNN_ATTR_ENGINECFG_ENGINE);
    const node_t *operation = engine->link(CUDNN_ATTR_ENGINE_OPERATION_GRAPH)->link(CUDNN_ATTR_OPERATIONGRAPH_OPS);
    call_t call{};
    cudnnStatus_t status = read_work(operation, &call.work);
    if (status) return status;
    const names_t &name = passes[call.work.pass];
    const int names[3] = {name.x, name.w, name.y};
    void *operands[3] = {nullptr, nullptr, nullptr};
    for (int i = 0; i < 3; i++) {
        const int64_t id = operation->link(names[i])->get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
        for (int64_t j = 0; j < 3; j++)
            if (v->get<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, j) == id)
                operands[i] = v->get<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, j);
        if (!operands[i]) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a tensor has no address");
        if (reinterpret_cast<uintptr_t>(operands[i]) % static_cast<uintptr_t>(call.work.alignment[i]))
            return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a tensor is not aligned as described");
    }
    call.x = operands[0], call.w = operands[1], call.y = operands[2];
    call.code = static_cast<code_t>(engine->get<int>(NAME_CODE));
    call.n_workspace = engine->get<int64_t>(NAME_WORKSPACE);
    call.workspace = v->get<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    if (call.code == NONDETERMINISTIC) die("cudnnBackendExecute: a nondeterministic engine was taken");
    if (call.n_workspace && !call.workspace) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no workspace");
    op_t op;
    op.name = "cudnnBackendExecute";
    op.run = [call] { run_convolution(call); };
    return submit(handle->stream, std::move(op)) ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS;
}
