/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that one process registers and others read and write. A device's is mapped by them, under a key of ACL; the
 * host's is copied by their CPU through the kernel (process_vm_readv(2)), whatever it is: there is nothing to map.
 * Within a process both are used as they are.
 */
#pragma once

#include "driver/base/types.h"
#include "lib/hcomm/link.h"

#include <hcomm_res_defs.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace usdma::hcomm {

inline constexpr size_t key_len = 65;

/* What goes to other processes. */
struct description {
	char magic[8];
	u64 process; /* of the owner: hccl_comm::process_id() */
	u64 at, size;
	s32 pid;
	s32 type;
	char key[key_len]; /* "": through the kernel */
	char unused[7];

	bool operator==(const description &) const = default;
};

/* Registered memory. */
class memory {
public:
	explicit memory(const CommMem &mem) : is(mem) {}
	~memory();
	memory(const memory &) = delete;
	memory &operator=(const memory &) = delete;
	/* The same each time; open: for all processes of the user. */
	HcclResult describe(bool open, description **out);
	HcclResult allow(s32 pid);

	const CommMem is;
	u32 uses = 1;                /* of its owner */
	std::vector<HcclComm> bound; /* by one_sided.cpp, under its lock */

private:
	std::mutex lock_;
	bool described_ = false;
	description said_{};
};

/* HCCL_E_PTR: no address; HCCL_E_PARA: no size, an unknown type, not one block of device memory. */
HcclResult check_mem(const CommMem *mem);
bool same_range(const CommMem &a, const CommMem &b);
bool overlap(const CommMem &a, const CommMem &b);

/* Where another side's range is: in this process, or at an address of process pid. */
struct mapping {
	char *here;
	u64 there;
	s32 pid;
};

/* What was imported from other sides. Not thread-safe. */
class imports {
public:
	imports() = default;
	~imports() { clear(); }
	imports(const imports &) = delete;
	imports &operator=(const imports &) = delete;
	/* For the device of the thread's context; counted. HCCL_E_PARA: it is no description. */
	HcclResult add(const description &d);
	/* False: it is not there. */
	bool drop(const description &d);
	/* process: of the owner; 0: any. False: no import has all of it. pid of mapping: to be set. */
	bool find(u64 process, u64 at, u64 size, mapping *out) const;
	/* Its address here; nullptr: none. */
	void *mapped(const description &d) const;
	void clear();

private:
	struct import {
		description is;
		char *here; /* nullptr: through the kernel */
		bool mapped;
		u32 uses;
	};
	std::vector<import>::iterator at(const description &d);

	std::vector<import> all_;
};

/* HCCL_E_PARA: a part of it is not there, as far as its first and last byte show. */
HcclResult check_local(const void *at, u64 bytes);
/* True: the copy waits for the stream, and is made by the calling thread. */
bool needs_kernel(const mapping &remote, const void *local);
/* Between a range of another side and memory of this process, in the stream's order. */
HcclResult copy(bool put, const mapping &remote, void *local, u64 bytes, aclrtStream stream);

} // namespace usdma::hcomm
