/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each communicator has a thread that waits on its sockets. A rank that is destroyed sends a byte first; one whose
 * socket closes without it is lost, and the group has failed. The accepting rank passes that on to the others.
 */
#include "driver/base/barrier.h"
#include "driver/base/fd.h"
#include "driver/base/thread.h"
#include "lib/hccl_comm/comm.h"

#include <cerrno>
#include <poll.h>
#include <sys/eventfd.h>
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

void *monitor_main(void *arg)
{
	auto *c = static_cast<comm *>(arg);
	pollfd fds[max_ranks + 1];

	(void)aclrtSetCurrentContext(c->context);
	for (u32 i = 0; i < c->socket_count; i++)
		fds[i] = {c->sockets[i].get(), POLLIN, 0};
	fds[c->socket_count] = {c->stop.get(), POLLIN, 0};
	for (;;) {
		if (poll(fds, c->socket_count + 1, -1) < 0)
			continue;
		if (fds[c->socket_count].revents)
			return nullptr;
		for (u32 i = 0; i < c->socket_count; i++) {
			bool left = false;

			if (fds[i].revents && !hear(fds[i].fd, &left)) {
				set_error(c, HCCL_E_REMOTE);
				return nullptr;
			}
			if (left)
				fds[i].fd = -1; /* poll() ignores it */
		}
	}
}

} // namespace

HcclResult monitor_start(comm *c)
{
	if (c->size == 1)
		return HCCL_SUCCESS;
	c->stop.reset(fd_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
	if (!c->stop.valid())
		return HCCL_E_SYSCALL;
	if (thread_start(&c->monitor, "usdma-hccl", monitor_main, c)) {
		c->stop.reset();
		return HCCL_E_SYSCALL;
	}
	return HCCL_SUCCESS;
}

void monitor_end(comm *c)
{
	if (!c->stop.valid())
		return;
	eventfd_write(c->stop.get(), 1);
	pthread_join(c->monitor, nullptr);
	notify_others(c, leaving);
}

HcclResult error_of(const comm *c)
{
	return HcclResult(load_acquire(&c->error));
}

void abort_pending(comm *c)
{
	aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
	const aclrtStream stream = load_acquire(&c->last);

	if (!stream)
		return;
	if (!load_acquire(&c->busy))
		(void)aclrtQueryEventStatus(c->done, &status);
	else
		status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
	if (status != ACL_EVENT_RECORDED_STATUS_COMPLETE)
		(void)aclrtStreamAbort(stream);
}

void set_error(comm *c, HcclResult why)
{
	u32 none = HCCL_SUCCESS;

	if (!cmpxchg_release(&c->error, &none, u32(why)))
		return;
	log_warn("hccl: %s: the group has failed: %s", c->name, HcclGetErrorString(why));
	notify_others(c, failed);
	abort_pending(c);
}

} // namespace usdma::hccl_comm
