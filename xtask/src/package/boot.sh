# Boots the Debian system in $1 with systemd as process 1, on an overlay in memory. It runs in its own namespaces; nothing is left
# when they end.
# The host name is $2.
set -eu
base=$1
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
root=/mnt/root
mount -t overlay -o "lowerdir=$base,upperdir=/mnt/upper,workdir=/mnt/work" overlay $root
mount -t proc proc $root/proc
# Settings of the kernel that no namespace keeps apart are not for a test to change; those of the network are.
mount --bind $root/proc/sys $root/proc/sys
mount -o remount,bind,ro $root/proc/sys
mount --bind $root/proc/sys/net $root/proc/sys/net
mount -o remount,bind,rw $root/proc/sys/net
mount -t sysfs -o ro sysfs $root/sys
mount -t cgroup2 cgroup2 $root/sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs $root/run
mount -t tmpfs tmpfs $root/tmp
mount -t tmpfs -o mode=755 tmpfs $root/dev
for device in null zero full random urandom tty net/tun; do
    mkdir -p "$root/dev/$(dirname $device)"
    touch $root/dev/$device
    mount --bind /dev/$device $root/dev/$device
done
mkdir $root/dev/pts $root/dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts $root/dev/pts
ln -s pts/ptmx $root/dev/ptmx
mount -t tmpfs tmpfs $root/dev/shm
touch $root/dev/console
hostname "$2"
echo "$2" > $root/etc/hostname
cd $root
exec chroot $root /usr/bin/env -i container=weft /lib/systemd/systemd
