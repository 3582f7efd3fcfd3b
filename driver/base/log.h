/* SPDX-License-Identifier: BSD-3-Clause */
/* Log messages. Not for the data path; the level check is one relaxed load. */
#pragma once

#include "driver/base/types.h"

#pragma GCC visibility push(default)
namespace usdma {

enum class log_level : int { none, error, warn, info, debug };

/* Log output; the default writes "usdma: LEVEL: TEXT" to standard error. Called from any thread. */
using log_sink = void (*)(log_level level, const char *text, void *arg);

void log_set_level(log_level level);
log_level log_get_level();
void log_set_sink(log_sink sink, void *arg); /* nullptr: the default */
[[gnu::format(printf, 2, 3), gnu::cold]] void log_write(log_level level, const char *fmt, ...);

bool log_enabled(log_level level);

/*
 * Rate limit of one call site, for events that a peer can cause at any rate. The first line after a suppressed
 * period reports how many were left out.
 */
struct log_limit {
	static constexpr u32 lines = 10;
	static constexpr u64 window_ns = 10 * 1000 * u64(1000000);
	u64 since = 0;
	u32 written = 0, left_out = 0;
};
/* *left_out: lines suppressed since the last one that was written. Thread-safe. */
bool log_may(log_limit *l, u64 now, u32 *left_out);
[[gnu::format(printf, 3, 4), gnu::cold]] void log_write_limited(log_limit *l, log_level level, const char *fmt, ...);
#pragma GCC visibility pop

#define usdma_log(level, ...)                                                                                          \
	do {                                                                                                           \
		if (::usdma::log_enabled(level))                                                                       \
			::usdma::log_write(level, __VA_ARGS__);                                                        \
	} while (0)
#define log_error(...) usdma_log(::usdma::log_level::error, __VA_ARGS__)
#define log_warn(...) usdma_log(::usdma::log_level::warn, __VA_ARGS__)
#define log_warn_limited(...)                                                                                          \
	do {                                                                                                           \
		static constinit ::usdma::log_limit limit_;                                                            \
		if (::usdma::log_enabled(::usdma::log_level::warn))                                                    \
			::usdma::log_write_limited(&limit_, ::usdma::log_level::warn, __VA_ARGS__);                    \
	} while (0)
#define log_info(...) usdma_log(::usdma::log_level::info, __VA_ARGS__)
#define log_debug(...) usdma_log(::usdma::log_level::debug, __VA_ARGS__)

} // namespace usdma
