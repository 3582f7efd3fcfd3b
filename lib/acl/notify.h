/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notifies.  The state is a 64-bit word in pinned memory: the recording stream's
 * engine stores it, and the waiting stream's engine or gate takes it.
 */
#pragma once

#include "lib/acl/state.h"
#include "lib/share/share.h"
#include "lib/core/stream/listen.h"

namespace usdma::acl {

struct alignas(64) notify {
	u64 alive = 0; /* the handle */
	u32 id = 0;
	u32 refs = 1;        /* one of the handle, and one for each wait in flight */
	s32 slot = -1;       /* of the device that it was created on; -1: another process's */
	bool counts = false; /* a count notify */
	bool waited = false; /* its device's engine has waited for it, and did not poll; atomic, never cleared */
	u64 *word = nullptr;
	core::share *share = nullptr; /* the shared page, if processes share it */
	bool in_page = false;         /* word is in that page; set before share */
	bool used = false;            /* a record or a wait may use the word; atomic */
	bool imported = false;
	bool listens = false;  /* share_listen(); atomic */
	bool forwards = false; /* see forward_records(); atomic */
	u64 checked_ns = 0;    /* when the hook did last */
	core::pass_hook hook;
	notify *next = nullptr; /* in the list `dying` */
};

inline void *notify_handle(const notify *n)
{
	return reinterpret_cast<void *>(load_relaxed(&n->alive));
}
int notify_create(context *c, bool counts, notify **out);
void notify_unref(notify *n);
notify *notify_enter(const void *handle);
using notify_guard = object_guard<notify, notify_enter, notify_unref>;
aclError get_notify(const char *call, const void *handle, bool counts, notify_guard *out);
int notify_record(notify *n, core::stream *s);
int notify_wait(notify *n, core::stream *s, deadline until);

} // namespace usdma::acl
