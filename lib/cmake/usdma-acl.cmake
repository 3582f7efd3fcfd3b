# SPDX-License-Identifier: BSD-3-Clause
# Included by usdmaConfig.cmake.
_usdma_library(acl usdma/libascendcl.so libascendcl.so usdma_acl_FOUND "${_usdma_includedir}/usdma")
if(usdma_acl_FOUND)
	# For the linker, which looks for what libascendcl needs.
	set_target_properties(usdma::acl PROPERTIES IMPORTED_LINK_DEPENDENT_LIBRARIES usdma::usdma)
endif()
