/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The vfio-user server for one connection. One thread reads and writes the socket: it answers the client's
 * commands, sends the engines' accesses and passes the client's replies to the engines that wait for them. No
 * other thread uses the socket, so no engine blocks on a client that does not read.
 */
#pragma once

#include "driver/base/barrier.h"
#include "driver/sim/model.h"
#include "driver/sim/send_queue.h"
#include "driver/vfio_user/socket.h"

#include <mutex>

namespace usdma::sim {

class server final : public remote_port {
public:
	server(unique_fd sock, device_model &model);
	~server() override = default;

	/* Its descriptors are valid. */
	bool ready() const { return sock_.valid() && wake_.valid(); }
	/*
	 * Serves until the client leaves or stop_fd (-1: none) becomes readable: 0. -EPROTO: the client broke the
	 * protocol's framing.
	 *
	 * On return the model is quiesced (device_model::quiesce) and the socket closed, in that order: a client that
	 * sees end of file knows that nothing accesses its memory any more. Nothing in here may close or shut down the
	 * socket before that.
	 */
	int serve(int stop_fd);

	u32 max_len() const override { return max_len_; }
	int begin(remote_access *a) override;
	void end(remote_access *a) override;
	bool take_back(remote_access *a) override;
	bool counts_valid() const override { return load_relaxed(&counts_right_); }
	void hang_up() override;

private:
	using proto_header = vfio::proto::header;
	/* A reply: a structure and the bytes after it, and descriptors. */
	struct answer {
		vfio::message_body body;
		int fds[vfio::proto::our_max_msg_fds];
		size_t n_fds = 0;
	};

	int turn(int stop_fd);
	int poll_ms() const;
	bool woken();
	void finish_serving(int stop_fd);
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
	int send_is_late();
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

	send_queue out_;                     /* being sent */
	locked_send_queue replies_;          /* queued after it; the socket is read while this is not full */
	deadline hello_ = deadline::never(); /* for the first message */
	bool held_ = false;                  /* the reply to a reset is delayed: earlier accesses are in flight */
	proto_header held_head_ = {};
	deadline delayed_until_ = deadline::never();
	bool out_is_access_ = false; /* out_ is an engine's access … */
	u16 out_id_ = 0;             /* … of this number */

	unique_fd wake_;                   /* an engine has an access to send, or requests the end of the connection */
	std::mutex lock_;                  /* protects what follows; never held over a system call that blocks */
	remote_access *pending_ = nullptr; /* accesses to send and in flight, oldest first; few */
	u16 next_id_ = 0;
	bool closed_ = false, hang_up_ = false;
	u32 counts_right_ = 0; /* the client's replies have been verified; engines read it without the lock */
};

} // namespace usdma::sim
