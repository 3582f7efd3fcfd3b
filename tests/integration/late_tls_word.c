/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that needs a word of static TLS; late_tls.cpp loads it. */
__attribute__((tls_model("initial-exec"))) __thread void *late_word;

void **late_word_at(void);
void **late_word_at(void)
{
	return &late_word;
}
