/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/python/usdma/objects.h"

#include <algorithm>
#include <cerrno>
#include <unordered_set>

namespace pyusdma {
namespace {

PyObject *error_type; /* lives as long as the interpreter */

/* Never destroyed: daemon threads run until the process has ended. */
std::unordered_set<stream *> &all_streams()
{
	static auto *const all = new std::unordered_set<stream *>;

	return *all;
}

/* Their work had not ended when they were dropped. Never destroyed, as all_streams(). */
std::vector<usdma_completion *> &dropped_completions()
{
	static auto *const all = new std::vector<usdma_completion *>;

	return *all;
}

} // namespace

void make_error(py::module_ &m)
{
	error_type = PyErr_NewExceptionWithDoc(
		"usdma.Error", "A call of usdma failed: errno, and a text with the reason.", PyExc_OSError, nullptr);
	if (!error_type)
		throw py::error_already_set();
	m.attr("Error") = py::reinterpret_borrow<py::object>(error_type);
}

void raise(int err)
{
	const char *text = usdma_error_text();
	/* OSError's arguments: errno, text */
	py::tuple args = py::make_tuple(-err, *text ? text : "failed");

	PyErr_SetObject(error_type, args.ptr());
	throw py::error_already_set();
}

/* ---- device ---------------------------------------------------------------------------------------- */

std::shared_ptr<device> device::open(const char *name)
{
	auto d = std::make_shared<device>();

	check(without_gil([&] { return usdma_open(name, d->h_.put()); }));
	return d;
}

device::~device()
{
	if (usdma_device *h = h_.take())
		without_gil([&] { return usdma_close(h); });
}

usdma_device *device::open_handle() const
{
	if (closed_)
		throw py::value_error("the device is closed");
	return h_.get();
}

usdma_device_info device::info() const
{
	usdma_device_info i = {};

	i.struct_size = sizeof(i);
	check(usdma_device_get_info(open_handle(), &i));
	return i;
}

bool device::lost() const
{
	usdma_device_info i = {};

	i.struct_size = sizeof(i);
	return usdma_device_get_info(h_.get(), &i) < 0 || i.flags & USDMA_DEVICE_LOST;
}

void device::sync(int timeout_ms)
{
	std::vector<mark> marks = stream::marks_of(h_.get());

	check(without_gil([&] { return usdma_device_sync(h_.get(), timeout_ms); }));
	release_before(std::move(marks));
}

/* ---- memory ---------------------------------------------------------------------------------------- */

std::shared_ptr<host_block> host_block::make(const device_ref &dev, size_t size)
{
	auto b = std::make_shared<host_block>();
	usdma_device *h = dev->open_handle();

	check(without_gil([&] { return usdma_host_alloc(h, size, &b->ptr_); }));
	b->dev_ = dev;
	b->size_ = size;
	return b;
}

host_block::~host_block()
{
	free();
}

void *host_block::ptr() const
{
	if (closed_)
		throw py::value_error("the buffer is closed");
	return ptr_;
}

void host_block::free()
{
	if (void *p = std::exchange(ptr_, nullptr))
		without_gil([&] { return usdma_host_free(p); });
}

void host_block::close()
{
	closed_ = true;
	if (!views_)
		free();
}

void host_block::view_dropped()
{
	if (!--views_ && closed_)
		free();
}

std::shared_ptr<device_block> device_block::make(const device_ref &dev, size_t size)
{
	auto b = std::make_shared<device_block>();
	usdma_device *h = dev->open_handle();

	check(without_gil([&] { return usdma_device_alloc(h, size, &b->ptr_); }));
	b->dev_ = dev;
	b->size_ = size;
	return b;
}

device_block::~device_block()
{
	free();
}

void device_block::free()
{
	if (void *p = std::exchange(ptr_, nullptr))
		without_gil([&] { return usdma_device_free(p); });
}

/* ---- stream ---------------------------------------------------------------------------------------- */

std::shared_ptr<stream> stream::make(const device_ref &dev)
{
	auto s = std::make_shared<stream>();
	usdma_device *h = dev->open_handle();

	check(without_gil([&] { return usdma_stream_create(h, nullptr, s->h_.put()); }));
	s->dev_ = dev;
	s->own_ = event::make(dev, false);
	all_streams().insert(s.get());
	return s;
}

std::vector<mark> stream::marks_of(const usdma_device *dev)
{
	std::vector<mark> marks;

	for (stream *s : all_streams())
		if (s->dev_->get() == dev)
			marks.push_back(s->end());
	return marks;
}

/* -EBADF: it was destroyed before; -EDEADLK: a function that it waits for calls this, and it stays. */
int stream::destroy()
{
	usdma_stream *h = h_.take();
	const int err = h ? without_gil([&] { return usdma_stream_destroy(h); }) : -EBADF;
	std::vector<mark> passed;
	usdma::python::references released;

	if (err == -EDEADLK || err == -EPERM) {
		*h_.put() = h;
		return err;
	}
	destroyed_ = true;
	dropped_ = dropped_ || err;
	take_before(end().at, &passed, &released);
	release_before(std::move(passed));
	return err;
}

stream::~stream()
{
	all_streams().erase(this);
	/* What cannot be destroyed here still uses its memory. */
	if (h_.get() && destroy() && h_.get())
		new std::deque<entry>(std::move(retained_));
}

uint64_t stream::copy(uintptr_t dst, uintptr_t src, size_t size, py::tuple memory, bool wait)
{
	const unsigned flags = wait ? 0 : USDMA_NOWAIT;
	uint64_t number = 0;

	check(without_gil(
		[&] { return usdma_submit_copy(h_.get(), address(dst), address(src), size, flags, &number); }));
	retain(std::move(memory));
	return number;
}

/* By a thread of the library. */
static void call_back(void *arg, int status)
{
	if (usdma::python::interpreter_is_ending())
		return;
	const usdma::python::gil_held gil;
	auto *const held = static_cast<py::object *>(arg);
	py::object fn = std::move(*held);

	delete held;
	usdma::python::run_callback(std::move(fn), py::make_tuple(-status));
}

void stream::call(py::function fn, bool hold)
{
	auto held = std::make_unique<py::object>(std::move(fn));

	check(without_gil([&] { return usdma_stream_call_status(h_.get(), call_back, held.get(), hold); }));
	(void)held.release(); /* call_back() frees it */
}

void stream::fill(uintptr_t dst, uint64_t pattern, unsigned pattern_size, size_t size, py::tuple memory)
{
	check(without_gil([&] { return usdma_fill(h_.get(), address(dst), pattern, pattern_size, size); }));
	retain(std::move(memory));
}

void stream::reduce(uintptr_t dst, uintptr_t src, size_t size, int element, int op, py::tuple memory)
{
	check(without_gil([&] { return usdma_reduce(h_.get(), address(dst), address(src), size, element, op); }));
	retain(std::move(memory));
}

/* All work has ended after an error, too, but for a time-out and a lost device. */
void stream::sync(int timeout_ms)
{
	const mark begin = end();
	const int err = without_gil([&] { return usdma_stream_sync(h_.get(), timeout_ms); });

	if (!err)
		release_before({begin});
	else if (err != -ETIMEDOUT)
		release_ended();
	check(err);
}

bool stream::query()
{
	const mark begin = end();
	const bool ended = check(usdma_stream_query(h_.get())) == 1;

	if (ended)
		release_before({begin});
	return ended;
}

void stream::abort()
{
	dropped_ = true;
	check(without_gil([&] { return usdma_stream_abort(h_.get()); }));
	release_ended();
}

void stream::wait_event(event &e)
{
	const event::view before = e.now();

	check(without_gil([&] { return usdma_stream_wait_event(h_.get(), e.get()); }));
	if (e.unchanged(before) && !before.at.of.expired())
		push({{}, before.at});
}

void stream::close()
{
	if (h_.get())
		check(destroy());
}

/* ---- what a stream's work uses --------------------------------------------------------------------- */

namespace {

/* Neither a HostBuffer nor a DeviceBuffer: a copy waits for it, unless it is registered. */
bool is_foreign(py::handle memory)
{
	return PyMemoryView_Check(memory.ptr());
}

} // namespace

void stream::retain(py::tuple memory)
{
	if (destroyed_)
		return; /* meanwhile, which has waited for the work */
	const bool foreign = std::any_of(memory.begin(), memory.end(), is_foreign);
	push({std::move(memory), {}});
	if (foreign)
		release_ended();
}

void stream::push(entry e)
{
	retained_.push_back(std::move(e));
	if (end().at >= next_poll_)
		poll_own();
}

/* A mark of the stream's own every now and then, for programs that wait seldom, or by other means. */
void stream::poll_own()
{
	constexpr uint64_t interval = 32;

	next_poll_ = end().at + interval;
	try {
		if (!usdma::core::race_on() && own_->query())
			own_->record(*this);
	} catch (const std::exception &) {
		/* a lost device: waits report it */
	}
}

/* Not where the race check would take it for the program's own query. */
void stream::release_ended()
{
	const mark begin = end();

	if (!usdma::core::race_on() && usdma_stream_query(h_.get()) == 1)
		release_before({begin});
}

void stream::take_before(uint64_t at, std::vector<mark> *passed, usdma::python::references *released)
{
	for (; first_ < at && !retained_.empty(); first_++) {
		entry &e = retained_.front();

		if (e.memory)
			released->add(std::move(e.memory));
		else if (!dropped_)
			passed->push_back(std::move(e.waits_for));
		retained_.pop_front();
	}
}

void release_before(std::vector<mark> passed)
{
	usdma::python::references released; /* at the end: a destructor may call anything */

	while (!passed.empty()) {
		const mark m = std::move(passed.back());

		passed.pop_back();
		/* An event of a lost device is reached, but the device may still access memory. */
		if (const auto s = m.of.lock(); s && s->first_ < m.at && !s->dev_->lost())
			s->take_before(m.at, &passed, &released);
	}
}

/* ---- completion ------------------------------------------------------------------------------------ */

std::shared_ptr<completion> completion::make()
{
	auto c = std::make_shared<completion>();

	check(usdma_completion_create(c->h_.put()));
	return c;
}

/* One that is outstanding cannot be destroyed: the next one tries again. */
completion::~completion()
{
	std::vector<usdma_completion *> some = std::exchange(dropped_completions(), {});

	some.push_back(h_.take());
	for (usdma_completion *c : some)
		if (without_gil([&] { return usdma_completion_finish(c); }) == -EAGAIN)
			dropped_completions().push_back(c);
		else
			usdma_completion_destroy(c);
}

int completion::start(stream &s)
{
	const mark at = s.end();
	int fd = -1;

	check(without_gil([&] { return usdma_completion_start(h_.get(), s.get(), &fd); }));
	at_ = at;
	return fd;
}

void completion::finish()
{
	const int err = usdma_completion_finish(h_.get());

	if (err != -EAGAIN)
		release_before({std::exchange(at_, {})});
	check(err);
}

/* ---- event ----------------------------------------------------------------------------------------- */

std::shared_ptr<event> event::make(const device_ref &dev, bool timing)
{
	auto e = std::make_shared<event>();
	usdma_device *h = dev->open_handle();

	check(without_gil([&] { return usdma_event_create(h, timing ? USDMA_EVENT_TIMING : 0, e->h_.put()); }));
	e->dev_ = dev;
	return e;
}

event::~event()
{
	if (usdma_event *h = h_.take())
		without_gil([&] { return usdma_event_destroy(h); });
}

/* Of two at a time it is unknown which is the later one. */
void event::record(stream &s)
{
	const bool alone = !recording_++;
	const uint64_t number = ++records_;
	const mark at = s.end();

	mark_ = {};
	const int err = without_gil([&] { return usdma_event_record(h_.get(), s.get()); });
	recording_--;
	if (!err && alone && number == records_)
		mark_ = at;
	check(err);
}

/* Another thread may have recorded the event anew during the call: then the call may have been about that mark. */
void event::reached(const view &v)
{
	if (unchanged(v))
		release_before({v.at});
}

bool event::query()
{
	const view before = now();
	const bool done = check(usdma_event_query(h_.get())) == 1;

	if (done)
		reached(before);
	return done;
}

/* After an error of the stream the event is reached, too. */
void event::sync(int timeout_ms)
{
	const view before = now();
	const int err = without_gil([&] { return usdma_event_sync(h_.get(), timeout_ms); });

	if (!err || (err != -ETIMEDOUT && usdma_event_query(h_.get()) == 1))
		reached(before);
	check(err);
}

int64_t event::elapsed(event &end)
{
	const view first = now(), second = end.now();
	int64_t ns = 0;

	check(usdma_event_elapsed(h_.get(), end.get(), &ns));
	reached(first);
	end.reached(second);
	return ns;
}

void event::close()
{
	if (usdma_event *h = h_.take())
		check(without_gil([&] { return usdma_event_destroy(h); }));
}

} // namespace pyusdma
