/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A model whose registers read as those of a recorded device did. Writes go to the model as well, so that copies run
 * and interrupts are raised; in a step that failed on the device they do not, and the driver sees what it saw there.
 *
 * A step begins with a read of eight bytes at 0 of configuration space. Within it each register has an order of its
 * own, as threads of the driver access several at a time. A read gets the next recorded value; behind the record of
 * this step the value that it has in all of the report, if there is one, else the model's. A write must be of a value
 * that the report has for this register. In a step with many copies in flight the moment decides: values that are
 * written are not compared, and the model answers, unless the step failed. Registers that the report does not have, and
 * other values, are an error, which closes the connection.
 */
#pragma once

#include "driver/sim/model.h"
#include "driver/sim/recording.h"

namespace usdma::sim {

/* nullptr: no memory. */
std::unique_ptr<device_model> make_replay(std::unique_ptr<device_model> model, std::shared_ptr<const recording> what);

} // namespace usdma::sim
