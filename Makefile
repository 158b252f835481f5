# dptrain. `make` builds ./dptrain; `make help` lists the targets. Variables: V=1 (show commands), DEBUG=1,
# SAN=address,undefined, PREFIX=/usr/local, CUDA=auto|0|1 (auto: if the toolkit is found), CUDA_ARCHS="80 90" (default: the
# first architecture of each generation from Ampere on, which runs on the whole generation), CUDNN=auto|0|1 (auto: if its
# headers are found), SMPI=1 (the program for scripts/simulate.sh).
BUILD  ?= build$(if $(SAN),-san)$(if $(DEBUG),-debug)$(if $(SMPI),-smpi)
PREFIX ?= /usr/local
MPICC  ?= mpicc
PKG_CONFIG ?= pkg-config
PROTOC_C   ?= protoc-c
STRIP ?= strip
Q := $(if $(V),,@)
comma := ,
.DEFAULT_GOAL := all

# Libraries. A missing one is an error here, by name, rather than an empty string later. Libraries of the site or the user
# are found by PKG_CONFIG_PATH, HDF5_DIR, CPATH, LIBRARY_PATH and MPICC in the environment.
find_flags = $(or $(shell $(PKG_CONFIG) --cflags --libs $(1) 2>/dev/null),$(error $(1) was not found by $(PKG_CONFIG); run scripts/install_deps.sh))
find_sim   = $(or $(shell $(PKG_CONFIG) --cflags --libs $(1) 2>/dev/null),$(error $(1) was not found by $(PKG_CONFIG); run scripts/install_deps.sh --sim))
need_mpi   = $(if $(shell command -v $(MPICC) 2>/dev/null),,$(error $(MPICC) was not found; run scripts/install_deps.sh))
need_dnnl   = $(if $(shell $(CC) -fsyntax-only $(filter -I%,$(DNNL_FLAGS)) -include dnnl.h -x c /dev/null 2>/dev/null && echo yes),,$(error oneDNN's dnnl.h was not found by $(CC); run scripts/install_deps.sh))
need_protoc = $(if $(shell command -v $(PROTOC_C) 2>/dev/null),,$(error $(PROTOC_C) was not found; run scripts/install_deps.sh))
PASSIVE := clean help format check-format dist
ifneq ($(if $(MAKECMDGOALS),$(filter-out $(PASSIVE),$(MAKECMDGOALS)),build),)
$(need_mpi)
$(need_protoc)
# Debian names the serial build of HDF5 hdf5-serial; elsewhere it is hdf5. HDF5 and oneDNN are often installed without a file
# for pkg-config: HDF5_DIR names a prefix, and the compiler looks for oneDNN.
HDF5_NAME := $(if $(shell $(PKG_CONFIG) --exists hdf5-serial && echo yes),hdf5-serial,hdf5)
HDF5_LIB  := $(if $(wildcard $(HDF5_DIR)/include/hdf5.h),$(patsubst %/,%,$(dir $(firstword $(wildcard $(HDF5_DIR)/lib/libhdf5.so \
	$(HDF5_DIR)/lib64/libhdf5.so)))))
HDF5_FLAGS := $(if $(HDF5_LIB),-I$(HDF5_DIR)/include -L$(HDF5_LIB) -lhdf5,$(call find_flags,$(HDF5_NAME)))
DNNL_FLAGS := $(or $(shell $(PKG_CONFIG) --cflags --libs dnnl 2>/dev/null),-ldnnl)
$(need_dnnl)
LIB_FLAGS := $(HDF5_FLAGS) $(call find_flags,libxxhash) $(call find_flags,zlib) $(call find_flags,libpng) \
	$(call find_flags,libjpeg) \
	$(call find_flags,libprotobuf-c) $(call find_flags,libisal) $(call find_flags,yajl) $(call find_flags,libzip) \
	$(call find_flags,yaml-0.1)
# Simulated hosts: SMPI loads a copy of the program for each rank, so it is a shared library; calls within it are not
# looked up in SimGrid first. smpicc would also replace malloc, getopt and the clocks.
ifdef SMPI
SIM_FLAGS := $(call find_sim,simgrid)
MPI_CFLAGS := -I$(shell $(PKG_CONFIG) --variable=includedir simgrid)/smpi -DDPTRAIN_SMPI
MPI_LIBS   := $(filter -l% -L%,$(SIM_FLAGS)) -shared -Wl,-Bsymbolic
override CUDA := 0
else
MPI_CFLAGS := $(shell $(MPICC) --showme:compile)
MPI_LIBS   := $(or $(shell $(MPICC) --showme:link 2>/dev/null),$(error $(MPICC) is not that of Open MPI; set MPICC))
endif
# The program finds libraries outside the system's folders on other hosts, too, whatever LD_LIBRARY_PATH is there.
LIB_DIRS := $(filter-out /usr/lib% /lib%,$(patsubst -L%,%,$(filter -L%,$(LIB_FLAGS) $(DNNL_FLAGS) $(MPI_LIBS))) \
	$(patsubst %/,%,$(dir $(realpath $(shell $(CC) -print-file-name=libdnnl.so)))))
endif

# The CUDA backend needs nvcc and the headers of cuBLASLt and NCCL. Those two libraries are loaded at run time
# (src/base/process.h), so that one binary runs on machines with and without a GPU.
CUDA ?= auto
# Without nvcc in PATH: from CUDA_HOME, or installed by scripts/install_deps.sh --cuda.
ifeq ($(origin NVCC),undefined)
NVCC := $(or $(if $(shell command -v nvcc 2>/dev/null),nvcc),$(firstword $(wildcard $(if $(CUDA_HOME),$(CUDA_HOME)/bin/nvcc) \
	$(or $(DPTRAIN_CUDA_HOME),build/cuda)/bin/nvcc)),nvcc)
endif
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(realpath $(shell command -v $(NVCC) 2>/dev/null)))
CUDA_LIB  := $(patsubst %/libcudart_static.a,%,$(firstword $(wildcard $(addprefix $(CUDA_HOME)/,lib64/libcudart_static.a \
	lib/libcudart_static.a lib/$(shell uname -m)-linux-gnu/libcudart_static.a))))
has_header = $(shell echo '#include <$(1)>' | $(CC) -E -x c -isystem $(CUDA_HOME)/include - >/dev/null 2>&1 && echo yes)
CUDA_MISSING := $(strip $(if $(shell command -v $(NVCC) 2>/dev/null),$(if $(CUDA_LIB),,libcudart_static.a) \
	$(foreach header,cublasLt.h nccl.h,$(if $(call has_header,$(header)),,$(header))),$(NVCC)))
ifneq ($(filter-out auto 0 1,$(CUDA)),)
$(error invalid CUDA=$(CUDA): expected auto, 0 or 1)
endif
ifneq ($(and $(filter 1,$(CUDA)),$(CUDA_MISSING)),)
$(error CUDA=1, but $(CUDA_MISSING) was not found; run scripts/install_deps.sh --cuda)
endif
HAVE_CUDA := $(if $(filter 0,$(CUDA)),,$(if $(CUDA_MISSING),,yes))
CUDA_SAYS := $(if $(HAVE_CUDA),yes$(comma) $(CUDA_HOME),no$(if $(filter 0,$(CUDA)), (CUDA=0), ($(CUDA_MISSING) was not found)))
CUDA_CFLAGS := $(if $(HAVE_CUDA),-DDPTRAIN_CUDA -isystem $(CUDA_HOME)/include)

# The convolution algorithms of cuDNN need its headers, and at run time its library: from CUDNN_HOME, installed by
# scripts/install_deps.sh --cuda --cudnn, from the toolkit, or from the compiler's own folders.
CUDNN ?= auto
ifneq ($(filter-out auto 0 1,$(CUDNN)),)
$(error invalid CUDNN=$(CUDNN): expected auto, 0 or 1)
endif
CUDNN_SAYS := no ($(if $(HAVE_CUDA),CUDNN=0,without CUDA))
ifneq ($(and $(HAVE_CUDA),$(filter-out 0,$(CUDNN))),)
CUDNN_PREFIXES := $(abspath $(patsubst %/include/cudnn.h,%,$(wildcard $(addsuffix /include/cudnn.h,$(CUDNN_HOME) \
	$(or $(DPTRAIN_CUDA_HOME),build/cuda)/cudnn $(CUDA_HOME)))))
# Its folder and the three parts of its version.
CUDNN_FOUND := $(shell $(CC) -E -dD -x c $(patsubst %,-isystem %/include,$(CUDNN_PREFIXES)) -isystem $(CUDA_HOME)/include \
	-include cudnn.h /dev/null 2>/dev/null | sed -nE 's,^. 1 "(.*)/cudnn\.h" 1.*,\1,p; s,^.define CUDNN_(MAJOR|MINOR|PATCHLEVEL) ([0-9]+)$$,\2,p')
CUDNN_INCLUDE := $(word 1,$(CUDNN_FOUND))
CUDNN_VERSION := $(word 2,$(CUDNN_FOUND)).$(word 3,$(CUDNN_FOUND)).$(word 4,$(CUDNN_FOUND))
CUDNN_MISSING := $(if $(CUDNN_FOUND),$(if $(filter 9.%,$(CUDNN_VERSION)),,cuDNN $(CUDNN_VERSION) in $(CUDNN_INCLUDE) is not version 9),cudnn.h \
	was not found; run scripts/install_deps.sh --cuda --cudnn)
ifneq ($(and $(filter 1,$(CUDNN)),$(CUDNN_MISSING)),)
$(error CUDNN=1, but $(CUDNN_MISSING))
endif
HAVE_CUDNN := $(if $(CUDNN_MISSING),,yes)
CUDNN_SAYS := $(if $(HAVE_CUDNN),$(CUDNN_VERSION)$(comma) $(CUDNN_INCLUDE),no ($(CUDNN_MISSING)))
CUDNN_PREFIX := $(if $(HAVE_CUDNN),$(filter-out $(CUDA_HOME),$(filter $(CUDNN_PREFIXES),$(CUDNN_INCLUDE:%/include=%))))
CUDNN_CFLAGS := $(if $(HAVE_CUDNN),-DDPTRAIN_CUDNN $(CUDNN_PREFIX:%=-isystem %/include))
CUDA_CFLAGS += $(CUDNN_CFLAGS)
endif
ifdef HAVE_CUDA
# Machine code for compute capability x.y runs on x.z if z ≥ y. Include PTX of the newest for future GPUs.
NVCC_KNOWS := $(sort $(patsubst sm_%,%,$(filter sm_%,$(shell $(NVCC) --list-gpu-code))))
CUDA_ARCHS ?= $(foreach major,8 9 10 11 12 13,$(firstword $(filter $(addprefix $(major),0 1 2 3 4 5 6 7 8 9),$(NVCC_KNOWS))))
ifeq ($(strip $(CUDA_ARCHS)),)
$(error $(NVCC) cannot compile for Ampere (8.0) or later; install a newer CUDA toolkit)
endif
CUDA_NEWEST := $(shell printf '%s\n' $(CUDA_ARCHS) | sort -n | tail -n 1)
NVCCFLAGS_ALL := -std=c++20 $(if $(DEBUG),-O0 -G,-O3 -lineinfo) $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a)$(comma)code=sm_$(a)) \
	-gencode arch=compute_$(CUDA_NEWEST)$(comma)code=compute_$(CUDA_NEWEST) -Werror all-warnings \
	-Xcompiler -Wall$(comma)-Wextra$(comma)-Wno-missing-field-initializers$(comma)-ffp-contract=off$(comma)-fno-exceptions$(comma)-fno-threadsafe-statics \
	-I. -Isrc $(NVCCFLAGS)
endif

VERSION := $(shell cat VERSION)
# git archive, and so make dist, writes the revision into the file; in a clone it has a placeholder.
GIT_HASH := $(or $(shell grep -osE '^[0-9a-f]{12}' REVISION),$(shell git -C $(CURDIR) describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null),unknown)

PROTO := $(BUILD)/proto
PROTOS := tensorboard onnx
GENERATED := $(BUILD)/generated
# Sanitizers and simulated hosts: compile in half the time, with line numbers. Kernels are optimised, see below.
OPT   := $(if $(DEBUG),-O0 -g3,$(if $(SAN),-O0 -g1,$(if $(SMPI),-O1 -g1,-O3 -g)))
ARCH  ?= -march=x86-64-v2
WARN  := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
# -ffp-contract=off: the same bits regardless of what the compiler would fuse. -fno-math-errno: lets square roots vectorise;
# libm then does not set errno. No -ffast-math. -Wno-format-truncation: below -O2 the compiler knows too little about
# value ranges; the other build has the warning.
CFLAGS_ALL := -std=c11 -D_GNU_SOURCE $(OPT) $(if $(filter x86_64,$(shell uname -m)),$(ARCH)) -ffp-contract=off -fno-math-errno \
	-fopenmp -pthread $(if $(SMPI),-fPIC -fno-semantic-interposition) $(WARN) -Isrc -I. -I$(GENERATED) -isystem $(PROTO) \
	$(patsubst -I%,-isystem %,$(filter -I% -D%,$(LIB_FLAGS) $(DNNL_FLAGS) $(MPI_CFLAGS))) $(CUDA_CFLAGS) \
	$(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=undefined -fno-omit-frame-pointer) $(if $(SAN)$(SMPI),-Wno-format-truncation) $(CFLAGS)
# Tests compile three times as fast at -O1, and spend little time in their own code.
TEST_CFLAGS = $(patsubst -O3,-O1 -Wno-format-truncation,$(CFLAGS_ALL))
# gold links the hundreds of test programs in half the time.
LINKER := $(if $(shell command -v ld.gold 2>/dev/null),-fuse-ld=gold)
LDLIBS_HOST := $(filter -l% -L% -W%,$(LIB_FLAGS) $(DNNL_FLAGS)) $(MPI_LIBS) $(patsubst %,-Wl$(comma)-rpath$(comma)%,$(LIB_DIRS)) \
	-lm -ldl -fopenmp -pthread \
	$(if $(SAN),-fsanitize=$(SAN)) $(LINKER) $(LDFLAGS)
# cuBLASLt, NCCL and cuDNN are searched in LD_LIBRARY_PATH, then beside what they were built with, then in the system's folders.
LDLIBS_ALL := $(if $(HAVE_CUDA),$(CUDA_LIB)/libcudart_static.a -lrt $(patsubst %,-Wl$(comma)-rpath$(comma)%,$(CUDA_LIB) $(CUDNN_PREFIX:%=%/lib))) \
	$(LDLIBS_HOST)

sources_in = $(shell find $(1) -name '$(2)')
SRC := $(sort $(filter-out src/main.c $(if $(HAVE_CUDA),,src/cluster/comm/nccl/%) \
	$(if $(SMPI),,src/base/sim.c),$(call sources_in,src kernels/ref kernels/cpu \
	$(if $(HAVE_CUDA),kernels/cuda),*.c)))
CU  := $(if $(HAVE_CUDA),$(sort $(call sources_in,kernels/cuda,*.cu)))
# Simulated ranks use the real program's kernels, and compute the same bits.
KERNEL_BUILD := $(if $(SMPI),$(BUILD:%-smpi=%),$(BUILD))
KERNEL_OBJ := $(patsubst %.c,$(KERNEL_BUILD)/%.o,$(filter kernels/%,$(SRC)))
OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out kernels/%,$(SRC))) $(KERNEL_OBJ) $(PROTOS:%=$(PROTO)/%.pb-c.o)
LIB := $(BUILD)/libdptrain.a
# Separate from LIB, so that tests can use the same kernels built by another compiler (tests/emu). Each uses the other.
KERNELS := $(if $(HAVE_CUDA),$(BUILD)/libkernels.a)
LIBS := $(if $(KERNELS),-Wl$(comma)--start-group $(LIB) $(KERNELS) -Wl$(comma)--end-group,$(LIB))
BIN := $(if $(SAN)$(DEBUG)$(SMPI),$(BUILD)/dptrain,dptrain)
TESTS := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/unit/test_*.c tests/mpi/test_*.c tests/tools/*.c)))

.PHONY: all tests test-gpu help info manual install uninstall dist clean format check-format check-layers check-headers
all: $(BIN) ## build the program (default)
tests: $(TESTS) $(BIN) ## build the program and every test program

$(BIN): $(BUILD)/src/main.o $(LIB) $(KERNELS)
	@echo "  LD    $@"
	$(Q)$(if $(SMPI),$(CC),$(MPICC)) -o $@ $< $(LIBS) $(LDLIBS_ALL)

$(LIB): $(OBJ)
	@echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/libkernels.a: $(CU:%=$(BUILD)/%.o)
	@echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# Kernels depend on the compiler, the architectures and the flags.
$(BUILD)/nvcc.stamp: FORCE
	@mkdir -p $(BUILD)
	@echo '$(NVCC) $(NVCCFLAGS_ALL)' | cmp -s - $@ || echo '$(NVCC) $(NVCCFLAGS_ALL)' >$@

$(BUILD)/%.cu.o: %.cu $(BUILD)/nvcc.stamp
	@mkdir -p $(@D)
	@echo "  NVCC  $<"
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

# Tiles for wider vectors than the build's, chosen at run time. Their products and sums are fused.
ifeq ($(shell uname -m),x86_64)
$(BUILD)/kernels/cpu/direct/avx512.o: CFLAGS_ALL += -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -ffp-contract=fast
$(BUILD)/kernels/cpu/direct/avx2.o: CFLAGS_ALL += -mavx2 -mfma -ffp-contract=fast
$(BUILD)/kernels/cpu/amx.o: CFLAGS_ALL += -mavx512f -mavx512bw -mavx512vl -mavx512bf16 -mamx-tile -mamx-bf16
endif

# The peak's products and sums are one instruction where there is one.
$(BUILD)/kernels/cpu/peak.o: CFLAGS_ALL += -ffp-contract=fast

# Keep the compiler from turning `copy` into memcpy, which bypasses the caches above some size and would not be comparable with
# the other three kernels.
$(BUILD)/src/tools/bench/mem.o: CFLAGS_ALL += $(if $(findstring clang,$(shell $(CC) --version)),-fno-builtin,-fno-tree-loop-distribute-patterns)

# Position-independent for simulated ranks.
$(BUILD)/kernels/%.o: CFLAGS_ALL += -fPIC -fno-semantic-interposition
.PHONY: kernel-objects
kernel-objects: $(KERNEL_OBJ)
	@:
ifdef SMPI
$(KERNEL_OBJ) &: FORCE
	$(Q)$(MAKE) --no-print-directory SMPI= BUILD=$(KERNEL_BUILD) kernel-objects
endif

# Tests under sanitizers spend their time in kernels; -O3 would compile three of them for minutes.
ifdef SAN
$(BUILD)/kernels/%.o: CFLAGS_ALL += $(if $(DEBUG),,-O1)
# Many tiles, of which a test runs few.
$(BUILD)/kernels/cpu/direct/%.o: CFLAGS_ALL += -O0
endif

# The hash and flags in dptrain --version; the stamp changes with them.
$(BUILD)/version.stamp: FORCE
	@mkdir -p $(BUILD)
	@echo '$(VERSION) $(GIT_HASH) $(OPT) $(ARCH) $(SAN)' | cmp -s - $@ || echo '$(VERSION) $(GIT_HASH) $(OPT) $(ARCH) $(SAN)' >$@
.PHONY: FORCE
FORCE:
$(BUILD)/src/base/version.o: $(BUILD)/version.stamp
$(BUILD)/src/base/version.o: CFLAGS_ALL += -DDPTRAIN_VERSION='"$(VERSION)"' -DDPTRAIN_GIT_HASH='"$(GIT_HASH)"' \
	-DDPTRAIN_FLAGS='"$(strip $(OPT) $(ARCH) $(if $(SAN),-fsanitize=$(SAN)))"'

# Recompile files that depend on CUDA or cuDNN when they are switched on or off.
$(BUILD)/cuda.stamp: FORCE
	@mkdir -p $(BUILD)
	@echo '$(CUDA_CFLAGS)' | cmp -s - $@ || echo '$(CUDA_CFLAGS)' >$@
$(BUILD)/src/compute/ops/registry.o $(BUILD)/src/cluster/comm/registry.o $(filter $(BUILD)/kernels/cuda/%,$(KERNEL_OBJ)): \
	$(BUILD)/cuda.stamp

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

# What a host runs for the launcher, and what ssh's messages mean: a string per line, without comments.
$(GENERATED)/launch/host_script.h: src/launch/host.sh
$(GENERATED)/launch/ssh_causes.h: scripts/cluster/ssh_causes.tsv
EMBEDDED := $(addprefix $(GENERATED)/launch/,host_script.h ssh_causes.h)
$(EMBEDDED):
	@echo "  GEN   $@"
	@mkdir -p $(@D)
	$(Q){ echo 'static const char *const $(basename $(@F))[] = {'; \
	  sed -E '/^ *(#|$$)/d; s/[\\"]/\\&/g; s/.*/    "&\\n",/' $<; echo '};'; } >$@
$(BUILD)/src/launch/ask.o: $(EMBEDDED)

# Generated by protoc-c, and compiled without our warnings.
vpath %.proto src/train/output src/train/weights
$(PROTO)/%.pb-c.c $(PROTO)/%.pb-c.h: %.proto
	@mkdir -p $(@D)
	@echo "  PROTO $<"
	$(Q)$(PROTOC_C) --proto_path=$(<D) --c_out=$(@D) $<
$(PROTOS:%=$(PROTO)/%.pb-c.o): %.o: %.c
	@echo "  CC    $<"
	$(Q)$(CC) $(filter-out $(WARN),$(CFLAGS_ALL)) -MMD -MP -c -o $@ $<
$(BUILD)/src/train/output/tensorboard.o: $(PROTO)/tensorboard.pb-c.h
$(BUILD)/src/train/weights/onnx.o: $(PROTO)/onnx.pb-c.h

$(BUILD)/tests/%: tests/%.c $(LIB) $(KERNELS)
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(TEST_CFLAGS) -MMD -MP -o $@ $< $(LIBS) $(LDLIBS_ALL)

# Benchmarks in C, each run by a script in scripts/.
$(BUILD)/scripts/bench/%: scripts/bench/%.c $(LIB) $(KERNELS)
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CFLAGS_ALL) -MMD -MP -o $@ $< $(LIBS) $(LDLIBS_ALL)

info: ## print what the build found
	@echo "version   $(VERSION) ($(GIT_HASH))"
	@echo "compiler  $$($(CC) --version | head -1)"
	@echo "MPI       $$(mpirun --version 2>/dev/null | head -1)"
	@echo "HDF5      $(or $(HDF5_LIB),$$($(PKG_CONFIG) --modversion $(HDF5_NAME)))"
	@echo "xxHash    $$($(PKG_CONFIG) --modversion libxxhash)"
	@echo "libpng    $$($(PKG_CONFIG) --modversion libpng)"
	@echo "libjpeg   $$($(PKG_CONFIG) --modversion libjpeg)"
	@echo "protoc-c  $$($(PKG_CONFIG) --modversion libprotobuf-c)"
	@echo "ISA-L     $$($(PKG_CONFIG) --modversion libisal)"
	@echo "YAJL      $$($(PKG_CONFIG) --modversion yajl)"
	@echo "libzip    $$($(PKG_CONFIG) --modversion libzip)"
	@echo "libyaml   $$($(PKG_CONFIG) --modversion yaml-0.1)"
	@echo "CUDA      $(CUDA_SAYS)"
	@echo "cuDNN     $(CUDNN_SAYS)"
	@echo "GPUs      $(if $(HAVE_CUDA),compute capability $(CUDA_ARCHS) and later)"
	@echo "flags     $(CFLAGS_ALL)"
	@echo "libraries $(LDLIBS_ALL)"

# The manual page and the completion are generated from the program's help.
MANUAL := $(BUILD)/man/dptrain.1 $(BUILD)/completion.bash
manual: $(MANUAL) ## write the manual pages (build/man) and completion for bash into build/
HELP := $(BIN) scripts/dev/manual.sh $(wildcard scripts/dev/manual/*) $(addprefix scripts/,lib.sh help.awk setup_ssh.sh \
	cluster_health.sh nccl_bw.sh regress.sh)
$(BUILD)/man/dptrain.1: $(HELP)
	@echo "  GEN   $@"
	$(Q)rm -rf $(@D) && scripts/dev/manual.sh pages $(abspath $(BIN)) $(@D)
$(BUILD)/completion.bash: $(HELP)
	@echo "  GEN   $@"
	$(Q)scripts/dev/manual.sh bash $(abspath $(BIN)) >$@.new && mv $@.new $@

# The pages link to each other and to these files.
DOCUMENTS := README.md CHANGELOG.md CONTRIBUTING.md LICENSE $(wildcard docs/*.md docs/*.png results/*.md results/*.png tests/*/README.md) \
	data/README.md scripts/container/Containerfile tests/k8s/operator.bash
install: $(BIN) $(MANUAL) ## install into PREFIX (DESTDIR is honoured)
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/dptrain
	$(STRIP) $(DESTDIR)$(PREFIX)/bin/dptrain
	install -d $(DESTDIR)$(PREFIX)/share/dptrain/scripts $(DESTDIR)$(PREFIX)/share/doc/dptrain
	install -m 755 $(addprefix scripts/,run.sh container.sh mpijob.sh aws.sh nccl_bw.sh setup_ssh.sh on_hosts.sh stage_data.sh \
	  cluster_health.sh regress.sh) \
	  $(DESTDIR)$(PREFIX)/share/dptrain/scripts/
	install -m 644 $(addprefix scripts/,lib.sh help.awk dptrain.sbatch) $(DESTDIR)$(PREFIX)/share/dptrain/scripts/
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/dptrain/scripts/cluster scripts/cluster/*.sh scripts/cluster/*.tsv
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/dptrain/scripts/cluster/ssh scripts/cluster/ssh/*.sh
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/dptrain/scripts/container scripts/container/*.sh
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/dptrain/scripts/mpijob scripts/mpijob/*.sh
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/dptrain/scripts/aws scripts/aws/*.sh
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/dptrain/scripts/regress scripts/regress/*.sh
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/dptrain/scripts/regress/suites scripts/regress/suites/*.conf
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/dptrain/scripts/recipes scripts/recipes/*.conf
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/share/dptrain/scripts/recipes scripts/recipes/*.sh
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 $(BUILD)/man/*.1
	install -D -m 644 $(BUILD)/completion.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/dptrain
	for file in $(DOCUMENTS); do install -D -m 644 $$file $(DESTDIR)$(PREFIX)/share/doc/dptrain/$$file || exit 1; done

uninstall: ## remove what install put there
	rm -rf $(addprefix $(DESTDIR)$(PREFIX)/,bin/dptrain share/dptrain share/doc/dptrain share/man/man1/dptrain.1 \
	  share/man/man1/dptrain-*.1 share/bash-completion/completions/dptrain)
	rmdir --ignore-fail-on-non-empty $(wildcard $(addprefix $(DESTDIR)$(PREFIX)/share/,man/man1 doc bash-completion/completions \
	  bash-completion)) 2>/dev/null || true

# Whoever packs a commit, and whenever: the files are sorted, belong to root and have the commit's time. Only of a clone, because
# git would also find a repository above this folder.
DIST := dptrain-$(VERSION)
dist: ## pack the last commit into dptrain-VERSION.tar.xz
	$(Q)test "$$(git rev-parse --show-toplevel 2>/dev/null)" = "$$(pwd -P)" || { echo "make dist: this is not a clone of the repository" >&2; exit 1; }
	$(Q)test -z "$$(git status --porcelain --untracked-files=no)" || { echo "make dist packs the last commit; commit the changes first" >&2; exit 1; }
	@echo "  DIST  $(DIST).tar.xz"
	$(Q)mkdir -p $(BUILD)
	$(Q)git -c tar.umask=0022 -c core.autocrlf=false archive --prefix=$(DIST)/ -o $(BUILD)/$(DIST).tar HEAD
	$(Q)xz -T 1 -f $(BUILD)/$(DIST).tar && mv $(BUILD)/$(DIST).tar.xz .

check-layers: ## verify that includes look down only
	$(Q)scripts/dev/check_layers.sh

test-gpu: ## run the tests of the CUDA backend on this machine's GPUs; skipped if there are none
	$(Q)scripts/test.sh --gpu

# Every header compiles on its own (the typedef is for those with macros only), except C++ headers in tests/emu and, without CUDA, those that need CUDA's headers.
CUDA_HEADERS := kernels/cuda/* src/cluster/comm/nccl/*
check-headers: ## verify that headers are self-contained and programs of scripts/bench compile
	$(Q)for h in $$(find src kernels tests -path tests/emu -prune -o -name '*.h' \
	    $(if $(HAVE_CUDA),,$(foreach h,$(CUDA_HEADERS),! -path '$(h)')) -print); do \
	  printf '#include "%s"\ntypedef int not_empty;\n' "$$h" | $(CC) $(CFLAGS_ALL) -fsyntax-only -x c - || { echo "$$h is not self-contained"; exit 1; }; \
	done
	$(Q)$(CC) $(CFLAGS_ALL) -fsyntax-only $(filter-out $(if $(HAVE_CUDA),,scripts/bench/gpu_%),$(wildcard scripts/bench/*.c))

# Versions format differently; scripts/install_deps.sh --test installs the pinned one.
CLANG_FORMAT ?= $(firstword $(wildcard $(or $(DPTRAIN_VENV),build/venv)/bin/clang-format) clang-format)
FORMATTED = $$(find src kernels tests scripts -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh')
format: ## run clang-format over the tree
	$(Q)$(CLANG_FORMAT) -i $(FORMATTED)

check-format: ## verify that clang-format would change nothing
	$(Q)$(CLANG_FORMAT) --dry-run -Werror $(FORMATTED)

clean: ## remove every build output
	rm -rf build build-san build-debug build-san-debug build-smpi dptrain

help: ## print this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 16

include tests/emu/emu.mk
include tests/fuzz/fuzz.mk
-include $(OBJ:.o=.d) $(CU:%=$(BUILD)/%.d) $(TESTS:=.d) $(wildcard $(BUILD)/scripts/bench/*.d) $(BUILD)/src/main.d
