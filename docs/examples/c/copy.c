/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies to the device and back with the native API, and measures the time.
 *
 *	cc copy.c $(pkg-config --cflags --libs usdma)
 */
#include <stdio.h>
#include <string.h>
#include <usdma/usdma.h>

enum { size = 4 << 20, patience_ms = 30000 };

static int failed(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, usdma_error_text());
	return -1;
}

struct job {
	usdma_device *dev;
	usdma_stream *stream;
	usdma_event *start, *end;
	void *from, *to, *mem;
};

static int set_up(struct job *j)
{
	if (usdma_open(NULL, &j->dev))
		return failed("opening the first device");
	if (usdma_stream_create(j->dev, NULL, &j->stream))
		return failed("a stream");
	if (usdma_event_create(j->dev, USDMA_EVENT_TIMING, &j->start) ||
	    usdma_event_create(j->dev, USDMA_EVENT_TIMING, &j->end))
		return failed("events");
	if (usdma_host_alloc(j->dev, size, &j->from) || usdma_host_alloc(j->dev, size, &j->to))
		return failed("pinned memory");
	if (usdma_device_alloc(j->dev, size, &j->mem))
		return failed("device memory");
	return 0;
}

/* Queues everything before the first byte has to move. */
static int submit(struct job *j)
{
	if (usdma_event_record(j->start, j->stream))
		return failed("the start's mark");
	if (usdma_copy(j->stream, j->mem, j->from, size) || usdma_copy(j->stream, j->to, j->mem, size))
		return failed("a copy");
	if (usdma_event_record(j->end, j->stream))
		return failed("the end's mark");
	return 0;
}

static int run(struct job *j)
{
	int64_t ns;

	for (size_t i = 0; i < size; i++)
		((unsigned char *)j->from)[i] = (unsigned char)(i * 7 + i / 251);
	memset(j->to, 0, size);
	if (submit(j))
		return -1;
	if (usdma_stream_sync(j->stream, patience_ms))
		return failed("waiting");
	if (memcmp(j->from, j->to, size)) {
		fprintf(stderr, "the data read back differ\n");
		return -1;
	}
	if (usdma_event_elapsed(j->start, j->end, &ns))
		return failed("the time");
	printf("%d MiB to the device and back in %.3f ms\n", size >> 20, (double)ns / 1e6);
	return 0;
}

static void tear_down(struct job *j)
{
	if (j->start)
		usdma_event_destroy(j->start);
	if (j->end)
		usdma_event_destroy(j->end);
	if (j->stream)
		usdma_stream_destroy(j->stream);
	usdma_device_free(j->mem);
	usdma_host_free(j->from);
	usdma_host_free(j->to);
	if (j->dev)
		usdma_close(j->dev);
}

int main(void)
{
	struct job j = {0};
	int err = set_up(&j);

	if (!err)
		err = run(&j);
	tear_down(&j);
	return err ? 1 : 0;
}
