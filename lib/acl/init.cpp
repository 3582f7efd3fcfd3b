/* SPDX-License-Identifier: BSD-3-Clause */
/* Initialisation and finalisation, the configuration file, versions. */
#include "driver/base/grow.h"
#include "driver/base/words.h"
#include "lib/acl/profile.h"
#include "lib/acl/soc.h"
#include "lib/acl/state.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace usdma::acl {

using json = nlohmann::json;

inline constexpr size_t max_config = 1 << 20;

struct init_hook {
	aclRegisterCallbackType type;
	aclInitCallbackFunc init;
	aclFinalizeCallbackFunc end;
	void *user;
	u64 number = 0;
};

struct init_state {
	std::mutex lock;
	u64 count = 0;
	std::optional<std::string> config; /* set by the first aclInit of the process */
	u64 last = 0;                      /* number of the newest hook */
	std::vector<init_hook> hooks;      /* sorted by number */
};

static constinit core::no_destructor<init_state> state;

/* ---- configuration ---------------------------------------------------------------------------------- */

struct file_closer {
	void operator()(FILE *f) const { fclose(f); }
};

static aclError read_config(const char *call, const char *path, std::string *text)
{
	char part[4096];
	size_t n;

	if (!path || !*path)
		return ACL_SUCCESS;
	const std::unique_ptr<FILE, file_closer> f(fopen(path, "re"));
	if (!f)
		return fault(call, ACL_ERROR_INVALID_FILE, "configPath %s: %s", path, strerror(errno));
	while ((n = fread(part, 1, sizeof(part), f.get())) > 0 && text->size() <= max_config)
		text->append(part, n);
	if (ferror(f.get()) || text->size() > max_config)
		return fault(call, ACL_ERROR_INVALID_FILE, "configPath %s: cannot be read, or longer than 1 MiB", path);
	return ACL_SUCCESS;
}

/* The recognised values of a configuration. */
struct config_values {
	s32 device = -1;         /* for threads that set none; -1: none */
	bool bad_device = false; /* the value is not a device number */
	bool by_process = false; /* err_msg_mode */
};

/*
 * SAX parser: builds no tree of values, as the destructor of nlohmann's tree allocates memory and must not fail.
 * Depth 1 is the outermost object; recognised are {"defaultDevice": {"default_device": "N"}, "err_msg_mode": "1"}.
 */
class config_reader {
public:
	explicit config_reader(config_values *out) : out_(out) {}

	bool null() { return other(); }
	bool boolean(bool) { return other(); }
	bool number_integer(s64) { return other(); }
	bool number_unsigned(u64) { return other(); }
	bool number_float(double, const std::string &) { return other(); }
	bool binary(json::binary_t &) { return other(); }
	bool string(const std::string &text)
	{
		if (at_ == value::device)
			set_device(text);
		else if (at_ == value::mode)
			out_->by_process = text == "1";
		return depth_ != 0;
	}
	bool key(const std::string &name)
	{
		at_ = value::unknown;
		if (depth_ == 1 && name == "defaultDevice") {
			at_ = value::devices;
			out_->device = -1;
			out_->bad_device = false;
		} else if (depth_ == 1 && name == "err_msg_mode") {
			at_ = value::mode;
			out_->by_process = false;
		} else if (depth_ == 2 && in_devices_ && name == "default_device") {
			at_ = value::device;
		}
		return true;
	}
	bool start_object(size_t)
	{
		if (depth_)
			other();
		in_devices_ = in_devices_ || at_ == value::devices;
		return open();
	}
	bool start_array(size_t) { return other() && open(); }
	bool end_object() { return close(); }
	bool end_array() { return close(); }
	template <class E> bool parse_error(size_t, const std::string &, const E &) { return false; }

private:
	enum class value : u8 { unknown, devices, device, mode };

	/* A value other than a string; false: it is the whole document, which must be an object. */
	bool other()
	{
		if (at_ == value::device)
			out_->bad_device = true;
		return depth_ != 0;
	}
	bool open()
	{
		at_ = value::unknown;
		depth_++;
		return true;
	}
	bool close()
	{
		at_ = value::unknown;
		depth_--;
		in_devices_ = in_devices_ && depth_ > 1;
		return true;
	}
	void set_device(std::string_view text)
	{
		u64 id;

		out_->bad_device = !number_parse(text, &id, 0, core::max_devices - 1);
		out_->device = out_->bad_device ? -1 : s32(id);
	}

	config_values *out_;
	unsigned depth_ = 0;
	bool in_devices_ = false; /* inside the object defaultDevice */
	value at_ = value::unknown;
};

static aclError parse_config(const char *call, const std::string &text, config_values *out)
{
	config_reader reader(out);

	if (text.empty() || json::sax_parse(text, &reader))
		return ACL_SUCCESS;
	return fault(call, ACL_ERROR_PARSE_FILE, "the configuration is not a JSON object");
}

static aclError apply_config(const char *call, const config_values &v)
{
	if (v.bad_device)
		return bad_arg(call, "configPath: default_device must be a text with a device's number, 0 to %u",
			       unsigned(core::max_devices) - 1);
	messages_by_process(v.by_process);
	set_default_device(v.device);
	return ACL_SUCCESS;
}

/* ---- use counts ------------------------------------------------------------------------------------- */

/* The next hook after `number` and up to `last`: hooks are called without the lock, and without memory for a copy. */
static bool next_hook(init_hook *at, u64 last)
{
	std::lock_guard guard(state->lock);

	for (const init_hook &h : state->hooks) {
		if (h.number > at->number && h.number <= last) {
			*at = h;
			return true;
		}
	}
	return false;
}

static u64 newest_hook()
{
	std::lock_guard guard(state->lock);

	return state->last;
}

static aclError run_init_hooks()
{
	const u64 last = newest_hook();
	const std::string &config = *state->config;

	for (init_hook h{}; next_hook(&h, last);) {
		const aclError err = h.init ? h.init(config.c_str(), config.size(), h.user) : ACL_SUCCESS;

		if (err)
			return err;
	}
	return ACL_SUCCESS;
}

static aclError run_end_hooks()
{
	const u64 last = newest_hook();
	aclError first = ACL_SUCCESS;

	for (init_hook h{}; next_hook(&h, last);) {
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

static aclError no_space(const char *call)
{
	no_memory("the configuration");
	return fault(call, ACL_ERROR_BAD_ALLOC, "%s", error_text());
}

/* Caller holds the lock. */
static aclError configure(const char *call, const char *path)
{
	config_values values;
	std::string text;
	aclError err = read_config(call, path, &text);

	if (!err)
		err = parse_config(call, text, &values);
	if (err)
		return err;
	if (state->config && text != *state->config)
		return bad_arg(call, "configPath: its content differs from that of the first aclInit of this process");
	err = apply_config(call, values);
	if (!err && !state->config)
		state->config = std::move(text);
	return err;
}

static aclError start(const char *call, const char *path)
{
	std::lock_guard guard(state->lock);
	aclError err = ACL_SUCCESS;

	if (state->count) {
		/* No message, as with the official library: callers that share a process expect this. */
		state->count++;
		return ACL_ERROR_REPEAT_INITIALIZE;
	}
	if (!fits([&] { err = configure(call, path); }))
		return no_space(call);
	state->count = !err;
	return err;
}

bool is_initialised()
{
	std::lock_guard guard(state->lock);

	return state->count;
}

static aclError not_initialised(const char *call)
{
	return fault(call, ACL_ERROR_REPEAT_FINALIZE, "not initialised, or finalised already");
}

static bool valid_type(aclRegisterCallbackType type)
{
	return (type >= ACL_REG_TYPE_ACL_MODEL && type <= ACL_REG_TYPE_ACL_RETR) || type == ACL_REG_TYPE_OTHER;
}

/* *now: initialised already. */
static aclError add_hook(const char *call, init_hook h, bool *now)
{
	std::lock_guard guard(state->lock);

	h.number = state->last + 1;
	if (!try_push(state->hooks, h))
		return no_space(call);
	state->last++;
	*now = state->count != 0;
	return ACL_SUCCESS;
}

static aclError remove_hook(const char *call, const init_hook &h)
{
	std::lock_guard guard(state->lock);
	auto &v = state->hooks;

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

aclError aclFinalize(void)
{
	std::unique_lock guard(state->lock);

	if (!state->count)
		return not_initialised(__func__);
	state->count = 0;
	guard.unlock();
	end_use();
	return run_end_hooks();
}

aclError aclFinalizeReference(uint64_t *refCount)
{
	std::unique_lock guard(state->lock);

	if (!state->count)
		return not_initialised(__func__);
	const u64 left = --state->count;
	guard.unlock();
	if (refCount)
		*refCount = left;
	if (left)
		return ACL_SUCCESS;
	end_use();
	return run_end_hooks();
}

aclError aclInitCallbackRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc, void *userData)
{
	if (!cbFunc)
		return bad_arg(__func__, "cbFunc is NULL");
	if (!valid_type(type))
		return bad_arg(__func__, "type %d is unknown", type);
	bool now = false;
	const aclError err = add_hook(__func__, {type, cbFunc, nullptr, userData}, &now);
	return now ? cbFunc(state->config->c_str(), state->config->size(), userData) : err;
}

/* Packages whose versions programs query; this library provides both. nullptr: another one. */
static const package_version *version_of(const char *name)
{
	if (!strcmp(name, "runtime"))
		return &runtime_version;
	return strcmp(name, "driver") ? nullptr : &driver_version;
}

static aclError check_package(const char *call, const char *name)
{
	return version_of(name) ?
		       ACL_SUCCESS :
		       fault(call, ACL_ERROR_INVALID_FILE, "pkgName %s is unknown, there are runtime and driver", name);
}

static int32_t number_of(const package_version &v)
{
	return int32_t(v.major * 10000000 + v.minor * 100000 + v.patch * 1000);
}

static void write_part(char *to, unsigned number)
{
	snprintf(to, ACL_PKG_VERSION_PARTS_MAX_SIZE, "%u", number);
}

aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version)
{
	if (!version)
		return bad_arg(__func__, "version is NULL");
	if (number_in(name) > ACL_PKG_NAME_DRIVER)
		return bad_arg(__func__, "package %u is unknown", number_in(name));
	if (name != ACL_PKG_NAME_RUNTIME && name != ACL_PKG_NAME_DRIVER)
		return fault(__func__, ACL_ERROR_INVALID_FILE, "package %u is unknown, there are RUNTIME and DRIVER",
			     number_in(name));
	const package_version &v = name == ACL_PKG_NAME_RUNTIME ? runtime_version : driver_version;
	*version = {};
	snprintf(version->version, sizeof(version->version), "%s", v.text);
	write_part(version->majorVersion, v.major);
	write_part(version->minorVersion, v.minor);
	write_part(version->releaseVersion, v.patch);
	return ACL_SUCCESS;
}

static const aclCannAttr cann_attrs[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16, ACL_CANN_ATTR_JIT_COMPILE};

} // extern "C"

#include "lib/acl/calls_init.h"
