/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guards for calls that may block: the object counts as in use from the validation of its handle to the end of
 * the call. Destroying a stream or device waits for those calls; an event is freed after the last of them.
 * Thread cancellation is disabled meanwhile.
 */
#pragma once

#include "driver/base/cancel.h"
#include "lib/core/stream/event.h"
#include "lib/core/base/section.h"

#include <utility>

#pragma GCC visibility push(default)
namespace usdma::core {

/* Inside a read section that validated the handle. False: no longer valid. */
inline bool guard_enter(device *d, const void *)
{
	d->calls.enter();
	return true;
}
inline void guard_leave(device *d)
{
	d->calls.leave();
}
inline bool guard_enter(stream *s, const void *)
{
	s->calls.enter();
	return true;
}
inline void guard_leave(stream *s)
{
	s->calls.leave();
}
inline bool guard_enter(event *, const void *handle)
{
	return event_enter(handle);
}
inline void guard_leave(event *e)
{
	event_unref(e);
}

template <class T, T *(*find)(const void *)> class handle_guard {
public:
	handle_guard() = default;
	explicit handle_guard(const void *handle) { take(handle); }
	~handle_guard() { drop(); }
	handle_guard(const handle_guard &) = delete;
	handle_guard &operator=(const handle_guard &) = delete;

	/* 0; -EBADF (no text): invalid handle; -EPERM, -ENOMEM. */
	int take(const void *handle)
	{
		const read_section in;

		drop();
		if (unlikely(!in))
			return err_ = in.error();
		T *p = find(handle);
		if (unlikely(!p || !guard_enter(p, handle)))
			return err_ = -EBADF;
		p_ = p;
		return err_ = 0;
	}
	/* For a stream or device that cannot end before this returns. */
	void take_live(T *p)
	{
		drop();
		guard_enter(p_ = p, nullptr);
		err_ = 0;
	}
	void drop()
	{
		if (T *p = std::exchange(p_, nullptr))
			guard_leave(p);
	}
	int error() const { return err_; }
	T *get() const { return p_; }
	T *operator->() const { return p_; }
	operator T *() const { return p_; }

private:
	T *p_ = nullptr;
	int err_ = 0;
	no_cancel cancel_off_;
};

/* The open device of a slot, if any. */
class slot_guard {
public:
	explicit slot_guard(unsigned slot) : dev_(device_enter(slot)) {}
	~slot_guard()
	{
		if (dev_)
			device_leave(dev_);
	}
	slot_guard(const slot_guard &) = delete;
	slot_guard &operator=(const slot_guard &) = delete;
	device *get() const { return dev_; }
	device *operator->() const { return dev_; }
	explicit operator bool() const { return dev_; }

private:
	device *dev_;
};

using stream_guard = handle_guard<stream, stream_find>;
using event_guard = handle_guard<event, event_find>;
using device_guard = handle_guard<device, device_find>;

} // namespace usdma::core
#pragma GCC visibility pop
