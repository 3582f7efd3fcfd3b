/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and end of use, the configuration file, versions. */
#include "lib/acl/state.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace usdma::acl {

using json = nlohmann::json;

inline constexpr size_t max_config = 1 << 20;

struct init_hook {
	aclRegisterCallbackType type;
	aclInitCallbackFunc init;
	aclFinalizeCallbackFunc end;
	void *user;
};

struct init_state {
	std::mutex lock;
	u64 count = 0;
	bool configured = false; /* the first aclInit of the process has fixed the content */
	std::string config;
	std::vector<init_hook> hooks;
};

/* Never destroyed: threads may still use it while the process exits. */
static init_state *state()
{
	static init_state *const s = new init_state;

	return s;
}

/* ---- configuration ---------------------------------------------------------------------------------- */

static aclError read_config(const char *call, const char *path, std::string *text)
{
	FILE *f;
	char part[4096];
	size_t n;

	if (!path || !*path)
		return ACL_SUCCESS;
	f = fopen(path, "re");
	if (!f)
		return fault(call, ACL_ERROR_INVALID_FILE, "configPath %s: %s", path, strerror(errno));
	while ((n = fread(part, 1, sizeof(part), f)) > 0 && text->size() <= max_config)
		text->append(part, n);
	const bool bad = ferror(f) || text->size() > max_config;
	fclose(f);
	if (bad)
		return fault(call, ACL_ERROR_INVALID_FILE, "configPath %s: cannot be read, or longer than 1 MiB", path);
	return ACL_SUCCESS;
}

static const char *member_text(const json &j, const char *name)
{
	const auto it = j.find(name);

	return it != j.end() && it->is_string() ? it->get_ptr<const std::string *>()->c_str() : nullptr;
}

/* The device for threads that set none (-1: none); false: what is there is no device number. */
static bool default_device_of(const json &j, s32 *out)
{
	const auto it = j.find("defaultDevice");
	const char *text;
	char *end;

	*out = -1;
	if (it == j.end() || !it->is_object() || !it->contains("default_device"))
		return true;
	text = member_text(*it, "default_device");
	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	const long id = strtol(text, &end, 10);
	if (*end || errno || id >= core::max_devices)
		return false;
	*out = s32(id);
	return true;
}

static aclError parse_config(const char *call, const std::string &text, json *out)
{
	*out = text.empty() ? json::object() : json::parse(text, nullptr, false);
	if (out->is_discarded() || !out->is_object())
		return fault(call, ACL_ERROR_PARSE_FILE, "the configuration is not a JSON object");
	return ACL_SUCCESS;
}

static aclError apply_config(const char *call, const json &j)
{
	const char *mode;
	s32 device;

	if (!default_device_of(j, &device))
		return bad_arg(call, "configPath: default_device must be a text with a device's number, 0 to %u",
			       unsigned(core::max_devices) - 1);
	mode = member_text(j, "err_msg_mode");
	messages_by_process(mode && !strcmp(mode, "1"));
	set_default_device(device);
	return ACL_SUCCESS;
}

/* ---- use counts ------------------------------------------------------------------------------------- */

static aclError run_init_hooks(const std::vector<init_hook> &hooks, const std::string &config)
{
	for (const init_hook &h : hooks) {
		const aclError err = h.init ? h.init(config.c_str(), config.size(), h.user) : ACL_SUCCESS;

		if (err)
			return err;
	}
	return ACL_SUCCESS;
}

static aclError run_end_hooks(const std::vector<init_hook> &hooks)
{
	aclError first = ACL_SUCCESS;

	for (const init_hook &h : hooks) {
		const aclError err = h.end ? h.end(h.user) : ACL_SUCCESS;

		first = first ? first : err;
	}
	return first;
}

static void end_use()
{
	messages_by_process(false);
	set_default_device(-1);
}

static aclError start(const char *call, const char *path)
{
	std::lock_guard guard(state()->lock);
	std::string text;
	aclError err;
	json j;

	if (state()->count) {
		state()->count++;
		return fault(call, ACL_ERROR_REPEAT_INITIALIZE, "initialised already; this use is the %lluth",
			     static_cast<unsigned long long>(state()->count));
	}
	err = read_config(call, path, &text);
	if (!err)
		err = parse_config(call, text, &j);
	if (err)
		return err;
	if (state()->configured && text != state()->config)
		return bad_arg(call, "configPath: its content differs from that of the first aclInit of this process");
	err = apply_config(call, j);
	if (err)
		return err;
	state()->configured = true;
	state()->config = text;
	state()->count = 1;
	return ACL_SUCCESS;
}

static aclError not_initialised(const char *call)
{
	return fault(call, ACL_ERROR_REPEAT_FINALIZE, "not initialised, or ended already");
}

static bool known_type(aclRegisterCallbackType type)
{
	return (type >= ACL_REG_TYPE_ACL_MODEL && type <= ACL_REG_TYPE_ACL_RETR) || type == ACL_REG_TYPE_OTHER;
}

static aclError remove_hook(const char *call, const init_hook &h)
{
	std::lock_guard guard(state()->lock);
	auto &v = state()->hooks;

	for (size_t i = 0; i < v.size(); i++) {
		if (v[i].type == h.type && v[i].init == h.init && v[i].end == h.end) {
			v.erase(v.begin() + long(i));
			return ACL_SUCCESS;
		}
	}
	return bad_arg(call, "cbFunc is not registered for type %d", h.type);
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclInit(const char *configPath)
{
	const aclError err = start(__func__, configPath);

	if (err)
		return err;
	state()->lock.lock();
	const std::vector<init_hook> hooks = state()->hooks;
	const std::string config = state()->config;
	state()->lock.unlock();
	return run_init_hooks(hooks, config);
}

aclError aclFinalize(void)
{
	std::unique_lock guard(state()->lock);

	if (!state()->count)
		return not_initialised(__func__);
	state()->count = 0;
	const std::vector<init_hook> hooks = state()->hooks;
	guard.unlock();
	end_use();
	return run_end_hooks(hooks);
}

aclError aclFinalizeReference(uint64_t *refCount)
{
	std::unique_lock guard(state()->lock);

	if (!state()->count)
		return not_initialised(__func__);
	const u64 left = --state()->count;
	const std::vector<init_hook> hooks = state()->hooks;
	guard.unlock();
	if (refCount)
		*refCount = left;
	if (left)
		return ACL_SUCCESS;
	end_use();
	return run_end_hooks(hooks);
}

aclError aclInitCallbackRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc, void *userData)
{
	if (!cbFunc)
		return bad_arg(__func__, "cbFunc is NULL");
	if (!known_type(type))
		return bad_arg(__func__, "type %d is unknown", type);
	std::unique_lock guard(state()->lock);
	state()->hooks.push_back({type, cbFunc, nullptr, userData});
	const bool now = state()->count != 0;
	const std::string config = state()->config;
	guard.unlock();
	return now ? cbFunc(config.c_str(), config.size(), userData) : ACL_SUCCESS;
}

aclError aclInitCallbackUnRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc)
{
	if (!cbFunc)
		return bad_arg(__func__, "cbFunc is NULL");
	if (!known_type(type))
		return bad_arg(__func__, "type %d is unknown", type);
	return remove_hook(__func__, {type, cbFunc, nullptr, nullptr});
}

aclError aclFinalizeCallbackRegister(aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc, void *userData)
{
	if (!cbFunc)
		return bad_arg(__func__, "cbFunc is NULL");
	if (!known_type(type))
		return bad_arg(__func__, "type %d is unknown", type);
	std::lock_guard guard(state()->lock);
	state()->hooks.push_back({type, nullptr, cbFunc, userData});
	return ACL_SUCCESS;
}

aclError aclFinalizeCallbackUnRegister(aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc)
{
	if (!cbFunc)
		return bad_arg(__func__, "cbFunc is NULL");
	if (!known_type(type))
		return bad_arg(__func__, "type %d is unknown", type);
	return remove_hook(__func__, {type, nullptr, cbFunc, nullptr});
}

aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion)
{
	if (!majorVersion || !minorVersion || !patchVersion)
		return bad_arg(__func__, "a version pointer is NULL");
	*majorVersion = ACL_MAJOR_VERSION;
	*minorVersion = ACL_MINOR_VERSION;
	*patchVersion = ACL_PATCH_VERSION;
	return ACL_SUCCESS;
}

/* The packages whose versions programs ask for; both are served by this library. */
static bool known_package(const char *name)
{
	return !strcmp(name, "runtime") || !strcmp(name, "driver");
}

aclError aclsysGetVersionStr(char *pkgName, char *versionStr)
{
	if (!pkgName || !versionStr)
		return bad_arg(__func__, "pkgName or versionStr is NULL");
	if (!known_package(pkgName))
		return bad_arg(__func__, "pkgName %s is unknown, there are runtime and driver", pkgName);
	snprintf(versionStr, ACL_PKG_VERSION_MAX_SIZE, "9.1.0");
	return ACL_SUCCESS;
}

aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum)
{
	if (!pkgName || !versionNum)
		return bad_arg(__func__, "pkgName or versionNum is NULL");
	if (!known_package(pkgName))
		return bad_arg(__func__, "pkgName %s is unknown, there are runtime and driver", pkgName);
	*versionNum = 90100000;
	return ACL_SUCCESS;
}

const char *aclrtGetSocName(void)
{
	return "Ascend910_9362";
}

aclError aclrtGetRunMode(aclrtRunMode *runMode)
{
	if (!runMode)
		return bad_arg(__func__, "runMode is NULL");
	*runMode = ACL_HOST;
	return ACL_SUCCESS;
}

static const aclCannAttr cann_attrs[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16, ACL_CANN_ATTR_JIT_COMPILE};

aclError aclGetCannAttributeList(const aclCannAttr **cannAttrList, size_t *num)
{
	if (!cannAttrList || !num)
		return bad_arg(__func__, "cannAttrList or num is NULL");
	*cannAttrList = cann_attrs;
	*num = sizeof(cann_attrs) / sizeof(cann_attrs[0]);
	return ACL_SUCCESS;
}

aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t *value)
{
	if (!value)
		return bad_arg(__func__, "value is NULL");
	if (cannAttr < ACL_CANN_ATTR_INF_NAN || cannAttr > ACL_CANN_ATTR_JIT_COMPILE)
		return bad_arg(__func__, "cannAttr %d is unknown", cannAttr);
	/* Reductions know bf16 and infinities; nothing is compiled. */
	*value = cannAttr != ACL_CANN_ATTR_JIT_COMPILE;
	return ACL_SUCCESS;
}

} // extern "C"
