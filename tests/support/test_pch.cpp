/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiles test_pch.h with the flags of a test program. */
int main()
{
	return 0;
}
