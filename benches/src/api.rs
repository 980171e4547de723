//! The API over HTTP: a controller of a large network, asked by one connection after another request, and watched by many.
//!
//! The hosts cannot be reached, as in [`daemon`](crate::daemon): no switch answers, so what is measured is the controller alone.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

use crate::daemon::{Daemon, OF_HOST, write_journal};
use crate::measure::{Spread, machine};

/// Requests of each kind.
const REQUESTS: usize = 300;
const READS: usize = 2000;
const PAGES: usize = 100;
/// Watchers, each on a connection of its own.
const WATCHERS: usize = 1000;
/// Ports of one file, and of a group that an ACL names.
const FILE: usize = 20_000;
const GROUP: usize = 10_000;

/// A connection to the daemon.
pub(crate) struct Web(SendRequest<String>);

impl Web {
    async fn connect(socket: &Path) -> Result<Self> {
        Web::over(UnixStream::connect(socket).await?).await
    }

    pub(crate) async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<Self> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Web(sender))
    }

    async fn open(&mut self, method: &str, path: &str, body: String) -> Result<http::Response<Incoming>> {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("content-type", "application/json").body(body)?;
        self.0.ready().await?;
        Ok(self.0.send_request(request).await?)
    }

    /// The body of an answer that is no refusal.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: &Json) -> Result<Vec<u8>> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (head, mut answer) = self.open(method, path, body).await?.into_parts();
        let mut bytes = Vec::new();
        while let Some(part) = next(&mut answer).await? {
            bytes.extend_from_slice(&part);
        }
        ensure!(head.status.is_success(), "{method} {path}: {}", String::from_utf8_lossy(&bytes));
        Ok(bytes)
    }

    /// The milliseconds of requests that `each` makes.
    async fn times(
        &mut self,
        count: usize,
        each: impl Fn(usize) -> (&'static str, String, Json),
    ) -> Result<Spread> {
        let mut times = Vec::with_capacity(count);
        for number in 0..count {
            let (method, path, body) = each(number);
            let begun = Instant::now();
            self.ask(method, &path, &body).await?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        Ok(Spread::new(times))
    }
}

async fn next(body: &mut Incoming) -> Result<Option<Vec<u8>>> {
    loop {
        let frame = std::future::poll_fn(|context| std::pin::Pin::new(&mut *body).poll_frame(context)).await;
        match frame.transpose()? {
            None => return Ok(None),
            Some(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data.to_vec()));
                }
            }
        }
    }
}

/// A port as the journal has it, with a description that differs each time.
fn port(number: usize, round: usize) -> Json {
    let bytes = u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes();
    let mac = format!("02:00:{:02x}:{:02x}:{:02x}:{:02x}", bytes[0], bytes[1], bytes[2], bytes[3]);
    let ips = [format!("10.{}.{}.{}", bytes[1], bytes[2], bytes[3])];
    json!({"switch": format!("s{}", number / crate::daemon::OF_SWITCH), "port_security": round.is_multiple_of(2),
        "addresses": [{"mac": mac, "ips": ips}]})
}

/// Prints the figures of a controller with so many hosts.
pub(crate) fn print(hosts: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    write_journal(folder.path(), hosts)?;
    let daemon = Daemon::start(folder.path())?;
    daemon.at_rest()?;
    let socket = folder.path().join("weft.sock");
    println!(
        "\n{}; {hosts} hosts, {} ports. Median (p99) of requests one after another.\n",
        machine(),
        hosts * OF_HOST
    );
    println!("| figure | ms |\n|---|---|");
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(figures(&daemon, socket, hosts * OF_HOST))
}

fn path_of(number: usize, ports: usize) -> String {
    format!("/v1/switch_ports/p{}", number * 37 % ports)
}

fn say(name: &str, times: &Spread) {
    println!("| {name} | {:.2} ({:.2}) |", times.median(), times.at(0.99));
}

async fn figures(daemon: &Daemon, socket: PathBuf, ports: usize) -> Result<()> {
    let mut web = Web::connect(&socket).await?;
    let path = |number: usize| path_of(number, ports);
    // Each round gives the ports another value than the one before.
    let put =
        |round: usize| move |number: usize| ("PUT", path_of(number, ports), port(number * 37 % ports, round));
    say("PUT of one port, computed", &web.times(REQUESTS, put(1)).await?);
    say("GET of one port", &web.times(READS, |number| ("GET", path(number), Json::Null)).await?);
    let page = |_| ("GET", "/v1/switch_ports?limit=500".to_owned(), Json::Null);
    say("a page of 500 ports with their states", &web.times(PAGES, page).await?);
    let dry = |number: usize| ("PUT", path(number) + "?dry_run=true", port(number * 37 % ports, 0));
    say("dry run of one port's change", &web.times(REQUESTS, dry).await?);

    let members: Vec<String> = (0..GROUP.min(ports)).map(|number| format!("p{number}")).collect();
    web.ask("PUT", "/v1/port_groups/many", &json!({"ports": members})).await?;
    let acl = |_| {
        let acl = json!({"port_group": "many", "direction": "to_port", "priority": 5, "action": "drop"});
        ("PUT", "/v1/acls/a?dry_run=true".to_owned(), acl)
    };
    say(&format!("dry run of an ACL on a group of {} ports", members.len()), &web.times(20, acl).await?);

    let before = daemon.at_rest()?;
    let mut watching = Vec::new();
    for _ in 0..WATCHERS {
        let mut connection = Web::connect(&socket).await?;
        let answer = connection.open("GET", "/v1/switches?watch=true", String::new()).await?;
        let mut body = answer.into_body();
        next(&mut body).await?.context("a bookmark comes first")?;
        watching.push((connection, body));
    }
    println!("| {WATCHERS} idle watchers, each on a connection, MiB | {:.1} |", daemon.at_rest()? - before);
    // The first connection was silent for too long meanwhile.
    let mut web = Web::connect(&socket).await?;
    say(
        &format!("PUT of one port with {WATCHERS} watchers of another kind"),
        &web.times(REQUESTS, put(2)).await?,
    );
    drop(watching);
    say("PUT of one port after they have gone", &web.times(REQUESTS, put(3)).await?);

    let objects: Vec<Json> = (0..FILE)
        .map(|number| {
            let mut object = json!({"kind": "switch_port", "id": format!("new{number}"), "switch": format!("n{}", number / 100)});
            object["addresses"] = json!([{"mac": format!("06:00:00:{:02x}:{:02x}:{:02x}", number >> 16, number >> 8 & 255, number & 255)}]);
            object
        })
        .chain((0..FILE / 100).map(|number| json!({"kind": "switch", "id": format!("n{number}")})))
        .collect();
    daemon.forget_peak()?;
    let (before, begun) = (daemon.resident_mib()?, Instant::now());
    web.ask("POST", "/v1/apply", &Json::Array(objects)).await?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("| {FILE} ports in one request, s | {seconds:.2} |");
    println!("| … peak memory above that before, MiB | {:.0} |", daemon.peak_mib()? - before);
    Ok(())
}
