/* SPDX-License-Identifier: BSD-3-Clause */
/* What late_tls.cpp loads: a library that needs a word of static TLS. */
__attribute__((tls_model("initial-exec"))) __thread void *late_word;

void **late_word_at(void);
void **late_word_at(void)
{
	return &late_word;
}
