# SPDX-License-Identifier: BSD-3-Clause
# bash completion for usdmactl

# PCI addresses as printed by "usdmactl list", and the schemes.
_usdmactl_devices()
{
	usdmactl list 2>/dev/null | grep -oE '^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]'
	[ "$1" = pci ] || printf '%s\n' sim vfio-user:
}

_usdmactl()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command= word words=

	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case $word in
		list | bind | unbind | info | doctor | reset | selftest | stat | sim | tune) command=$word ;;
		esac
	done
	case $prev in
	--file | --out | --write | --from)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	esac
	case $command in
	"") words="list bind unbind info doctor reset selftest stat sim tune --version" ;;
	list) words="--all" ;;
	bind) words="--driver --dry-run $(_usdmactl_devices pci)" ;;
	unbind) words="--dry-run $(_usdmactl_devices pci)" ;;
	info | reset) words=$(_usdmactl_devices) ;;
	selftest) words="--size --file --out $(_usdmactl_devices)" ;;
	stat) words="--interval --count --pid" ;;
	sim)
		words="state faults clear vanish return help"
		if [ "$prev" = sim ]; then
			compopt -o filenames 2>/dev/null
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			return
		fi
		;;
	tune) words="--write --from --device" ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words --json --help" -- "$cur")
	# Addresses contain colons, at which readline splits words.
	if declare -F __ltrim_colon_completions >/dev/null; then
		__ltrim_colon_completions "$cur"
	fi
}

complete -F _usdmactl usdmactl
