/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/log.h"

#include "driver/base/cancel.h"
#include "driver/base/printable.h"

#include <cstdarg>
#include <cstdio>
#include <mutex>

namespace usdma {

static int level_now = int(log_level::warn);
static constinit std::mutex sink_lock;
static log_sink sink_now;
static void *sink_arg;

static const char *level_name(log_level level)
{
	static const char *const names[] = {"none", "error", "warning", "info", "debug"};

	return names[int(level)];
}

void log_set_level(log_level level)
{
	__atomic_store_n(&level_now, int(level), __ATOMIC_RELAXED);
}

log_level log_get_level()
{
	return log_level(__atomic_load_n(&level_now, __ATOMIC_RELAXED));
}

bool log_wants(log_level level)
{
	return level <= log_get_level();
}

void log_set_sink(log_sink sink, void *arg)
{
	std::lock_guard guard(sink_lock);

	sink_now = sink;
	sink_arg = arg;
}

void log_write(log_level level, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	make_printable(line);
	const no_cancel quiet;
	std::lock_guard guard(sink_lock);
	if (sink_now)
		sink_now(level, line, sink_arg);
	else
		fprintf(stderr, "usdma: %s: %s\n", level_name(level), line);
}

} // namespace usdma
