/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking calls hold locks and link objects on their stack into shared lists, so thread cancellation
 * (pthread_cancel(3)) is deferred until they return.
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
