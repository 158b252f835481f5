/* SPDX-License-Identifier: MIT */
/* The fingerprint of a run: hardware, fabric and software, each an object in the record with a hash by
 * which runs are comparable. Contains no host names and no environment. */
#ifndef TOOLS_BENCH_FINGERPRINT_H
#define TOOLS_BENCH_FINGERPRINT_H

#include "base/json.h"
#include "cluster/session/runtime.h"

/* Collective. Writes rank 0's "fingerprint" into j (NULL on other ranks): {"hardware_id", "fabric_id",
 * "software_id", "hardware", "fabric", "software"}. Ids are XXH3 of the objects' text. Warns about the first
 * host whose hardware or software differs. */
err_t fingerprint_record(const runtime_t *runtime, json_t *j);

#endif
