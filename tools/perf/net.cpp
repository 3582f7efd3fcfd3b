/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies to and from FABRIC memory of another machine. There --net-listen exports the memory, says its handle to who
 * connects, and takes part in what plain TCP needs for the same bytes: the link's limit.
 */
#include "tools/interrupt.h"
#include "tools/perf/api.h"
#include "tools/perf/clock.h"
#include "tools/perf/histogram.h"
#include "tools/perf/options.h"
#include "tools/perf/report.h"
#include "tools/perf/tcp.h"

#include <cstring>
#include <endian.h>
#include <functional>
#include <nlohmann/json.hpp>

namespace usdma::perf {

#if USDMA_PERF_ACL

namespace {

constexpr char magic[8] = {'u', 's', 'd', 'm', 'a', 'p', 'n', '1'};
constexpr size_t least_memory = 64 * MiB, granularity = 2 * MiB;
constexpr u64 most_request = u64(1) << 40;
constexpr unsigned in_flight = 8;

/* From the side that listens, to who has connected. Numbers are little endian. */
struct hello {
	char magic[8];
	u64 bytes;
	char handle[128];
};

/* The listening side receives so many bytes and then sends one, or sends them. */
enum class transfer : u64 { take = 1, give = 2 };
struct request {
	u64 kind, bytes;
};

#define NEED(call, ...) acl_api::need(call(__VA_ARGS__), #call)

/* Physical memory at an address. */
class fabric_memory {
public:
	explicit fabric_memory(size_t bytes) : bytes_(bytes)
	{
		const aclrtPhysicalMemProp prop = {ACL_MEM_HANDLE_TYPE_NONE,
						   ACL_MEM_ALLOCATION_TYPE_PINNED,
						   ACL_HBM_MEM_HUGE,
						   {0, ACL_MEM_LOCATION_TYPE_DEVICE},
						   0};

		NEED(aclrtMallocPhysical, &handle_, bytes, &prop, 0);
		map();
	}
	explicit fabric_memory(const hello &of) : bytes_(le64toh(of.bytes))
	{
		char key[128];

		memcpy(key, of.handle, sizeof(key));
		NEED(aclrtMemImportFromShareableHandleV2, key, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0, &handle_);
		map();
	}
	~fabric_memory()
	{
		aclrtUnmapMem(at_);
		aclrtReleaseMemAddress(at_);
		aclrtFreePhysical(handle_);
	}
	fabric_memory(const fabric_memory &) = delete;

	void export_to(char *key)
	{
		NEED(aclrtMemExportToShareableHandleV2, handle_, ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
		     ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, key);
	}
	void *at() const { return at_; }

private:
	void map()
	{
		NEED(aclrtReserveMemAddress, &at_, bytes_, 0, nullptr, 0);
		NEED(aclrtMapMem, at_, bytes_, 0, handle_, 0);
	}

	size_t bytes_;
	aclrtDrvMemHandle handle_ = nullptr;
	void *at_ = nullptr;
};

/* ---- the side that listens --------------------------------------------------------------------------- */

void need_setting(const char *name, const char *example)
{
	char value[4096];

	if (usdma_setting_get(name, value, sizeof(value)) || !value[0])
		throw std::runtime_error(fmt::format("the setting {} is empty: {} (docs/hosts.md)", name, example));
}

void need_settings()
{
	need_setting("net", "it names the interface to other machines, as in USDMA_NET=eth1");
	need_setting("net_key_file", "it names the file with the key of both machines, as in "
				     "USDMA_NET_KEY_FILE=job.key");
}

void serve(tcp_link link, const hello &h)
{
	request r;

	link.send(&h, sizeof(h));
	while (link.receive_first(&r, sizeof(r))) {
		const u64 bytes = le64toh(r.bytes);
		const auto kind = transfer(le64toh(r.kind));

		if (bytes > most_request || (kind != transfer::take && kind != transfer::give))
			throw std::runtime_error("it is no usdma-perf of this version");
		if (kind == transfer::give) {
			link.send_bytes(bytes);
			continue;
		}
		link.drop_bytes(bytes);
		link.send("", 1);
	}
}

/* ---- the side that measures -------------------------------------------------------------------------- */

struct figures {
	double p50_ns = 0, p99_ns = 0, gbps = 0;
};

/* once(n) moves n times the bytes. */
figures take(double seconds, size_t bytes, const std::function<void(u64)> &once, u64 at_once)
{
	histogram h;
	figures out;
	const u64 each = u64(seconds * double(ns_per_s));

	once(1);
	for (const u64 begin = now_ns(); !stopped() && now_ns() - begin < each;) {
		const u64 start = now_ns();

		once(1);
		h.add(double(now_ns() - start));
	}
	u64 n = 0;
	const u64 begin = now_ns();
	for (; !stopped() && now_ns() - begin < each; n += at_once)
		once(at_once);
	out.p50_ns = h.percentile(50), out.p99_ns = h.percentile(99);
	out.gbps = double(n) * double(bytes) / double(now_ns() - begin);
	return out;
}

class remote_machine {
public:
	explicit remote_machine(const options &o)
		: o_(o), link_(tcp_link::connect(o.net)), hello_(greet()), memory_(hello_)
	{
		NEED(aclrtMallocHost, &local_, largest());
		NEED(aclrtCreateStream, &stream_);
	}
	~remote_machine()
	{
		aclrtDestroyStream(stream_);
		aclrtFreeHost(local_);
	}
	remote_machine(const remote_machine &) = delete;

	figures copies(bool to, size_t bytes);
	figures by_tcp(bool to, size_t bytes);

private:
	hello greet();
	size_t largest() const { return *std::max_element(o_.sizes.begin(), o_.sizes.end()); }

	const options &o_;
	tcp_link link_;
	hello hello_;
	fabric_memory memory_;
	void *local_ = nullptr;
	aclrtStream stream_ = nullptr;
};

hello remote_machine::greet()
{
	hello h;

	link_.receive(&h, sizeof(h));
	if (memcmp(h.magic, magic, sizeof(magic)) != 0)
		throw std::runtime_error(o_.net + ": it is no usdma-perf of this version");
	if (le64toh(h.bytes) < largest())
		throw std::runtime_error(fmt::format("--size {}: {} has {} of memory: start it with --size {}",
						     size_text(largest()), o_.net, size_text(le64toh(h.bytes)),
						     size_text(largest())));
	return h;
}

figures remote_machine::copies(bool to, size_t bytes)
{
	const auto once = [&](u64 n) {
		for (u64 i = 0; i < n; i++)
			if (to)
				NEED(aclrtMemcpyAsync, memory_.at(), bytes, local_, bytes, ACL_MEMCPY_HOST_TO_DEVICE,
				     stream_);
			else
				NEED(aclrtMemcpyAsync, local_, bytes, memory_.at(), bytes, ACL_MEMCPY_DEVICE_TO_HOST,
				     stream_);
		NEED(aclrtSynchronizeStream, stream_);
	};

	return take(o_.seconds, bytes, once, in_flight);
}

figures remote_machine::by_tcp(bool to, size_t bytes)
{
	const u64 many = std::max<u64>(in_flight, 16 * MiB / bytes);
	const auto once = [&](u64 n) {
		const request r = {htole64(u64(to ? transfer::take : transfer::give)), htole64(n * bytes)};
		char end;

		link_.send(&r, sizeof(r));
		if (!to)
			return link_.drop_bytes(n * bytes);
		link_.send_bytes(n * bytes);
		link_.receive(&end, 1);
	};

	return take(o_.seconds, bytes, once, many);
}

std::string head()
{
	return fmt::format("{:>6} {:>6} {:>9} {:>9} {:>9} {:>6} {:>9} {:>9} {:>6}\n", "size", "kind", "p50 us",
			   "p99 us", "TCP us", "ratio", "GB/s", "TCP GB/s", "ratio");
}

double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

std::string text_of(size_t size, const char *kind, const figures &us, const figures &tcp)
{
	return fmt::format("{:>6} {:>6} {:9.1f} {:9.1f} {:9.1f} {:6.2f} {:9.3f} {:9.3f} {:6.2f}\n", size_text(size),
			   kind, us.p50_ns / 1e3, us.p99_ns / 1e3, tcp.p50_ns / 1e3, ratio(us.p50_ns, tcp.p50_ns),
			   us.gbps, tcp.gbps, ratio(us.gbps, tcp.gbps));
}

nlohmann::json json_of(size_t size, const char *kind, const figures &us, const figures &tcp)
{
	return {{"size", size},
		{"kind", kind},
		{"p50_us", us.p50_ns / 1e3},
		{"p99_us", us.p99_ns / 1e3},
		{"gbps", us.gbps},
		{"in_flight", in_flight},
		{"tcp_p50_us", tcp.p50_ns / 1e3},
		{"tcp_gbps", tcp.gbps}};
}

} // namespace

int run_net_listen(const options &o, const machine &m)
{
	const size_t bytes = std::max(least_memory, *std::max_element(o.sizes.begin(), o.sizes.end()));
	hello h;

	need_settings();
	const acl_api acl(0);
	fabric_memory memory(align_up(bytes, granularity));
	memcpy(h.magic, magic, sizeof(magic));
	h.bytes = htole64(align_up(bytes, granularity));
	memory.export_to(h.handle);
	tcp_listener listener(o.net_listen);
	say(fmt::format("{}listening at {}, port {}: there, usdma-perf --net ADDRESS\n", describe(m), o.net_listen,
			listener.port()));
	for (unique_fd fd; (fd = listener.accept()).valid();) {
		try {
			serve(tcp_link(std::move(fd)), h);
		} catch (const std::exception &e) {
			if (!tool::interrupted())
				fmt::print(stderr, "usdma-perf: {}\n", e.what());
		}
	}
	return 0;
}

int run_net(const options &o, const machine &m)
{
	const bool table = o.json != "-";
	nlohmann::json doc = {{"version", USDMA_VERSION_TEXT},
			      {"machine", to_json(m)},
			      {"to", o.net},
			      {"rows", nlohmann::json::array()}};

	need_settings();
	const acl_api acl(0);
	remote_machine remote(o);
	if (table)
		say(describe(m) + head());
	for (const size_t size : o.sizes)
		for (const bool to : {true, false}) {
			if (stopped())
				break;
			const char *const kind = to ? "write" : "read";
			progress(o, fmt::format("{} of {}", kind, size_text(size)));
			const figures us = remote.copies(to, size), tcp = remote.by_tcp(to, size);
			progress(o, "");
			if (table)
				say(text_of(size, kind, us, tcp));
			doc["rows"].push_back(json_of(size, kind, us, tcp));
		}
	doc["interrupted"] = tool::interrupted();
	write_json(o.json, doc);
	return 0;
}

#undef NEED

#else

int run_net_listen(const options &, const machine &)
{
	throw std::runtime_error("--net-listen: this usdma-perf was built without libascendcl");
}

int run_net(const options &, const machine &)
{
	throw std::runtime_error("--net: this usdma-perf was built without libascendcl");
}

#endif

} // namespace usdma::perf
