/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the target over each file of its corpus, as a test: replay DIRECTORY|FILE...  It fails by a crash. */
#include "tests/fuzz/fuzz.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

using namespace usdma;
namespace fs = std::filesystem;

static void collect(const fs::path &from, std::vector<fs::path> *files)
{
	if (!fs::is_directory(from)) {
		files->push_back(from);
		return;
	}
	for (const auto &e : fs::directory_iterator(from))
		files->push_back(e.path());
}

static bool run(const fs::path &file)
{
	std::ifstream in(file, std::ios::binary);
	const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};

	if (in.bad() || !in.is_open())
		return false;
	/* Of its exact size on the heap, so that sanitizers detect a read beyond it. */
	std::vector<u8> data(text.begin(), text.end());
	LLVMFuzzerTestOneInput(data.data(), data.size());
	return true;
}

int main(int argc, char **argv)
{
	std::vector<fs::path> files;
	size_t n = 0;
	bool passed = true;

	for (int i = 1; i < argc; i++)
		collect(argv[i], &files);
	std::sort(files.begin(), files.end());
	if (files.empty()) {
		fprintf(stderr, "replay DIRECTORY|FILE...: there is no file\n");
		return 2;
	}
	alarm(110);
	printf("1..%zu\n", files.size());
	for (const fs::path &f : files) {
		const bool ran = run(f);

		printf("%sok %zu - %s\n", ran ? "" : "not ", ++n, f.filename().c_str());
		fflush(stdout);
		passed &= ran;
	}
	return passed ? 0 : 1;
}
