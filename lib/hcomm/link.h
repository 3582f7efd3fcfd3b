/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two sides, of processes of one user on this host, that know one name, and exchange messages. One accepts on a socket
 * of that name, the other connects, whichever comes first. Nothing here waits, but wait_all().
 */
#pragma once

#include "driver/base/clock.h"
#include "driver/base/types.h"
#include "driver/base/unique_fd.h"
#include "lib/hccl_comm/comm.h"

#include <functional>
#include <poll.h>
#include <string>

namespace usdma::hcomm {

using hccl_comm::acl_failed;
using hccl_comm::because;

class link {
public:
	using parts = std::initializer_list<std::pair<const void *, size_t>>;

	void set_name(bool accepts, parts name);
	bool has_name() const { return !name_.empty(); }
	/* Sends this, and expects a message of the same kind. */
	void begin(u32 kind, std::string out);
	/* HCCL_E_AGAIN: not complete; HCCL_E_REMOTE: the other side is lost, or does something else. */
	HcclResult step();
	/* The other side's message, and process. */
	const std::string &received() const { return in_; }
	s32 pid() const { return pid_; }
	/* The other side has closed it, or ended. */
	bool lost() const;
	/* After HCCL_E_REMOTE of a copy it is lost(): a process's memory ends before its sockets. */
	HcclResult copied(HcclResult ret) const;
	bool is_connected() const { return fd_.valid(); }
	/* Closes it; the next begin() connects again. */
	void reset();
	/* What step() waits for. */
	pollfd wanted() const;

private:
	struct head;
	bool is_complete() const { return is_sent() && got_head_ && got_ == in_.size(); }
	bool is_sent() const { return sent_head_ && sent_ == out_.size(); }
	HcclResult connect_once();
	HcclResult accept_once();
	HcclResult listen_once();
	bool take(unique_fd fd);
	bool send_some();
	HcclResult receive_some();
	HcclResult receive_head();
	HcclResult broken();

	std::string name_; /* of the socket */
	bool accepts_ = false;
	unique_fd listening_, fd_, process_;
	s32 pid_ = -1;
	u32 kind_ = 0;
	std::string out_, in_;
	size_t sent_ = 0, got_ = 0;
	bool sent_head_ = false, got_head_ = false;
	bool met_ = false; /* a message has come: it is the other side */
};

/* Until each is complete. stop(): HCCL_E_UNAVAIL. Later than until: HCCL_E_TIMEOUT. */
HcclResult wait_all(link *const *links, u32 n, deadline until, const std::function<bool()> &stop);

} // namespace usdma::hcomm
