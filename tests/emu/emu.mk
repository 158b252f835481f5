# The emulated CUDA device of tests/emu: `make emu` builds it and its own test. What is emulated links $(EMU_LIBS)
# in place of libcudart, libcublasLt and libnccl, and the objects $(BUILD)/emu/NAME.o of kernels/cuda/NAME.cu.
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(or $(realpath $(shell command -v nvcc 2>/dev/null)),/usr/local/cuda/bin/nvcc))
EMU_FLAGS = -std=c++17 -D_GNU_SOURCE -O2 -g -fPIC -ffp-contract=off -fno-omit-frame-pointer -pthread -Wall -Wextra -Werror \
	-Wno-unknown-pragmas -I. -Isrc -Itests/emu -Itests/emu/include -isystem $(CUDA_HOME)/include \
	-isystem $(CUDA_HOME)/include/cccl $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=undefined)
EMU_DIR  := $(BUILD)/emu
EMU_OBJ  := $(patsubst tests/emu/%.cc,$(EMU_DIR)/lib/%.o,$(filter-out tests/emu/test_%,$(wildcard tests/emu/*.cc)))
EMU_KERNELS := $(patsubst kernels/cuda/%.cu,$(EMU_DIR)/%.o,$(wildcard kernels/cuda/*.cu))
EMU_TESTS := $(patsubst tests/emu/%.cc,$(EMU_DIR)/tests/%,$(wildcard tests/emu/test_*.cc))
EMU_LIB  := $(EMU_DIR)/libemu.so
EMU_LIBS = $(EMU_LIB) -Wl,-rpath,$(abspath $(EMU_DIR)) -lstdc++
# The name under which the toolkit's cublasLt is opened.
EMU_LT   = libcublasLt.so.$(shell sed -n 's/^.define CUBLAS_VER_MAJOR \([0-9]*\).*/\1/p' $(CUDA_HOME)/include/cublas_api.h)

.PHONY: emu
emu: $(EMU_LIB) $(EMU_DIR)/libemu.a $(EMU_KERNELS) $(EMU_TESTS) ## build the emulated CUDA device and its tests

$(EMU_DIR)/libemu.a: $(EMU_OBJ)
	@echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(EMU_LIB): $(EMU_OBJ)
	@echo "  LD    $@"
	$(Q)$(CXX) -shared -Wl,-soname,libemu.so $(if $(SAN),-fsanitize=$(SAN)) -o $@ $^ -ldnnl -lrt -pthread
	$(Q)ln -sf libemu.so $(EMU_DIR)/$(EMU_LT) && ln -sf libemu.so $(EMU_DIR)/libnccl.so.2

$(EMU_DIR)/lib/%.o: tests/emu/%.cc
	@mkdir -p $(@D)
	@echo "  CXX   $<"
	$(Q)$(CXX) $(EMU_FLAGS) -MMD -MP -c -o $@ $<

# Kernels: the .cu files themselves.
$(EMU_DIR)/%.o: kernels/cuda/%.cu
	@mkdir -p $(@D)
	@echo "  EMU   $<"
	$(Q)$(CXX) -x c++ $(EMU_FLAGS) -MMD -MP -c -o $@ $<

$(EMU_DIR)/tests/%: tests/emu/%.cc $(EMU_LIB)
	@mkdir -p $(@D)
	@echo "  CXX   $<"
	$(Q)$(CXX) $(EMU_FLAGS) -MMD -MP -o $@ $< $(EMU_LIBS)

-include $(EMU_OBJ:.o=.d) $(EMU_KERNELS:.o=.d) $(EMU_TESTS:=.d)
