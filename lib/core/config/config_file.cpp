/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration file: lines `key = value`, # begins a comment. Untrusted input: sizes are bounded, and
 * errors are reported by line.
 */
#include "lib/core/config/config_file.h"

#include "driver/base/await_fds.h"
#include "driver/base/clock.h"
#include "driver/base/printable.h"
#include "driver/base/unique_fd.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace usdma::core {

static constexpr size_t max_file = 256 * KiB, max_line = 4096;
static constexpr int pipe_ms = 900;            /* who writes it has so long */
static constexpr unsigned max_complaints = 10; /* of one file */

static std::string trimmed(const std::string &s)
{
	const size_t from = s.find_first_not_of(" \t\r"), to = s.find_last_not_of(" \t\r");

	return from == std::string::npos ? "" : s.substr(from, to - from + 1);
}

bool config_put(config *c, const setting &s, const std::string &value, setting_from from, const std::string &where)
{
	if (!setting_read(s, value, c))
		return false;
	c->origins[size_t(&s - settings().data())] = {from, where};
	return true;
}

struct file_reader {
	config *c;
	const std::string &path;
	std::vector<unsigned> seen; /* line of each setting, 0: not seen */
	unsigned number = 0;

	std::string position() const { return path + ":" + std::to_string(number); }
	std::string line(const std::string &text);
};

/* "" or the error in the line. */
std::string file_reader::line(const std::string &whole)
{
	const std::string text = trimmed(whole.substr(0, whole.find('#')));
	const size_t eq = text.find('=');

	if (text.empty())
		return "";
	if (whole.size() > max_line)
		return "longer than " + std::to_string(max_line) + " characters: shorten it";
	if (eq == std::string::npos)
		return quoted(text) + " has no \"=\": write key = value";
	const std::string key = trimmed(text.substr(0, eq)), value = trimmed(text.substr(eq + 1));
	const setting *s = setting_find(key);
	if (const char *const instead = s ? nullptr : setting_removed(key)) {
		config_add_warning(c, position() + ": " + key +
					      " is ignored: there is no such setting any more: " + instead);
		return "";
	}
	if (!s)
		return "no such setting: " + quoted(key) + "; did you mean " + setting_nearest(key) +
		       "? (usdmactl info lists them)";
	unsigned &first = seen[size_t(s - settings().data())];
	if (first)
		return std::string(s->name) + " is set in line " + std::to_string(first) + " already: remove one";
	first = number;
	if (!config_put(c, *s, value, setting_from::file, position()))
		return std::string(s->name) + " = " + quoted(value) + ": it takes " + setting_expects(*s);
	return "";
}

void config_read_text(config *c, const std::string &path, const std::string &text)
{
	file_reader r{c, path, std::vector<unsigned>(settings().size())};
	unsigned complaints = 0;

	for (size_t at = 0; at < text.size() && complaints < max_complaints;) {
		const size_t end = std::min(text.find('\n', at), text.size());
		r.number++;
		const std::string wrong = r.line(text.substr(at, end - at));

		if (!wrong.empty()) {
			config_add_error(c, r.position() + ": " + wrong);
			complaints++;
		}
		at = end + 1;
	}
	if (complaints == max_complaints)
		config_add_error(c, path + ": the rest was not parsed");
}

/* 0, or the errno with which it cannot be read. */
static int read_all(int fd, std::string *out)
{
	const deadline until = deadline::in_ms(pipe_ms);
	pollfd p = {fd, POLLIN, 0};
	struct stat st;
	char buf[16 * KiB];

	if (fstat(fd, &st))
		return errno;
	if (S_ISDIR(st.st_mode))
		return EISDIR;
	while (out->size() <= max_file) {
		/* Before its writer has come, a FIFO seems to be at its end. */
		if (S_ISFIFO(st.st_mode) && await_fds(&p, 1, until.left_ms(pipe_ms)) == 0)
			return ETIMEDOUT;
		const ssize_t n = read(fd, buf, sizeof(buf));

		if (n < 0 && (errno == EINTR || (errno == EAGAIN && !until.passed())))
			continue;
		if (n <= 0)
			return n ? errno : 0;
		out->append(buf, size_t(n));
	}
	return EFBIG;
}

/* True: inaccessible; an existing file that is too large or a directory is always an error. */
static bool is_inaccessible(int err)
{
	return err != EFBIG && err != EISDIR;
}

void config_read_file(config *c, const std::string &path, file_policy policy)
{
	/* Non-blocking: a FIFO must not hang the program. */
	const unique_fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
	std::string text;

	if (!fd.valid() && policy != file_policy::must && (errno == ENOENT || errno == ENOTDIR))
		return;
	const int err = fd.valid() ? read_all(fd.get(), &text) : errno;
	config_note_lack(c, err);
	if (err == EFBIG)
		config_add_error(c, path + ": larger than " + std::to_string(max_file / KiB) +
					    " KiB: this is not a configuration file");
	else if (err && policy == file_policy::home && is_inaccessible(err))
		config_add_warning(c, path + ": cannot be read: " + strerror(err) +
					      ": its settings are ignored (does HOME belong to another user?)");
	else if (err)
		config_add_error(c, path + ": cannot be read: " + strerror(err) +
					    (policy == file_policy::must ? " (USDMA_CONFIG names it)" : ""));
	else
		config_read_text(c, path, text);
}

} // namespace usdma::core
