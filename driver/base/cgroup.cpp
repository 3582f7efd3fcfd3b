/* SPDX-License-Identifier: BSD-3-Clause */
/* Formats: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of Linux, proc_pid_mountinfo(5). */
#include "driver/base/cgroup.h"

#include <cstdio>
#include <cstring>
#include <memory>

namespace usdma {

using file_ptr = std::unique_ptr<FILE, int (*)(FILE *)>;

static constexpr size_t path_size = 1024, dir_size = 3 * path_size, line_size = 1024;

/* list is comma-separated. */
static bool has_word(const char *list, const char *word)
{
	const size_t n = strlen(word);

	for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
		if ((at == list || at[-1] == ',') && (!at[n] || at[n] == ',' || at[n] == '\n'))
			return true;
	return false;
}

/* This process's group in the hierarchy, from /proc/self/cgroup. */
static bool find_group(const char *root, const char *controller, char *out)
{
	char path[path_size], line[line_size];

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	const file_ptr file(fopen(path, "re"), fclose);
	while (file && fgets(line, sizeof(line), file.get())) {
		char *const list = strchr(line, ':');
		char *const group = list ? strchr(list + 1, ':') : nullptr;

		if (!group)
			continue;
		*group = '\0';
		if (controller ? !has_word(list + 1, controller) : list[1] != '\0')
			continue;
		group[1 + strcspn(group + 1, "\n")] = '\0';
		snprintf(out, path_size, "%s", group + 1);
		return true;
	}
	return false;
}

/* Finds the mount point of the hierarchy (at) and which of its groups is mounted there (top). */
static bool find_mount(const char *root, const char *controller, char *top, char *at)
{
	char path[path_size], line[line_size], type[32], options[line_size];

	snprintf(path, sizeof(path), "%s/proc/self/mountinfo", root);
	const file_ptr file(fopen(path, "re"), fclose);
	while (file && fgets(line, sizeof(line), file.get())) {
		const char *const rest = strstr(line, " - ");

		if (!rest || sscanf(rest, " - %31s %*s %1023s", type, options) != 2 ||
		    strcmp(type, controller ? "cgroup" : "cgroup2") || (controller && !has_word(options, controller)))
			continue;
		if (sscanf(line, "%*s %*s %*s %1023s %1023s", top, at) == 2)
			return true;
	}
	return false;
}

/* In a container the group's path may be the host's: the mounted group or one below it. */
static const char *below(const char *group, const char *top)
{
	const size_t n = strcmp(top, "/") ? strlen(top) : 0;

	if (strstr(group, "/.."))
		return "";
	if (n && (strncmp(group, top, n) || (group[n] && group[n] != '/')))
		return "";
	return group + n;
}

void cgroup_each(const char *root, const char *controller, cgroup_visit *visit, void *arg)
{
	char group[path_size], top[path_size], at[path_size], dir[dir_size];

	if (!find_group(root, controller, group) || !find_mount(root, controller, top, at))
		return;
	snprintf(dir, sizeof(dir), "%s%s%s", root, at, below(group, top));
	const size_t shortest = strlen(root) + strlen(at);
	for (size_t n = strlen(dir); n >= shortest; n = size_t(strrchr(dir, '/') - dir)) {
		dir[n] = '\0';
		visit(dir, dir + strlen(root), arg);
		if (!strchr(dir + shortest, '/'))
			break;
	}
}

} // namespace usdma
