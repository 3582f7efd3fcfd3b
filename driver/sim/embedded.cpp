/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/embedded.h"

#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/base/thread.h"
#include "driver/dma/registry.h"
#include "driver/sim/fault_plan.h"
#include "driver/sim/sdma_model.h"
#include "driver/sim/server.h"
#include "driver/sim/transport.h"
#include "driver/vfio/user_client.h"

#include <csignal>
#include <mutex>
#include <new>
#include <sys/socket.h>

namespace usdma::sim {

/* Used by the server's thread and by the device, which frees it after that thread has ended. */
struct embedded {
	/* False: no memory. */
	bool make(const config &cfg, faults *wrong)
	{
		if (cfg.faulty && !wrong) {
			plan.reset(new (std::nothrow) fault_plan(false));
			if (!plan)
				return false;
		}
		model = try_unique<sdma_model>(cfg, plan ? plan.get() : wrong);
		if (model)
			model->set_in_client();
		return model != nullptr;
	}

	/* The model may end at any time, with the connection: a device that vanishes. */
	int share(u64 iova, void *vaddr, u64 size)
	{
		std::lock_guard guard(model_lock);

		return model ? model->share(iova, vaddr, size) : fail(ENODEV, "the software device has ended");
	}
	void end_model()
	{
		std::unique_ptr<sdma_model> ending;
		{
			std::lock_guard guard(model_lock);

			ending = std::move(model);
		}
	}

	std::unique_ptr<fault_plan> plan; /* injected faults; null: none */
	std::mutex model_lock;            /* model, once the server's thread runs */
	std::unique_ptr<sdma_model> model;
	std::unique_ptr<server> link;
	pthread_t thread = {};
};

/* The client's device, and the thread that serves it. */
class embedded_device final : public vfio::device {
public:
	embedded_device(std::unique_ptr<vfio::device> client, std::unique_ptr<embedded> e)
		: client_(std::move(client)), e_(std::move(e))
	{
	}
	~embedded_device() override
	{
		/* Closing the client makes the server's thread exit. */
		client_.reset();
		if (!ended_)
			pthread_join(e_->thread, nullptr);
	}

	int region(unsigned index, vfio::region_info *out) override { return client_->region(index, out); }
	int region_map(unsigned index, u64 offset, u64 size, mapping *out) override
	{
		return client_->region_map(index, offset, size, out);
	}
	int region_read(unsigned index, u64 offset, void *buf, size_t len) override
	{
		return client_->region_read(index, offset, buf, len);
	}
	int region_write(unsigned index, u64 offset, const void *buf, size_t len) override
	{
		return client_->region_write(index, offset, buf, len);
	}
	int region_fd(unsigned index, u64 *fd_offset) override { return client_->region_fd(index, fd_offset); }
	int region_doorbell_fd(unsigned index, u64 offset) override
	{
		return client_->region_doorbell_fd(index, offset);
	}
	bool doorbell_ring(int fd) override { return client_->doorbell_ring(fd); }
	int irq(unsigned index, vfio::irq_info *out) override { return client_->irq(index, out); }
	int irq_set(unsigned index, unsigned first, std::span<const int> fds) override
	{
		return client_->irq_set(index, first, fds);
	}
	int limits(vfio::address_limits *out) override { return client_->limits(out); }
	int dma_map(const vfio::dma_area &area) override { return client_->dma_map(area); }
	int dma_unmap(u64 iova, u64 size) override { return client_->dma_unmap(iova, size); }
	int reset() override { return client_->reset(); }
	void set_deadline(u64 ms) override { client_->set_deadline(ms); }
	bool lost() const override { return client_->lost(); }
	int answers() override { return client_->answers(); }
	int lost_fd() const override { return client_->lost_fd(); }
	/*
	 * The connection closes before the engines stop, and these access this process's memory: wait until the
	 * server's thread has ended.
	 */
	int quiesce() override
	{
		std::lock_guard guard(end_lock_);

		client_->quiesce();
		if (!ended_)
			ended_ = pthread_tryjoin_np(e_->thread, nullptr) == 0;
		return ended_ ? 0 : -EAGAIN;
	}
	const char *name() const override { return client_->name(); }
	const char *backend() const override { return "sim"; }
	bool own_connection() const override { return true; }
	int inject(std::string_view rules) override { return e_->plan ? e_->plan->set(rules) : no_plan(); }
	int injected(std::string *out) override
	{
		if (!e_->plan)
			return no_plan();
		return within_memory("the report of faults", [&] {
			*out = e_->plan->report();
			return 0;
		});
	}

private:
	static int no_plan()
	{
		return fail(EOPNOTSUPP, "this software device was opened without faults= in its device string");
	}

	std::unique_ptr<vfio::device> client_;
	std::unique_ptr<embedded> e_;
	std::mutex end_lock_; /* ended_ */
	bool ended_ = false;  /* the server's thread has been joined */
};

static void *serve_main(void *arg)
{
	auto *e = static_cast<embedded *>(arg);

	if (e->link->serve(-1))
		log_error("sim: %s", error_text());
	/* Before the link: the engines use it until they end. */
	e->end_model();
	e->link.reset();
	return nullptr;
}

static int share(void *arg, u64 iova, void *vaddr, u64 size)
{
	return static_cast<embedded *>(arg)->share(iova, vaddr, size);
}

int embedded_open_config(const config &cfg, faults *wrong, std::string_view name, std::unique_ptr<vfio::device> *out,
			 const dma::open_options &how)
{
	std::unique_ptr<embedded> e(new (std::nothrow) embedded);
	std::unique_ptr<vfio::device> client;
	vfio::user_options opt;
	int pair[2];

	if (!e || !e->make(cfg, wrong))
		return fail(ENOMEM, "sim: no memory for a device");
	if (e->plan)
		if (const int err = e->plan->set(cfg.faults))
			return err;
	if (int err = e->model->start())
		return err;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return fail_errno("sim: cannot make a pair of sockets");
	unique_fd ours(fd_above_stdio(pair[0])), theirs(fd_above_stdio(pair[1]));
	if (!ours.valid() || !theirs.valid())
		return fail_errno("sim: cannot move a socket above the standard descriptors");
	e->link.reset(new (std::nothrow) server(std::move(ours), *e->model));
	if (!e->link)
		return fail(ENOMEM, "sim: no memory for a server");
	if (!e->link->ready()) {
		errno = EMFILE;
		return fail_errno("sim: an eventfd for the server");
	}
	opt.share_local = share;
	opt.share_arg = e.get();
	opt.name = name;
	if (how.reply_ms)
		opt.timeout_ms = how.reply_ms;
	if (int err = thread_start(&e->thread, "sdma-server", serve_main, e.get()))
		return err;
	const int err = vfio::user_attach(std::move(theirs), opt, &client);
	if (err) {
		pthread_join(e->thread, nullptr);
		return err;
	}
	const pthread_t thread = e->thread;
	auto *dev = new (std::nothrow) embedded_device(std::move(client), std::move(e));
	if (!dev) { /* the allocation failed, so nothing was moved */
		client.reset();
		pthread_join(thread, nullptr);
		return fail(ENOMEM, "sim: no memory for a device");
	}
	out->reset(dev);
	return 0;
}

int embedded_open(std::string_view spec, const dma::open_options &opt, std::unique_ptr<vfio::device> *out)
{
	config cfg;

	if (const int err = parse_config(spec, &cfg))
		return err;
	return embedded_open_config(cfg, nullptr, "sim", out, opt);
}

const dma::transport sim_transport = {"sim", embedded_open};

} // namespace usdma::sim
