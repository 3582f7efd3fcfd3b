/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API: version, errors, log. */
#include "lib/native/handles.h"

#include "driver/base/log.h"
#include "lib/core/config/setting.h"

#include <mutex>
#include <string_view>

using namespace usdma;

/* The file VERSION and the header's numbers are one version. */
#define text_of(number) #number
#define dotted(major, minor, patch) text_of(major) "." text_of(minor) "." text_of(patch)
static_assert(std::string_view(USDMA_VERSION_TEXT) ==
	      dotted(USDMA_VERSION_MAJOR, USDMA_VERSION_MINOR, USDMA_VERSION_PATCH));

const char *usdma_version(void)
{
	return USDMA_VERSION_TEXT;
}

const char *usdma_error_text(void)
{
	return error_text();
}

static_assert(USDMA_LOG_NONE == int(log_level::none) && USDMA_LOG_DEBUG == int(log_level::debug));

int usdma_log_set_level(int level)
{
	if (level < USDMA_LOG_NONE || level > USDMA_LOG_DEBUG)
		return fail(EINVAL, "%s: there is no level %d", __func__, level);
	/* Takes precedence over the environment even if the settings are read later. */
	return core::setting_save_log(log_level(level));
}

/* The caller's function and its argument; the lock keeps both consistent. */
static constinit std::mutex sink_lock;
static usdma_log_fn sink_fn;
static void *sink_arg;

static void to_caller(log_level level, const char *text, void *)
{
	sink_lock.lock();
	const usdma_log_fn fn = sink_fn;
	void *arg = sink_arg;
	sink_lock.unlock();

	if (fn)
		fn(int(level), text, arg);
}

void usdma_log_set_callback(usdma_log_fn fn, void *arg)
{
	sink_lock.lock();
	sink_fn = fn;
	sink_arg = arg;
	sink_lock.unlock();
	/* Not under the lock: the log holds its own while it calls to_caller, which takes this one. */
	log_set_sink(fn ? to_caller : nullptr, nullptr);
}
