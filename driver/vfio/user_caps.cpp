/* SPDX-License-Identifier: BSD-3-Clause */
/* The JSON of the VERSION message.  The parser is the non-throwing one, and every value's type is asked before it is read. */
#include "driver/base/error.h"
#include "driver/vfio/user_socket.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace usdma::vfio {

using json = nlohmann::json;

static unsigned long long ull(u64 v)
{
	return v;
}

std::string user_caps_json(const user_caps &caps)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "{\"capabilities\":{\"max_msg_fds\":%llu,\"max_data_xfer_size\":%llu,\"max_dma_maps\":%llu,"
		 "\"pgsizes\":%llu}}",
		 ull(caps.max_msg_fds), ull(caps.max_data_xfer), ull(caps.max_dma_maps), ull(caps.pgsizes));
	return text;
}

static int read_number(const json &caps, const char *key, u64 least, u64 *out)
{
	const auto it = caps.find(key);

	if (it == caps.end())
		return 0;
	if (!it->is_number_unsigned())
		return fail(EPROTO, "vfio-user capability %s is not a whole number", key);
	*out = it->get<u64>();
	if (*out < least)
		return fail(EPROTO, "vfio-user capability %s is %llu, at least %llu is needed", key, ull(*out),
			    ull(least));
	return 0;
}

static int read_caps(const json &caps, user_caps *out)
{
	int err = read_number(caps, "max_msg_fds", 0, &out->max_msg_fds);

	if (!err)
		err = read_number(caps, "max_data_xfer_size", 8, &out->max_data_xfer);
	if (!err)
		err = read_number(caps, "max_dma_maps", 1, &out->max_dma_maps);
	if (!err)
		err = read_number(caps, "pgsizes", 1, &out->pgsizes);
	return err;
}

int user_caps_parse(std::string_view data, user_caps *out)
{
	*out = user_caps{};
	if (data.empty())
		return 0;
	if (data.back() != '\0')
		return fail(EPROTO, "vfio-user version data does not end in NUL");
	data.remove_suffix(1);
	if (data.size() > 65536)
		return fail(EPROTO, "vfio-user version data of %zu bytes", data.size());
	if (data.empty())
		return 0;
	const json doc = json::parse(data.begin(), data.end(), nullptr, false);

	if (doc.is_discarded() || !doc.is_object())
		return fail(EPROTO, "vfio-user version data is not a JSON object");
	const auto caps = doc.find("capabilities");

	if (caps == doc.end())
		return 0;
	if (!caps->is_object())
		return fail(EPROTO, "vfio-user capabilities are not a JSON object");
	return read_caps(*caps, out);
}

} // namespace usdma::vfio
