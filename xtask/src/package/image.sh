# Builds the image of the file $2 with the archive in the folder $3, upon the Debian system in $1, and runs the controller in it. Everything is kept
# in that folder. It uses no daemon, no registry, and no namespace of a user.
set -eu
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
buildah() {
    command buildah --root "$storage" --runroot "$storage-run" "$@"
}
storage=$3/storage
base=$(buildah from scratch)
buildah add -q "$base" "$1" / > /dev/null
buildah commit -q --rm "$base" weft-test-base > /dev/null
buildah build -q --build-arg BASE=localhost/weft-test-base -t weft-test -f "$2" "$3" > /dev/null
container=$(buildah from localhost/weft-test)
buildah run "$container" -- sh -euc '
    test "$(id -un)" = weft
    weft controller --config /etc/weft/weft.toml &
    timeout 60 sh -c "until weft status 2> /dev/null; do sleep 0.1; done"
    kill $!
    wait $!
'
buildah inspect --type image \
    --format '{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}}' localhost/weft-test
