/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/check/race_report.h"

#include "driver/base/cancel.h"
#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/base/unique_fd.h"
#include "lib/core/base/slab.h"
#include "lib/core/check/frames.h"
#include "lib/core/config/config.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <tuple>
#include <unistd.h>
#include <unwind.h>

namespace usdma::core {

/* ---- what was done ---------------------------------------------------------------------------------- */

namespace {

struct unwound {
	call_stacks::frames ip = {};
	void *const *slots[call_stacks::depth] = {};
	unsigned n = 0;
	bool in_slots = true; /* each return address is where the processor's convention puts it */
};

_Unwind_Reason_Code add_frame(_Unwind_Context *c, void *arg)
{
	auto *const u = static_cast<unwound *>(arg);

	if (u->n == call_stacks::depth)
		return _URC_END_OF_STACK;
	u->ip[u->n] = reinterpret_cast<void *>(_Unwind_GetIP(c));
	u->slots[u->n] = reinterpret_cast<void *const *>(_Unwind_GetCFA(c)) - 1;
	/* The first is a call within call_stacks::here(), always the same. */
	if (u->n && u->ip[u->n] && *u->slots[u->n] != u->ip[u->n])
		u->in_slots = false;
	u->n += u->ip[u->n] != nullptr;
	return _URC_NO_REASON;
}

} // namespace

u32 call_stacks::number_of(const frames &f)
{
	const auto it = numbers_.find(f);

	if (it != numbers_.end())
		return it->second;
	if (numbers_.size() == max_stacks) {
		forgotten_++;
		return 0;
	}
	if (by_id_.size() == by_id_.capacity())
		by_id_.reserve(by_id_.size() * 2 + 1);
	const auto made = numbers_.emplace(f, u32(by_id_.size() + 1)).first;
	by_id_.push_back(&made->first);
	return made->second;
}

[[gnu::noinline]] u32 call_stacks::here(int thread)
{
	const void *const below = __builtin_frame_address(0);
	recent &r = recent_[(reinterpret_cast<u64>(below) >> 4) % max_recent];
	bool same = r.id && r.below == below && r.thread == thread;

	for (unsigned i = 1; same && i < r.n; i++)
		same = *r.slots[i] == (*r.was)[i];
	if (same)
		return r.id;
	unwound u;
	_Unwind_Backtrace(add_frame, &u);
	const u32 id = number_of(u.ip);
	r.id = u.in_slots ? id : 0;
	r.thread = thread;
	r.n = u.n;
	r.below = below;
	r.was = at(id);
	std::copy(std::begin(u.slots), std::end(u.slots), std::begin(r.slots));
	return id;
}

u32 frame_texts::number_of(const std::string &lines)
{
	const auto it = numbers_.find(lines);

	if (it != numbers_.end() || numbers_.size() == max_texts)
		return it != numbers_.end() ? it->second : 0;
	if (by_id_.size() == by_id_.capacity())
		by_id_.reserve(by_id_.size() * 2 + 1);
	const auto made = numbers_.emplace(lines, u32(by_id_.size() + 1)).first;
	by_id_.push_back(&made->first);
	return made->second;
}

const std::string &frame_texts::at(u32 id) const
{
	static no_destructor<std::string> none;

	return id && id <= by_id_.size() ? *by_id_[id - 1] : *none;
}

u32 race_operations::add(const race_operation &op)
{
	const u32 number = ++last_ ? last_ : ++last_; /* 0: none */

	if (ring_.empty())
		ring_.resize(capacity);
	/* The ring is larger than the CPU's caches. */
	prefetch_write(&ring_[(number + 4) % capacity]);
	ring_[number % capacity] = op;
	ring_[number % capacity].number = number;
	return number;
}

const race_operation *race_operations::find(u32 number) const
{
	const race_operation *op = ring_.empty() ? nullptr : &ring_[number % capacity];

	return op && op->number == number ? op : nullptr;
}

namespace {

/* ---- frames ----------------------------------------------------------------------------------------- */

bool is_call(const frame &f)
{
	static constexpr std::string_view apis[] = {"acl", "usdma_", "Hccl", "rt", "hal", "drv"};

	for (const std::string_view api : apis)
		if (f.function.starts_with(api))
			return true;
	return false;
}

/* "kv.py:12 in load" */
frame frame_of_line(const std::string &line)
{
	const size_t in = line.rfind(" in "), colon = line.rfind(':', in);
	frame f;

	if (in == std::string::npos || colon == std::string::npos)
		return f;
	f.function = line.substr(in + 4);
	f.file = line.substr(0, colon);
	f.line = atoi(line.c_str() + colon + 1);
	return f;
}

void add_lines(const std::string &text, std::vector<frame> *to)
{
	for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
		to->push_back(frame_of_line(text.substr(at, end - at)));
}

/* From the call on; all if the program is linked with the library. Of an interpreter: the call, and its lines. */
std::vector<frame> stack_of(const report_stacks &from, u32 id, u32 frames)
{
	const call_stacks::frames *const s = from.native.at(id);
	std::vector<frame> all;
	size_t first = 0;

	for (size_t i = 0; s && i < s->size() && (*s)[i]; i++) {
		all.push_back(frame_of((*s)[i]));
		if (frames && !all.back().own)
			break;
	}
	while (first < all.size() && all[first].own)
		first++;
	const bool call = first && first < all.size() && is_call(all[first - 1]);
	first = first == all.size() ? 0 : first - call;
	all.erase(all.begin(), all.begin() + long(first));
	if (frames)
		all.resize(call ? 1 : 0);
	add_lines(from.texts.at(frames), &all);
	return all;
}

std::string text_of(const frame &f)
{
	std::string out = f.function;
	char offset[32];

	if (!f.file.empty())
		out += " at " + f.file.substr(f.file.rfind('/') + 1) + ":" + std::to_string(f.line);
	if (f.module.empty())
		return out;
	snprintf(offset, sizeof(offset), "+0x%llx", static_cast<unsigned long long>(f.offset));
	return out + (out.empty() ? "" : " ") + "(" + f.module + offset + ")";
}

/* "aclrtMemcpyAsync"; "": the stack says nothing. */
std::string call_of(const std::vector<frame> &stack)
{
	return !stack.empty() && stack[0].own && is_call(stack[0]) ? stack[0].function : "";
}

/* ---- texts ------------------------------------------------------------------------------------------ */

struct side {
	const race_operation &op;
	bool writes;
	std::string item; /* "item 3 of ", or "" */
	std::vector<frame> stack;
	std::string call; /* "aclrtMemcpyAsync", or else "a copy" */
};

side side_of(const race_finding &f, bool second, const report_stacks &from)
{
	const race_operation &op = second ? f.second : f.first;
	side s = {op, second ? f.second_writes : f.first_writes, "", stack_of(from, op.stack, op.frames), ""};

	if (f.kind == race_kind::batch)
		s.item = "item " + std::to_string(second ? f.second_item : f.first_item) + " of ";
	s.call = call_of(s.stack);
	if (s.call.empty())
		s.call = op.what ? std::string("a ") + op.what : "an operation of long ago";
	return s;
}

std::string stream_name(const race_context &c)
{
	return c.host ? "the host" : "stream " + std::to_string(c.stream);
}

std::string who(const side &s)
{
	if (!s.op.what || s.op.by.host || s.op.by.internal)
		return s.item + s.call;
	return s.item + s.call + " on " + stream_name(s.op.by);
}

std::string kind_of(const race_finding &f)
{
	switch (f.kind) {
	case race_kind::free_in_use:
		return "free in use";
	case race_kind::source_changed:
		return "source changed";
	case race_kind::unwritten:
		return "read of unwritten memory";
	case race_kind::batch:
		return "overlap in a batch";
	case race_kind::rule:
		return "use against the documents";
	case race_kind::no_order:
		break;
	}
	return std::string(f.second_writes ? "write" : "read") + " after " + (f.first_writes ? "write" : "read");
}

std::string missing_edge(const race_finding &f, const side &a, const side &b)
{
	if (f.kind == race_kind::unwritten)
		return "nothing has written these bytes since they were allocated";
	if (f.kind == race_kind::batch)
		return "the items of one call have no order among themselves";
	if (f.kind == race_kind::source_changed)
		return "the program changed the source before it waited for " + stream_name(f.first.by) +
		       ": a copy reads it when it runs, not when it is called";
	if (f.second.by.host || f.second.by.internal)
		return b.call + " does not wait for " + stream_name(f.first.by) + ", and nothing before it did";
	if (f.first.by.internal)
		return "nothing waited for the end of " + a.call;
	return stream_name(f.second.by) + " does not wait for " + stream_name(f.first.by);
}

/* The smallest change, in the words of the API that the second call is of. */
std::string fix_of(const race_finding &f, const side &a, const side &b)
{
	const bool acl = b.call.starts_with("acl") || a.call.starts_with("acl");
	const std::string first = std::to_string(f.first.by.stream), second = std::to_string(f.second.by.stream);

	if (f.kind == race_kind::unwritten)
		return std::string("a copy or ") + (acl ? "aclrtMemset" : "usdma_fill") + " to these bytes before " +
		       b.call + ", or a shorter range";
	if (f.kind == race_kind::batch)
		return "ranges that do not overlap, or item " + std::to_string(f.second_item) +
		       " in another call after " + b.call;
	if (f.kind == race_kind::source_changed)
		return "the wait that noticed it, earlier; or another buffer";
	if (f.second.by.host || f.second.by.internal || f.first.by.internal)
		return std::string(acl ? "aclrtSynchronizeStream" : "usdma_stream_sync") + " of stream " + first +
		       " before " + b.call;
	return std::string(acl ? "aclrtRecordEvent(event, stream " : "usdma_event_record(event, stream ") + first +
	       ") after " + a.call + ", and " +
	       (acl ? "aclrtStreamWaitEvent(stream " + second + ", event)" :
		      "usdma_stream_wait_event(stream " + second + ", event)") +
	       " before " + b.call;
}

std::string stack_text(const std::vector<frame> &stack, const char *indent)
{
	std::string out;

	for (size_t i = 0; i < stack.size(); i++)
		out += std::string(indent) + "#" + std::to_string(i) + " " + text_of(stack[i]) + "\n";
	return out;
}

std::string range_text(const race_location &w)
{
	char at[32];

	if (!w.block)
		return "memory that was freed since";
	snprintf(at, sizeof(at), "0x%llx", static_cast<unsigned long long>(w.address));
	return "bytes " + std::to_string(w.offset) + " to " + std::to_string(w.offset + w.bytes - 1) + " of the " +
	       std::to_string(w.size) + " bytes of " + w.block + " at " + at;
}

std::string operation_text(const side &s, const char *which)
{
	return std::string("  ") + which + ": " + who(s) + (s.writes ? " writes" : " reads") +
	       (s.op.what ? std::string(" (") + s.op.what + ", thread " + std::to_string(s.op.thread) + ")" : "") +
	       "\n" + stack_text(s.stack, "    ");
}

struct written_report {
	std::string kind, missing, fix, text, json;
};

/* ---- JSON ------------------------------------------------------------------------------------------- */

std::string quoted(const std::string &s)
{
	std::string out = "\"";

	for (const char c : s) {
		char code[8];

		if (c == '"' || c == '\\')
			out += '\\';
		if (static_cast<unsigned char>(c) >= 0x20) {
			out += c;
			continue;
		}
		snprintf(code, sizeof(code), "\\u%04x", c);
		out += code;
	}
	return out + "\"";
}

std::string stack_json(const std::vector<frame> &stack)
{
	std::string out = "[";

	for (const frame &f : stack)
		out += std::string(out.size() > 1 ? ", " : "") + "{\"function\": " + quoted(f.function) +
		       ", \"module\": " + quoted(f.module) + ", \"offset\": " + std::to_string(f.offset) +
		       ", \"file\": " + quoted(f.file) + ", \"line\": " + std::to_string(f.line) + "}";
	return out + "]";
}

std::string side_json(const side &s)
{
	return "{\"call\": " + quoted(s.call) + ", \"operation\": " + quoted(s.op.what ? s.op.what : "") +
	       ", \"writes\": " + (s.writes ? "true" : "false") +
	       ", \"stream\": " + (s.op.by.host ? "null" : std::to_string(s.op.by.stream)) +
	       ", \"thread\": " + std::to_string(s.op.thread) + ", \"stack\": " + stack_json(s.stack) + "}";
}

std::string location_json(const race_location &w, const std::vector<frame> &allocated)
{
	return "{\"block\": " + quoted(w.block ? w.block : "") + ", \"address\": " + std::to_string(w.address) +
	       ", \"size\": " + std::to_string(w.size) + ", \"offset\": " + std::to_string(w.offset) +
	       ", \"bytes\": " + std::to_string(w.bytes) + ", \"stack\": " + stack_json(allocated) + "}";
}

/* There is one operation, and no order that is missing. */
written_report write_rule(const race_finding &f, const report_stacks &from, u64 number)
{
	const side by = side_of(f, true, from);
	written_report r;

	r.kind = kind_of(f);
	r.text = "usdma: check " + std::to_string(number) + ": " + r.kind + ": " + by.call + ": " + f.rule + "\n" +
		 stack_text(by.stack, "    ") + "  fix: " + f.rule_fix + "\n";
	r.json = "{\"report\": " + std::to_string(number) + ", \"kind\": " + quoted(r.kind) +
		 ", \"first\": null, \"second\": " + side_json(by) + ", \"where\": " + location_json(f.where, {}) +
		 ", \"missing\": " + quoted(f.rule) + ", \"fix\": " + quoted(f.rule_fix) + "}\n";
	return r;
}

written_report write_report(const race_finding &f, const report_stacks &from, u64 number)
{
	const side a = side_of(f, false, from), b = side_of(f, true, from);
	const std::vector<frame> allocated = stack_of(from, f.where.stack, f.where.frames);
	written_report r;

	r.kind = kind_of(f);
	r.missing = missing_edge(f, a, b);
	r.fix = fix_of(f, a, b);
	r.text = "usdma: race " + std::to_string(number) + ": " + r.kind + ": " + range_text(f.where) + "\n" +
		 (f.kind == race_kind::unwritten ? operation_text(b, "by") :
						   operation_text(a, "first") + operation_text(b, "then")) +
		 (allocated.empty() ? "" : "  allocated by:\n" + stack_text(allocated, "    ")) +
		 "  missing: " + r.missing + "\n  fix: " + r.fix + "\n";
	r.json = "{\"report\": " + std::to_string(number) + ", \"kind\": " + quoted(r.kind) +
		 ", \"first\": " + (f.kind == race_kind::unwritten ? "null" : side_json(a)) +
		 ", \"second\": " + side_json(b) + ", \"where\": " + location_json(f.where, allocated) +
		 ", \"missing\": " + quoted(r.missing) + ", \"fix\": " + quoted(r.fix) + "}\n";
	return r;
}

/* ---- where reports go ------------------------------------------------------------------------------- */

/* By the texts: each library has its own of the same words. */
using report_key = std::tuple<race_kind, std::array<u32, 6>, bool, bool, std::string_view, std::string_view>;

std::string_view text_of(const char *what)
{
	return what ? what : "";
}

struct counted {
	u64 number; /* 0: suppressed */
	u64 count;
};

struct report_state {
	static constexpr size_t max_reports = 1000;
	std::map<report_key, counted> all;
	u64 reports = 0, suppressed = 0, beyond = 0;
};

report_state &all_reports()
{
	static no_destructor<report_state> s;

	return *s;
}

u64 written; /* atomic: race_reports() */

void write_all(int fd, const std::string &text)
{
	for (size_t at = 0; at < text.size();) {
		const ssize_t n = write(fd, text.data() + at, text.size() - at);

		if (n <= 0)
			return;
		at += size_t(n);
	}
}

/* In one write: processes may share the file. */
void append_line(const std::string &line)
{
	const std::string &path = config_get().checks.report;

	if (path.empty())
		return;
	const unique_fd fd(fd_above_stdio(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)));
	if (!fd.valid())
		log_warn("report (USDMA_CHECK) %s: %s", path.c_str(), strerrordesc_np(errno));
	else
		write_all(fd.get(), line);
}

std::string file_text(const std::string &path)
{
	const unique_fd fd(fd_above_stdio(open(path.c_str(), O_RDONLY | O_CLOEXEC)));
	std::string all;
	char part[4096];
	ssize_t n = 0;

	if (!fd.valid())
		log_warn("suppressions (USDMA_CHECK) %s: %s", path.c_str(), strerrordesc_np(errno));
	while (fd.valid() && (n = read(fd.get(), part, sizeof(part))) > 0)
		all.append(part, size_t(n));
	return all;
}

/* A line of the file, that is not empty and no comment, is in the report. */
bool is_suppressed(const std::string &text)
{
	const std::string &path = config_get().checks.suppressions;
	const std::string lines = path.empty() ? "" : file_text(path);

	for (std::string_view rest = lines; !rest.empty();) {
		const std::string_view line = rest.substr(0, rest.find('\n'));

		if (!line.empty() && line[0] != '#' && text.find(line) != std::string::npos)
			return true;
		rest.remove_prefix(std::min(rest.size(), line.size() + 1));
	}
	return false;
}

/* Of the program's call that finds a race: it is not cancelled here, and has its own error text afterwards. */
struct calls_own {
	no_cancel scope;
	saved_error text;

	~calls_own() { text.again(0); }
};

} // namespace

void race_report(const race_finding &f, const report_stacks &from)
{
	report_state &s = all_reports();
	const report_key key = {
		f.kind,
		{f.first.stack, f.second.stack, f.where.stack, f.first.frames, f.second.frames, f.where.frames},
		f.first_writes,
		f.second_writes,
		text_of(f.rule ? f.rule : f.first.what),
		text_of(f.second.what)};
	const auto it = s.all.find(key);

	if (it != s.all.end()) {
		it->second.count++;
		return;
	}
	if (s.all.size() >= report_state::max_reports) {
		s.beyond++;
		return;
	}
	const calls_own saved;
	const written_report r = f.rule ? write_rule(f, from, s.reports + 1) : write_report(f, from, s.reports + 1);
	const bool hidden = is_suppressed(r.text);
	s.all.emplace(key, counted{hidden ? 0 : ++s.reports, 1});
	if (hidden) {
		s.suppressed++;
		return;
	}
	store_relaxed(&written, s.reports);
	write_all(STDERR_FILENO, r.text);
	append_line(r.json);
}

u64 race_reports()
{
	return load_relaxed(&written);
}

static std::string dropped_text(const race_dropped &d)
{
	return "{\"ranges\": " + std::to_string(d.ranges) + ", \"readers\": " + std::to_string(d.readers) +
	       ", \"waits\": " + std::to_string(d.waits) + ", \"sources\": " + std::to_string(d.sources) +
	       ", \"pages\": " + std::to_string(d.pages) + ", \"unwritten\": " + std::to_string(d.unwritten) +
	       ", \"reports\": " + std::to_string(d.reports) + ", \"stacks\": " + std::to_string(d.stacks) +
	       ", \"no_memory\": " + std::to_string(d.no_memory) + "}";
}

/* "[3, 1]": how often each report was found. */
static std::string counts_text(const report_state &s)
{
	std::vector<u64> counts(s.reports);
	std::string out = "[";

	for (const auto &[key, c] : s.all)
		if (c.number)
			counts[c.number - 1] = c.count;
	for (const u64 n : counts)
		out += (out.size() > 1 ? ", " : "") + std::to_string(n);
	return out + "]";
}

void race_report_end(race_dropped d)
{
	const report_state &s = all_reports();

	d.reports = s.beyond;
	append_line("{\"summary\": " + std::to_string(s.reports) + ", \"counts\": " + counts_text(s) +
		    ", \"suppressed\": " + std::to_string(s.suppressed) + ", \"dropped\": " + dropped_text(d) + "}\n");
	if (s.reports || d.any())
		write_all(STDERR_FILENO, "usdma: check: " + std::to_string(s.reports) + " reports, found " +
						 counts_text(s) + " times; dropped: " + dropped_text(d) + "\n");
}

} // namespace usdma::core
