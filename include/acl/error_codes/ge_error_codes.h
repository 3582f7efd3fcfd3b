/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error codes of the graph engine.  This library runs no graphs and returns
 * none of them; the header exists because programs include it.
 */
#ifndef USDMA_ACL_GE_ERROR_CODES_H
#define USDMA_ACL_GE_ERROR_CODES_H

#endif
