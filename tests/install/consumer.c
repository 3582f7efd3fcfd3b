/* SPDX-License-Identifier: BSD-3-Clause */
/* What a person writes first; built against an installed library, as C and as C++. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <usdma/uring.h>
#include <usdma/usdma.h>

enum { size = 1 << 20 };

static int check(int err, const char *what)
{
	if (err < 0)
		fprintf(stderr, "%s: %d: %s\n", what, err, usdma_error_text());
	return err < 0;
}

static int round_trip(usdma_device *dev, usdma_stream *stream)
{
	void *host, *back, *mem;
	int bad = 0;

	if (check(usdma_host_alloc(dev, size, &host), "host_alloc") ||
	    check(usdma_host_alloc(dev, size, &back), "host_alloc") ||
	    check(usdma_device_alloc(dev, size, &mem), "device_alloc"))
		return 1;
	for (int i = 0; i < size; i++)
		((unsigned char *)host)[i] = (unsigned char)(i * 7 + i / 251);
	memset(back, 0, size);
	bad |= check(usdma_copy(stream, mem, host, size), "copy in");
	bad |= check(usdma_copy(stream, back, mem, size), "copy out");
	bad |= check(usdma_stream_sync(stream, 10000), "sync");
	if (memcmp(host, back, size)) {
		fprintf(stderr, "the data came back different\n");
		bad = 1;
	}
	bad |= check(usdma_host_free(host), "host_free") | check(usdma_host_free(back), "host_free");
	return bad | check(usdma_device_free(mem), "device_free");
}

int main(void)
{
	usdma_device *dev;
	usdma_stream *stream;
	int bad;

	if (check(usdma_open(NULL, &dev), "open") || check(usdma_stream_create(dev, NULL, &stream), "stream_create"))
		return 1;
	bad = round_trip(dev, stream);
	bad |= check(usdma_stream_destroy(stream), "stream_destroy");
	bad |= check(usdma_close(dev), "close");
	printf("%s\n", usdma_version());
	return bad;
}
