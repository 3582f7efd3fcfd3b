/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/wake.h"

#include "driver/base/barrier.h"
#include "driver/base/unique_fd.h"
#include "tools/perf/clock.h"

#include <algorithm>
#include <liburing.h>
#include <sys/eventfd.h>
#include <thread>

namespace usdma::perf {

namespace {

constexpr unsigned rounds = 1500, warm = 100;
constexpr u64 idle_ns = 60 * ns_per_us; /* the sleeper is asleep by then */

struct sleeper {
	bool open(wake_by how)
	{
		fd = unique_fd(eventfd(0, EFD_CLOEXEC));
		by = how;
		if (how == wake_by::eventfd)
			return fd.valid();
		ready = fd.valid() &&
			(!io_uring_queue_init(4, &ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN) ||
			 !io_uring_queue_init(4, &ring, 0));
		return ready;
	}
	~sleeper()
	{
		if (ready)
			io_uring_queue_exit(&ring);
	}
	bool sleep()
	{
		u64 count = 0;
		io_uring_cqe *cqe;

		if (by == wake_by::eventfd)
			return read(fd.get(), &count, sizeof(count)) == sizeof(count);
		io_uring_prep_read(io_uring_get_sqe(&ring), fd.get(), &count, sizeof(count), 0);
		if (io_uring_submit_and_wait(&ring, 1) < 0 || io_uring_peek_cqe(&ring, &cqe))
			return false;
		const bool good = cqe->res == sizeof(count);
		io_uring_cqe_seen(&ring, cqe);
		return good;
	}

	unique_fd fd;
	wake_by by = wake_by::eventfd;
	bool ready = false;
	io_uring ring = {};
};

} // namespace

/* The waker runs on the engine's CPU, the sleeper on the client's, as in a wait for a copy. */
double wake_latency(const machine &m, wake_by how)
{
	std::vector<double> ns;
	u64 written = 0;
	unsigned turn = 0;
	bool broken = false;
	sleeper s;

	pin(m.client);
	if (!s.open(how))
		return 0;
	std::thread waker([&] {
		const u64 one = 1;

		pin(m.engines[0]);
		for (unsigned i = 1; i <= rounds && !load_seq_cst(&broken); i++) {
			while (load_seq_cst(&turn) < i && !load_seq_cst(&broken))
				;
			for (const u64 start = now_ns(); now_ns() - start < idle_ns;)
				;
			store_seq_cst(&written, ticks());
			if (write(s.fd.get(), &one, sizeof(one)) != sizeof(one))
				store_seq_cst(&broken, true);
		}
	});
	for (unsigned i = 1; i <= rounds && !load_seq_cst(&broken); i++) {
		store_seq_cst(&turn, i);
		if (!s.sleep())
			store_seq_cst(&broken, true);
		if (i > warm)
			ns.push_back(double(ticks() - load_seq_cst(&written)) * ns_per_tick());
	}
	waker.join();
	if (load_seq_cst(&broken) || ns.empty())
		return 0;
	std::nth_element(ns.begin(), ns.begin() + ptrdiff_t(ns.size() / 2), ns.end());
	return ns[ns.size() / 2];
}

} // namespace usdma::perf
