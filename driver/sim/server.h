/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vfio-user server for one connection.  One thread reads and writes the
 * socket: it answers the client's commands, sends the engines' accesses and hands
 * the client's replies to the engines that wait for them.  Nobody else ever touches
 * the socket, so no engine waits for a client that does not read.
 */
#pragma once

#include "driver/base/barrier.h"
#include "driver/sim/model.h"
#include "driver/sim/outbox.h"
#include "driver/vfio/user_socket.h"

#include <mutex>

namespace usdma::sim {

class server final : public remote_port {
public:
	server(unique_fd sock, device_model &model);
	~server() override = default;

	/* It has the descriptors that it takes. */
	bool ready() const { return sock_.valid() && wake_.valid(); }
	/*
	 * Until the client leaves or stop_fd (-1: none) becomes readable: 0.  A client that
	 * breaks the protocol's frames: -EPROTO.
	 *
	 * On return the model is quiet (device_model::quiet) and the socket closed, in that
	 * order: a client that sees end of file knows that nothing reaches its memory any
	 * more.  Nothing in here may close or shut down the socket before that.
	 */
	int serve(int stop_fd);

	u32 max_len() const override { return max_len_; }
	int begin(remote_access *a) override;
	void end(remote_access *a) override;
	bool take_back(remote_access *a) override;
	bool counts_known() const override { return load_relaxed(&counts_right_); }
	void hang_up() override;

private:
	using proto_header = vfio::proto::header;
	/* What goes back: an errno, or a structure and bytes behind it, and descriptors. */
	struct answer {
		vfio::message_body body;
		int fds[vfio::proto::our_max_msg_fds];
		size_t n_fds = 0;
	};

	int turn(int stop_fd);
	int poll_ms() const;
	bool woken();
	void finish_serving();
	int step();
	int handle(vfio::user_message &m, answer *out);
	int answer_command(vfio::user_message &m, int err);
	bool hold(const proto_header &head);
	int answer_held();
	int answer_wrongly(reply_fault how, proto_header h, answer &a);
	int queue_reply(const proto_header &head, answer &a);
	int flush();
	bool next_out();
	remote_access *first_unsent() const;
	int put_access(const remote_access &a);
	int out_is_late();
	int take_reply(const vfio::user_message &m, bool whole);
	remote_access *take_pending(u16 id);
	int reply_data(const vfio::user_message &m, const remote_access &a);
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

	outbox out_;                         /* on its way to the client */
	outbox_queue replies_;               /* behind it; while there is room for one more, the socket is read */
	deadline hello_ = deadline::never(); /* for the first message */
	bool held_ = false;                  /* a reset's reply: accesses from before it are in flight */
	proto_header held_head_ = {};
	deadline held_until_ = deadline::never();
	bool out_asks_ = false; /* out_ is an engine's access … */
	u16 out_id_ = 0;        /* … of this number */

	unique_fd wake_;                   /* an engine has an access to send, or wants the connection to end */
	std::mutex lock_;                  /* what follows; never held over a system call */
	remote_access *pending_ = nullptr; /* a few, one for each engine, in the order in which they came */
	u16 next_id_ = 0;
	bool closed_ = false, hang_up_ = false;
	u32 counts_right_ = 0; /* the client's replies are known to be right; engines look without the lock */
};

} // namespace usdma::sim
