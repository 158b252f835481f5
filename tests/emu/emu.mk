# The emulated CUDA device of tests/emu: `make emu` builds it and its own test. What is emulated links $(EMU_LIBS)
# in place of libcudart, libcublasLt and libnccl, and the objects $(BUILD)/emu/NAME.o of kernels/cuda/NAME.cu.
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(or $(realpath $(shell command -v nvcc 2>/dev/null)),/usr/local/cuda/bin/nvcc))
EMU_FLAGS = -std=c++17 -D_GNU_SOURCE -O2 -g -ffp-contract=off -fno-omit-frame-pointer -pthread -Wall -Wextra -Werror \
	-Wno-unknown-pragmas -I. -Isrc -Itests/emu -isystem $(CUDA_HOME)/include -isystem $(CUDA_HOME)/include/cccl \
	$(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=undefined)
EMU_LIB  := $(BUILD)/emu/libemu.a
EMU_LIBS := $(EMU_LIB) -ldnnl -lstdc++ -ldl -lrt -lm
EMU_OBJ  := $(patsubst tests/emu/%.cc,$(BUILD)/emu/lib/%.o,$(filter-out tests/emu/test_%,$(wildcard tests/emu/*.cc)))
EMU_TESTS := $(patsubst tests/emu/%.cc,$(BUILD)/emu/tests/%,$(wildcard tests/emu/test_*.cc))

.PHONY: emu
emu: $(EMU_LIB) $(EMU_TESTS) ## build the emulated CUDA device and its test

$(EMU_LIB): $(EMU_OBJ)
	@echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/emu/lib/%.o: tests/emu/%.cc
	@mkdir -p $(@D)
	@echo "  CXX   $<"
	$(Q)$(CXX) $(EMU_FLAGS) -Itests/emu/include -MMD -MP -c -o $@ $<

# Kernels: the .cu files themselves.
$(BUILD)/emu/%.o: kernels/cuda/%.cu
	@mkdir -p $(@D)
	@echo "  EMU   $<"
	$(Q)$(CXX) -x c++ $(EMU_FLAGS) -Itests/emu/include -MMD -MP -c -o $@ $<

$(BUILD)/emu/tests/%: tests/emu/%.cc $(EMU_LIB)
	@mkdir -p $(@D)
	@echo "  CXX   $<"
	$(Q)$(CXX) $(EMU_FLAGS) -Itests/emu/include -MMD -MP -o $@ $< $(EMU_LIBS) -fopenmp

-include $(EMU_OBJ:.o=.d) $(EMU_TESTS:=.d) $(wildcard $(BUILD)/emu/*.d)
