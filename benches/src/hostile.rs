//! A controller under attack: how long a status takes for others, and what memory the controller has before, meanwhile
//! and afterwards.
//!
//! The controller is the built `weft controller`. Each attack is a process of its own. A status is asked for as `weft get
//! status` does it, over a connection of its own; the start of a process is not in the times.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum as _;
use weft_client::Client;

use crate::measure::machine;
use crate::process::Killed;

pub(crate) mod attack;

use attack::Attack;

/// How long the controller may take for 99 of 100 questions while it is attacked.
const STATUS_MAX: Duration = Duration::from_millis(100);
/// How much more memory than before it may have, this long after the attackers have gone.
const KEPT_MAX_MIB: f64 = 50.0;
const REST: Duration = Duration::from_secs(10);
/// The number of questions before the attack, and the least during it.
const QUESTIONS: usize = 300;

/// A controller in a folder of its own. It ends with this.
struct Weft {
    process: Killed,
    folder: tempfile::TempDir,
}

impl Weft {
    fn start() -> Result<Weft> {
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("weft.toml");
        let socket = folder.path().join("weft.sock");
        std::fs::write(
            &config,
            format!("state = \"state\"\nlog = \"error\"\nlisten = \"unix:{}\"\n", socket.display()),
        )?;
        let process = Command::new(crate::measure::weft()?)
            .args(["controller".as_ref(), "--config".as_ref(), config.as_os_str()])
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start weft")?;
        Ok(Weft { process: Killed(process), folder })
    }

    fn endpoint(&self) -> String {
        format!("unix:{}/weft.sock", self.folder.path().display())
    }

    /// Starts an attacker. It is a process that the controller can tell from others.
    fn attack(&self, attack: Attack) -> Result<Killed> {
        let name = attack.to_possible_value().context("each attack has a name")?;
        let process = Command::new(std::env::current_exe()?)
            .args(["hostile-attack", name.get_name()])
            .arg(self.folder.path().join("weft.sock"))
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start an attacker")?;
        Ok(Killed(process))
    }
}

/// Attacks a controller for so long, and prints what others noticed of it.
pub(crate) fn print(duration: Duration) -> Result<()> {
    let weft = Weft::start()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(load(&weft.endpoint()))?;
    let quiet = runtime.block_on(ask(&weft.endpoint(), || false))?;
    let before = weft.process.resident_mib()?;

    weft.process.forget_peak()?;
    let attacks = Attack::value_variants();
    let attackers = attacks.iter().map(|attack| weft.attack(*attack)).collect::<Result<Vec<_>>>()?;
    let begun = Instant::now();
    let attacked = runtime.block_on(ask(&weft.endpoint(), || begun.elapsed() < duration))?;
    let load = machine();
    drop(attackers);
    let peak = weft.process.peak_mib()?;
    std::thread::sleep(REST);
    let after = weft.process.resident_mib()?;

    println!("\n{load}; {} attackers, a process each, for {} s.\n", attacks.len(), duration.as_secs());
    println!("| a status, with its connection and without the start of a process | p50 | p99 | max | of |");
    println!("|---|---|---|---|---|");
    println!("| while nothing happens | {quiet} |");
    println!("| under attack | {attacked} |");
    println!("\n| the controller's memory, MiB | before | peak under attack | {} s after |", REST.as_secs());
    println!("|---|---|---|---|");
    println!("| | {before:.0} | {peak:.0} | {after:.0} |");
    ensure!(attacked.p99 <= STATUS_MAX, "99 of 100 answers should take at most {STATUS_MAX:?}");
    ensure!(after - before <= KEPT_MAX_MIB, "at most {KEPT_MAX_MIB} MiB should be kept");
    Ok(())
}

/// A network of some size, so that a status has something to say.
async fn load(endpoint: &str) -> Result<()> {
    let mut client = loop {
        match Client::connect(endpoint).await {
            Ok(client) => break client,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    let nodes = (1..=50).map(|n| format!(r#"{{"kind":"transport_node","id":"hv{n}","ip":"172.16.0.{n}"}}"#));
    let switches = (0..20).map(|n| format!(r#"{{"kind":"switch","id":"s{n}"}}"#));
    let ports = (0..2000).map(|n| format!(r#"{{"kind":"switch_port","id":"p{n}","switch":"s{}"}}"#, n % 20));
    client.apply_objects(nodes.chain(switches).chain(ports).collect(), "bench").await?;
    Ok(())
}

struct Times {
    median: Duration,
    p99: Duration,
    longest: Duration,
    count: usize,
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Times { median, p99, longest, count } = self;
        write!(f, "{median:.1?} | {p99:.1?} | {longest:.1?} | {count}")
    }
}

/// Connects and asks for the status, again and again.
async fn ask(endpoint: &str, mut more: impl FnMut() -> bool) -> Result<Times> {
    let mut times = Vec::new();
    while more() || times.len() < QUESTIONS {
        let begun = Instant::now();
        let status = Client::connect(endpoint).await?.status().await?;
        times.push(begun.elapsed());
        ensure!(status.switches.len() == 50, "the status is incomplete");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    times.sort_unstable();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    Ok(Times { median: at(50), p99: at(99), longest: at(100), count: times.len() })
}
