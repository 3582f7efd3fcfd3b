/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vfio-user client's device.  client.cpp has connection and DMA, region.cpp regions, irq.cpp
 * interrupts.
 */
#pragma once

#include "driver/base/error.h"
#include "driver/vfio_user/dma.h"
#include "driver/vfio_user/link.h"
#include "driver/vfio_user/options.h"

#include <deque>
#include <map>
#include <mutex>

namespace usdma::vfio {

class user_device : public device {
public:
	explicit user_device(const user_options &opt);
	~user_device() override;

	int start(unique_fd sock);

	int region(unsigned index, region_info *out) override;
	int region_map(unsigned index, u64 offset, u64 size, mapping *out) override;
	int region_read(unsigned index, u64 offset, void *buf, size_t len) override;
	int region_write(unsigned index, u64 offset, const void *buf, size_t len) override;
	int region_post(unsigned index, u64 offset, const void *buf, size_t len) override;
	int region_fd(unsigned index, u64 *fd_offset) override;
	int region_doorbell_fd(unsigned index, u64 offset) override;
	bool doorbell_ring(int fd) override;

	int irq(unsigned index, irq_info *out) override;
	int irq_set(unsigned index, unsigned first, std::span<const int> fds) override;

	int limits(address_limits *out) override;
	int dma_map(const dma_area &area) override;
	int dma_unmap(u64 iova, u64 size) final;
	int reset() override;

	void set_deadline(u64 ms) override { link_.set_deadline(ms); }
	void limit_wait(u64 ms) override { link_.limit_wait(ms); }
	bool lost() const final { return link_.lost(); }
	/* The connection reports a loss; a server that hangs is not lost. */
	int answers() override { return lost() ? lost_error() : 0; }
	int lost_fd() const override { return link_.lost_fd(); }
	int quiesce() override;
	const char *name() const override { return opt_.name.c_str(); }
	const char *backend() const override { return opt_.backend; }
	bool own_connection() const override { return true; }
	bool retains_files() const override { return !opt_.share_local && opt_.trust != server_trust::no; }

	/* Called by the link. */
	int serve(const user_message &cmd, message_body *reply) { return dma_.serve(cmd, reply); }
	void signal_lost();

	/* The server is in this process. */
	bool own_server() const { return opt_.share_local; }

private:
	struct doorbell {
		u64 offset;
		u32 fd_index;
	};
	/* A region's properties, queried once. */
	struct region_state {
		bool queried = false;
		bool doorbells_queried = false;
		region_info info;
		u64 fd_offset = 0;
		unique_fd fd;
		std::vector<doorbell> doorbells;
		message_fds doorbell_fds; /* several doorbells may share one; other files are closed */
	};

	int negotiate();
	bool may_share_file(const dma_area &area) const;
	int accept_version(const user_message &reply);
	int get_info();
	int broken(int err);
	int close_on_timeout(int err);
	int lost_error() const { return fail(ENODEV, "%s: the vfio-user server is lost", opt_.name.c_str()); }
	int exchange(proto::command cmd, void *io, size_t size);
	int send_command(proto::command cmd, std::span<const iovec> parts, std::span<const int> fds);

	int get_region(unsigned index, region_state **out);
	int query_region(unsigned index, u32 argsz, user_message *reply, proto::region_info *info);
	void take_file(unsigned index, unique_fd *fd, u64 offset, region_state *r);
	int take_region(unsigned index, user_message *reply, const proto::region_info &info, region_state *r);
	int check_access(unsigned index, u64 offset, u64 len, u32 right);
	int read_part(unsigned index, u64 offset, u8 *buf, u32 len);
	int write_part(unsigned index, u64 offset, const u8 *buf, u32 len);
	int query_doorbells(unsigned index, region_state *r);
	int request_doorbells(unsigned index, u32 argsz, user_message *reply, proto::io_fds_head *h);
	int take_doorbells(user_message *reply, const proto::io_fds_head &h, region_state *r);
	int take_doorbell(const proto::io_fd &d, const message_fds &fds, region_state *r);

	int irq_send(unsigned index, u32 flags, unsigned start, unsigned count, std::span<const int> fds);
	int irq_set_run(unsigned index, unsigned first, std::span<const int> fds);
	int irq_save(unsigned index, unsigned first, std::span<const int> fds);
	void irq_forget(unsigned index, unsigned first, size_t count);

	user_options opt_;
	user_caps caps_;
	u64 page_size_ = 4096;
	bool can_reset_ = false;
	u32 num_irqs_ = 0;

	std::mutex region_lock_; /* protects regions_; held over queries, so that only one thread queries */
	std::deque<region_state> regions_;

	std::mutex irq_lock_;                                        /* protects irq_fds_ */
	std::map<std::pair<unsigned, unsigned>, unique_fd> irq_fds_; /* (index, vector) → our duplicate */

	user_dma dma_;
	user_link link_; /* last: its thread uses the rest */
};

} // namespace usdma::vfio
