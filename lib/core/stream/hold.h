/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call that may block holds what its handle leads to: the object is counted as
 * in use from the look at the handle to the end of the call.  The end of a
 * stream or device waits for those calls; an event lives on until the last of
 * them has ended.  The thread cannot be cancelled meanwhile.
 */
#pragma once

#include "driver/base/cancel.h"
#include "lib/core/stream/event.h"
#include "lib/core/base/section.h"

#include <utility>

#pragma GCC visibility push(default)
namespace usdma::core {

/* Inside a read section that saw the handle alive.  False: it is not any more. */
inline bool hold_enter(device *d, const void *)
{
	d->calls.enter();
	return true;
}
inline void hold_leave(device *d)
{
	d->calls.leave();
}
inline bool hold_enter(stream *s, const void *)
{
	s->calls.enter();
	return true;
}
inline void hold_leave(stream *s)
{
	s->calls.leave();
}
/* Events of the library's own (a pool's) end without a grace period: so it is looked at once more. */
inline bool hold_enter(event *e, const void *handle)
{
	if (!ref_if_any(&e->refs))
		return false;
	if (event_valid(handle))
		return true;
	event_unref(e);
	return false;
}
inline void hold_leave(event *e)
{
	event_unref(e);
}

template <class T, bool (*is_valid)(const void *)> class hold {
public:
	hold() = default;
	explicit hold(const void *handle) { take(handle); }
	~hold() { drop(); }
	hold(const hold &) = delete;
	hold &operator=(const hold &) = delete;

	/* 0; -EBADF (no text): the handle is no live one's; -EPERM, -ENOMEM. */
	int take(const void *handle)
	{
		const read_section in;

		drop();
		if (unlikely(!in))
			return err_ = in.error();
		T *p = object_at<T>(handle);
		if (unlikely(!is_valid(handle) || !hold_enter(p, handle)))
			return err_ = -EBADF;
		p_ = p;
		return err_ = 0;
	}
	/* A stream or device that cannot end before this returns. */
	void take_live(T *p)
	{
		drop();
		hold_enter(p_ = p, nullptr);
		err_ = 0;
	}
	void drop()
	{
		if (T *p = std::exchange(p_, nullptr))
			hold_leave(p);
	}
	int error() const { return err_; }
	T *get() const { return p_; }
	T *operator->() const { return p_; }
	operator T *() const { return p_; }

private:
	T *p_ = nullptr;
	int err_ = 0;
	no_cancel quiet_;
};

/* The open device of a slot, if there is one. */
class slot_hold {
public:
	explicit slot_hold(unsigned slot) : dev_(device_enter(slot)) {}
	~slot_hold()
	{
		if (dev_)
			device_leave(dev_);
	}
	slot_hold(const slot_hold &) = delete;
	slot_hold &operator=(const slot_hold &) = delete;
	device *get() const { return dev_; }
	device *operator->() const { return dev_; }
	explicit operator bool() const { return dev_; }

private:
	device *dev_;
};

using stream_hold = hold<stream, stream_valid>;
using event_hold = hold<event, event_valid>;
using device_hold = hold<device, device_valid>;

} // namespace usdma::core
#pragma GCC visibility pop
