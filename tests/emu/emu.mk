# The emulated CUDA device of tests/emu: `make emu` builds it, its tests, and the program with it. Emulated programs use the
# objects $(EMU_KERNELS) of kernels/cuda/*.cu and link $(EMU_LIBS) instead of libcudart; cublasLt and NCCL, which the program
# would load at run time, are then already in the process (base/process.h). So is cuDNN in a build with it.
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(or $(realpath $(shell command -v nvcc 2>/dev/null)),/usr/local/cuda/bin/nvcc))
EMU_FLAGS = -std=c++20 -D_GNU_SOURCE -O2 -g1 -fPIC -ffp-contract=off -fno-omit-frame-pointer -pthread -Wall -Wextra -Werror \
	-Wno-unknown-pragmas -Wno-missing-field-initializers -I. -Isrc -Itests/emu -Itests/emu/include -isystem $(CUDA_HOME)/include \
	-isystem $(CUDA_HOME)/include/cccl $(CUDNN_CFLAGS) $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=undefined)
EMU_DIR  := $(BUILD)/emu
EMU_SRC  := $(filter-out $(if $(HAVE_CUDNN),,tests/emu/cudnn% tests/emu/test_emu_cudnn%),$(wildcard tests/emu/*.cc))
EMU_OBJ  := $(patsubst tests/emu/%.cc,$(EMU_DIR)/lib/%.o,$(filter-out tests/emu/test_%,$(EMU_SRC)))
EMU_KERNELS := $(patsubst kernels/cuda/%.cu,$(EMU_DIR)/%.o,$(wildcard kernels/cuda/*.cu kernels/cuda/*/*.cu))
# C tests with cuda in their RUN line.
EMU_C_TESTS := $(patsubst tests/%.c,$(EMU_DIR)/%,$(shell grep -lE '^(/\*| \*) RUN .*device=[a-z,]*cuda' tests/unit/*.c tests/mpi/*.c))
EMU_TESTS := $(patsubst tests/emu/%.cc,$(EMU_DIR)/tests/%,$(filter tests/emu/test_%,$(EMU_SRC)))
EMU_LIB  := $(EMU_DIR)/libemu.so
EMU_LIBS = $(EMU_LIB) -Wl,-rpath,$(abspath $(EMU_DIR)) -lstdc++

.PHONY: emu emu-tests emu-why
emu-why:
	@echo '$(if $(HAVE_CUDA),,the emulator needs CUDA headers: $(CUDA_SAYS))'
emu-tests: $(EMU_TESTS) $(EMU_C_TESTS) $(EMU_DIR)/dptrain ## build the test programs for the emulated CUDA device
emu: $(EMU_LIB) $(EMU_DIR)/libemu.a $(EMU_KERNELS) $(EMU_TESTS) ## build the emulated CUDA device and its tests

$(EMU_DIR)/libemu.a: $(EMU_OBJ)
	@echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(EMU_LIB): $(EMU_OBJ) $(BUILD)/cuda.stamp
	@echo "  LD    $@"
	$(Q)$(CXX) -shared -Wl,-soname,libemu.so $(if $(SAN),-fsanitize=$(SAN)) -o $@ $(EMU_OBJ) -ldnnl -lrt -pthread

$(EMU_DIR)/lib/%.o: tests/emu/%.cc
	@mkdir -p $(@D)
	@echo "  CXX   $<"
	$(Q)$(CXX) $(EMU_FLAGS) -MMD -MP -c -o $@ $<

# Kernels, from the .cu files.
$(EMU_DIR)/%.o: kernels/cuda/%.cu
	@mkdir -p $(@D)
	@echo "  EMU   $<"
	$(Q)$(CXX) -x c++ $(EMU_FLAGS) -MMD -MP -c -o $@ $<

$(EMU_DIR)/tests/%: tests/emu/%.cc $(EMU_LIB)
	@mkdir -p $(@D)
	@echo "  CXX   $<"
	$(Q)$(CXX) $(EMU_FLAGS) -MMD -MP -o $@ $< $(EMU_LIBS)

# The program, and a test of tests/unit or tests/mpi: $(EMU_DIR)/dptrain, $(EMU_DIR)/unit/test_NAME.
$(EMU_DIR)/dptrain: $(BUILD)/src/main.o $(EMU_KERNELS) $(LIB) $(EMU_LIB)
	@echo "  LD    $@"
	$(Q)$(MPICC) -o $@ $(filter-out %.so,$^) $(EMU_LIBS) $(LDLIBS_HOST)
$(EMU_DIR)/unit/%: tests/unit/%.c $(LIB) $(EMU_KERNELS) $(EMU_LIB)
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(TEST_CFLAGS) -MMD -MP -o $@ $< $(EMU_KERNELS) $(LIB) $(EMU_LIBS) $(LDLIBS_HOST)
$(EMU_DIR)/mpi/%: tests/mpi/%.c $(LIB) $(EMU_KERNELS) $(EMU_LIB)
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(TEST_CFLAGS) -MMD -MP -o $@ $< $(EMU_KERNELS) $(LIB) $(EMU_LIBS) $(LDLIBS_HOST)

-include $(EMU_OBJ:.o=.d) $(EMU_KERNELS:.o=.d) $(EMU_TESTS:=.d) $(wildcard $(EMU_DIR)/unit/*.d $(EMU_DIR)/mpi/*.d)
