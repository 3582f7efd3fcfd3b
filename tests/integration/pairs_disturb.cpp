/* SPDX-License-Identifier: BSD-3-Clause */
/* What happens while a call is in progress. */
#include "lib/core/open.h"
#include "lib/core/stream/stream.h"
#include "tests/integration/pairs.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace usdma::test::pairs {

/* ---- the end of the stream and of the device -------------------------------------------------------- */

static int close_device(world &w)
{
	w.closed = true;
	return usdma_close(w.dev);
}

static int destroy_stream(world &w)
{
	w.stream_ended = true;
	return usdma_stream_destroy(w.s);
}

/* ACL's aclrtDestroyStreamForce. */
static int destroy_by_force(world &w)
{
	w.stream_ended = true;
	return core::stream_destroy_force(w.s);
}

static int abort_stream(world &w)
{
	return usdma_stream_abort(w.s);
}

/* ACL's aclrtDeviceTaskAbort. */
static int abort_device(world &)
{
	core::device *dev;
	int err = core::device_get(0, &dev);

	if (err)
		return err;
	err = core::device_abort(dev, deadline::in_ms(patience_ms(10000)));
	core::device_put(dev);
	return err;
}

/* Returns when the library knows it: after the next operation of the engine. */
static int lose_device(world &w)
{
	int err = 0;

	w.lost = true;
	if (is_process())
		send_command(0, "vanish 1");
	else
		err = usdma_device_inject(w.dev, "vanish%1");
	while (!err && !(flags_of(w.dev) & USDMA_DEVICE_LOST)) {
		usdma_write_value(w.other, w.word + 8, 1);
		usdma_stream_sync(w.other, 100);
	}
	return err;
}

/* The next descriptor of the channel: USDMA_TEST_RESET=hang@1 has the watchdog do it. */
static int reset_channel(world &w)
{
	const char *rule = getenv("USDMA_TEST_RESET");

	set_faults(w.dev, 0, rule ? rule : "fail@1/reset");
	return 0;
}

static int cancel_thread(world &w)
{
	return w.a.over() ? 0 : -pthread_cancel(w.a.thread());
}

/* ---- its memory ------------------------------------------------------------------------------------- */

/* Frees the memory that is written, and registers or allocates other memory, which may get its address. */
static int take_memory(world &w)
{
	area &a = w.dst.fd >= 0 || w.dst.what == kind::pageable ? w.src : w.dst;

	drop_area(&a);
	/* A call that goes on copies to memory that is pageable now. */
	if (a.what == kind::registered && w.a.over())
		a.frozen = content_of(nullptr, a);
	w.fresh = make_area(w.dev, a.what, a.size, bytes(a.size, 0x11));
	return 0;
}

/* ---- others ----------------------------------------------------------------------------------------- */

static int use_stream(usdma_device *dev, void *to)
{
	usdma_stream *s;
	usdma_event *e;
	int err = usdma_stream_create(dev, nullptr, &s);

	if (err)
		return err;
	err = usdma_event_create(dev, 0, &e);
	if (!err)
		err = usdma_write_value(s, to, 1);
	if (!err)
		err = usdma_event_record(e, s);
	if (!err)
		err = usdma_event_sync(e, long_ms);
	if (!err)
		err = usdma_event_destroy(e);
	const int end = usdma_stream_destroy(s);
	return err ? err : end;
}

/* Of a device that is not held: streams, events, memory, opening and closing. */
static int use_others(world &w)
{
	usdma_device *third;
	void *p;
	int err = use_stream(w.peer, w.word + 24);

	if (!err)
		err = usdma_device_alloc(w.peer, len, &p);
	if (!err)
		err = usdma_device_free(p);
	if (!err && !w.stopped) {
		area other = make_area(w.dev, kind::registered, len, bytes(len, 1));

		drop_area(&other);
	}
	if (!err)
		err = usdma_open("sim:mem=16M:engines=1:channels=2", &third);
	return err ? err : usdma_close(third);
}

/* Earlier work of the stream has failed, and nothing has reported that. */
static int fail_earlier(world &w)
{
	set_faults(w.dev, 0, "fail@1/transfer");
	const int err = usdma_write_value(w.s, w.word + 40, 1);

	while (!err && usdma_stream_query(w.s) == 0)
		usleep(100);
	return err;
}

/* Another stream of the device waits for a value that is never written. */
static int wait_for_ever(world &w)
{
	return usdma_wait_value(w.other, w.word + 16, USDMA_EQ, 1);
}

/* Listens, and answers nothing. */
static int open_silent(world &w)
{
	sockaddr_un a = {AF_UNIX, ""};
	usdma_device *dev;

	w.silent = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(a.sun_path, sizeof(a.sun_path), "/tmp/usdma-pairs-%d", int(getpid()));
	assert_int_equal(bind(w.silent, reinterpret_cast<sockaddr *>(&a), sizeof(a)), 0);
	assert_int_equal(listen(w.silent, 4), 0);
	const int err = usdma_open((std::string("vfio-user:") + a.sun_path).c_str(), &dev);
	unlink(a.sun_path);
	return err < 0 ? 0 : -EPROTO;
}

static void end_silent(world &w)
{
	shutdown(w.silent, SHUT_RDWR);
	close(w.silent);
}

static int stop_server(world &w)
{
	w.stopped = true;
	stop_sim(sim_pid(0));
	return 0;
}

static void continue_server(world &w)
{
	continue_sim(sim_pid(0));
	w.stopped = false;
}

static int fill_eventfd(world &w)
{
	const uint64_t most = ~uint64_t(0) - 1;

	return write(w.fd, &most, sizeof(most)) == sizeof(most) ? 0 : -errno;
}

static void drain_eventfd(world &w)
{
	uint64_t value;

	assert_int_equal(read(w.fd, &value, sizeof(value)), sizeof(value));
}

const std::vector<disturbance> disturbances = {
	{"close", keeps_gate | closes_device, close_device},
	{"destroy", takes_stream | destroys_stream, destroy_stream},
	{"destroy by force", keeps_gate | drops | takes_stream | destroys_stream, destroy_by_force},
	{"abort", keeps_gate | drops | takes_stream, abort_stream},
	{"abort of the device", keeps_gate | drops | takes_stream, abort_device},
	{"loss", keeps_gate | drops | ignores_page, lose_device},
	{"reset", alone, reset_channel},
	{"cancellation", alone, cancel_thread},
	{"memory freed", 0, take_memory},
	{"others' calls", alone, use_others},
	{"stopped server", before | alone, stop_server, continue_server},
	{"full eventfd", before | alone, fill_eventfd, drain_eventfd},
	{"stream that waits", before | alone, wait_for_ever},
	{"earlier failure", before | alone, fail_earlier},
	{"hanging open", before, open_silent, end_silent},
};

} // namespace usdma::test::pairs
