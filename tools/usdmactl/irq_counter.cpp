/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/usdmactl/irq_counter.h"

#include "driver/base/error.h"
#include "driver/base/eventfd.h"

#include <fcntl.h>
#include <sys/epoll.h>

namespace usdma::ctl::trial {

static constexpr u64 stop_key = ~u64(0);

irq_counter::~irq_counter()
{
	if (!thread_.joinable())
		return;
	eventfd_write(stop_.get(), 1);
	thread_.join();
}

static int monitor(int poll, int fd, u64 key)
{
	epoll_event e = {.events = EPOLLIN, .data = {.u64 = key}};

	return epoll_ctl(poll, EPOLL_CTL_ADD, fd, &e) ? fail_errno("a signal of an interrupt cannot be polled") : 0;
}

int irq_counter::start()
{
	if (thread_.joinable())
		return 0;
	poll_.reset(epoll_create1(EPOLL_CLOEXEC));
	stop_.reset(eventfd_make());
	if (!poll_.valid() || !stop_.valid())
		return fail_errno("no descriptor to count interrupts");
	const int err = monitor(poll_.get(), stop_.get(), stop_key);
	if (!err)
		thread_ = std::thread([this] { run(); });
	return err;
}

void irq_counter::pass_on(u64 key)
{
	std::lock_guard guard(lock_);
	const auto at = lines_.find(key);
	eventfd_t n;

	if (at == lines_.end() || eventfd_read(at->second.device.get(), &n))
		return;
	fetch_add_relaxed(&count_, n);
	eventfd_write(at->second.driver.get(), 1);
}

void irq_counter::run()
{
	epoll_event e[16];

	for (;;) {
		const int n = epoll_wait(poll_.get(), e, int(std::size(e)), -1);

		for (int i = 0; i < n; i++) {
			if (e[i].data.u64 == stop_key)
				return;
			pass_on(e[i].data.u64);
		}
	}
}

/* A duplicate of fd: the driver may close its own before a signal is passed on, and another file get the number. */
int irq_counter::add(u64 key, int fd)
{
	line &l = lines_[key];

	l.device.reset(eventfd_make());
	if (l.device.valid())
		l.driver.reset(fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
	return l.driver.valid() ? monitor(poll_.get(), l.device.get(), key) :
				  fail_errno("no descriptor for an interrupt");
}

int irq_counter::replace(unsigned type, unsigned first, std::span<const int> fds, std::vector<int> *out)
{
	int err = start();
	std::lock_guard guard(lock_);

	out->assign(fds.size(), -1);
	for (size_t i = 0; !err && i < fds.size(); i++) {
		const u64 key = u64(type) << 32 | (first + i);

		/* Closed, it is not polled any more. */
		lines_.erase(key);
		if (fds[i] < 0)
			continue;
		err = add(key, fds[i]);
		(*out)[i] = lines_[key].device.get();
	}
	return err;
}

} // namespace usdma::ctl::trial
