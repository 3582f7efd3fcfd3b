/* SPDX-License-Identifier: BSD-3-Clause */
/* Outcomes as a table, as JSON, as CSV, as a picture. */
#pragma once

#include "tools/perf/job.h"
#include "tools/perf/limits.h"

namespace usdma::perf {

std::string table_head();
/* Two or three lines: the figures, then their ratios. lim: nullptr where no limits were measured. */
std::string table_row(const outcome &o, const machine &m, const limits *lim);
/* From which size on the device pays, by time and by the client's CPU; "" when sizes were not compared. */
std::string where_it_pays(const std::vector<outcome> &all);

nlohmann::json to_json(const outcome &o, const machine &m, const limits *lim);
std::string to_csv(const std::vector<outcome> &all);
/* Throws where gnuplot is missing or fails. */
void plot(const std::vector<outcome> &all, const machine &m, const std::string &file);
/* Throws where it cannot be written. */
void write_file(const std::string &path, const std::string &text);
/* To --json FILE: -: standard output; "": nowhere. Throws as write_file. */
void write_json(const std::string &path, const nlohmann::json &doc);
/* To standard output, at once. */
void say(const std::string &text);
/* A signal came, or standard output cannot be written: nothing further is measured. */
bool stopped();

/* 123 ns → "123", 12345 → "12.3u", "1.20m". */
std::string time_text(double ns);

} // namespace usdma::perf
