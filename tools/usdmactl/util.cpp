/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/error.h"
#include "driver/base/printable.h"
#include "tools/output.h"
#include "tools/usdmactl/ctl.h"

#include <nlohmann/json.hpp>
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iostream>
#include <sstream>
#include <unistd.h>

namespace usdma::ctl {

static constexpr size_t columns = 80;

void print_line(const std::string &text)
{
	tool::put(std::string(printable(text)) + "\n");
}

void print_lines(const std::string &text)
{
	std::istringstream in(text);

	for (std::string line; std::getline(in, line);)
		print_line(line);
}

void print_error(const std::string &text)
{
	std::cerr << "usdmactl: " << printable(text) << "\n";
}

int report(const context &ctx, const std::string &text)
{
	if (ctx.json)
		print_json({{"error", text}});
	else
		print_error(text);
	return exit_failed;
}

int report_error(const context &ctx, int err)
{
	return report(ctx, *error_text() ? error_text() : strerror(-err));
}

void print_json(const json &j)
{
	/* As ASCII, so that control characters outside of it are escaped, too. */
	tool::put(j.dump(2, ' ', true, json::error_handler_t::replace) + "\n");
}

void print_folded(const std::string &text, unsigned first, unsigned rest)
{
	std::istringstream words(text);
	std::string line(first, ' '), word;
	bool empty = true;

	while (words >> word) {
		if (!empty && line.size() + 1 + word.size() > columns) {
			print_line(line);
			line.assign(rest, ' ');
			empty = true;
		}
		line += (empty ? "" : " ") + word;
		empty = false;
	}
	print_line(line);
}

std::string human_size(u64 bytes)
{
	if (bytes && bytes % GiB == 0)
		return fmt::format("{} GiB", bytes / GiB);
	if (bytes && bytes % MiB == 0)
		return fmt::format("{} MiB", bytes / MiB);
	if (bytes && bytes % KiB == 0)
		return fmt::format("{} KiB", bytes / KiB);
	return fmt::format("{} bytes", bytes);
}

std::string read_all(const std::string &path)
{
	std::ifstream in(path, std::ios::binary);
	std::ostringstream text;

	if (in)
		text << in.rdbuf();
	return text.str();
}

std::string read_line(const std::string &path)
{
	std::ifstream in(path);
	std::string line;

	std::getline(in, line);
	return line;
}

bool exists(const std::string &path)
{
	return access(path.c_str(), F_OK) == 0;
}

std::vector<std::string> dir_entries(const std::string &path)
{
	std::vector<std::string> names;
	std::error_code ec;

	for (auto it = std::filesystem::directory_iterator(path, ec);
	     !ec && it != std::filesystem::directory_iterator(); it.increment(ec))
		names.push_back(it->path().filename());
	std::sort(names.begin(), names.end());
	return names;
}

} // namespace usdma::ctl
