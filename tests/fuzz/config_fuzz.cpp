/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration: the system's file or the file that USDMA_CONFIG names, and
 * the environment, which overrides it.  The input: a byte (bit 0: USDMA_CONFIG is
 * set), two lengths, the two files, and "name=value" lines for the environment.
 */
#include "tests/fuzz/fuzz.h"

#include "driver/base/log.h"
#include "driver/base/unique_fd.h"
#include "lib/core/config/setting.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace usdma;
using namespace usdma::core;
using namespace usdma::fuzz;

/* A memfd with a path, so that no file has to be created. */
struct memory_file {
	explicit memory_file(const char *name)
		: fd(memfd_create(name, MFD_CLOEXEC)), path("/proc/self/fd/" + std::to_string(fd.get()))
	{
		must_hold(fd.valid());
	}
	void write(const std::string &text)
	{
		must_hold(!ftruncate(fd.get(), 0));
		must_hold(pwrite(fd.get(), text.data(), text.size(), 0) == ssize_t(text.size()));
		lines = unsigned(std::count(text.begin(), text.end(), '\n')) + 1;
	}

	unique_fd fd;
	std::string path;
	unsigned lines = 0;
};

struct world {
	const memory_file *own = nullptr; /* USDMA_CONFIG */
	std::vector<std::string> variables;
};

static const char *variable_of(const char *name, void *arg)
{
	const world &w = *static_cast<world *>(arg);

	if (!strcmp(name, "USDMA_CONFIG"))
		return w.own ? w.own->path.c_str() : nullptr;
	for (const setting &s : settings())
		for (const std::string &v : w.variables)
			if (setting_variable(s) == name && v.starts_with(std::string(s.name) + "="))
				return v.c_str() + strlen(s.name) + 1;
	return nullptr;
}

static std::string take(input *in, size_t most)
{
	size_t len;
	const u8 *text = in->run(most, &len);

	return std::string(reinterpret_cast<const char *>(text), len);
}

static std::vector<std::string> lines_of(const std::string &text)
{
	std::vector<std::string> out;

	for (size_t at = 0; at < text.size();) {
		const size_t end = std::min(text.find('\n', at), text.size());

		out.emplace_back(text.substr(at, end - at).c_str()); /* a variable has no zero byte */
		at = end + 1;
	}
	return out;
}

/* "PATH:LINE" of a line that the file has. */
static bool is_line_of(const std::string &where, const memory_file &file)
{
	if (!where.starts_with(file.path + ":"))
		return false;
	const unsigned long line = strtoul(where.c_str() + file.path.size() + 1, nullptr, 10);

	return line >= 1 && line <= file.lines;
}

static void check_origin(const setting &s, const config &c, const memory_file &read)
{
	const setting_origin &o = setting_origin_of(s, c);

	switch (o.from) {
	case setting_from::standard:
		must_hold(setting_show(s, c) == setting_standard(s));
		break;
	case setting_from::file:
		must_hold(is_line_of(o.where, read));
		break;
	case setting_from::environment:
		must_hold(o.where == setting_variable(s));
		break;
	default:
		must_hold(!"an unknown origin");
	}
}

/* The effective settings can be written to a file, which is read with the same values. */
static void check_written(const config &c)
{
	std::string text;

	for (const setting &s : settings()) {
		const std::string value = setting_show(s, c);
		config alone;

		must_hold(setting_read(s, value, &alone) && setting_show(s, alone) == value);
		/* '#' and surrounding blanks are possible in a variable only. */
		if (!value.empty() && value.find('#') == value.npos && value.find_first_of(" \t\r\n") == value.npos)
			text += std::string(s.name) + " = " + value + "\n";
		else
			text += "\n";
	}
	const config again = config_parse_text("again", text);
	for (const setting &s : settings())
		if (setting_origin_of(s, again).from == setting_from::file)
			must_hold(setting_show(s, again) == setting_show(s, c));
	must_hold(again.error.find("no such setting") == again.error.npos);
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static memory_file system("system"), own("own");
	input in(data, size);
	const u8 what = in.get<u8>();
	const size_t first = in.get<u16>(), second = in.get<u16>();
	world w;

	log_set_level(log_level::none);
	system.write(take(&in, first));
	own.write(take(&in, second));
	w.own = what & 1 ? &own : nullptr;
	w.variables = lines_of(take(&in, in.left()));
	const int before = next_descriptor();
	const config c = config_parse({variable_of, &w, system.path.c_str()});
	must_hold(next_descriptor() == before);
	for (const setting &s : settings())
		check_origin(s, c, what & 1 ? own : system);
	check_written(c);
	must_hold(c.error.size() < 1 << 20);
	return 0;
}
