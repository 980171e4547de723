//! How long others wait: for `get` and `status` beside the worst transaction that is accepted, beside ten explanations, and beside twenty hosts
//! that lie, with the memory that these take.
//!
//! The controller is the built `weft controller`, with the network's own rules. Questions are asked over connections that are open already. The
//! hosts are in this process.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fake_switch::openflow::{Fault, Stage};
use fake_switch::{FakeDatabase, FakeSwitch};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use weft_client::{Client, pb};

use crate::measure::{machine, weft};
use crate::process::Killed;

/// Groups of all addresses, each with an ACL, and the addresses of one more group: nearly as many rows as the default bound lets a request derive.
const GROUPS: usize = 80;
const ADDRESSES: usize = 20_000;
const PORTS: usize = 2000;
const EXPLANATIONS: usize = 10;
const LIARS: usize = 20;
/// How long hosts lie.
const LIE: Duration = Duration::from_secs(30);
/// The least number of questions without a disturbance.
const QUESTIONS: usize = 300;
/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(5);

/// Prints the times.
pub(crate) fn print() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let socket = format!("unix:{}/weft.sock", folder.path().display());
    let config = folder.path().join("weft.toml");
    std::fs::write(&config, format!("state = \"state\"\nlog = \"error\"\nlisten = \"{socket}\"\n"))?;
    let mut command = Command::new(weft()?);
    command.args(["controller".as_ref(), "--config".as_ref(), config.as_os_str()]).stdin(Stdio::null());
    let process = Killed(command.spawn().context("cannot start weft")?);
    let runtime = Runtime::new()?;
    println!("\n{}\n", machine());
    println!("| question | disturbance | p50 ms | p99 ms | longest ms | of |");
    println!("|---|---|---|---|---|---|");
    runtime.block_on(measure(&socket, folder.path(), &process))
}

async fn connect(socket: &str) -> Client {
    loop {
        match Client::connect(socket).await {
            Ok(client) => return client,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn measure(socket: &str, folder: &Path, process: &Killed) -> Result<()> {
    let mut client = connect(socket).await;
    client.apply_objects(network(), "bench").await?;
    quiet(socket).await?;

    let begun = Instant::now();
    let mut other = connect(socket).await;
    let request = tokio::spawn(async move { other.apply_objects(worst(), "bench").await });
    beside(socket, &request, "the worst transaction").await?;
    request.await??;
    println!("| | that transaction took {:.1} s | | | | |", begun.elapsed().as_secs_f64());

    let mut asked = Vec::new();
    for _ in 0..EXPLANATIONS {
        let mut other = connect(socket).await;
        let text = "one_holder(..)".to_owned();
        asked.push(tokio::spawn(async move {
            let question = Some(pb::RowQuestion { about: Some(pb::row_question::About::Row(text)) });
            other.explain(pb::ExplainRequest { question, rows: 10_000, json: false }).await
        }));
    }
    let begun = Instant::now();
    let all = tokio::spawn(async move {
        let mut refused = None;
        for asked in asked {
            refused = asked.await?.err().or(refused);
        }
        anyhow::Ok(refused)
    });
    beside(socket, &all, "ten explanations").await?;
    let refused = all.await??;
    println!(
        "| | they took {:.1} s{} | | | | |",
        begun.elapsed().as_secs_f64(),
        refused.map(|why| format!(" ({why})")).unwrap_or_default()
    );
    lies(socket, folder, process).await
}

/// Hosts lie for some time.
async fn lies(socket: &str, folder: &Path, process: &Killed) -> Result<()> {
    quiet(socket).await?;
    let before = process.resident_mib()?;
    process.forget_peak()?;
    let mut client = connect(socket).await;
    let mut kept = Vec::new();
    let mut objects = Vec::new();
    for number in 0..LIARS {
        let path = |name: &str| folder.join(format!("{name}{number}"));
        let (ovsdb, openflow) = (path("db"), path("of"));
        kept.push(Liar::start(number, &ovsdb, &openflow)?);
        objects.push(format!(
            r#"{{"kind":"transport_node","id":"liar{number}","ip":"172.17.0.{}","ovsdb":"unix:{}","openflow":"unix:{}"}}"#,
            number + 1,
            ovsdb.display(),
            openflow.display()
        ));
    }
    client.apply_objects(objects, "bench").await?;
    let wait = tokio::spawn(tokio::time::sleep(LIE));
    beside(socket, &wait, "twenty lying hosts").await?;
    let peak = process.peak_mib()?;
    println!(
        "\nMemory of the controller, MiB: {before:.0} before, {peak:.0} at most beside twenty lying hosts."
    );
    Ok(())
}

/// A host that sends without an end.
struct Liar {
    _switch: FakeSwitch,
    _database: Option<FakeDatabase>,
}

impl Liar {
    fn start(number: usize, ovsdb: &Path, openflow: &Path) -> Result<Liar> {
        let switch = FakeSwitch::start(openflow)?;
        let id = FakeSwitch::DATAPATH_ID + number as u64;
        switch.datapath_id(id);
        let stage = [None, Some(Stage::Groups), Some(Stage::Dump)][number % 3];
        let Some(stage) = stage else {
            babble(ovsdb)?;
            return Ok(Liar { _switch: switch, _database: None });
        };
        for _ in 0..1000 {
            switch.fault(stage, Fault::Endless);
        }
        let database = FakeDatabase::start(ovsdb)?;
        database.datapath_id("br-int", id);
        Ok(Liar { _switch: switch, _database: Some(database) })
    }
}

/// A database that answers the first request without an end.
fn babble(socket: &Path) -> Result<()> {
    let listener = UnixListener::bind(socket)?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 1000]).await;
                let text = "[],".repeat(10_000);
                let mut sent = stream.write_all(br#"{"id":1,"error":null,"result":["#).await;
                while sent.is_ok() {
                    sent = stream.write_all(text.as_bytes()).await;
                }
            });
        }
    });
    Ok(())
}

/// A switch with many ports and a router.
fn network() -> Vec<String> {
    let nodes = (1..=50).map(|n| format!(r#"{{"kind":"transport_node","id":"hv{n}","ip":"172.16.0.{n}"}}"#));
    let switches = (0..20).map(|n| format!(r#"{{"kind":"switch","id":"s{n}"}}"#));
    let ports = (0..PORTS).map(|n| {
        let (high, low) = (n / 250, n % 250 + 1);
        format!(
            r#"{{"kind":"switch_port","id":"p{n}","switch":"s{}","addresses":[{{"mac":"02:00:00:00:{high:02x}:{low:02x}","ips":["10.{}.{high}.{low}"]}}]}}"#,
            n % 20,
            n % 20
        )
    });
    nodes.chain(switches).chain(ports).collect()
}

/// Groups of all addresses with an ACL each, and one of many addresses.
fn worst() -> Vec<String> {
    let addresses: Vec<String> =
        (0..ADDRESSES).map(|n| format!("\"11.{}.{}.{}\"", n / 62_500, n / 250 % 250, n % 250 + 1)).collect();
    let many = format!(r#"{{"kind":"address_group","id":"many","addresses":[{}]}}"#, addresses.join(","));
    let groups =
        (0..GROUPS).map(|n| format!(r#"{{"kind":"address_group","id":"g{n}","addresses":["0.0.0.0/0"]}}"#));
    let acls = (0..GROUPS).map(|n| {
        format!(
            r#"{{"kind":"acl","id":"a{n}","switch":"s0","direction":"to_port","priority":{},"action":"allow","from":{{"address_group":"g{n}"}}}}"#,
            100 + n
        )
    });
    let last = r#"{"kind":"acl","id":"last","switch":"s0","direction":"to_port","priority":99,"action":"allow","from":{"address_group":"many"}}"#;
    [many].into_iter().chain(groups).chain(acls).chain([last.to_owned()]).collect()
}

async fn quiet(socket: &str) -> Result<()> {
    let enough = tokio::spawn(tokio::time::sleep(PAUSE * QUESTIONS as u32));
    beside(socket, &enough, "none").await
}

/// Asks for an object and for the status, in turns, until a task ends, and prints how long each took.
async fn beside<T>(socket: &str, task: &tokio::task::JoinHandle<T>, name: &str) -> Result<()> {
    let is_over = Arc::new(AtomicBool::new(false));
    let asking = ["get", "status"].map(|what| tokio::spawn(ask(socket.to_owned(), what, is_over.clone())));
    while !task.is_finished() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    is_over.store(true, Ordering::SeqCst);
    for asking in asking {
        let (what, mut times) = asking.await??;
        times.sort_unstable();
        let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
        println!("| {what} | {name} | {:.1} | {:.1} | {:.1} | {} |", at(50), at(99), at(100), times.len());
    }
    Ok(())
}

async fn ask(
    socket: String,
    what: &'static str,
    is_over: Arc<AtomicBool>,
) -> Result<(&'static str, Vec<Duration>)> {
    let mut client = connect(&socket).await;
    let mut times = Vec::new();
    while !is_over.load(Ordering::SeqCst) || times.is_empty() {
        let begun = Instant::now();
        if what == "get" {
            ensure!(client.get("switch_port", Some("p7")).await?.len() == 1, "the port is there");
        } else {
            client.status().await?;
        }
        times.push(begun.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    Ok((what, times))
}
