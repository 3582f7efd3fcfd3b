/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors: a function reports -errno; beside it, a text for a person stands in a
 * buffer of the calling thread (made at its first failure).  The text names the cause and, where there is
 * one, the cure.  A later failure in the same thread replaces it.
 */
#pragma once

#include <cerrno>

#pragma GCC visibility push(default)
namespace usdma {

#ifdef __clang_analyzer__
/* The analyzer sees one file at a time: these tell it that a failure is never 0. */
template <class... T> inline int fail(int err, const char *, T...)
{
	return err > 0 ? -err : -EINVAL;
}
template <class... T> inline int fail_errno(const char *, T...)
{
	return -EIO;
}
template <class... T> inline int fail_in(int err, const char *, T...)
{
	return err;
}
#else

/* Remembers the text for this thread and returns -err (err is a positive errno). */
[[gnu::format(printf, 2, 3), gnu::cold]] int fail(int err, const char *fmt, ...);

/* As fail, with "TEXT: what errno means" for the present errno; returns -errno. */
[[gnu::format(printf, 1, 2), gnu::cold]] int fail_errno(const char *fmt, ...);

/* Puts "TEXT: " before this thread's present text; returns err unchanged. */
[[gnu::format(printf, 2, 3), gnu::cold]] int fail_in(int err, const char *fmt, ...);

#endif

/* -ENOMEM, "no memory for WHAT". */
[[gnu::cold]] inline int no_memory(const char *what)
{
	return fail(ENOMEM, "no memory for %s", what);
}

/* This thread's latest error text; "" where there was none.  Valid until the next failure. */
const char *error_text();
void error_clear();

/* Keeps this thread's present text while what is called next may replace it. */
class kept_error {
public:
	kept_error();
	/* The text is the kept one again; returns err (0 or -errno) unchanged. */
	int again(int err) const;
	const char *text() const { return text_; }

private:
	char text_[512];
};

} // namespace usdma
#pragma GCC visibility pop
