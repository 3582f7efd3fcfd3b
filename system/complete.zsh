#compdef usdmactl usdma-perf usdma-sim
# SPDX-License-Identifier: BSD-3-Clause
# zsh completion of usdmactl, usdma-perf and usdma-sim: the tools know their words.

local -a found

found=(${(f)"$($words[1] --complete ${(Q)words[2,CURRENT-1]} "$PREFIX" 2>/dev/null)"})
if [[ $found[1] == :files ]]; then
	compset -P '*[:=]'
	_files
else
	compadd -S '' -- ${(M)found:#*:}
	compadd -- ${found:#*:}
fi
