/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A correct program: opens a device, copies, waits for a line of its standard
 * input, copies again, closes.  Says of each step what it returned and for how
 * many milliseconds it took.  Ends with 0 whatever the device does, and with 3
 * where memory is not what it should be.
 * Run as: misled DEVICE [CALL], CALL: "io_setup" or "preadv2", which this kernel then does not have
 */
#include "tests/support/test.h"
#include "usdma/usdma.h"

#include "driver/base/clock.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

static constexpr size_t size = 1024 * 1024, page = 4096;
static constexpr unsigned registrations = 32;
static constexpr int limit_ms = 20000;

static usdma_device *dev;
static usdma_stream *stream;
static unsigned char *from, *to, *registered;
static void *on_device;
static std::mt19937_64 gen = usdma::test::rng(3);

template <class F> static bool step(const char *name, F f)
{
	const usdma::u64 began = usdma::now_ns();
	const int err = f();

	printf("%s %d %llu\n", name, err,
	       static_cast<unsigned long long>((usdma::now_ns() - began) / usdma::ns_per_ms));
	if (err < 0)
		fprintf(stderr, "# %s: %s\n", name, usdma_error_text());
	return err >= 0;
}

static int allocate()
{
	void *p[2];
	int err = usdma_host_alloc(dev, size, &p[0]);

	if (!err)
		err = usdma_host_alloc(dev, size, &p[1]);
	if (!err)
		err = usdma_device_alloc(dev, size, &on_device);
	if (err)
		return err;
	from = static_cast<unsigned char *>(p[0]), to = static_cast<unsigned char *>(p[1]);
	registered = static_cast<unsigned char *>(aligned_alloc(page, registrations * 2 * page));
	/* Every second page: as many areas. */
	for (unsigned i = 0; !err && i < registrations; i++)
		err = usdma_host_register(registered + 2 * i * page, page, 0);
	return err;
}

static int make_stream()
{
	usdma_stream_options how = {};

	how.struct_size = sizeof(how);
	how.wait_mode = USDMA_WAIT_INTERRUPT;
	return usdma_stream_create(dev, &how, &stream);
}

static int there_and_back(size_t len)
{
	usdma::test::fill_random(from, len, gen);
	memset(to, 0, len);
	int err = usdma_copy(stream, on_device, from, len);
	if (!err)
		err = usdma_copy(stream, to, on_device, len);
	const int end = usdma_stream_sync(stream, limit_ms);
	if (!err && !end && memcmp(from, to, len)) {
		fprintf(stderr, "# wrong data\n");
		exit(3);
	}
	return err ? err : end;
}

/* Between two the device has nothing to do, and sleeps. */
static int copies()
{
	for (size_t len = 64; len <= size; len *= 4)
		if (const int err = there_and_back(len))
			return err;
	return 0;
}

/* Each page of it can be written, whatever became of the device. */
static int touch()
{
	memset(from, 1, size);
	memset(to, 2, size);
	memset(registered, 3, registrations * 2 * page);
	return 0;
}

static void go_on()
{
	char c;

	puts("ready 0 0");
	while (read(STDIN_FILENO, &c, 1) < 0 && errno == EINTR) {
	}
}

/* As on a kernel that was built without it. */
static int do_without(const char *call)
{
	const unsigned nr = strcmp(call, "io_setup") ? SYS_preadv2 : SYS_io_setup;
	sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const sock_fprog program = {sizeof(steps) / sizeof(steps[0]), steps};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? -1 : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(int argc, char **argv)
{
	const std::vector<unsigned char> others(size, 0xa5);

	alarm(120);
	setvbuf(stdout, nullptr, _IOLBF, 0);
	if (argc < 2 || (argc == 3 && do_without(argv[2])))
		return 2;
	if (step("open", [&] { return usdma_open(argv[1], &dev); })) {
		if (step("allocate", allocate) && step("stream", make_stream) && step("copies", copies)) {
			go_on();
			step("copies", copies);
			step("touch", touch);
		}
		if (stream)
			step("destroy", [] { return usdma_stream_destroy(stream); });
		step("close", [] { return usdma_close(dev); });
	}
	puts("end 0 0");
	return others == std::vector<unsigned char>(size, 0xa5) ? 0 : 3;
}
