/* SPDX-License-Identifier: MIT */
/* What a figure was measured on and with: hardware, fabric, software, each an object in the record and a hash
 * by which runs are found to be comparable. No host names, no environment. */
#ifndef TOOLS_BENCH_FINGERPRINT_H
#define TOOLS_BENCH_FINGERPRINT_H

#include "base/json.h"
#include "cluster/session/runtime.h"

/* Collective. Rank 0's, into j (NULL elsewhere) as "fingerprint": {"hardware_id", "fabric_id", "software_id",
 * "hardware", "fabric", "software"}; ids are XXH3 of the objects' text. Warns, naming it, of the first host
 * whose hardware or software is another. */
err_t fingerprint_record(const runtime_t *runtime, json_t *j);

#endif
