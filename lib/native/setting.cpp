/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API: settings. */
#include "lib/native/handles.h"

#include "driver/base/grow.h"
#include "lib/core/config/setting.h"

#include <cstdio>

using namespace usdma;

static_assert(USDMA_SETTING_DEFAULT == int(core::setting_from::standard));
static_assert(USDMA_SETTING_FILE == int(core::setting_from::file));
static_assert(USDMA_SETTING_ENVIRONMENT == int(core::setting_from::environment));
static_assert(USDMA_SETTING_PROGRAM == int(core::setting_from::program));

int usdma_setting_set(const char *name, const char *value)
{
	need_pointer(name);
	need_pointer(value);
	return core::setting_set(name, value);
}

/* As they are, or would be if they were used now. */
static int settings_now(const char *call, core::config *out)
{
	*out = core::setting_preview();
	errno = out->lacks;
	return out->lacks ? fail_errno("%s: the settings cannot be read", call) : 0;
}

static int get(const char *call, const char *name, char *buf, size_t size)
{
	const core::setting *s = core::setting_find(name);
	core::config now;

	if (!s)
		return fail(ENOENT, "%s: there is no setting \"%.60s\"; the most similar is %s", call, name,
			    core::setting_nearest(name));
	if (const int err = settings_now(call, &now))
		return err;
	const std::string text = core::setting_show(*s, now);
	if (text.size() >= size)
		return fail(ENOSPC, "%s: %s takes %zu bytes and there are %zu", call, s->name, text.size() + 1, size);
	memcpy(buf, text.c_str(), text.size() + 1);
	return 0;
}

int usdma_setting_get(const char *name, char *buf, size_t size)
{
	need_pointer(name);
	need_pointer(buf);
	const char *const call = __func__;

	return within_memory("a setting's text", [=] { return get(call, name, buf, size); });
}

static int describe_origin(const char *call, const core::setting &s, usdma_setting_info *v)
{
	core::config now;

	if (const int err = settings_now(call, &now))
		return err;
	const core::setting_origin &origin = core::setting_origin_of(s, now);
	v->source = int(origin.from);
	snprintf(v->where, sizeof(v->where), "%s", origin.where.c_str());
	return 0;
}

int usdma_setting_describe(unsigned index, struct usdma_setting_info *info)
{
	usdma_setting_info v = {};

	need_pointer(info);
	if (index >= core::settings().size())
		return fail(ENOENT, "%s: there is no setting %u: there are %zu", __func__, index,
			    core::settings().size());
	const core::setting &s = core::settings()[index];
	const char *const call = __func__;
	if (const int err = within_memory("a setting's origin", [&] { return describe_origin(call, s, &v); }))
		return err;
	v.name = s.name;
	v.type = core::setting_type_name(s);
	v.words = s.words;
	v.unit = s.unit;
	v.meaning = s.meaning;
	v.min = s.min;
	v.max = s.max;
	return native::give(__func__, info, v);
}
