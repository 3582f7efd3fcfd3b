# SPDX-License-Identifier: BSD-3-Clause
# Included by usdmaConfig.cmake, after usdma-acl.cmake.
if(usdma_acl_FOUND)
	_usdma_library(hccl libusdma-hccl.so libusdma-hccl.so.0 usdma_hccl_FOUND
		"${_usdma_includedir}/usdma;${_usdma_includedir}/usdma-hccl;${_usdma_includedir}/usdma-hccl/hccl")
endif()
if(usdma_hccl_FOUND)
	set_target_properties(usdma::hccl PROPERTIES INTERFACE_LINK_LIBRARIES usdma::acl
		IMPORTED_LINK_DEPENDENT_LIBRARIES usdma::usdma)
endif()
