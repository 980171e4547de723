#compdef weft
# Completion of `weft` in zsh. Written by `weft completions zsh`.
_weft() {
    local line
    local -a found
    while IFS= read -r line; do
        if [[ $line == :files ]]; then
            (( $#found )) && _describe weft found
            _files
            return
        fi
        # In a description, a colon ends the value.
        found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done < <("${words[1]}" complete -- "${(@Q)words[2,CURRENT]}" 2> /dev/null)
    _describe weft found
}
# From a file `_weft` in `fpath`, the file is the function; otherwise the function is registered.
if [[ $funcstack[1] == _weft ]]; then
    _weft "$@"
else
    compdef _weft weft
fi
