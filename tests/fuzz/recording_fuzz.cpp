/* SPDX-License-Identifier: BSD-3-Clause */
/* A report for usdma-sim --replay: refused with a text, or each access is one that a device could have had. */
#include "tests/fuzz/fuzz.h"

#include "driver/base/bits.h"
#include "driver/base/error.h"
#include "driver/sim/recording.h"
#include "driver/vfio/device.h"

using namespace usdma;
using namespace usdma::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	const std::string_view text(reinterpret_cast<const char *>(data), size);
	sim::recording r;

	error_clear();
	if (const int err = sim::recording_parse(text, &r)) {
		must_hold(err == -EINVAL && *error_text() && r.steps.empty());
		return 0;
	}
	must_hold(!r.driver.empty() && !r.steps.empty() && r.steps.size() <= 64);
	for (const sim::recorded_step &s : r.steps) {
		must_hold(!s.name.empty());
		for (const sim::recorded_access &a : s.list) {
			must_hold(a.region <= vfio::region_config && r.regions >> a.region & 1 && a.count);
			must_hold(is_pow2(a.width) && a.width <= 8 && a.offset % a.width == 0);
			must_hold(a.width == 8 || a.value < u64(1) << 8 * a.width);
		}
	}
	return 0;
}
