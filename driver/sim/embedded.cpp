/* SPDX-License-Identifier: BSD-3-Clause */
/* The software device inside this process: server and engines on threads of their own, joined by a socketpair. */
#include "driver/base/cpus.h"
#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/base/thread.h"
#include "driver/sim/config.h"
#include "driver/sim/fault_plan.h"
#include "driver/sim/models.h"
#include "driver/sim/server.h"
#include "driver/sim/transport.h"
#include "driver/vfio_user/device.h"

#include <algorithm>
#include <csignal>
#include <mutex>
#include <sys/socket.h>

namespace usdma::sim {

/* The model, and the thread that serves it until the client closes the connection. */
class embedded {
protected:
	embedded() = default;
	~embedded()
	{
		if (running_)
			pthread_join(thread_, nullptr);
	}
	embedded(const embedded &) = delete;
	embedded &operator=(const embedded &) = delete;

	int start(const config &cfg, unique_fd sock);
	vfio::user_options options(const dma::open_options &how);
	std::shared_ptr<shared_mapping> memory();
	/* Never blocks. */
	bool has_ended()
	{
		std::lock_guard guard(end_lock_);

		if (running_)
			running_ = pthread_tryjoin_np(thread_, nullptr) != 0;
		return !running_;
	}

	bool faulty_ = false;
	fault_plan plan_{false};

private:
	static void *thread_main(void *arg);
	int share(u64 iova, void *vaddr, u64 size);
	void end_model();

	std::mutex model_lock_; /* protects model_, once the thread runs */
	std::unique_ptr<device_model> model_;
	std::unique_ptr<server> link_;
	std::mutex end_lock_; /* protects running_ */
	bool running_ = false;
	pthread_t thread_ = {};
};

int embedded::start(const config &cfg, unique_fd sock)
{
	faulty_ = cfg.faulty;
	plan_.makes_mistakes(cfg.model->makes_mistakes);
	if (const int err = faulty_ ? plan_.set(cfg.faults) : 0)
		return err;
	model_ = make_model(cfg, faulty_ ? &plan_ : nullptr);
	if (!model_)
		return fail(ENOMEM, "sim: no memory for a device");
	model_->set_in_client();
	if (const int err = model_->start())
		return err;
	link_ = try_unique<server>(std::move(sock), *model_);
	if (!link_)
		return fail(ENOMEM, "sim: no memory for a server");
	if (!link_->ready()) {
		errno = EMFILE;
		return fail_errno("sim: an eventfd for the server");
	}
	const int err = thread_start(&thread_, "sdma-server", thread_main, this);
	running_ = !err;
	return err;
}

vfio::user_options embedded::options(const dma::open_options &how)
{
	vfio::user_options opt;

	opt.share_local = [](void *arg, u64 iova, void *vaddr, u64 size) {
		return static_cast<embedded *>(arg)->share(iova, vaddr, size);
	};
	opt.share_arg = this;
	opt.name = opt.backend = "sim";
	if (how.reply_ms)
		opt.timeout_ms = how.reply_ms;
	return opt;
}

void *embedded::thread_main(void *arg)
{
	auto *e = static_cast<embedded *>(arg);

	if (e->link_->serve(-1))
		log_error("sim: %s", error_text());
	/* Before the link: the engines use it until they end. */
	e->end_model();
	e->link_.reset();
	return nullptr;
}

/* The model may end at any time, with the connection: a device that vanishes. */
int embedded::share(u64 iova, void *vaddr, u64 size)
{
	std::lock_guard guard(model_lock_);

	return model_ ? model_->share(iova, vaddr, size) : fail(ENODEV, "the software device has ended");
}

std::shared_ptr<shared_mapping> embedded::memory()
{
	std::lock_guard guard(model_lock_);

	return model_ ? model_->memory() : nullptr;
}

void embedded::end_model()
{
	std::unique_ptr<device_model> ending;
	{
		std::lock_guard guard(model_lock_);

		ending = std::move(model_);
	}
}

/* Bases are destroyed in reverse: user_device closes the connection; embedded then joins the thread that waits for
 * that. */
class embedded_device final : embedded, public vfio::user_device {
public:
	explicit embedded_device(const dma::open_options &how) : user_device(options(how)) {}

	int open(const config &cfg);
	int region_map(unsigned index, u64 offset, u64 size, mapping *out) override;
	/*
	 * The connection closes before the engines stop, and these access this process's memory: wait until the
	 * server's thread has ended.
	 */
	int quiesce() override
	{
		user_device::quiesce();
		return has_ended() ? 0 : -EAGAIN;
	}
	int inject(std::string_view rules) override { return faulty_ ? plan_.set(rules) : no_plan(); }
	int injected(std::string *out) override
	{
		if (!faulty_)
			return no_plan();
		return within_memory("the report of faults", [&] {
			*out = plan_.report();
			return 0;
		});
	}

private:
	static int no_plan()
	{
		return fail(EOPNOTSUPP, "this software device was opened without faults= in its device string");
	}
};

int embedded_device::open(const config &cfg)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return fail_errno("sim: cannot make a pair of sockets");
	unique_fd ours(fd_above_stdio(pair[0])), theirs(fd_above_stdio(pair[1]));
	if (!ours.valid() || !theirs.valid())
		return fail_errno("sim: cannot move a socket above the standard descriptors");
	if (const int err = embedded::start(cfg, std::move(ours)))
		return err;
	const int err = user_device::start(std::move(theirs));
	return err ? fail_in(err, "%s", name()) : 0;
}

/* A page that one side has touched needs no fault of the other. */
int embedded_device::region_map(unsigned index, u64 offset, u64 size, mapping *out)
{
	std::shared_ptr<shared_mapping> mem = index == vfio::region_bar2 ? memory() : nullptr;

	if (!mem || !range_within(offset, size, mem->whole.size()))
		return user_device::region_map(index, offset, size, out);
	u8 *const at = mem->whole.data() + offset;
	*out = mapping(at, size, std::move(mem));
	return 0;
}

/* By default as many engines as find a CPU beside the program's. */
static void fit_engines(config *cfg)
{
	if (!cfg->engines_set && cfg->cpus.empty())
		cfg->engines = std::clamp(usable_cpus() - 1, 1u, cfg->engines);
}

static int embedded_open(std::string_view spec, const dma::open_options &opt, std::unique_ptr<vfio::device> *out)
{
	config cfg;

	if (const int err = parse_config(spec, &cfg))
		return err;
	fit_engines(&cfg);
	auto dev = try_unique<embedded_device>(opt);
	if (!dev)
		return fail(ENOMEM, "sim: no memory for a device");
	if (const int err = within_memory("a software device", [&] { return dev->open(cfg); }))
		return err;
	*out = std::move(dev);
	return 0;
}

static constexpr dma::transport embedded_transport = {"sim", embedded_open};
static constexpr dma::software_parts all = {&embedded_transport, &client_transport, sdma::probe, edu::probe};

} // namespace usdma::sim

const usdma::dma::software_parts *usdma_simulator()
{
	return &usdma::sim::all;
}

/* For programs that the simulator is a part of. */
int usdma::dma::simulator(const software_parts **out)
{
	*out = usdma_simulator();
	return 0;
}
