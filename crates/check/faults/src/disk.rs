//! The disk of the controller: a small file system of its own, which can be filled, and system calls that fail or take long.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// Where the file systems are mounted, each in a folder named after the process that has it.
const MOUNTS: &str = "/run/weft-faults";
/// The size of a file system.
const SIZE: &str = "64m";
/// How long strace may take to attach or to let go.
const DEADLINE: Duration = Duration::from_mins(1);
/// The time between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// A small file system. Dropping it unmounts it.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Mounts an empty one. Those of processes that are gone are removed first.
    pub fn mount(name: &str) -> Result<Disk> {
        sweep()?;
        let folder = Path::new(MOUNTS).join(format!("{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let disk = Disk { folder };
        let options = format!("size={SIZE},mode=700");
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &options, "weft-faults"]).arg(&disk.folder);
        run(command)?;
        Ok(disk)
    }

    /// Where it is mounted.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes all room that is left.
    pub fn fill(&self) -> Result<()> {
        let mut file = File::create(self.filler()).context("cannot fill the disk")?;
        let block = vec![0; 1 << 16];
        // Whole blocks first, then what is left of a page.
        for size in [block.len(), 1] {
            while file.write_all(&block[..size]).is_ok() {}
        }
        Ok(())
    }

    /// Gives the room back.
    pub fn free(&self) -> Result<()> {
        fs::remove_file(self.filler()).context("cannot free the disk")
    }

    fn filler(&self) -> PathBuf {
        self.folder.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Err(error) = unmount(&self.folder) {
            eprintln!("{error:#}");
        }
    }
}

/// Unmounts what processes have left that were killed.
fn sweep() -> Result<()> {
    let Ok(entries) = fs::read_dir(MOUNTS) else { return Ok(()) };
    for folder in entries.flatten().map(|entry| entry.path()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let owner = name.split('-').next().unwrap_or_default();
        if !Path::new("/proc").join(owner).exists() {
            unmount(&folder)?;
        }
    }
    Ok(())
}

fn unmount(folder: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/mounts").context("cannot read /proc/mounts")?;
    let path = folder.display().to_string();
    if mounts.lines().any(|line| line.split(' ').nth(1) == Some(&*path)) {
        let mut command = Command::new("umount");
        // A process that is about to end may still have a file open.
        command.arg("--lazy").arg(folder);
        run(command)?;
    }
    fs::remove_dir(folder).with_context(|| format!("cannot remove {path}"))
}

fn run(mut command: Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed ({}): {}; run it by hand as root to see why",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// What happens to system calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tampering {
    /// Some writes to the journal fail: one, then every so many.
    Writes {
        /// The journal.
        journal: PathBuf,
        /// Every so many.
        every: u64,
    },
    /// Some syncs of files' contents fail: one, then every so many. What repairs the journal afterwards succeeds.
    DataSyncs {
        /// Every so many.
        every: u64,
    },
    /// All syncs fail.
    AllSyncs,
    /// All syncs take so long.
    SlowSyncs(Duration),
}

impl Tampering {
    fn arguments(&self) -> Vec<String> {
        let words = |calls: &str, what: &str| {
            vec!["-e".to_owned(), format!("trace={calls}"), "-e".to_owned(), format!("inject={calls}:{what}")]
        };
        match self {
            Tampering::Writes { journal, every } => {
                let mut arguments =
                    words("write,writev,pwrite64", &format!("error=EIO:when=1+{}", (*every).max(2)));
                arguments.extend(["-P".to_owned(), journal.display().to_string()]);
                arguments
            }
            Tampering::DataSyncs { every } => {
                words("fdatasync", &format!("error=EIO:when=1+{}", (*every).max(2)))
            }
            Tampering::AllSyncs => words("fsync,fdatasync", "error=EIO"),
            Tampering::SlowSyncs(time) => {
                words("fsync,fdatasync", &format!("delay_exit={}", time.as_micros()))
            }
        }
    }

    /// What a record of a call has that was tampered with. Kernel and strace mark what fails, and what is late is only recorded.
    fn mark(&self) -> &'static str {
        match self {
            Tampering::SlowSyncs(_) => "sync(",
            _ => "(INJECTED)",
        }
    }
}

/// strace on a process. Dropping it lets the process go.
#[derive(Debug)]
pub struct Tampered {
    strace: Child,
    record: PathBuf,
    mark: &'static str,
}

impl Tampered {
    /// Tampers with a process from now on. What strace saw is in a file of this folder.
    pub fn begin(pid: u32, tampering: &Tampering, folder: &Path) -> Result<Tampered> {
        let record = folder.join("strace");
        let said = folder.join("strace.said");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "strace", "-f", "-p", &pid.to_string()]);
        command.args(tampering.arguments()).arg("-o").arg(&record);
        let strace = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&said)?)
            .spawn()
            .context("cannot start strace; remedy: apt-get install -y strace")?;
        let mut tampered = Tampered { strace, record, mark: tampering.mark() };
        let begun = Instant::now();
        loop {
            let text = fs::read_to_string(&said).unwrap_or_default();
            if text.contains(" attached") {
                return Ok(tampered);
            }
            if let Some(status) = tampered.strace.try_wait()? {
                bail!("strace cannot attach to {pid} ({status}): {}", text.trim());
            }
            ensure!(begun.elapsed() < DEADLINE, "strace does not attach to {pid}: {}", text.trim());
            std::thread::sleep(LOOK);
        }
    }

    /// How many calls were tampered with so far.
    pub fn count(&self) -> usize {
        let mut text = String::new();
        let read = File::open(&self.record).and_then(|mut file| file.read_to_string(&mut text));
        read.map_or(0, |_| text.matches(self.mark).count())
    }

    /// Lets the process go, and returns how many calls were tampered with.
    pub fn end(mut self) -> Result<usize> {
        self.let_go()?;
        Ok(self.count())
    }

    fn let_go(&mut self) -> Result<()> {
        if self.strace.try_wait()?.is_some() {
            return Ok(());
        }
        kill_process(Pid::from_child(&self.strace), Signal::INT).context("cannot interrupt strace")?;
        let begun = Instant::now();
        while self.strace.try_wait()?.is_none() {
            ensure!(begun.elapsed() < DEADLINE, "strace does not let go");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Tampered {
    fn drop(&mut self) {
        if self.let_go().is_err() {
            let _ = self.strace.kill();
            let _ = self.strace.wait();
        }
    }
}
