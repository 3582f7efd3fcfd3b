/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes device memory to a file and reads it back, in the order of a stream, and compares.
 *
 *	cc file.c $(pkg-config --cflags --libs usdma)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <usdma/file.h>
#include <usdma/usdma.h>

enum { size = 3 << 20 };

static int need(int err, const char *what)
{
	if (err < 0) {
		fprintf(stderr, "%s: %s\n", what, usdma_error_text());
		exit(1);
	}
	return err;
}

/* A file that has no name any more. */
static int temporary_file(void)
{
	char path[] = "/tmp/usdma-example-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0) {
		perror("mkstemp");
		exit(1);
	}
	unlink(path);
	return fd;
}

int main(void)
{
	void *host, *back, *mem, *again;
	size_t written, moved;
	usdma_device *dev;
	usdma_stream *stream;
	usdma_file *file;
	int fd = temporary_file(), same;

	need(usdma_open(NULL, &dev), "open");
	need(usdma_stream_create(dev, NULL, &stream), "stream");
	need(usdma_host_alloc(dev, size, &host), "host memory");
	need(usdma_host_alloc(dev, size, &back), "host memory");
	need(usdma_device_alloc(dev, size, &mem), "device memory");
	need(usdma_device_alloc(dev, size, &again), "device memory");
	need(usdma_file_import(dev, fd, USDMA_FILE_AUTO, &file), "file");
	close(fd); /* the library has its own */
	for (size_t i = 0; i < size; i++)
		((unsigned char *)host)[i] = (unsigned char)(i * 7 + i / 251);

	/* Each sees what the one before it did. */
	need(usdma_copy(stream, mem, host, size), "copy in");
	need(usdma_file_write(stream, file, 0, mem, size, &written), "write");
	need(usdma_file_sync(stream, file), "sync");
	need(usdma_file_read(stream, again, file, 0, size, &moved), "read");
	need(usdma_copy(stream, back, again, size), "copy out");
	need(usdma_stream_sync(stream, 30000), "the stream");

	same = written == size && moved == size && !memcmp(host, back, size);
	puts(same ? "the same" : "different");
	need(usdma_file_close(file), "close");
	need(usdma_stream_destroy(stream), "stream");
	need(usdma_host_free(host), "host memory");
	need(usdma_host_free(back), "host memory");
	need(usdma_device_free(mem), "device memory");
	need(usdma_device_free(again), "device memory");
	need(usdma_close(dev), "close");
	return !same;
}
