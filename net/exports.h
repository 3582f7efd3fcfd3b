/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that the program exports, and what peers ask of it. A peer opens it by its key, and has it until it closes it
 * or leaves; a peer that has it open can use it after the program has withdrawn it.
 */
#pragma once

#include "driver/base/unique_fd.h"
#include "net/worker.h"

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace usdma::net {

/* By all peers; what a peer can cost. */
inline constexpr size_t opened_most = 65536;
inline constexpr u32 answers_most = 256; /* with data, of one peer */

class exports {
public:
	/* signalled: a peer has set a word. */
	explicit exports(worker &w, std::function<void()> signalled = {}) : worker_(w), signalled_(std::move(signalled))
	{
	}
	exports(const exports &) = delete;
	exports &operator=(const exports &) = delete;

	/*
	 * A part of a file, which cannot shrink. open: peers may have it; else they are refused, and there is no file.
	 * The descriptor stays open while anybody has the memory: it holds the lock that keeps the program from using
	 * it for something else.
	 */
	int add(bytes key, unique_fd fd, u64 offset, u64 size, bool open, u64 *number = nullptr);
	void remove(bytes key);
	/* For this process itself, by the number; with all that is in it: the memory stays while it has that. */
	std::shared_ptr<u8> own(u64 number, u64 *size);
	/* A message of a peer: open, close, put, get or fill. */
	void serve(const incoming &in);
	void peer_left(u32 slot);

private:
	struct memory {
		std::vector<u8> key;
		unique_fd fd;
		u64 offset, size, number;
		bool open;
		u8 *mapped = nullptr, *pages = nullptr;
		u64 mapped_size = 0;

		memory(bytes k, unique_fd f, u64 at, u64 n, u64 num, bool o)
			: key(k.begin(), k.end()), fd(std::move(f)), offset(at), size(n), number(num), open(o)
		{
		}
		memory(const memory &) = delete;
		memory &operator=(const memory &) = delete;
		~memory();
		int map();
	};
	using memory_ptr = std::shared_ptr<memory>;
	struct opened {
		u32 slot;
		memory_ptr what;
	};

	void answer(u32 slot, u64 number, int status, u64 id = 0, u64 size = 0);
	void take_key(const incoming &in);
	int open_key(u32 slot, bytes key, u64 *id, u64 *size);
	memory_ptr find(const incoming &in, u64 length, int *err) const;
	void put(const incoming &in);
	void signal(const memory &m, u64 word);
	void get(const incoming &in);
	void fill(const incoming &in);
	void close(const incoming &in);

	worker &worker_;
	const std::function<void()> signalled_;
	std::vector<memory_ptr> all_;
	std::unordered_map<u64, opened> opened_;
	u64 last_id_ = 0, last_number_ = 0;
	/* By slot: how many peers it has had; answers with data that are on their way. */
	u64 visits_[slots_most] = {};
	u32 answers_[slots_most] = {};
};

} // namespace usdma::net
