# SPDX-License-Identifier: BSD-3-Clause
# bash completion for usdma-sim

_usdma_sim()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words

	case $prev in
	--socket | --control)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	--copy-rows) words="auto 1 2 4" ;;
	--mem) words="256M 512M 1G 4G" ;;
	--engines | --channels | --spin-us | --latency-us | --rate | --cpus | --share | --faults | --ready-fd | --listen-fd) return ;;
	*)
		words="--socket --control --listen-fd --mem --engines --channels --spin-us --latency-us --rate --cpus --share --any-file --copy-rows --huge --nomem --faults --once
			--ready-fd --verbose --version --help"
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

complete -F _usdma_sim usdma-sim
