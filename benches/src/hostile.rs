//! A controller under attack: how long `weft get status` takes for others, and what memory is kept afterwards.
//!
//! The controller is the built `weft`. The attackers and the honest client share this process, so the controller cannot
//! tell them apart by who they are.

use std::io::Write as _;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use controller::Client;
use h2::client::SendRequest;
use tokio::net::UnixStream;

/// How long the controller may take for 99 of 100 questions while it is attacked.
const STATUS_MAX: Duration = Duration::from_millis(100);
/// How much more memory than before it may have, this long after the attackers have gone.
const KEPT_MAX_MIB: f64 = 50.0;
const REST: Duration = Duration::from_secs(10);
/// How many questions are asked before, and at least during the attack.
const QUESTIONS: usize = 300;
/// The prefix of a message of 256 MiB.
const PREFIX: &[u8] = &[0, 0x10, 0, 0, 0];

/// A controller in a folder of its own. It ends with this.
struct Weft {
    process: Child,
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
        Ok(Weft { process, folder })
    }

    fn endpoint(&self) -> String {
        format!("unix:{}/weft.sock", self.folder.path().display())
    }

    /// Its memory now, in mebibytes (`VmRSS` of proc(5)).
    fn memory_mib(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib / 1024.0)
    }
}

impl Drop for Weft {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Attacks a controller for so long, and prints what others noticed of it.
pub(crate) fn print(attack: Duration) -> Result<()> {
    let weft = Weft::start()?;
    let honest = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    honest.block_on(load(&weft.endpoint()))?;
    let before = honest.block_on(ask(&weft.endpoint(), || false))?;
    let memory_before = weft.memory_mib()?;

    let stop = Arc::new(AtomicBool::new(false));
    let attackers = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    for attack in [streams, slow_bodies, unread_answers, brackets, large_requests] {
        attackers.spawn(attack(weft.folder.path().join("weft.sock").into(), stop.clone()));
    }
    let idle = idle_connections(weft.folder.path().join("weft.sock").into(), stop.clone());
    let begun = Instant::now();
    let mut memory_max = memory_before;
    let during = honest.block_on(ask(&weft.endpoint(), || {
        memory_max = memory_max.max(weft.memory_mib().unwrap_or_default());
        begun.elapsed() < attack
    }))?;
    stop.store(true, Ordering::Relaxed);
    attackers.shutdown_background();
    idle.join().map_err(|_| anyhow::anyhow!("a thread of silent connections panicked"))?;
    std::thread::sleep(REST);
    let memory_after = weft.memory_mib()?;

    println!("status while nothing happens: {before}");
    println!("status under attack for {} s: {during}", attack.as_secs());
    println!(
        "memory: {memory_before:.0} MiB before, at most {memory_max:.0} MiB, {memory_after:.0} MiB {} s after",
        REST.as_secs()
    );
    ensure!(during.p99 <= STATUS_MAX, "99 of 100 answers should take at most {STATUS_MAX:?}");
    ensure!(memory_after - memory_before <= KEPT_MAX_MIB, "at most {KEPT_MAX_MIB} MiB should be kept");
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
        write!(f, "median {median:.1?}, p99 {p99:.1?}, longest {longest:.1?} of {count}")
    }
}

/// Connects and asks for the status, again and again, as `weft get status` does.
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

type Attack = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

async fn connect(socket: &Path) -> Result<SendRequest<Bytes>> {
    let stream = UnixStream::connect(socket).await?;
    let (sender, connection) = h2::client::handshake(stream).await?;
    tokio::spawn(connection);
    Ok(sender)
}

fn request(method: &str) -> Result<http::Request<()>> {
    let request = http::Request::post(format!("http://localhost/weft.v1.Controller/{method}"));
    Ok(request.header("content-type", "application/grpc").header("te", "trailers").body(())?)
}

/// Repeats an attack until it is told to stop. Failures are what an attacker has to expect.
fn repeat<F>(stop: Arc<AtomicBool>, once: impl Fn() -> F + Send + 'static) -> Attack
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    Box::pin(async move {
        while !stop.load(Ordering::Relaxed) {
            let _ = tokio::time::timeout(Duration::from_secs(5), once()).await;
        }
    })
}

/// 1,000 streams that announce 256 MiB each, and send nothing of it.
fn streams(socket: Arc<Path>, stop: Arc<AtomicBool>) -> Attack {
    repeat(stop, move || {
        let socket = socket.clone();
        async move {
            let mut open = Vec::new();
            for _ in 0..32 {
                let mut sender = connect(&socket).await?;
                for _ in 0..32 {
                    sender = sender.ready().await?;
                    let (response, mut body) = sender.send_request(request("Apply")?, false)?;
                    body.send_data(Bytes::from_static(PREFIX), false)?;
                    open.push((response, body));
                }
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
            Ok(())
        }
    })
}

/// Requests that arrive a byte at a time.
fn slow_bodies(socket: Arc<Path>, stop: Arc<AtomicBool>) -> Attack {
    repeat(stop, move || {
        let socket = socket.clone();
        async move {
            let mut sender = connect(&socket).await?;
            let (_response, mut body) = sender.send_request(request("Apply")?, false)?;
            body.send_data(Bytes::from_static(PREFIX), false)?;
            sender = sender.ready().await?;
            for _ in 0..10_000 {
                body.send_data(Bytes::from_static(b"x"), false)?;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            drop(sender);
            Ok(())
        }
    })
}

/// Questions with long answers that nobody reads.
fn unread_answers(socket: Arc<Path>, stop: Arc<AtomicBool>) -> Attack {
    repeat(stop, move || {
        let socket = socket.clone();
        async move {
            let mut sender = connect(&socket).await?;
            let mut open = Vec::new();
            for number in 0..32 {
                sender = sender.ready().await?;
                let method = if number % 2 == 0 { "Get" } else { "WatchReceipts" };
                let (response, mut body) = sender.send_request(request(method)?, false)?;
                let message: &[u8] = if number % 2 == 0 {
                    b"\0\0\0\0\x0d\x0a\x0bswitch_port"
                } else {
                    b"\0\0\0\0\x02\x08\x01"
                };
                body.send_data(Bytes::from_static(message), true)?;
                open.push(response);
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
            Ok(())
        }
    })
}

/// 100,000 nested brackets, as YAML and as JSON; the client does not wait for the answer.
fn brackets(socket: Arc<Path>, stop: Arc<AtomicBool>) -> Attack {
    repeat(stop, move || {
        let endpoint = format!("unix:{}", socket.display());
        async move {
            let mut client = Client::connect(&endpoint).await?;
            for name in ["a.yaml", "a.json", "a"] {
                let documents = [(name.to_owned(), "[".repeat(100_000))];
                let _ = tokio::time::timeout(Duration::from_millis(200), client.apply(documents, "x")).await;
            }
            Ok(())
        }
    })
}

/// 200 MB of objects, refused for the last one.
fn large_requests(socket: Arc<Path>, stop: Arc<AtomicBool>) -> Attack {
    let mut text = String::new();
    let mut number = 0;
    while text.len() < 200_000_000 {
        text += &format!("{{\"kind\": \"switch_port\", \"id\": \"x{number}\", \"switch\": \"s0\"}}\n");
        number += 1;
    }
    text += "{\"kind\": \"switch\", \"id\": \"\"}\n";
    let text: Arc<str> = text.into();
    Box::pin(async move {
        while !stop.load(Ordering::Relaxed) {
            let endpoint = format!("unix:{}", socket.display());
            if let Ok(mut client) = Client::connect(&endpoint).await {
                // Refused, or out of budget.
                let _ = client.apply([("x.json".to_owned(), text.to_string())], "x").await;
            }
        }
    })
}

/// More connections than a process may have files, none of which says a word.
fn idle_connections(socket: Arc<Path>, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut open = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            if open.len() > 900 {
                open.clear();
            }
            if let Ok(mut stream) = StdUnixStream::connect(&socket) {
                // Some begin to speak, and stop.
                if open.len().is_multiple_of(2) {
                    let _ = stream.write_all(b"PRI * HT");
                }
                open.push(stream);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    })
}
