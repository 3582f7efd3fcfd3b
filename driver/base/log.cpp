/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/log.h"

#include "driver/base/barrier.h"
#include "driver/base/cancel.h"
#include "driver/base/clock.h"
#include "driver/base/printable.h"

#include <cstdarg>
#include <cstdio>
#include <mutex>

namespace usdma {

static int level_now = int(log_level::warn);
static constinit std::mutex sink_lock, limit_lock;
static log_sink sink_now;
static void *sink_arg;

static const char *level_name(log_level level)
{
	static const char *const names[] = {"none", "error", "warning", "info", "debug"};

	return names[int(level)];
}

void log_set_level(log_level level)
{
	store_relaxed(&level_now, int(level));
}

log_level log_get_level()
{
	return log_level(load_relaxed(&level_now));
}

bool log_enabled(log_level level)
{
	return level <= log_get_level();
}

void log_set_sink(log_sink sink, void *arg)
{
	std::lock_guard guard(sink_lock);

	sink_now = sink;
	sink_arg = arg;
}

[[gnu::format(printf, 2, 0)]] static void write_line(log_level level, const char *fmt, va_list ap)
{
	char line[512];

	vsnprintf(line, sizeof(line), fmt, ap);
	make_printable(line);
	const no_cancel guarded;
	std::lock_guard guard(sink_lock);
	if (sink_now)
		sink_now(level, line, sink_arg);
	else
		fprintf(stderr, "usdma: %s: %s\n", level_name(level), line);
}

void log_write(log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_line(level, fmt, ap);
	va_end(ap);
}

bool log_may(log_limit *l, u64 now, u32 *left_out)
{
	std::lock_guard guard(limit_lock);

	if (!l->written || now - l->since >= log_limit::window_ns)
		l->since = now, l->written = 0;
	if (l->written >= log_limit::lines) {
		l->left_out++;
		return false;
	}
	l->written++;
	*left_out = l->left_out;
	l->left_out = 0;
	return true;
}

void log_write_limited(log_limit *l, log_level level, const char *fmt, ...)
{
	u32 left_out;
	va_list ap;

	if (!log_may(l, now_ns(), &left_out))
		return;
	if (left_out)
		log_write(level, "%u more lines like the next one were left out", left_out);
	va_start(ap, fmt);
	write_line(level, fmt, ap);
	va_end(ap);
}

} // namespace usdma
