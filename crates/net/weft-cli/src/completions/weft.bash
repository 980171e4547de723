# Completion of `weft` in bash. Written by `weft completions bash`.
_weft() {
    local line=${COMP_LINE:0:COMP_POINT} words word current joined
    # Not COMP_WORDS, which bash also splits at the colons of ids.
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[${#words[@]} - 1]}
    # Bash replaces only the part after the last of these characters.
    joined=
    [[ $current == *[:=@]* ]] && joined=${current%"${current##*[:=@]}"}
    COMPREPLY=()
    while IFS=$'\t' read -r word _; do
        if [[ $word == :files ]]; then
            if ((${#COMPREPLY[@]})); then
                compopt -o filenames 2> /dev/null
                mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")
            else
                compopt -o default 2> /dev/null
            fi
            return
        fi
        COMPREPLY+=("${word#"$joined"}")
    done < <("${words[0]}" complete -- "${words[@]:1}" 2> /dev/null)
}
complete -F _weft weft
