/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/error.h"

#include "driver/base/log.h"
#include "driver/base/printable.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace usdma {

static constexpr size_t text_size = 512;
static thread_local char text[text_size];

/* A text holds words of servers, files and processes, and goes to terminals and logs. */
static int said(int err)
{
	make_printable(text);
	log_debug("error %d: %s", err, text);
	return -err;
}

int fail(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return said(err);
}

int fail_errno(const char *fmt, ...)
{
	const int err = errno ? errno : EIO;
	char what[64];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n > 0 && size_t(n) < sizeof(text))
		snprintf(text + n, sizeof(text) - size_t(n), ": %s", strerror_r(err, what, sizeof(what)));
	return said(err);
}

int fail_in(int err, const char *fmt, ...)
{
	char before[text_size];
	va_list ap;
	int n;

	snprintf(before, sizeof(before), "%s", text);
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n > 0 && size_t(n) < sizeof(text))
		snprintf(text + n, sizeof(text) - size_t(n), ": %.*s", int(sizeof(text)) - n - 3, before);
	make_printable(text);
	return err;
}

const char *error_text()
{
	return text;
}

void error_clear()
{
	text[0] = '\0';
}

kept_error::kept_error()
{
	static_assert(sizeof(text_) == sizeof(text));
	memcpy(text_, text, sizeof(text_));
}

int kept_error::again(int err) const
{
	memcpy(text, text_, sizeof(text));
	return err;
}

} // namespace usdma
