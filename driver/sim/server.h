/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vfio-user server for one connection.  One thread reads the socket: it
 * answers the client's commands and hands the client's replies to the units that
 * wait for them.
 */
#pragma once

#include "driver/sim/model.h"
#include "driver/vfio/user_socket.h"

#include <mutex>

namespace usdma::sim {

class server final : public remote_port {
public:
	server(unique_fd sock, device_model &model) : sock_(std::move(sock)), model_(model) {}
	~server() override = default;

	/*
	 * Until the client leaves or one of the two (-1: none) becomes readable: 0.  A client
	 * that breaks the protocol's frames: -EPROTO.  All units' accesses have ended.
	 */
	int serve(int stop_fd, int drop_fd = -1);

	u32 max_len() const override { return max_len_; }
	int begin(remote_access *a) override;
	void end(remote_access *a) override;
	void hang_up() override;

private:
	using proto_header = vfio::proto::header;
	/* What goes back: an errno, or a structure and bytes behind it, and descriptors. */
	struct answer {
		vfio::message_body body;
		int fds[vfio::proto::our_max_msg_fds];
		size_t n_fds = 0;
	};

	int step();
	int handle(vfio::user_message &m, answer *out);
	int answer_command(vfio::user_message &m, bool whole);
	int answer_wrongly(reply_fault how, proto_header h, answer &a);
	int send(const proto_header &head, std::span<const iovec> parts, std::span<const int> fds);
	int take_reply(const vfio::user_message &m, bool whole);
	remote_access *take_pending(u16 id);
	bool reply_fits(const vfio::user_message &m, const remote_access &a) const;
	void fail_all();

	int do_version(vfio::user_message &m, answer *out);
	int do_dma_map(vfio::user_message &m);
	int do_dma_unmap(vfio::user_message &m, answer *out);
	int do_device_info(vfio::user_message &m, answer *out);
	int do_region_info(vfio::user_message &m, answer *out);
	int do_io_fds(vfio::user_message &m, answer *out);
	int do_irq_info(vfio::user_message &m, answer *out);
	int do_set_irqs(vfio::user_message &m);
	int do_set_eventfds(vfio::user_message &m, const vfio::proto::irq_set_head &h);
	int do_trigger(const vfio::user_message &m, const vfio::proto::irq_set_head &h);
	int check_access(const vfio::proto::region_access_head &h, u32 right) const;
	int do_region_read(vfio::user_message &m, answer *out);
	int do_region_write(vfio::user_message &m, answer *out);

	unique_fd sock_;
	device_model &model_;
	bool negotiated_ = false;
	vfio::user_caps client_;
	u32 max_len_ = 4096;

	std::mutex send_lock_; /* one message after the other */
	std::mutex lock_;      /* what follows; never held while sending */
	remote_access *pending_ = nullptr; /* a few: one for each unit */
	u16 next_id_ = 0;
	bool closed_ = false;
};

} // namespace usdma::sim
