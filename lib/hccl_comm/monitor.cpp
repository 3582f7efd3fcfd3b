/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each communicator has a thread that waits on its sockets. A rank that is destroyed sends a byte first; one whose
 * socket closes without it is lost, and the group has failed. The accepting rank passes that on to the others. The
 * waits in the streams have no time limit of their own: one that ended would let the stream go on with wrong data.
 */
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/base/peer_process.h"
#include "driver/base/thread.h"
#include "lib/acl/bridge.h"
#include "lib/core/stream/stopped.h"
#include "lib/core/stream/stream.h"
#include "lib/hccl_comm/comm.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

namespace usdma::hccl_comm {
namespace {

/* What goes over the sockets after the group has met; rank and result: of the first failure. */
enum word : u8 { leaving = 1, failed = 2 };
struct notice {
	word what;
	u8 rank;
	u16 result;
	u8 about, unused[3]; /* the rank that was lost, or no_rank */
};

void notify_others(comm *c, const notice &n)
{
	for (u32 i = 0; i < c->socket_count; i++)
		if (c->sockets[i].valid())
			(void)send(c->sockets[i].get(), &n, sizeof(n), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void notify_failed(comm *c, HcclResult why)
{
	notify_others(c, {failed, u8(c->rank), u16(why), u8(c->about), {}});
}

/* The accepting rank has a socket for each rank, the others one, to that rank. */
HcclResult lost(comm *c, u32 socket)
{
	const bool remote = c->root.at.family;

	if (c->socket_count != c->size)
		return because(HCCL_E_REMOTE, "the rank that made the root info%s%s%s is lost: its process ended",
			       remote ? " (host " : "", remote ? remote_address(c->root.at).text : "",
			       remote ? ")" : "");
	c->about = socket;
	return because(HCCL_E_REMOTE, "rank %u%s is lost: its process ended, or it closed its socket", socket,
		       remote_host(c, socket).text);
}

HcclResult heard_failure(comm *c, const notice &n)
{
	const u32 rank = n.rank < c->size ? n.rank : 0;
	char about[96] = "";

	c->about = n.about < c->size ? n.about : rank; /* which this rank reports */
	if (n.about < c->size)
		snprintf(about, sizeof(about), ": rank %u%s", n.about, remote_host(c, n.about).text);
	return because(HCCL_E_REMOTE, "rank %u%s has failed: %d (%s%s)", n.rank, remote_host(c, rank).text, n.result,
		       n.result == HCCL_E_TIMEOUT ? "an operation took too long" :
		       n.result == HCCL_E_REMOTE  ? "a rank is lost" :
		       n.result == HCCL_E_NETWORK ? "its usdma-net has ended" :
						    "an operation failed in part",
		       about);
}

/* An error: the group has failed. left: the rank has been destroyed. */
HcclResult hear(comm *c, u32 socket, bool *left)
{
	notice n;
	const ssize_t len = recv(c->sockets[socket].get(), &n, sizeof(n), MSG_DONTWAIT);

	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return HCCL_SUCCESS;
	*left = len == sizeof(n) && n.what == leaving;
	if (*left)
		return HCCL_SUCCESS;
	if (len != sizeof(n))
		return lost(c, socket);
	return heard_failure(c, n);
}

/* In the monitor, which takes the context of each stream. True: there was something to abort. */
bool abort_pending(comm *c)
{
	bool aborted = false;
	operation o;

	for (u32 i = 0; next_pending(c, i, &o); i++) {
		if (!o.stream || aclrtSetCurrentContext(o.context))
			continue;
		(void)aclrtStreamAbort(o.stream);
		aborted = true;
	}
	return aborted;
}

/* The first error is stored, with the thread's cause; true: it is this one. */
bool store_error(comm *c, HcclResult why)
{
	const std::lock_guard hold(c->state);

	if (c->error)
		return false;
	c->error = why;
	c->why = cause_here();
	return true;
}

void fail_group(comm *c, HcclResult why)
{
	if (store_error(c, why)) {
		log_warn("hccl: %s: the group has failed: %s", c->name, cause_here().text);
		notify_failed(c, why);
	}
	abort_pending(c);
}

HcclResult too_late(const comm *c)
{
	return because(HCCL_E_TIMEOUT, "an operation was not complete after %u s (HCCL_EXEC_TIMEOUT, hcclExecTimeOut)",
		       c->wait_s);
}

int check_failure(const void *, core::stream *s)
{
	const u32 err = core::stream_failure(s);

	return err ? fail(int(err), "it failed") : 0;
}

operation active_of(comm *c)
{
	const std::lock_guard hold(c->state);

	return c->active;
}

/* A replay whose stream has stopped between its two steps. */
HcclResult check_active(comm *c)
{
	const operation o = active_of(c);

	if (!o.replayed || aclrtSetCurrentContext(o.context))
		return HCCL_SUCCESS;
	if (const aclError code = usdma_acl_submit("a replay", o.stream, check_failure, "", 0))
		return acl_failed("a replay", code);
	return HCCL_SUCCESS;
}

/* Milliseconds until the last operation has taken too long; -1: it is complete, or has no limit. */
HcclResult check_last(comm *c, int *left)
{
	const std::lock_guard hold(c->state);
	const u64 now = now_ns();
	bool complete;

	*left = -1;
	if (HcclResult ret = check_streams(c, &complete))
		return ret;
	c->idle = complete && !c->active.stream;
	if (c->idle || !c->wait_s)
		return HCCL_SUCCESS;
	*left = c->due <= now ? 0 : int(std::min<u64>((c->due - now) / ns_per_ms + 1, 3600 * 1000));
	return *left ? HCCL_SUCCESS : too_late(c);
}

/* Also by another thread. */
HcclResult stored_error(comm *c, bool *stop)
{
	const std::lock_guard hold(c->state);

	*stop = c->stop;
	return c->error;
}

/* An error: the group has failed. */
HcclResult hear_all(comm *c, pollfd *sockets, pollfd *processes)
{
	for (u32 i = 0; i < c->socket_count; i++) {
		bool left = false;

		/* Of a process that has ended the socket has what it sent. */
		if (sockets[i].revents || processes[i].revents)
			if (HcclResult ret = hear(c, i, &left))
				return ret;
		if (left)
			sockets[i].fd = processes[i].fd = -1; /* poll() ignores them */
		else if (processes[i].revents)
			return lost(c, i);
	}
	return HCCL_SUCCESS;
}

/* An operation that fails, and what usdma-net stores of lost ranks, wake no one. */
int until_next_check(comm *c, int left)
{
	static constexpr int in_operation_ms = 100, remote_ms = 1000;
	const std::lock_guard hold(c->state);

	if (c->idle)
		return c->remote ? remote_ms : -1;
	return left < 0 ? in_operation_ms : std::min(left, in_operation_ms);
}

/* Until the end, or an error. fds: sockets, wake, and the processes of the peers. */
HcclResult monitor_group(comm *c, pollfd *fds)
{
	const u32 n = c->socket_count;

	for (;;) {
		eventfd_t count;
		int left;
		bool stop;

		if (HcclResult ret = check_last(c, &left))
			return ret;
		if (HcclResult ret = check_active(c))
			return ret;
		if (poll(fds, n + 1 + n, until_next_check(c, left)) < 0)
			continue;
		if (fds[n].revents)
			(void)eventfd_read(c->wake.get(), &count);
		if (HcclResult ret = stored_error(c, &stop); ret || stop)
			return stop ? HCCL_SUCCESS : ret;
		if (HcclResult ret = hear_all(c, fds, fds + n + 1))
			return ret;
		if (HcclResult ret = remote_check(c))
			return ret;
	}
}

void *monitor_main(void *arg)
{
	auto *c = static_cast<comm *>(arg);
	const u32 n = c->socket_count;
	unique_fd processes[max_ranks];
	pollfd fds[2 * max_ranks + 1];

	(void)aclrtSetCurrentContext(c->context);
	for (u32 i = 0; i < n; i++) {
		processes[i].reset(c->sockets[i].valid() ? peer_process(c->sockets[i].get()) : -1);
		fds[i] = {c->sockets[i].get(), POLLIN, 0};
		fds[n + 1 + i] = {processes[i].get(), POLLIN, 0};
	}
	fds[n] = {c->wake.get(), POLLIN, 0};
	if (const HcclResult why = monitor_group(c, fds))
		fail_group(c, why);
	else if (abort_pending(c))
		notify_failed(c, HCCL_E_UNAVAIL);
	else
		notify_others(c, {leaving, u8(c->rank), HCCL_SUCCESS, no_rank, {}});
	return nullptr;
}

void wake_monitor(comm *c)
{
	if (c->wake.valid())
		(void)eventfd_write(c->wake.get(), 1);
}

/* To abort what is in other streams; if it is to stop, it does so. */
void wake_after_failure(comm *c)
{
	const std::lock_guard hold(c->state);

	if (!c->stop)
		wake_monitor(c);
}

/* Why no operation can begin; under state. */
HcclResult check_state(const comm *c)
{
	if (c->stop || c->ended)
		return because(HCCL_E_UNAVAIL, "the communicator is being destroyed");
	if (c->suspended)
		return because(HCCL_E_SUSPENDING, "the communicator is suspended: HcclCommResume()");
	if (c->error)
		return because(c->error, "the group has failed: %.200s", c->why.text);
	return HCCL_SUCCESS;
}

/* The other ranks wait for the rest of what was submitted. true: this is the group's first failure. */
bool fail_in_part(comm *c, HcclResult why)
{
	const bool first = store_error(c, why);

	if (first)
		notify_failed(c, why);
	(void)aclrtStreamAbort(c->active.stream); /* of this thread's context */
	wake_after_failure(c);
	return first;
}

operation take_unfinished(comm *c)
{
	const std::lock_guard hold(c->state);

	return c->active.replayed ? std::exchange(c->active, {}) : operation();
}

/* A replay that stopped between its two steps has failed in part, and no one else says so. */
void fail_unfinished(comm *c)
{
	const operation o = take_unfinished(c);
	aclrtContext here = nullptr;

	if (!o.stream)
		return;
	const HcclResult why = because(HCCL_E_RUNTIME, "a replay of an operation failed in part");
	if (store_error(c, why))
		notify_failed(c, why);
	wake_after_failure(c);
	(void)aclrtGetCurrentContext(&here);
	if (!aclrtSetCurrentContext(o.context))
		(void)aclrtStreamAbort(o.stream);
	if (here)
		(void)aclrtSetCurrentContext(here);
}

} // namespace

HcclResult monitor_start(comm *c)
{
	const std::lock_guard monitoring(c->monitoring);

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
	const std::lock_guard monitoring(c->monitoring);

	{
		const std::lock_guard hold(c->state);

		c->stop = true;
	}
	if (!c->wake.valid())
		return;
	wake_monitor(c);
	pthread_join(c->monitor, nullptr);
	c->wake.reset();
}

/*
 * Work behind a failure of the operation does not run: it would report to the others that their data is there. hcomm
 * has its streams in ACL_STOP_ON_FAILURE for that (stream.cc, Stream::InitStream of hicann/hcomm).
 */
static int stop_from_here(const void *, core::stream *s)
{
	core::stream_stop_begin(s);
	return 0;
}

static int stop_to_here(const void *, core::stream *s)
{
	core::stream_stop_end(s);
	return 0;
}

static HcclResult activate(comm *c, const operation &o)
{
	const std::lock_guard hold(c->state);

	if (HcclResult ret = check_state(c))
		return ret;
	c->touched = false;
	c->active = o;
	c->due = now_ns() + c->wait_s * ns_per_s;
	if (c->idle)
		wake_monitor(c);
	c->idle = false;
	return HCCL_SUCCESS;
}

HcclResult operation_begin(comm *c, aclrtStream stream, bool replayed)
{
	operation o = {stream, nullptr, replayed};
	s32 device;

	fail_unfinished(c);
	if (aclError code = aclrtGetCurrentContext(&o.context))
		return acl_failed("aclrtGetCurrentContext", code);
	if (!replayed && !aclrtGetDevice(&device) && device != c->device)
		return because(HCCL_E_PARA, "the context is of device %d, the communicator of %d", device, c->device);
	if (HcclResult ret = activate(c, o))
		return ret;
	if (aclError code = usdma_acl_submit("the begin of an operation", stream, stop_from_here, "", 0))
		return operation_end(c, acl_failed("the begin of an operation", code));
	return HCCL_SUCCESS;
}

HcclResult operation_end(comm *c, HcclResult ret)
{
	(void)usdma_acl_submit("the end of an operation", c->active.stream, stop_to_here, "", 0);
	bool stop;
	/* If the group has failed meanwhile, what came into the stream after its abort has no end. */
	const HcclResult failed = ret ? ret : stored_error(c, &stop);
	const bool first = failed && c->touched && fail_in_part(c, failed);
	const std::lock_guard hold(c->state);
	if (!ret)
		c->due = now_ns() + c->wait_s * ns_per_s;
	c->active = {};
	/* A task that the monitor's abort of the stream stopped: the cause is the group's. */
	return ret && (first || ret != HCCL_E_RUNTIME || !c->error) ? ret : check_state(c);
}

} // namespace usdma::hccl_comm
