/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text for a terminal or a log.  Names of processes, files and drivers, answers
 * of servers and lines of files are chosen by others, and a terminal acts upon
 * what it is sent: it is moved, cleared, renamed, or told to type.
 */
#pragma once

#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace usdma {

/*
 * One line, in place and never longer: each control character (C0, DEL, C1) becomes a question mark, and so does
 * what is no UTF-8, has no width, or turns the direction of writing.
 */
void make_printable(char *text);
std::string printable(std::string_view text);
/* In quotation marks, and cut to 60 bytes. */
std::string quoted(std::string_view text);

} // namespace usdma
#pragma GCC visibility pop
