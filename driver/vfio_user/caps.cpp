/* SPDX-License-Identifier: BSD-3-Clause */
/* The JSON in the VERSION message. */
#include "driver/base/grow.h"
#include "driver/vfio_user/socket.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace usdma::vfio {

using json = nlohmann::json;

caps_text user_caps_json(const user_caps &caps)
{
	caps_text out;

	snprintf(out.text, sizeof(out.text),
		 "{\"capabilities\":{\"max_msg_fds\":%llu,\"max_data_xfer_size\":%llu,\"max_dma_maps\":%llu,"
		 "\"pgsizes\":%llu}}",
		 ull(caps.max_msg_fds), ull(caps.max_data_xfer), ull(caps.max_dma_maps), ull(caps.pgsizes));
	return out;
}

/*
 * A SAX parser, without a tree of values: the tree's destructor allocates memory, which must not fail here.
 * Depth 1 is the outer object, depth 2 the content of "capabilities".
 */
class caps_reader {
public:
	explicit caps_reader(user_caps *out) : out_(out) {}
	/* 0, or the error. */
	int end(bool well_formed) const { return err_ || well_formed ? err_ : not_an_object(); }

	bool null() { return other(); }
	bool boolean(bool) { return other(); }
	bool number_integer(s64) { return other(); }
	bool number_float(double, const std::string &) { return other(); }
	bool string(const std::string &) { return other(); }
	bool binary(json::binary_t &) { return other(); }
	bool number_unsigned(u64 v)
	{
		const field *k = depth_ == 2 ? field_ : nullptr;

		if (!k)
			return other();
		if (v < k->least)
			return stop(fail(EPROTO, "vfio-user capability %s is %llu, at least %llu is needed", k->name,
					 ull(v), ull(k->least)));
		out_->*k->to = v;
		return true;
	}
	bool start_object(size_t)
	{
		if (depth_ == 1 && in_caps_) {
			depth_++;
			return true;
		}
		return open();
	}
	bool start_array(size_t) { return depth_ ? open() : stop(not_an_object()); }
	bool end_object() { return close(); }
	bool end_array() { return close(); }
	bool key(const std::string &name)
	{
		static constexpr field all[] = {{"max_msg_fds", 0, &user_caps::max_msg_fds},
						{"max_data_xfer_size", 8, &user_caps::max_data_xfer},
						{"max_dma_maps", 1, &user_caps::max_dma_maps},
						{"pgsizes", 1, &user_caps::pgsizes}};

		if (skip_)
			return true;
		field_ = nullptr;
		if (depth_ == 1)
			in_caps_ = name == "capabilities";
		for (const field &k : all)
			if (depth_ == 2 && name == k.name)
				field_ = &k;
		return true;
	}
	template <class E> bool parse_error(size_t, const std::string &, const E &) { return false; }

private:
	struct field {
		const char *name;
		u64 least;
		u64 user_caps::*to;
	};

	static int not_an_object() { return fail(EPROTO, "vfio-user version data is not a JSON object"); }
	bool stop(int err)
	{
		err_ = err;
		return false;
	}
	/* A value that is not a whole number. */
	bool other()
	{
		if (skip_)
			return true;
		if (!depth_)
			return stop(not_an_object());
		if (depth_ == 1 && in_caps_)
			return stop(fail(EPROTO, "vfio-user capabilities are not a JSON object"));
		return field_ ? stop(fail(EPROTO, "vfio-user capability %s is not a whole number", field_->name)) :
				true;
	}
	/* The content of unknown values is skipped. */
	bool open()
	{
		if (skip_ || depth_) {
			if (!other())
				return false;
			skip_++;
			return true;
		}
		depth_ = 1;
		return true;
	}
	bool close()
	{
		(skip_ ? skip_ : depth_)--;
		in_caps_ = in_caps_ && depth_ > 1;
		return true;
	}

	user_caps *out_;
	unsigned depth_ = 0, skip_ = 0;
	bool in_caps_ = false;
	const field *field_ = nullptr;
	int err_ = 0;
};

static int parse_text(std::string_view data, user_caps *out)
{
	caps_reader reader(out);
	const bool good = json::sax_parse(data.begin(), data.end(), &reader);

	return reader.end(good);
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
	return within_memory("vfio-user version data", [=] { return parse_text(data, out); });
}

} // namespace usdma::vfio
