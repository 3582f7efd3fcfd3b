/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs of race_cases with the native calls: files, and calls that are refused. */
#include "race_program.h"
#include "usdma/file.h"

#include <cerrno>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

namespace race {

namespace {

void check(int err, const char *call)
{
	if (err >= 0)
		return;
	fprintf(stderr, "%s: %d: %s\n", call, err, usdma_error_text());
	exit(1);
}
#define GOOD(call) check((call), #call)

struct native {
	usdma_device *dev;
	usdma_stream *a, *b;
	usdma_event *event;
	usdma_file *file;
	char *host, *out, *cache, *other;

	native()
	{
		const int fd = memfd_create("race", MFD_CLOEXEC);

		GOOD(ftruncate(fd, size));
		GOOD(usdma_open_index(0, &dev));
		GOOD(usdma_stream_create(dev, nullptr, &a));
		GOOD(usdma_stream_create(dev, nullptr, &b));
		GOOD(usdma_event_create(dev, 0, &event));
		GOOD(usdma_file_import(dev, fd, USDMA_FILE_AUTO, &file));
		for (char **p : {&host, &out})
			GOOD(usdma_host_alloc(dev, size, reinterpret_cast<void **>(p)));
		for (char **p : {&cache, &other})
			GOOD(usdma_device_alloc(dev, size, reinterpret_cast<void **>(p)));
		memset(host, 1, size);
	}
	void copy(usdma_stream *s, char *to, const char *from) { GOOD(usdma_copy(s, to, from, size)); }
	void read(usdma_stream *s, char *to) { GOOD(usdma_file_read(s, to, file, 0, size, nullptr)); }
	void write(usdma_stream *s, const char *from) { GOOD(usdma_file_write(s, file, 0, from, size, nullptr)); }
	void sync(usdma_stream *s) { GOOD(usdma_stream_sync(s, -1)); }
	void edge()
	{
		GOOD(usdma_event_record(event, a));
		GOOD(usdma_stream_wait_event(b, event));
	}
};

/* Reads of a file before the copy, and between it and its user, make no order. */
void file_between(program &p)
{
	native n;

	n.read(n.a, n.other);
	n.copy(n.a, n.cache, n.host);
	n.read(n.a, n.other);
	if (p.fixed)
		n.edge();
	n.copy(n.b, n.out, n.cache);
	n.sync(n.b);
	n.sync(n.a);
}

/* A tensor is used by another stream while it is read from its file. */
void file_used_early(program &p)
{
	native n;

	n.read(n.a, n.cache);
	if (p.fixed)
		n.edge();
	n.copy(n.b, n.out, n.cache);
	n.sync(n.b);
	n.sync(n.a);
}

/* A checkpoint is written while its buffer is still filled. */
void file_saved_early(program &p)
{
	native n;

	n.copy(n.a, n.cache, n.host);
	n.copy(n.a, n.out, n.cache);
	if (p.fixed)
		n.edge();
	n.write(n.b, n.out);
	n.sync(n.b);
	n.sync(n.a);
}

/* The buffer of a checkpoint is reused before it was written. */
void file_source_reused(program &p)
{
	native n;

	n.write(n.a, n.host);
	if (p.fixed)
		n.sync(n.a);
	n.host[half] = 2;
	n.sync(n.a);
}

/* A synchronous read into memory that a stream still reads. */
void file_synchronous(program &p)
{
	native n;

	n.copy(n.a, n.cache, n.host);
	n.sync(n.a);
	n.copy(n.a, n.other, n.cache);
	if (p.fixed)
		n.sync(n.a);
	GOOD(usdma_file_read_sync(n.cache, n.file, 0, size, nullptr, -1));
	n.sync(n.a);
}

/* Functions, waits and signals that were refused or dropped before do not hide a source that is changed. */
void calls_refused(program &p)
{
	native n;
	usdma_stream *s;
	const int fd = eventfd(0, EFD_CLOEXEC);
	const auto nothing = [](void *) {};
	bool refused = true;

	GOOD(usdma_fill_sync(n.dev, n.other, 0, 8, size, -1));
	GOOD(usdma_stream_create(n.dev, nullptr, &s));
	GOOD(usdma_wait_value(s, n.other, USDMA_EQ, 1));
	GOOD(usdma_stream_signal_fd(s, fd));
	GOOD(usdma_stream_abort(s));
	for (const int hold : {0, 1})
		refused = refused && usdma_stream_call(s, nothing, nullptr, hold) == -ECANCELED;
	refused = refused && usdma_wait_value(s, n.other, USDMA_EQ, 1) == -ECANCELED;
	refused = refused && usdma_stream_signal_fd(s, fd) == -ECANCELED;
	if (!refused)
		exit(1);
	n.copy(n.a, n.cache, n.host);
	if (p.fixed)
		n.sync(n.a);
	n.host[half] = 2;
	n.sync(n.a);
	usdma_stream_destroy(s);
}

constexpr one all[] = {
	{"file_between", file_between},         {"file_used_early", file_used_early},
	{"file_saved_early", file_saved_early}, {"file_source_reused", file_source_reused},
	{"file_synchronous", file_synchronous}, {"calls_refused", calls_refused},
};

} // namespace

const std::vector<one> file_cases(std::begin(all), std::end(all));

} // namespace race
