/* SPDX-License-Identifier: BSD-3-Clause */
/* C++ only. */
#ifndef USDMA_HCCL_STREAM_PUB_H
#define USDMA_HCCL_STREAM_PUB_H

#include "dispatcher_task_types.h"
#include "hccl_common.h"

struct HcclComStreamInfo {
	int32_t actualStreamId;
	int32_t sqId;
	uint32_t sqDepth;
	void *sqBaseAddr;
	u32 logicCqId;
};

namespace hccl {

enum class StreamType {
	STREAM_TYPE_OFFLINE = 0,
	STREAM_TYPE_ONLINE = 1,
	STREAM_TYPE_DEVICE = 2,
	STREAM_TYPE_RESERVED = 3
};

/* A stream of the ACL runtime: its owner, or a reference to one. */
class USDMA_HCCL_API Stream {
public:
	explicit Stream() = default;
	/* Creates a stream on the current context's device and owns it; on failure ptr() is NULL. */
	explicit Stream(StreamType streamType, bool isMainStream = false);
	/* Refers to a stream of another owner. */
	explicit Stream(rtStream_t rtStream, bool isMainStream = true);
	/* Refers to a stream by its numbers only: it has no handle, ptr() is NULL. */
	explicit Stream(const HcclComStreamInfo &streamInfo, bool isMainStream = false);
	/* A copy refers to the same stream and owns nothing; recorded tasks stay with the original. */
	Stream(const Stream &that);
	Stream(Stream &&that) noexcept;
	Stream &operator=(const Stream &that);
	Stream &operator=(Stream &&that) noexcept;
	/* If it is the owner, destroys the stream, in the context that created it. */
	virtual ~Stream();

	void *ptr() const { return stream_; }
	operator bool() const { return stream_ != nullptr; }
	/* Numbers of the runtime; INVALID_UINT and -1: unknown. */
	s32 id() const { return info_.actualStreamId; }
	u32 sqId() const { return u32(info_.sqId); }
	u32 cqId() const { return info_.logicCqId; }
	u32 logicCqId() const { return info_.logicCqId; }
	const HcclComStreamInfo &GetHcclStreamInfo() const { return info_; }
	bool IsMainStream() const { return isMainStream_; }
	/* The owner that this one was copied from has destroyed the stream. */
	bool IsInvalid() const;

	/* What the stream does after a failed task (ACL_CONTINUE_ON_FAILURE, ACL_STOP_ON_FAILURE). E_INTERNAL. */
	HcclResult SetMode(u64 stmMode);
	HcclResult GetMode(u64 *stmMode);

	/* The list of a virtual dispatcher: first in, first out.  Pop: E_NOT_FOUND when there is none. */
	void PushTaskLogicInfo(TaskLogicInfo &taskLogicInfo);
	HcclResult PopTaskLogicInfo(TaskLogicInfo &taskLogicInfo);
	/* As Push, but reports lack of memory (E_MEMORY). */
	HcclResult AddTaskLogicInfo(const TaskLogicInfo &taskLogicInfo);

	void *stream_ = nullptr;

private:
	struct Life; /* shared by the owner and its copies */
	struct Task;

	void Forget();
	void Query();

	Life *life_ = nullptr;
	Task *first_ = nullptr;
	Task *last_ = nullptr;
	void *context_ = nullptr;
	HcclComStreamInfo info_ = {-1, -1, 0, nullptr, INVALID_UINT};
	bool owner_ = false;
	bool isMainStream_ = false;
};

} // namespace hccl

#endif
