# SPDX-License-Identifier: BSD-3-Clause
# fish completion of usdmactl, usdma-perf and usdma-sim: the tools know their words.

function __usdma_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l found ($words[1] --complete $words[2..] "$word" 2>/dev/null)
    if test "$found[1]" = :files
        set -l before (string match -r '^.*[:=]' -- $word; or echo)
        printf '%s\n' $before(__fish_complete_path (string replace -r '^.*[:=]' '' -- $word))
    else
        printf '%s\n' $found
    end
end

for tool in usdmactl usdma-perf usdma-sim
    complete -c $tool -f -a '(__usdma_complete)'
end
