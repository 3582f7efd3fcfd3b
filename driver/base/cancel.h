/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that block hold locks and have words of their stack in shared lists:
 * a thread that is cancelled in one (pthread_cancel(3)) is so when it returns.
 */
#pragma once

#include <pthread.h>

namespace usdma {

class no_cancel {
public:
	no_cancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
	~no_cancel() { pthread_setcancelstate(before_, nullptr); }
	no_cancel(const no_cancel &) = delete;
	no_cancel &operator=(const no_cancel &) = delete;

private:
	int before_ = PTHREAD_CANCEL_ENABLE;
};

} // namespace usdma
