# SPDX-License-Identifier: BSD-3-Clause
# bash completion of usdmactl, usdma-perf and usdma-sim: the tools know their words.

_usdma()
{
	local line=${COMP_LINE:0:COMP_POINT} words word before

	read -ra words <<<"$line"
	[[ $line != *[[:blank:]] ]] || words+=("")
	word=${words[-1]}
	# Readline replaces what follows the last of these.
	before=${word%"${word##*[:=]}"}
	mapfile -t COMPREPLY < <("$1" --complete "${words[@]:1}" 2>/dev/null)
	if [[ ${COMPREPLY[0]-} == :files ]]; then
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "${word#"$before"}")
		return
	fi
	COMPREPLY=("${COMPREPLY[@]#"$before"}")
	[[ ${COMPREPLY[*]} != *: ]] || compopt -o nospace
}

complete -F _usdma usdmactl usdma-perf usdma-sim
