# Fuzzing: `make fuzz` builds build/fuzz/NAME from every tests/fuzz/fuzz_NAME.c with clang, libFuzzer and the sanitizers.
# scripts/dev/fuzz.sh makes seeds and runs them. Targets may use rooms that do not depend on MPI, which are compiled with them.
# `make mutations` builds $(BUILD)/mutations/NAME from the same files with the build's compiler, for tests/fuzz/mutations.bats.
FUZZ_CC    ?= clang
FUZZ_DIR   := build/fuzz
FUZZ_ROOMS := base text store/h5 compute/tensor data/annotation data/image data/coco data/shard data/transform data/dataset data/source data/score data/load store/owner store/checkpoint records \
	cluster/hosts launch
FUZZ_SRC   := $(filter $(FUZZ_ROOMS:%=src/%/%.c),$(SRC))
FUZZ_OBJ   := $(FUZZ_SRC:%.c=$(FUZZ_DIR)/obj/%.o)
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,$(FUZZ_DIR)/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_FLAGS = -std=c11 -D_GNU_SOURCE -O1 -g -fno-omit-frame-pointer -fno-sanitize-recover=undefined -pthread $(WARN) -Wno-missing-field-initializers \
	-Isrc -I. -I$(GENERATED) $(patsubst -I%,-isystem %,$(filter -I% -D%,$(LIB_FLAGS))) \
	-DDPTRAIN_VERSION='"$(VERSION)"' -DDPTRAIN_GIT_HASH='"fuzz"' -DDPTRAIN_FLAGS='"fuzz"'
FUZZ_SEEDS := image_samples checkpoint_sample
FUZZ_SANITIZERS := address,undefined

.PHONY: fuzz
fuzz: $(FUZZ_TARGETS) $(FUZZ_SEEDS:%=$(BUILD)/tests/tools/%) ## build the fuzz targets (scripts/dev/fuzz.sh runs them)

$(FUZZ_DIR)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  FUZZ  $<"
	$(Q)$(FUZZ_CC) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link,$(FUZZ_SANITIZERS) -MMD -MP -c -o $@ $<

$(FUZZ_DIR)/obj/src/launch/ask.o: $(GENERATED)/launch/host_script.h

$(FUZZ_DIR)/libfuzzed.a: $(FUZZ_OBJ)
	@echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(FUZZ_TARGETS): $(FUZZ_DIR)/%: tests/fuzz/fuzz_%.c $(FUZZ_DIR)/libfuzzed.a
	@echo "  FUZZ  $<"
	$(Q)$(FUZZ_CC) $(FUZZ_FLAGS) -fsanitize=fuzzer,$(FUZZ_SANITIZERS) -MMD -MP -o $@ $< $(FUZZ_DIR)/libfuzzed.a \
	  $(filter -l% -L% -W%,$(LIB_FLAGS)) -lm -ldl

MUTATIONS := $(FUZZ_TARGETS:$(FUZZ_DIR)/%=$(BUILD)/mutations/%)
.PHONY: mutations
mutations: $(MUTATIONS) $(FUZZ_SEEDS:%=$(BUILD)/tests/tools/%) $(BIN)

$(BUILD)/libfuzzed.a: $(FUZZ_SRC:%.c=$(BUILD)/%.o)
	@echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(MUTATIONS): $(BUILD)/mutations/%: tests/fuzz/fuzz_%.c $(BUILD)/tests/fuzz/mutate.o $(BUILD)/libfuzzed.a
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(TEST_CFLAGS) -MMD -MP -o $@ $^ $(filter -l% -L% -W%,$(LIB_FLAGS)) -lm -ldl -fopenmp -pthread \
	  $(if $(SAN),-fsanitize=$(SAN)) $(LINKER) $(LDFLAGS)

-include $(MUTATIONS:=.d) $(BUILD)/tests/fuzz/mutate.d
-include $(FUZZ_OBJ:.o=.d) $(FUZZ_TARGETS:=.d)
