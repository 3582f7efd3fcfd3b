# SPDX-License-Identifier: BSD-3-Clause
# bash completion for usdma-perf

_usdma_perf()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} words

	case $prev in
	--json | --csv | --plot | --write)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	--way | -w) words="h2d d2h d2d page-h2d page-d2h 2d batch desc sync" ;;
	--size | -s) words="64 4K 64K 1M 16M" ;;
	--wait) words="default poll interrupt hybrid" ;;
	--api) words="native acl" ;;
	--workload) words=kv-cache ;;
	--model) words="8b 70b" ;;
	--numa) words=all ;;
	--device) words="sim vfio-user:" ;;
	--depth | -d | --batch | -b | --threads | -t | --streams | --client-cpu | --engine-cpu | --engines | --cold-bytes | --seconds | \
		--repeats | --layers | --heads | --head-size | --element | --block-tokens | --tokens | --requests) return ;;
	*)
		words="--way --size --depth --batch --threads --streams --wait --client-cpu --api --cold --cold-bytes --verify --seconds
			--repeats --device --engines --engine-cpu --numa --quiet --json --csv --plot --limits --workload --model --layers
			--heads --head-size --element --block-tokens --tokens --requests --curves --calibrate --write --version --help"
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

complete -F _usdma_perf usdma-perf
