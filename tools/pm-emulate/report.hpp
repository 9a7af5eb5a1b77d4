/* SPDX-License-Identifier: BSD-3-Clause
 *
 * report.hpp - the report on a run under emulation, as text and as JSON.
 */
#ifndef PM_EMULATE_REPORT_HPP
#define PM_EMULATE_REPORT_HPP

#include "../common/json.hpp"
#include "memory.hpp"

namespace pme
{

/* Counters and findings; `files`: the lines that were not durable when the program had ended. */
tools::Json report_of(const pme_control &control, const std::vector<Difference> &files);
std::string text_of(const tools::Json &report);

/* The effects of a power failure. */
tools::Json failure_of(const std::vector<Difference> &files);
std::string failure_text(const std::vector<Difference> &files);

void write_json(const std::string &path, const tools::Json &json);

} // namespace pme

#endif /* PM_EMULATE_REPORT_HPP */
