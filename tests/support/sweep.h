/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Enumerators, flags and numbers at their limits: what a call answers for each value from below the first to beyond the
 * last one that it takes.  A row has the answers in order: "0*3 107000" for three that succeed and one that does not.
 */
#pragma once

#include "tests/support/test.h"

namespace usdma::test {

/* A value as an argument of any type. */
struct any_value {
	long v;

	template <class T> operator T() const { return static_cast<T>(v); }
};

template <class F> struct sweep {
	const char *what;
	long first, last;
	const char *want;
	int (*call)(F &f, any_value e);
};

template <class F> std::string answers_of(F &f, const sweep<F> &s)
{
	std::string text;
	unsigned times = 0;

	for (long v = s.first; v <= s.last; v++) {
		const std::string word = std::to_string(s.call(f, {v}));

		if (times && text.substr(text.rfind(' ') + 1) == word) {
			times++;
			continue;
		}
		text += times > 1 ? "*" + std::to_string(times) : "";
		text += (text.empty() ? "" : " ") + word;
		times = 1;
	}
	return text + (times > 1 ? "*" + std::to_string(times) : "");
}

template <class F, size_t n> void run_sweeps(F &f, const sweep<F> (&all)[n])
{
	unsigned bad = 0;

	for (const sweep<F> &s : all) {
		const std::string got = answers_of(f, s);

		if (got == s.want)
			continue;
		bad++;
		print_error("%s, for %ld to %ld: \"%s\" instead of \"%s\"\n", s.what, s.first, s.last, got.c_str(),
			    s.want);
	}
	assert_int_equal(bad, 0);
}

} // namespace usdma::test

#define SWEEP_OF(F, first, last, want, ...)                                                                            \
	{                                                                                                              \
#__VA_ARGS__, first, last, want, [](F &f, any_value e) -> int {                                        \
			(void)f;                                                                                       \
			return __VA_ARGS__;                                                                            \
		}               \
	}
