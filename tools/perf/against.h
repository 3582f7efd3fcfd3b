/* SPDX-License-Identifier: BSD-3-Clause */
/* A saved result of --json, with which a new one is compared. */
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace usdma::perf {

class baseline {
public:
	/* Throws std::runtime_error if the file is no result with rows. */
	explicit baseline(const std::string &file);
	~baseline();
	baseline(const baseline &) = delete;

	/* Adds the comparison of doc's rows to it, as "against"; returns it as text. */
	std::string compare(nlohmann::json &doc) const;

private:
	std::string file_;
	std::unique_ptr<nlohmann::json> doc_;
};

} // namespace usdma::perf
