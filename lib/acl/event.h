/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of the three kinds; shared events of other processes. */
#pragma once

#include "lib/acl/state.h"
#include "lib/share/share.h"

namespace usdma::acl {

enum event_kind : u64 { kind_default, kind_flag, kind_ex };

/* One word has both. */
inline u64 kind_of(const core::event *e)
{
	return e->user[word_flags] >> 32;
}
inline u32 flags_of(const core::event *e)
{
	return u32(e->user[word_flags]);
}

inline core::event *as_event(aclrtEvent e)
{
	return core::event_of(e);
}

/* 100000 for NULL, 107017 for a handle that is not a live event. */
aclError get_event(const char *call, aclrtEvent handle, event_guard *out);
aclError create_event(const char *call, aclrtEvent *out, event_kind kind, u32 flags);

/* ---- events that other processes share (event_ipc.cpp); each is called only for an event with a share -- */

inline core::share *share_of(const core::event *e)
{
	return reinterpret_cast<core::share *>(load_acquire(&e->user[word_shared]));
}
int share_event(core::event *e);
int shared_record(core::event *e, core::stream *s);
int shared_wait(core::event *e, core::stream *s, deadline until);
int shared_sync(core::event *e, deadline until);
core::event_state shared_query(core::event *e);

/* The deadline of waits without their own timeout (aclrtSetOpWaitTimeout). */
deadline default_wait();

} // namespace usdma::acl
