/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/error.h"

#include "driver/base/barrier.h"
#include "driver/base/log.h"
#include "driver/base/printable.h"
#include "driver/base/thread_end.h"
#include "driver/base/types.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sys/resource.h>

namespace usdma {

static constexpr size_t text_size = 512;

/* Per-thread text, allocated at the thread's first failure. */
struct text_block {
	thread_end end;
	char text[text_size];
};
static thread_local text_block *mine;

/* Reserve for threads whose first failure is lack of memory. */
static text_block spare[4];
static u32 spare_used[4];

/* Used when the reserve is exhausted, too; never written. */
static text_block no_text = {{}, "no memory for the text of an error"};

static void text_free(thread_end *e)
{
	auto *const b = reinterpret_cast<text_block *>(e);

	mine = nullptr;
	for (size_t i = 0; i < std::size(spare); i++)
		if (b == &spare[i])
			return store_release(&spare_used[i], 0u);
	free(b);
}

static text_block *text_get()
{
	auto *b = static_cast<text_block *>(malloc(sizeof(text_block)));

	for (size_t i = 0; i < std::size(spare) && !b; i++)
		if (!exchange_acquire(&spare_used[i], 1u))
			b = &spare[i];
	return b;
}

/* nullptr: no buffer; error_text() then returns no_text. */
static char *text_space()
{
	if (likely(mine && mine != &no_text))
		return mine->text;
	text_block *const b = text_get();
	mine = b ? b : &no_text;
	if (!b)
		return nullptr;
	b->end.run = text_free;
	b->text[0] = '\0';
	at_thread_end(&b->end);
	return b->text;
}

/* Texts include strings of servers, files and processes, and are printed to terminals and logs. */
static int report(int err, char *text)
{
	if (text)
		make_printable(text);
	log_debug("error %d: %s", err, error_text());
	return -err;
}

int fail(int err, const char *fmt, ...)
{
	char *const text = text_space();
	va_list ap;

	va_start(ap, fmt);
	if (text)
		vsnprintf(text, text_size, fmt, ap);
	va_end(ap);
	return report(err, text);
}

static void add_errno(char *text, int err)
{
	size_t n = strlen(text);
	char what[64];
	rlimit lim;

	snprintf(text + n, text_size - n, ": %s", strerror_r(err, what, sizeof(what)));
	n = strlen(text);
	if (err == EMFILE && !getrlimit(RLIMIT_NOFILE, &lim))
		snprintf(text + n, text_size - n, ": the limit of this process (RLIMIT_NOFILE, ulimit -n) is %llu",
			 static_cast<unsigned long long>(lim.rlim_cur));
	else if (err == ENFILE)
		snprintf(text + n, text_size - n, ": the limit of the machine is /proc/sys/fs/file-max");
}

int fail_errno(const char *fmt, ...)
{
	const int err = errno ? errno : EIO;
	char *const text = text_space();
	va_list ap;

	va_start(ap, fmt);
	if (text) {
		vsnprintf(text, text_size, fmt, ap);
		add_errno(text, err);
	}
	va_end(ap);
	return report(err, text);
}

int fail_in(int err, const char *fmt, ...)
{
	const saved_error before;
	char *const text = text_space();
	va_list ap;

	va_start(ap, fmt);
	if (text) {
		vsnprintf(text, text_size, fmt, ap);
		const size_t n = strlen(text);
		snprintf(text + n, text_size - n, ": %s", before.text());
		make_printable(text);
	}
	va_end(ap);
	return err;
}

const char *error_text()
{
	return mine ? mine->text : "";
}

void error_clear()
{
	if (mine == &no_text)
		mine = nullptr;
	if (mine)
		mine->text[0] = '\0';
}

saved_error::saved_error()
{
	static_assert(sizeof(text_) == text_size);
	snprintf(text_, sizeof(text_), "%s", error_text());
}

int saved_error::again(int err) const
{
	char *const text = text_space();

	if (text)
		memcpy(text, text_, text_size);
	return err;
}

} // namespace usdma
