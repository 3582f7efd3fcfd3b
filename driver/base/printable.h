/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sanitizes text for a terminal or a log. Names of processes, files and drivers, replies of servers and lines
 * of files are chosen by others and may contain terminal escape sequences, which move the cursor, clear the
 * screen, change the title or inject input.
 */
#pragma once

#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace usdma {

/*
 * One line, in place and never longer: each control character (C0, DEL, C1), each byte of invalid UTF-8, and
 * each character that has no width or changes the writing direction becomes a question mark.
 */
void make_printable(char *text);
std::string printable(std::string_view text);
/* In quotation marks, truncated to 60 bytes. */
std::string quoted(std::string_view text);

} // namespace usdma
#pragma GCC visibility pop
