/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A vfio-user client that enforces no rules of the protocol: messages are sent
 * byte for byte, and the server's commands are not answered unless the test
 * does so.
 */
#pragma once

#include "driver/base/mapping.h"
#include "driver/hw/sdma_regs.h"
#include "driver/vfio/device.h"
#include "driver/vfio_user/socket.h"

#include <string>
#include <vector>

namespace usdma::test {

namespace proto = vfio::proto;

inline constexpr u64 raw_wait_ms = 30000; /* a test that waits longer has failed */

class raw_client {
public:
	explicit raw_client(unique_fd sock) : sock_(std::move(sock)) {}
	explicit raw_client(const std::string &path);

	/* The errno in the reply (0: success); -1: the server hung up.  Skips the server's commands meanwhile. */
	int request(proto::command cmd, const void *body, size_t len, const std::vector<int> &fds = {},
		    vfio::user_message *reply = nullptr);
	template <class T>
	int request(proto::command cmd, const T &body, const std::vector<int> &fds = {},
		    vfio::user_message *reply = nullptr)
	{
		return request(cmd, &body, sizeof(body), fds, reply);
	}
	/* Sends a command and does not wait. */
	bool say(proto::command cmd, const void *body, size_t len, const std::vector<int> &fds = {}, u32 flags = 0);

	int hello(const char *json = "{\"capabilities\":{\"max_msg_fds\":16}}");
	int map(u64 iova, u64 size, int fd = -1, u64 offset = 0, u32 prot = vfio::dma_read | vfio::dma_write);
	int unmap(u64 iova, u64 size, u32 flags = 0);
	int region_write(u32 region, u64 offset, const void *data, u32 len);
	int region_read(u32 region, u64 offset, void *data, u32 len);
	template <class T> int put(u64 at, T v) { return region_write(vfio::region_bar0, at, &v, sizeof(v)); }
	template <class T> T get(u64 at)
	{
		T v = 0;

		return region_read(vfio::region_bar0, at, &v, sizeof(v)) ? T(~T(0)) : v;
	}
	/* Sends VERSION, enables bus mastering and the device, sets the base of its memory; 0, or the first error. */
	int begin(u64 mem_base);

	void half_close();
	/* Reads until the end of file, and answers nothing.  False: a timeout. */
	bool wait_closed();
	void close() { sock_.reset(); }
	int fd() const { return sock_.get(); }

private:
	unique_fd sock_;
	u16 next_ = 100;
};

/* A memfd and this process's mapping of it. */
struct raw_memory {
	raw_memory(const char *name, u64 size);

	unique_fd fd;
	mapping map;
	u8 *data;
};

/* A channel whose record and ring lie in the client's memory. */
struct raw_channel {
	/* at: offset in m, which is mapped at iova, of a page for the record, followed by the ring of 2^order. */
	raw_channel(raw_client &c, u32 index, raw_memory &m, u64 iova, u64 at, u32 order = 6);

	u32 enable();
	u64 put(sdma::descriptor d);
	int ring_doorbell();
	u64 completed() const;
	/* Waits until seq is completed or the channel halts; false: a timeout. */
	bool done(u64 seq) const;
	bool begun(u64 seq);
	u32 state() { return c.get<u32>(sdma::chan_ctrl(index) + sdma::chan_state); }
	int command(u32 cmd) { return c.put(sdma::chan_ctrl(index) + sdma::chan_command, cmd); }

	raw_client &c;
	u32 index, order;
	u64 record_iova, ring_iova, posted = 0;
	sdma::status_block *status;
	sdma::descriptor *ring;
};

sdma::descriptor raw_copy(dma::space from, u64 src, dma::space to, u64 dst, u64 len);

} // namespace usdma::test
