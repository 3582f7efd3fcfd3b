/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In a guest: copies into the device and back until it is killed, a copy fails, or
 * a byte is wrong.  Prints a line for each round.
 * Run as: foreign-load (USDMA_DEVICES: the device)
 */
#include "tests/support/test.h"
#include "usdma/usdma.h"

#include <cstdio>
#include <cstring>

static constexpr size_t size = 8 << 20;

static int failed(const char *what)
{
	printf("failed: %s: %s\n", what, usdma_error_text());
	return 1;
}

/* In pieces, so that copies are always in flight. */
static int move(usdma_stream *s, unsigned char *to, const unsigned char *from)
{
	static constexpr size_t piece = 256 * 1024;
	int err = 0;

	for (size_t at = 0; !err && at < size; at += piece)
		err = usdma_copy(s, to + at, from + at, piece);
	return err;
}

int main()
{
	usdma_device *dev = nullptr;
	usdma_stream *s = nullptr;
	void *in, *out, *mem;
	auto gen = usdma::test::rng();

	setvbuf(stdout, nullptr, _IOLBF, 0);
	if (usdma_open_index(0, &dev) || usdma_stream_create(dev, nullptr, &s) || usdma_host_alloc(dev, size, &in) ||
	    usdma_host_alloc(dev, size, &out) || usdma_device_alloc(dev, size, &mem))
		return failed("set-up");
	usdma::test::fill_random(in, size, gen);
	for (unsigned long round = 1;; round++) {
		memset(out, 0, 4096);
		if (move(s, static_cast<unsigned char *>(mem), static_cast<unsigned char *>(in)) ||
		    move(s, static_cast<unsigned char *>(out), static_cast<unsigned char *>(mem)) ||
		    usdma_stream_sync(s, -1))
			return failed("copying");
		if (memcmp(in, out, size)) {
			printf("wrong bytes\n");
			return 2;
		}
		printf("round %lu\n", round);
	}
}
