/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/barrier.h"
#include "lib/hccl/call.h"

#include <stream_pub.h>

#include <new>

namespace hccl {

/* Atomic. */
struct Stream::Life {
	u32 refs = 1;
	bool dead = false;
};

struct Stream::Task {
	TaskLogicInfo info;
	Task *next = nullptr;
};

namespace {

u32 create_flags(StreamType type)
{
	switch (type) {
	case StreamType::STREAM_TYPE_ONLINE:
		return ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC;
	case StreamType::STREAM_TYPE_DEVICE:
		return ACL_STREAM_DEVICE_USE_ONLY;
	default:
		return ACL_STREAM_PERSISTENT;
	}
}

void destroy_in_context(aclrtStream stream, aclrtContext context)
{
	aclrtContext before = nullptr;
	bool moved = false;

	/* a stream can only be destroyed in its own context */
	if (aclrtGetCurrentContext(&before) != ACL_SUCCESS)
		before = nullptr;
	if (context && before != context)
		moved = aclrtSetCurrentContext(context) == ACL_SUCCESS;
	if (aclError code = aclrtDestroyStream(stream))
		acl_failed("aclrtDestroyStream", code);
	if (moved && before && aclrtSetCurrentContext(before) != ACL_SUCCESS)
		log_warn("hccl: the thread's previous context no longer exists; the context of stream %p stays current",
			 stream);
}

} // namespace

Stream::Stream() = default;

Stream::Stream(StreamType streamType, bool isMainStream) : isMainStream_(isMainStream)
{
	if (streamType < StreamType::STREAM_TYPE_OFFLINE || streamType >= StreamType::STREAM_TYPE_RESERVED) {
		log_warn("hccl: there is no stream type %d", int(streamType));
		return;
	}
	if (aclError code = aclrtCreateStreamWithConfig(&stream_, 0, create_flags(streamType))) {
		stream_ = nullptr;
		acl_failed("aclrtCreateStreamWithConfig", code);
		return;
	}
	SetLife(new (std::nothrow) Life);
	if (!life_) {
		log_error("hccl: no memory for a stream");
		aclrtDestroyStream(stream_);
		stream_ = nullptr;
		return;
	}
	owner_ = true;
	if (aclrtGetCurrentContext(&context_) != ACL_SUCCESS)
		context_ = nullptr;
	Query();
}

Stream::Stream(rtStream_t rtStream, bool isMainStream) : stream_(rtStream), isMainStream_(isMainStream)
{
	Query();
}

Stream::Stream(const HcclComStreamInfo &streamInfo, bool isMainStream) : isMainStream_(isMainStream)
{
	SetNumbers(streamInfo);
}

Stream::Stream(const Stream &that) : stream_(that.stream_), isMainStream_(that.isMainStream_), context_(that.context_)
{
	SetNumbers(that.info_);
	SetLife(that.life_);
	if (life_)
		usdma::fetch_add_relaxed(&life_->refs, 1);
}

Stream::Stream(Stream &&that) noexcept
{
	*this = static_cast<Stream &&>(that);
}

Stream &Stream::operator=(const Stream &that)
{
	if (this != &that)
		*this = Stream(that);
	return *this;
}

Stream Stream::operator=(Stream &&that) noexcept
{
	if (this == &that)
		return *this;
	Forget();
	stream_ = that.stream_;
	SetLife(that.life_);
	first_ = that.first_;
	last_ = that.last_;
	context_ = that.context_;
	SetNumbers(that.info_);
	owner_ = that.owner_;
	isMainStream_ = that.isMainStream_;
	that.stream_ = nullptr;
	that.SetLife(nullptr);
	that.first_ = that.last_ = nullptr;
	that.owner_ = false;
	that.SetNumbers({-1, -1, 0, nullptr, INVALID_UINT});
	return *this;
}

Stream::~Stream()
{
	Forget();
}

void Stream::Forget()
{
	while (first_) {
		Task *next = first_->next;

		delete first_;
		first_ = next;
	}
	last_ = nullptr;
	if (owner_ && stream_) {
		if (life_)
			usdma::store_release(&life_->dead, true); /* pairs with IsInvalid() of a copy */
		destroy_in_context(stream_, context_);
	}
	/* acq_rel: the last reference frees it after all other uses */
	if (life_ && usdma::fetch_sub_acq_rel(&life_->refs, 1) == 1)
		delete life_;
	SetLife(nullptr);
	stream_ = nullptr;
	owner_ = false;
}

void Stream::SetNumbers(const HcclComStreamInfo &info)
{
	info_ = info;
	id_ = info.actualStreamId;
	sqId_ = u32(info.sqId);
	cqId_ = logicCqId_ = info.logicCqId;
}

void Stream::SetLife(Life *life)
{
	life_ = life;
	dead_ = life ? &life->dead : nullptr;
}

/* Callers query queue numbers; the runtime only has the stream's id. */
void Stream::Query()
{
	int32_t id = -1;

	if (stream_ && aclrtStreamGetId(stream_, &id) == ACL_SUCCESS)
		info_.actualStreamId = id_ = id;
}

bool Stream::IsInvalid() const
{
	return life_ && usdma::load_acquire(&life_->dead); /* pairs with Forget() of the owner */
}

HcclResult Stream::SetInvalidFlag()
{
	if (!life_)
		return HCCL_E_PTR;
	usdma::store_release(&life_->dead, true);
	return HCCL_SUCCESS;
}

HcclResult Stream::GetStreamInfo(const HcclComStreamInfo *&streamInfo)
{
	streamInfo = &info_;
	return HCCL_SUCCESS;
}

HcclResult Stream::InitSqAndCqeContext(uint32_t, uint32_t, SqCqeContext *)
{
	return HCCL_E_NOT_SUPPORT;
}

HcclResult Stream::GetNextSqeBufferAddr(uint8_t *&, uint8_t *&, uint8_t *&, uint16_t &)
{
	return HCCL_E_NOT_SUPPORT;
}

HcclResult Stream::SetCqeContext(const ErrCqeContext &)
{
	return HCCL_E_NOT_SUPPORT;
}

HcclResult Stream::GetCqeContext(ErrCqeContext &)
{
	return HCCL_E_NOT_SUPPORT;
}

HcclResult Stream::ClearLocalBuff()
{
	return HCCL_E_NOT_SUPPORT;
}

HcclResult Stream::SetMode(const uint64_t stmMode)
{
	if (aclError code = aclrtSetStreamFailureMode(stream_, stmMode))
		return acl_failed("aclrtSetStreamFailureMode", code, HCCL_E_INTERNAL);
	return HCCL_SUCCESS;
}

HcclResult Stream::GetMode(uint64_t *const stmMode)
{
	aclrtStreamAttrValue value = {};

	if (!stmMode)
		return HCCL_E_PTR;
	if (aclError code = aclrtGetStreamAttribute(stream_, ACL_STREAM_ATTR_FAILURE_MODE, &value))
		return acl_failed("aclrtGetStreamAttribute", code, HCCL_E_INTERNAL);
	*stmMode = value.failureMode;
	return HCCL_SUCCESS;
}

HcclResult Stream::AddTaskLogicInfo(const TaskLogicInfo &info)
{
	Task *task = new (std::nothrow) Task;

	if (!task)
		return HCCL_E_MEMORY;
	task->info = info;
	if (last_)
		last_->next = task;
	else
		first_ = task;
	last_ = task;
	return HCCL_SUCCESS;
}

void Stream::PushTaskLogicInfo(TaskLogicInfo &info)
{
	if (AddTaskLogicInfo(info) != HCCL_SUCCESS)
		log_error("hccl: no memory: a task of stream %p is lost", stream_);
}

HcclResult Stream::PopTaskLogicInfo(TaskLogicInfo &info)
{
	Task *task = first_;

	if (!task)
		return HCCL_E_NOT_FOUND;
	first_ = task->next;
	if (!first_)
		last_ = nullptr;
	info = task->info;
	delete task;
	return HCCL_SUCCESS;
}

} // namespace hccl
