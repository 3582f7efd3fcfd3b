/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each communicator has a thread that waits on its sockets. A rank that is destroyed sends a byte first; one whose
 * socket closes without it is lost, and the group has failed. The accepting rank passes that on to the others. The
 * waits in the streams have no time limit of their own: one that ended would let the stream go on with wrong data.
 */
#include "driver/base/clock.h"
#include "driver/base/eventfd.h"
#include "driver/base/thread.h"
#include "lib/hccl_comm/comm.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/socket.h>

namespace usdma::hccl_comm {
namespace {

/* A byte on the sockets after the group has met. */
enum word : u8 { leaving = 1, failed = 2 };

void notify_others(comm *c, word what)
{
	for (u32 i = 0; i < c->socket_count; i++)
		if (c->sockets[i].valid())
			(void)send(c->sockets[i].get(), &what, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* False: the group has failed. left: the rank has been destroyed. */
bool hear(int fd, bool *left)
{
	u8 what;
	const ssize_t n = recv(fd, &what, 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	*left = n == 1 && what == leaving;
	return *left;
}

/* Aborts in the stream's context; true: there was something to abort. */
bool abort_operation(comm *c, const operation &o, bool complete_if_done)
{
	aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;

	if (!o.stream)
		return false;
	if (complete_if_done)
		(void)aclrtQueryEventStatus(c->done, &status);
	if (status == ACL_EVENT_RECORDED_STATUS_COMPLETE)
		return false;
	if (aclError code = aclrtStreamAbort(o.stream))
		acl_failed("aclrtStreamAbort", code);
	return true;
}

/* In the monitor, which takes the context of each stream. */
bool abort_pending(comm *c)
{
	operation active, last;
	{
		const std::lock_guard hold(c->state);

		active = c->active;
		last = c->last;
	}
	bool aborted = false;

	if (last.stream && !aclrtSetCurrentContext(last.context))
		aborted |= abort_operation(c, last, !active.stream);
	if (active.stream && active.stream != last.stream && !aclrtSetCurrentContext(active.context))
		aborted |= abort_operation(c, active, false);
	return aborted;
}

/* The first error is stored; true: it is this one. */
bool store_error(comm *c, HcclResult why)
{
	const std::lock_guard hold(c->state);

	if (c->error)
		return false;
	c->error = why;
	return true;
}

void fail_group(comm *c, HcclResult why)
{
	if (store_error(c, why)) {
		log_warn("hccl: %s: the group has failed: %s", c->name, HcclGetErrorString(why));
		notify_others(c, failed);
	}
	abort_pending(c);
}

/* Milliseconds until the last operation has taken too long; -1: it is complete, 0: it has. */
int time_left(comm *c)
{
	aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
	const std::lock_guard hold(c->state);
	const u64 now = now_ns();

	if (c->last.stream)
		(void)aclrtQueryEventStatus(c->done, &status);
	c->idle = status == ACL_EVENT_RECORDED_STATUS_COMPLETE && !c->active.stream;
	if (c->idle)
		return -1;
	return c->due <= now ? 0 : int(std::min<u64>((c->due - now) / ns_per_ms + 1, 3600 * 1000));
}

bool stopped(comm *c)
{
	const std::lock_guard hold(c->state);

	return c->stop;
}

/* False: the group has failed. */
bool hear_all(pollfd *fds, u32 n)
{
	for (u32 i = 0; i < n; i++) {
		bool left = false;

		if (fds[i].revents && !hear(fds[i].fd, &left))
			return false;
		if (left)
			fds[i].fd = -1; /* poll() ignores it */
	}
	return true;
}

/* Until the end, or an error. */
HcclResult monitor_group(comm *c, pollfd *fds)
{
	const u32 n = c->socket_count;

	for (;;) {
		const int left = time_left(c);
		eventfd_t count;

		if (!left)
			return HCCL_E_TIMEOUT;
		if (poll(fds, n + 1, left) < 0)
			continue;
		if (fds[n].revents)
			(void)eventfd_read(c->wake.get(), &count);
		if (stopped(c))
			return HCCL_SUCCESS;
		if (!hear_all(fds, n))
			return HCCL_E_REMOTE;
	}
}

void *monitor_main(void *arg)
{
	auto *c = static_cast<comm *>(arg);
	pollfd fds[max_ranks + 1];

	(void)aclrtSetCurrentContext(c->context);
	for (u32 i = 0; i < c->socket_count; i++)
		fds[i] = {c->sockets[i].get(), POLLIN, 0};
	fds[c->socket_count] = {c->wake.get(), POLLIN, 0};
	if (const HcclResult why = monitor_group(c, fds))
		fail_group(c, why);
	else
		notify_others(c, abort_pending(c) ? failed : leaving);
	return nullptr;
}

void wake_monitor(comm *c)
{
	if (c->wake.valid())
		(void)eventfd_write(c->wake.get(), 1);
}

} // namespace

HcclResult monitor_start(comm *c)
{
	if (c->size == 1)
		return HCCL_SUCCESS;
	c->wake.reset(eventfd_make());
	if (!c->wake.valid())
		return HCCL_E_SYSCALL;
	if (thread_start(&c->monitor, "usdma-hccl", monitor_main, c)) {
		c->wake.reset();
		return HCCL_E_SYSCALL;
	}
	return HCCL_SUCCESS;
}

void monitor_end(comm *c)
{
	if (!c->wake.valid())
		return;
	{
		const std::lock_guard hold(c->state);

		c->stop = true;
	}
	wake_monitor(c);
	pthread_join(c->monitor, nullptr);
}

HcclResult operation_begin(comm *c, aclrtStream stream)
{
	operation o = {stream, nullptr};

	if (aclError code = aclrtGetCurrentContext(&o.context))
		return acl_failed("aclrtGetCurrentContext", code);
	const std::lock_guard hold(c->state);
	if (c->error)
		return c->error;
	c->active = o;
	c->due = now_ns() + c->wait_s * ns_per_s;
	if (c->idle)
		wake_monitor(c);
	c->idle = false;
	return HCCL_SUCCESS;
}

HcclResult operation_end(comm *c, HcclResult ret)
{
	const bool first = ret && store_error(c, ret);

	if (first)
		notify_others(c, failed);
	if (ret)
		(void)aclrtStreamAbort(c->active.stream); /* of this thread's context */
	const std::lock_guard hold(c->state);
	if (!ret) {
		c->last = c->active;
		c->due = now_ns() + c->wait_s * ns_per_s;
	}
	c->active = {};
	return c->error ? c->error : ret;
}

} // namespace usdma::hccl_comm
