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

struct SqCqeContext;
struct ErrCqeContext;

/*
 * A stream of the ACL runtime: its owner, or a reference to one. Size, members that inline functions read, and names of
 * the others are those of hcomm's header, so that code compiled with either may use it.
 */
class USDMA_HCCL_API Stream {
public:
	explicit Stream();
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
	/* Returns a copy, which owns nothing. */
	Stream operator=(Stream &&that) noexcept;
	/* If it is the owner, destroys the stream, in the context that created it. */
	virtual ~Stream();

	void *ptr() const { return stream_; }
	operator bool() const { return stream_ != nullptr; }
	/* Numbers of the runtime; INVALID_UINT and -1: unknown. */
	s32 id() const { return id_; }
	u32 sqId() const { return sqId_; }
	u32 cqId() const { return cqId_; }
	u32 logicCqId() const { return logicCqId_; }
	const HcclComStreamInfo &GetHcclStreamInfo() const { return info_; }
	bool IsMainStream() const { return isMainStream_; }
	/* The owner that this one was copied from has destroyed the stream. */
	bool IsInvalid() const;
	/* For an owner and its copies: from now on they are invalid. E_PTR: another one. */
	HcclResult SetInvalidFlag();
	/* GetHcclStreamInfo(), by a pointer. */
	HcclResult GetStreamInfo(const HcclComStreamInfo *&streamInfo);

	/* What the stream does after a failed task (ACL_CONTINUE_ON_FAILURE, ACL_STOP_ON_FAILURE). E_INTERNAL. */
	HcclResult SetMode(const uint64_t stmMode);
	HcclResult GetMode(uint64_t *const stmMode);

	/* The list of a virtual dispatcher: first in, first out.  Pop: E_NOT_FOUND when there is none. */
	void PushTaskLogicInfo(TaskLogicInfo &taskLogicInfo);
	HcclResult PopTaskLogicInfo(TaskLogicInfo &taskLogicInfo);
	/* As Push, but reports lack of memory (E_MEMORY). */
	HcclResult AddTaskLogicInfo(const TaskLogicInfo &taskLogicInfo);

	/* Queue entries are written by hardware that this is not: E_NOT_SUPPORT. */
	HcclResult InitSqAndCqeContext(uint32_t sqHead, uint32_t sqTail, SqCqeContext *context);
	HcclResult GetNextSqeBufferAddr(uint8_t *&sqeBufferAddr, uint8_t *&sqeTypeAddr, uint8_t *&sqeDfxInfoAddr,
					uint16_t &taskId);
	HcclResult SetCqeContext(const ErrCqeContext &cqeContext);
	HcclResult GetCqeContext(ErrCqeContext &cqeContext);
	HcclResult ClearLocalBuff();

	void *stream_ = nullptr;

private:
	struct Life; /* shared by the owner and its copies */
	struct Task;

	void Forget();
	void Query();
	void SetNumbers(const HcclComStreamInfo &info);
	void SetLife(Life *life);

	[[maybe_unused]] s32 unused_ = 0;
	bool owner_ = false;
	Task *first_ = nullptr, *last_ = nullptr;
	[[maybe_unused]] void *reserved_[8] = {};
	s32 id_ = -1;
	bool isMainStream_ = false;
	[[maybe_unused]] bool reservedFlag_ = false;
	[[maybe_unused]] u64 reservedMode_ = 0;
	u32 sqId_ = INVALID_UINT;
	void *context_ = nullptr;
	u32 cqId_ = INVALID_UINT;
	u32 logicCqId_ = INVALID_UINT;
	[[maybe_unused]] void *reservedContexts_[2] = {};
	HcclComStreamInfo info_ = {-1, -1, 0, nullptr, INVALID_UINT};
	const bool *dead_ = nullptr; /* of life_ */
	Life *life_ = nullptr;
};

} // namespace hccl

#endif
