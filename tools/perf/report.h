/* SPDX-License-Identifier: BSD-3-Clause */
/* Results as a table, JSON, CSV or a plot. */
#pragma once

#include "tools/perf/job.h"
#include "tools/perf/limits.h"

namespace usdma::perf {

std::string table_head();
/* Two or three lines: the figures, then their ratios. lim: nullptr if no limits were measured. */
std::string table_row(const outcome &o, const machine &m, const limits *lim);
/* The sizes from which the device beats memcpy, by time and by client CPU; "" with one size only. */
std::string where_it_pays(const std::vector<outcome> &all);

nlohmann::json to_json(const outcome &o, const machine &m, const limits *lim);
std::string to_csv(const std::vector<outcome> &all);
/* Throws if gnuplot is missing or fails. */
void plot(const std::vector<outcome> &all, const machine &m, const std::string &file);
/* Throws if the file cannot be written. */
void write_file(const std::string &path, const std::string &text);
/* path: "-": standard output; "": none. Throws like write_file. */
void write_json(const std::string &path, const nlohmann::json &doc);
/* Writes to standard output and flushes it. */
void say(const std::string &text);
/* A signal arrived, or standard output cannot be written: stop measuring. */
bool stopped();

/* 123 ns → "123", 12345 → "12.3u", "1.20m". */
std::string time_text(double ns);

} // namespace usdma::perf
