# Completion of `weft` in fish. Written by `weft completions fish`.
function __weft_candidates
    set -l words (commandline -opc) (commandline -ct)
    for line in (command $words[1] complete -- $words[2..] 2> /dev/null)
        if test "$line" = :files
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c weft -f -a '(__weft_candidates)'
