//! The API over TLS with certificates on both sides: how many handshakes one core makes, and what TLS and the comparison of roles add to a
//! request on an open connection.
//!
//! Two controllers run, one in clear text on loopback, where nobody's role is compared, and one over TLS. The processor time of the
//! controller's process is what counts for handshakes, so a slow client or another process do not.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use mutual_tls::{Credentials, Files, Pair, SecureStream};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::api::Web;
use crate::measure::{Spread, machine, weft};
use crate::process::Killed;

/// Handshakes of a run, and how many clients make them at once.
const HANDSHAKES: usize = 2000;
const CLIENTS: usize = 4;
/// Requests of a run on each connection, and how many of them in a row.
const REQUESTS: usize = 1000;
const IN_A_ROW: usize = 50;
/// How long a controller may take to answer first.
const START_MAX: Duration = Duration::from_secs(30);

/// A controller at a port of loopback. It ends with this value.
struct Served {
    process: Killed,
    port: u16,
    /// What a client shows, if it speaks TLS.
    credentials: Option<Arc<Credentials>>,
}

/// What follows a handshake.
#[derive(Debug, Clone, Copy)]
enum Then {
    /// The end of the connection.
    Nothing,
    /// A request that needs a role.
    Request,
}

impl Served {
    fn start(
        folder: &Path,
        name: &str,
        lines: &str,
        credentials: Option<Arc<Credentials>>,
    ) -> Result<Served> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let config = folder.join(format!("{name}.toml"));
        fs::write(
            &config,
            format!("state = \"{name}\"\nlisten = \"127.0.0.1:{port}\"\nlog = \"error\"\n{lines}"),
        )?;
        let mut controller = Command::new(weft()?);
        controller.args(["controller", "--config"]).arg(&config).stdin(Stdio::null());
        Ok(Served { process: Killed(controller.spawn()?), port, credentials })
    }

    async fn secure(&self) -> Result<SecureStream<TcpStream>> {
        let credentials = self.credentials.as_ref().context("it speaks no TLS")?;
        let stream = self.connect().await?;
        Ok(credentials.connect_to_controller(stream, "127.0.0.1").await?)
    }

    async fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn web(&self) -> Result<Web> {
        match self.credentials {
            Some(_) => Web::over(self.secure().await?).await,
            None => Web::over(self.connect().await?).await,
        }
    }

    /// A connection, once it answers.
    async fn ready(&self) -> Result<Web> {
        let begun = Instant::now();
        loop {
            match self.web().await {
                Ok(web) => return Ok(web),
                Err(error) if begun.elapsed() > START_MAX => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// One handshake, and the end of the connection as the controller has answered it.
    async fn handshake(&self, then: Then) -> Result<()> {
        let mut stream = self.secure().await?;
        let mut answer = Vec::new();
        if let Then::Request = then {
            let request = b"GET /v1/switches/s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            stream.write_all(request).await?;
        } else {
            stream.shutdown().await?;
        }
        stream.read_to_end(&mut answer).await?;
        let is_answered = answer.starts_with(b"HTTP/1.1 200 ");
        match then {
            Then::Request => ensure!(is_answered, "{}", String::from_utf8_lossy(&answer)),
            Then::Nothing => ensure!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer)),
        }
        Ok(())
    }
}

/// Makes both authorities, and a certificate for an operator.
fn credentials(folder: &Path) -> Result<Arc<Credentials>> {
    for arguments in [&["init", "--address", "127.0.0.1"][..], &["client", "alice", "--role", "operator"]] {
        let output = Command::new(weft()?).arg("pki").args(arguments).current_dir(folder).output()?;
        if !output.status.success() {
            bail!("weft pki {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    let path = |name: &str| folder.join("pki").join(name);
    let own = Pair { certificate: path("members/alice.pem"), key: path("members/alice.key") };
    Ok(Credentials::load(Files { own: Some(own), authorities: path("controllers/ca.pem"), revoked: None })?)
}

/// Prints the figures.
pub(crate) fn print(runs: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let credentials = credentials(folder.path())?;
    let lines = "tls_certificate = \"pki/controllers/controller.pem\"\ntls_key = \"pki/controllers/controller.key\"\n\
                 tls_authorities = \"pki/members/ca.pem\"\ntls_revoked = \"pki/members/revoked.pem\"\n";
    let clear = Arc::new(Served::start(folder.path(), "clear", "", None)?);
    let secure = Arc::new(Served::start(folder.path(), "secure", lines, Some(credentials))?);
    let runtime = Runtime::new()?;
    println!("\n{}; medians (least–greatest) of {runs} runs.\n", machine());
    println!("| figure | measured |\n|---|---|");
    runtime.block_on(async {
        let mut connections = [clear.ready().await?, secure.ready().await?];
        for web in &mut connections {
            web.ask("PUT", "/v1/switches/s", &json!({})).await?;
        }
        for (what, then) in [
            ("a handshake alone", Then::Nothing),
            ("a handshake and a request that needs a role", Then::Request),
        ] {
            handshakes(&secure, what, then, runs).await?;
        }
        for (what, method, query) in [
            ("GET", "GET", ""),
            ("PUT that changes nothing durable (dry run)", "PUT", "?dry_run=true"),
            ("PUT", "PUT", ""),
        ] {
            requests(&clear, &secure, what, method, query, runs).await?;
        }
        Ok(())
    })
}

/// Prints what handshakes cost the controller.
async fn handshakes(secure: &Arc<Served>, what: &str, then: Then, runs: usize) -> Result<()> {
    let (mut each, mut rates, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..=runs {
        let (cpu, begun) = (secure.process.cpu()?, Instant::now());
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let secure = secure.clone();
            clients.push(tokio::spawn(async move {
                for _ in 0..HANDSHAKES / CLIENTS {
                    secure.handshake(then).await?;
                }
                anyhow::Ok(())
            }));
        }
        for client in clients {
            client.await??;
        }
        let (cpu, wall) = (secure.process.cpu()?.saturating_sub(cpu), begun.elapsed());
        if run > 0 {
            each.push(cpu.as_secs_f64() * 1e3 / HANDSHAKES as f64);
            rates.push(HANDSHAKES as f64 / cpu.as_secs_f64());
            whole.push(HANDSHAKES as f64 / wall.as_secs_f64());
        }
    }
    println!("| {what}: processor time of the controller, ms | {:.3} |", Spread::new(each));
    println!("| … so many a second on one core | {:.0} |", Spread::new(rates));
    println!("| … so many a second came, beside the client | {:.0} |", Spread::new(whole));
    Ok(())
}

/// Prints what a request takes in clear text and over TLS, on open connections by turns.
async fn requests(
    clear: &Served,
    secure: &Served,
    what: &str,
    method: &'static str,
    query: &str,
    runs: usize,
) -> Result<()> {
    let mut connections = [clear.web().await?, secure.web().await?];
    let path = format!("/v1/switch_ports/p{query}");
    for web in &mut connections {
        web.ask("PUT", "/v1/switch_ports/p", &port(0)).await?;
    }
    let (mut medians, mut added) = ([Vec::new(), Vec::new()], Vec::new());
    let mut number = 0;
    for run in 0..=runs {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..REQUESTS / IN_A_ROW {
            for (web, times) in connections.iter_mut().zip(&mut times) {
                for _ in 0..IN_A_ROW {
                    number += 1;
                    let body = if method == "GET" { Json::Null } else { port(number) };
                    let begun = Instant::now();
                    web.ask(method, &path, &body).await?;
                    times.push(begun.elapsed().as_secs_f64() * 1e3);
                }
            }
        }
        let [clear, secure] = times.map(|times| Spread::new(times).median());
        if run > 0 {
            medians[0].push(clear);
            medians[1].push(secure);
            added.push(secure - clear);
        }
    }
    let [clear, secure] = medians.map(Spread::new);
    println!("| {what} in clear text, without roles, ms | {clear:.3} |");
    println!("| … over TLS, as an operator, ms | {secure:.3} |");
    println!("| … more, ms | {:.3} |", Spread::new(added));
    Ok(())
}

/// A port that differs each time.
fn port(number: usize) -> Json {
    json!({"switch": "s", "addresses": [{"mac": format!("02:00:00:00:{:02x}:{:02x}", number >> 8 & 255, number & 255)}]})
}
