//! A Debian system with systemd as process 1, in namespaces of this machine: made by debootstrap once, booted on an overlay in memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{setup, with_system_folders};

/// The release of Debian that is installed.
const SUITE: &str = "bookworm";

/// What a small installation has beside the packages that are marked essential.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,iproute2,iputils-ping";

/// What the page installs. It is downloaded beforehand, since a booted machine has a network of its own.
const LATER: &str = "openvswitch-switch";

/// How long a machine may take for whatever is waited for.
const DEADLINE: Duration = Duration::from_mins(3);

/// How often it is looked whether it is there.
const LOOK: Duration = Duration::from_millis(100);

/// Makes the file system of a fresh Debian in this folder, unless it is there.
pub(super) fn fresh_debian(folder: &Path) -> Result<PathBuf> {
    let (base, complete) = (folder.join("base"), folder.join("complete"));
    let recipe = format!("{SUITE} {PACKAGES} {LATER}");
    if fs::read_to_string(&complete).is_ok_and(|made| made == recipe) {
        return Ok(base);
    }
    setup::program("debootstrap", "debootstrap")?;
    if base.exists() {
        fs::remove_dir_all(&base).with_context(|| format!("cannot remove {}", base.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    eprintln!("installing Debian {SUITE} in {}, once", base.display());
    let include = format!("--include={PACKAGES}");
    finish(host("debootstrap").args(["--variant=minbase", &include, SUITE]).arg(&base))?;
    let later = format!(
        "apt-get update -q && apt-get install -q -y --no-install-recommends --download-only {LATER} && \
         systemctl mask console-getty.service getty.target systemd-resolved.service"
    );
    finish(host("chroot").arg(&base).args(["sh", "-c", &later]))?;
    fs::write(&complete, recipe).with_context(|| format!("cannot write {}", complete.display()))?;
    Ok(base)
}

/// A program of this machine.
fn host(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", with_system_folders()).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    command
}

/// Runs a command to its end; its output goes to standard error only if it fails.
fn finish(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    bail!("{command:?} failed ({}): {}", output.status, text.concat());
}

/// A booted machine, which ends with this value.
pub(super) struct Machine {
    name: &'static str,
    /// `unshare`, whose child is process 1 of the machine.
    unshare: Child,
    /// Process 1.
    init: String,
    cgroup: PathBuf,
}

impl Machine {
    /// Boots a machine.
    pub(super) fn boot(base: &Path, name: &'static str) -> Result<Machine> {
        let cgroup = cgroups()?.join(format!("weft-package-{}-{name}", std::process::id()));
        fs::create_dir(&cgroup)
            .with_context(|| format!("cannot make the control group {}", cgroup.display()))?;
        let enter = r#"echo $$ > "$0/cgroup.procs" && exec unshare --pid --mount --cgroup --ipc --uts --net --fork --kill-child sh -c "$@""#;
        let mut command = host("sh");
        command.args(["-c", enter]).arg(&cgroup).args([include_str!("boot.sh"), "boot"]).arg(base).arg(name);
        let unshare = command.stdout(Stdio::null()).spawn().context("cannot start sh")?;
        let mut machine = Machine { name, unshare, init: String::new(), cgroup };
        machine.find_init()?;
        machine.wait("systemd as process 1", "systemctl is-system-running | grep -qE 'running|degraded'")?;
        Ok(machine)
    }

    /// Waits for the child of `unshare`.
    fn find_init(&mut self) -> Result<()> {
        let (id, begun) = (self.unshare.id(), Instant::now());
        while begun.elapsed() < DEADLINE {
            if let Some(status) = self.unshare.try_wait().context("cannot wait for unshare")? {
                bail!("{} does not boot ({status}); it needs root, namespaces and cgroup2", self.name);
            }
            let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
            let child = children.split_whitespace().next().unwrap_or_default();
            if fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name.trim() == "systemd") {
                child.clone_into(&mut self.init);
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        bail!("{} does not boot: there is no systemd after {DEADLINE:?}", self.name)
    }

    /// A script that is to run on the machine.
    fn command(&self, script: &str) -> Command {
        let mut command = host("nsenter");
        command.args([
            "-t", &self.init, "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--root", "--wd",
        ]);
        command.args(["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8"]);
        command.args(["DEBIAN_FRONTEND=noninteractive", "sh", "-euc", script]);
        command
    }

    /// Runs a script, which must succeed. Its standard output.
    pub(super) fn run(&self, script: &str) -> Result<String> {
        eprintln!("{}# {}", self.name, script.trim().replace('\n', "\n     "));
        let output = self.command(script).output().context("cannot start nsenter")?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            bail!(
                "on {}, `{script}` failed ({}): {text}\n{error}\n{}",
                self.name,
                output.status,
                self.state()
            );
        }
        Ok(text)
    }

    /// Runs a script, which must end with this status.
    pub(super) fn fails(&self, script: &str, status: i32) -> Result<()> {
        eprintln!("{}# {script}", self.name);
        let output = self.command(script).output().context("cannot start nsenter")?;
        if output.status.code() != Some(status) {
            bail!("on {}, `{script}` ended with {} instead of {status}", self.name, output.status);
        }
        Ok(())
    }

    /// Runs a script, which must print this.
    pub(super) fn prints(&self, script: &str, wanted: &str) -> Result<()> {
        let printed = self.run(script)?;
        if printed != wanted {
            bail!("on {}, `{script}` prints `{printed}` instead of `{wanted}`\n{}", self.name, self.state());
        }
        Ok(())
    }

    /// Runs a script until it succeeds.
    pub(super) fn wait(&self, purpose: &str, script: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            let output = self.command(script).output().context("cannot start nsenter")?;
            if output.status.success() {
                return Ok(());
            }
            if begun.elapsed() > DEADLINE {
                bail!("on {}, no {purpose} after {DEADLINE:?}: `{script}`\n{}", self.name, self.state());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Copies a file of ours to the machine.
    pub(super) fn copy(&self, file: &Path, to: &str) -> Result<()> {
        let open = fs::File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
        finish(self.command(&format!("cat > {to}")).stdin(open))
    }

    /// Connects a device of this machine with one of the other.
    pub(super) fn connect(&self, other: &Machine, device: &str) -> Result<()> {
        let mut ip = host("ip");
        ip.args([
            "link",
            "add",
            device,
            "netns",
            &self.init,
            "type",
            "veth",
            "peer",
            device,
            "netns",
            &other.init,
        ]);
        finish(&mut ip)
    }

    /// What helps to see why something failed.
    fn state(&self) -> String {
        let script = "systemctl status --no-pager --lines=0 weft; journalctl --no-pager --lines=40";
        let output = self.command(script).output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // With `--kill-child`, process 1 ends as well, and with it all processes and mounts.
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
        let begun = Instant::now();
        let remove = || {
            host("find")
                .arg(&self.cgroup)
                .args(["-depth", "-type", "d", "-exec", "rmdir", "{}", ";"])
                .output()
        };
        while self.cgroup.exists() && begun.elapsed() < Duration::from_secs(10) {
            let _ = remove();
            std::thread::sleep(LOOK);
        }
    }
}

/// Where the hierarchy of cgroup2 is mounted.
fn cgroups() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("cannot read /proc/self/mounts")?;
    let found = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mut found = found.filter(|fields| fields.get(2) == Some(&"cgroup2"));
    let mount = found
        .next()
        .context("cgroup2 is not mounted, and systemd needs it: mount -t cgroup2 none /sys/fs/cgroup")?;
    Ok(PathBuf::from(mount.get(1).copied().unwrap_or_default()))
}
