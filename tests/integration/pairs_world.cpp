/* SPDX-License-Identifier: BSD-3-Clause */
/* What pairs are made of: late memory, threads that are observed, memory whose content is given. */
#include "tests/integration/pairs.h"

#include <csignal>
#include <execinfo.h>
#include <fstream>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

namespace usdma::test::pairs {

/* ---- late memory ------------------------------------------------------------------------------------ */

/* Not UFFD_USER_MODE_ONLY: system calls access such pages, too. */
static int open_userfaultfd()
{
	const int fd = int(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
	uffdio_api api = {UFFD_API, 0, 0};

	if (fd >= 0 && !ioctl(fd, UFFDIO_API, &api))
		return fd;
	close(fd);
	return -1;
}

bool late_memory::available()
{
	const int fd = open_userfaultfd();

	close(fd);
	return fd >= 0;
}

void late_memory::hold(void *p, size_t n)
{
	uffdio_register r = {{reinterpret_cast<__u64>(p), n}, UFFDIO_REGISTER_MODE_MISSING, 0};

	p_ = static_cast<unsigned char *>(p);
	content_.assign(p_, p_ + n);
	fd_ = open_userfaultfd();
	assert_int_equal(madvise(p, n, MADV_DONTNEED), 0);
	assert_int_equal(ioctl(fd_, UFFDIO_REGISTER, &r), 0);
}

bool late_memory::touched(int ms) const
{
	pollfd p = {fd_, POLLIN, 0};

	return poll(&p, 1, ms) == 1;
}

void late_memory::release()
{
	uffdio_copy copy = {reinterpret_cast<__u64>(p_), reinterpret_cast<__u64>(content_.data()), content_.size(), 0,
			    0};

	if (fd_ < 0)
		return;
	ioctl(fd_, UFFDIO_COPY, &copy); /* fails if the memory was replaced meanwhile */
	close(fd_);
	fd_ = -1;
}

/* ---- threads ---------------------------------------------------------------------------------------- */

void *actor::main(void *arg)
{
	auto *a = static_cast<actor *>(arg);
	const auto leave = [](void *left) { static_cast<actor *>(left)->over_ = true; };

	a->tid_ = int(gettid());
	pthread_cleanup_push(leave, a);
	a->result_ = a->call_();
	pthread_cleanup_pop(1);
	pthread_testcancel();
	return nullptr;
}

void actor::start(std::function<int()> call)
{
	call_ = std::move(call);
	assert_int_equal(pthread_create(&thread_, nullptr, main, this), 0);
}

/* State and context switches: they stay the same while a thread sleeps. */
static std::string state_of(int tid)
{
	std::ifstream in("/proc/self/task/" + std::to_string(tid) + "/status");
	std::string line, out;

	while (std::getline(in, line))
		if (line.starts_with("State:") || line.starts_with("voluntary_ctxt"))
			out += line;
	return out;
}

bool actor::over_or_blocked() const
{
	static constexpr int checks = 8, most = 400; /* some waits poll */
	std::string last;

	for (int same = 0, i = 0; !over_ && same < checks && i < most; i++) {
		const std::string now = tid_ ? state_of(tid_) : "";

		same = now == last && now.find("(running)") == now.npos && !now.empty() ? same + 1 : 0;
		last = now;
		usleep(200); /* between two checks; what is decided does not depend on it */
	}
	return over_;
}

bool actor::over_within(int ms) const
{
	const uint64_t end = uint64_t(patience_ms(uint64_t(ms))) * 2;

	for (uint64_t i = 0; !over_ && i < end; i++)
		usleep(500);
	return over_;
}

void actor::show_stack() const
{
	signal(SIGUSR1, [](int) {
		void *all[40];

		backtrace_symbols_fd(all, backtrace(all, 40), STDERR_FILENO);
	});
	pthread_kill(thread_, SIGUSR1);
	usleep(100000); /* it has written */
}

int actor::result()
{
	pthread_join(thread_, nullptr);
	return result_;
}

/* ---- memory ----------------------------------------------------------------------------------------- */

static unsigned char *map_pages(size_t size)
{
	void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return static_cast<unsigned char *>(p);
}

void fill_area(usdma_device *dev, const area &a, const bytes &content)
{
	if (a.fd >= 0)
		assert_int_equal(pwrite(a.fd, content.data(), content.size(), 0), ssize_t(content.size()));
	else if (a.what == kind::device)
		WORKS(usdma_copy_sync(dev, a.p, content.data(), content.size(), long_ms));
	else
		memcpy(a.p, content.data(), content.size());
}

area make_area(usdma_device *dev, kind k, size_t size, const bytes &content)
{
	area a;
	void *p = nullptr;

	a.what = k;
	a.size = size;
	if (k == kind::device)
		WORKS(usdma_device_alloc(dev, size, &p));
	else if (k == kind::pinned)
		WORKS(usdma_host_alloc(nullptr, size, &p));
	else
		p = map_pages(size);
	a.p = static_cast<unsigned char *>(p);
	if (k == kind::registered)
		WORKS(usdma_host_register(p, size, 0));
	a.before = content;
	fill_area(dev, a, content);
	return a;
}

void drop_area(area *a)
{
	if (a->fd >= 0 || a->removed || !a->p)
		return;
	if (a->what == kind::device)
		WORKS(usdma_device_free(a->p));
	else if (a->what == kind::pinned)
		WORKS(usdma_host_free(a->p));
	else if (a->what == kind::registered)
		WORKS(usdma_host_unregister(a->p));
	a->removed = true;
}

bytes content_of(usdma_device *dev, const area &a)
{
	bytes out(a.size);

	if (a.fd >= 0)
		assert_int_equal(pread(a.fd, out.data(), a.size, 0), ssize_t(a.size));
	else if (a.what == kind::device)
		WORKS(usdma_copy_sync(dev, out.data(), a.p, a.size, long_ms));
	else
		memcpy(out.data(), a.p, a.size);
	return out;
}

/* ---- the device's process --------------------------------------------------------------------------- */

bool is_process()
{
	return !device_string(0).starts_with("sim");
}

bool has_faults()
{
	return is_process() || device_string(0).find("faults=") != std::string::npos;
}

int sim_pid(unsigned n)
{
	const std::string scheme = "vfio-user:";
	const int fd = connect_unix(device_string(n).substr(scheme.size()) + ".control");
	ucred who = {};
	socklen_t size = sizeof(who);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size), 0);
	close(fd);
	return who.pid;
}

std::string name_of_error(int err)
{
	if (err == actor::ended)
		return "cancelled in the call";
	const char *name = err < 0 ? strerrorname_np(-err) : nullptr;

	return name ? name : std::to_string(err);
}

} // namespace usdma::test::pairs
