//! `cargo xtask package --test`: follows `docs/operate/install.md` on two fresh Debian systems with systemd: install, use, end by force,
//! reload, upgrade, remove, purge. It runs the blocks of the page, by their file names.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::machine::{Machine, fresh_debian};
use super::{Package, build, output};
use crate::setup;

/// The page that a stranger follows.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operate/install.md");

/// What the image is built from.
const CONTAINERFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/Containerfile");

/// The largest exposure by `systemd-analyze security`, in tenths: 2.0 is "OK".
const LARGEST_EXPOSURE: u32 = 20;

/// Makes the addresses of the page, `$1` of 1 and 2, on the device `uplink`. Open vSwitch runs in user space, since machines of a test have no
/// kernel of their own: its userspace tunnels need the device in a bridge. Nothing else differs from the page.
const UNDERLAY: &str = r"
ovs-vsctl add-br br-phy -- set bridge br-phy datapath_type=netdev other_config:hwaddr=02:00:00:00:0f:0$1 -- add-port br-phy uplink
ip link set uplink up
ip link set br-phy up
ip address add 172.16.0.$1/24 dev br-phy
";

/// Before Open vSwitch is installed: it loads no module of the kernel, and uses none.
const USER_SPACE: &str = r"
echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore
printf '#!/bin/sh\n' > /usr/local/sbin/modprobe
chmod 755 /usr/local/sbin/modprobe
mkdir -p /etc/systemd/system/ovs-vswitchd.service.d
printf '[Service]\nEnvironment=OVS_CTL_OPTS=--ovs-vswitchd-options=--disable-system\n' \
    > /etc/systemd/system/ovs-vswitchd.service.d/user-space.conf
";

pub(super) fn run(package: &Package, dist: &Path) -> Result<()> {
    let begun = Instant::now();
    let target = dist.parent().context("the package is not in a target folder")?;
    let base = fresh_debian(&target.join("package-test"))?;
    let newer = build(&target.join("package-test"), &format!("{}+newer", package.version))?;
    let (one, two) = (Machine::boot(&base, "one")?, Machine::boot(&base, "two")?);
    one.connect(&two, "uplink")?;
    let page = fs::read_to_string(PAGE).with_context(|| format!("cannot read {PAGE}"))?;
    install(&one, package, &page)?;
    members(&one)?;
    two_switches(&one, &two, &page)?;
    ends_by_force(&one)?;
    reload(&one, &page)?;
    upgrade(&one, &newer)?;
    remove(&one)?;
    image(&base, package, &target.join("package-test"))?;
    eprintln!(
        "the package was installed, used, upgraded, removed and purged in {:.0} s",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// A block of the page.
fn block<'a>(page: &'a str, name: &str) -> Result<&'a str> {
    let begin = format!(" file={name}\n");
    let (_, rest) = page.split_once(&begin).with_context(|| format!("{PAGE} has no block {name}"))?;
    Ok(rest.split_once("```").with_context(|| format!("the block {name} of {PAGE} has no end"))?.0)
}

/// What a number of `systemctl show` is.
fn shown(machine: &Machine, property: &str) -> Result<String> {
    machine.run(&format!("systemctl show --value -p {property} weft"))
}

/// Waits until the service runs as another process than this.
fn other_process(machine: &Machine, than: &str) -> Result<()> {
    let script = format!(
        "systemctl is-active --quiet weft && test $(systemctl show --value -p MainPID weft) != {than} && weft status > /dev/null"
    );
    machine.wait("other process of the controller", &script)
}

fn install(one: &Machine, package: &Package, page: &str) -> Result<()> {
    let name = package.deb.file_name().context("the package has no name")?.to_string_lossy();
    one.copy(&package.deb, &format!("/root/{name}"))?;
    one.run(&format!("cd /root\n{}", block(page, "install.sh")?))?;
    one.prints("systemctl is-active weft", "active")?;
    one.prints("systemctl is-enabled weft", "enabled")?;
    one.prints("stat -c '%U:%G %a' /var/lib/weft /run/weft | sort -u", "weft:weft 750")?;
    one.prints(
        "stat -c '%U:%G %a' /run/weft/weft.sock /var/lib/weft/journal.jsonl",
        "weft:weft 660\nweft:weft 600",
    )?;
    // No socket of IPv4 or IPv6: the tables have a line of names only.
    one.prints("ss -Hltnup | grep weft || true", "")?;
    one.run("test -f /usr/share/man/man1/weft-apply.1.gz && test -f /usr/share/man/man5/weft.toml.5.gz")?;
    one.run("test -f /usr/share/bash-completion/completions/weft && test -f /usr/share/zsh/vendor-completions/_weft")?;
    one.prints("dpkg-query -W -f '${Status}' weft", "install ok installed")?;
    let printed = one.run("systemd-analyze security weft --no-pager | tail -1")?;
    let exposure: u32 =
        printed.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(u32::MAX);
    if exposure > LARGEST_EXPOSURE {
        bail!("systemd-analyze finds too much: {printed}");
    }
    eprintln!("{printed}");
    Ok(())
}

/// Members of the group can use the API without any setting, others cannot.
fn members(one: &Machine) -> Result<()> {
    one.run("useradd --create-home member && useradd --create-home other && usermod --append --groups weft member")?;
    one.run("runuser -u member -- weft status")?;
    one.fails("runuser -u other -- weft status", 3)
}

fn two_switches(one: &Machine, two: &Machine, page: &str) -> Result<()> {
    one.run(USER_SPACE)?;
    one.run(block(page, "first-host.sh")?)?;
    one.run(&format!("set -- 1\n{UNDERLAY}"))?;
    // The address of the second host is there before the page uses it.
    two.run(&format!("{USER_SPACE}apt-get install -y --no-install-recommends openvswitch-switch"))?;
    two.run(&format!("set -- 2\n{UNDERLAY}"))?;
    two.run(block(page, "second-host.sh")?)?;
    one.prints("stat -c '%A %G' /run/openvswitch/db.sock", "srwxrwx--- weft")?;
    for name in ["hosts.yaml", "network.yaml"] {
        one.run(&format!("cat > {name} <<'END'\n{}END", block(page, name)?))?;
    }
    one.run(block(page, "hosts.sh")?)?;
    for (machine, number) in [(one, 1), (two, 2)] {
        machine.run(&format!("set -- {number}\n{}", block(page, "attach.sh")?))?;
    }
    one.run(block(page, "ping.sh")?)?;
    one.run("weft status --check").map(drop)
}

/// systemd starts a controller again that ends by force, and the network is still there.
fn ends_by_force(one: &Machine) -> Result<()> {
    let process = shown(one, "MainPID")?;
    one.run(&format!("kill -KILL {process}"))?;
    other_process(one, &process)?;
    one.prints("systemctl show --value -p NRestarts weft", "1")?;
    one.run("weft get switch_port blue-2").map(drop)
}

/// A reload takes a changed level of the log into the running process; what is wrong stops nothing.
fn reload(one: &Machine, page: &str) -> Result<()> {
    let process = shown(one, "MainPID")?;
    one.run("sed -i 's/^log = .*/log = \"debug\"/' /etc/weft/weft.toml")?;
    one.run(block(page, "reload.sh")?)?;
    one.wait(
        "line of level debug in the log",
        "weft status > /dev/null; journalctl -u weft -o cat | grep -q DEBUG",
    )?;
    one.run("cp /etc/weft/weft.toml /root/right.toml && echo 'log = 5' >> /etc/weft/weft.toml && systemctl reload weft")?;
    one.wait(
        "error about the configuration in the log",
        "journalctl -u weft -o cat | grep ERROR | grep -q weft.toml",
    )?;
    one.run("cp /root/right.toml /etc/weft/weft.toml")?;
    one.prints("systemctl show --value -p MainPID weft", &process)
}

/// Another version takes over: the changed configuration and the network stay.
fn upgrade(one: &Machine, newer: &Package) -> Result<()> {
    let process = shown(one, "MainPID")?;
    one.copy(&newer.deb, "/root/newer.deb")?;
    one.run("apt-get install -y /root/newer.deb")?;
    one.prints("dpkg-query -W -f '${Version}' weft", &newer.version)?;
    other_process(one, &process)?;
    one.run("grep -q debug /etc/weft/weft.toml && weft get switch_port blue-2")?;
    one.wait("switches in sync", "weft status --check")?;
    one.run("ip netns exec vm ping -c 3 10.0.0.2").map(drop)
}

fn remove(one: &Machine) -> Result<()> {
    one.run("apt-get remove -y weft")?;
    one.run("test ! -e /usr/bin/weft && test -f /var/lib/weft/journal.jsonl && test -f /etc/weft/weft.toml")?;
    one.prints("systemctl is-active weft || true", "inactive")?;
    // Switches keep their flows.
    one.run("ip netns exec vm ping -c 3 10.0.0.2")?;
    one.run("apt-get install -y /root/newer.deb && weft get switch_port blue-2")?;
    one.run("apt-get purge -y weft")?;
    one.run("test ! -e /var/lib/weft && test ! -e /etc/weft && test ! -e /run/weft && id weft")?;
    one.run("systemctl daemon-reload && ! systemctl cat weft 2> /dev/null").map(drop)
}

/// Builds the image upon the same Debian, and runs the controller in it.
fn image(base: &Path, package: &Package, folder: &Path) -> Result<()> {
    setup::program("buildah", "buildah")?;
    let context = folder.join("image");
    if context.exists() {
        fs::remove_dir_all(&context).with_context(|| format!("cannot remove {}", context.display()))?;
    }
    fs::create_dir_all(&context).with_context(|| format!("cannot make {}", context.display()))?;
    let name = package.archive.file_name().context("the archive has no name")?;
    fs::copy(&package.archive, context.join(name)).context("cannot copy the archive")?;
    let mut script = Command::new("sh");
    script.args(["-c", include_str!("image.sh"), "image.sh"]).arg(base).arg(CONTAINERFILE).arg(&context);
    let printed = output(&mut script)?;
    let printed = String::from_utf8_lossy(&printed);
    fs::remove_dir_all(&context).with_context(|| format!("cannot remove {}", context.display()))?;
    if printed.lines().next_back() != Some("weft [/usr/bin/weft] [controller --config /etc/weft/weft.toml]") {
        bail!("the image is built, but is not as described: {printed}");
    }
    Ok(())
}
