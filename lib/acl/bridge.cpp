/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/acl/bridge.h"

#include "lib/acl/capture_model.h"
#include "lib/acl/copy.h"

using namespace usdma;
using namespace usdma::acl;

void usdma_acl_message(const char *call, int code, const char *text)
{
	(void)fault(call, code, "%s", text);
}

aclError usdma_acl_submit(const char *call, aclrtStream stream, int (*run)(const void *args, core::stream *s),
			  const void *args, size_t len)
{
	stream_guard s;
	captured_call f;

	if (const aclError err = get_stream(call, stream, &s))
		return err;
	f.run = run;
	memcpy(f.args, args, len);
	const int err = f(s);
	return err != err_captured ? check(call, err, at::submit) : capture_call(call, s, f);
}

aclError usdma_acl_check_peers(const char *call, const void *dst, const void *src)
{
	return check_peers(call, core::translate_both(dst, src));
}

void usdma_acl_end_capture(aclrtStream stream)
{
	stream_guard s;

	if (get_stream(__func__, stream, &s))
		return;
	std::lock_guard guard(capture_lock);
	if (captured_stream *b = captured_of(s))
		capture_invalidate(b->of);
}
