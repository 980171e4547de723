//! The attacks of hostile clients.

use std::io::Write as _;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bytes::{BufMut as _, Bytes, BytesMut};
use clap::ValueEnum;
use h2::client::SendRequest;
use tokio::net::UnixStream;
use weft_client::Client;

/// The prefix of a message of 256 MiB.
const PREFIX: &[u8] = &[0, 0x10, 0, 0, 0];
/// How long an attack takes before it begins anew. Large requests take long on a machine that is busy.
const ONCE_MAX: Duration = Duration::from_secs(20);
/// The number of empty names in a request of 4 MiB.
const EMPTY: usize = 2 << 20;

/// An attack. Each goes on until its process is killed.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Attack {
    /// 1,000 streams that announce 256 MiB each, and send nothing of it.
    Streams,
    /// Requests that arrive a byte at a time.
    SlowBodies,
    /// Questions with long answers that nobody reads, over as many connections as a client may have.
    UnreadAnswers,
    /// 100,000 nested brackets, as YAML and as JSON; the client does not wait for the answer.
    Brackets,
    /// 200 MB of objects, refused for the last one.
    LargeRequests,
    /// Lists of names and objects that are empty: two bytes each until they are decoded.
    EmptyElements,
    /// More connections than the controller takes, none of which asks anything.
    IdleConnections,
}

/// Attacks the controller at a socket, for ever. Failures are what an attacker has to expect.
pub(crate) fn run(attack: Attack, socket: PathBuf) -> Result<()> {
    let socket: Arc<Path> = socket.into();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let large = match attack {
        Attack::LargeRequests => large_text(),
        _ => String::new(),
    };
    loop {
        let once = async {
            match attack {
                Attack::Streams => streams(&socket).await,
                Attack::SlowBodies => slow_bodies(&socket).await,
                Attack::UnreadAnswers => unread_answers(&socket).await,
                Attack::Brackets => brackets(&socket).await,
                Attack::LargeRequests => large_requests(&socket, &large).await,
                Attack::EmptyElements => empty_elements(&socket).await,
                Attack::IdleConnections => idle_connections(&socket).await,
            }
        };
        let _ = runtime.block_on(async { tokio::time::timeout(ONCE_MAX, once).await });
    }
}

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

async fn streams(socket: &Path) -> Result<()> {
    let mut open = Vec::new();
    for _ in 0..32 {
        let mut sender = connect(socket).await?;
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

async fn slow_bodies(socket: &Path) -> Result<()> {
    let sender = connect(socket).await?;
    let mut sender = sender.ready().await?;
    let (_response, mut body) = sender.send_request(request("Apply")?, false)?;
    body.send_data(Bytes::from_static(PREFIX), false)?;
    for _ in 0..5000 {
        body.send_data(Bytes::from_static(b"x"), false)?;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// The messages ask for all ports, for what a switch should have, for the status and for all receipts.
async fn unread_answers(socket: &Path) -> Result<()> {
    let asked: [(&str, &[u8]); 4] = [
        ("Get", b"\0\0\0\0\x0d\x0a\x0bswitch_port"),
        ("ListFlows", b"\0\0\0\0\x05\x0a\x03hv1"),
        ("Status", b"\0\0\0\0\0"),
        ("WatchReceipts", b"\0\0\0\0\x02\x08\x01"),
    ];
    let mut open = Vec::new();
    for _ in 0..64 {
        let mut sender = connect(socket).await?;
        for (method, message) in asked.into_iter().cycle().take(32) {
            sender = sender.ready().await?;
            let (response, mut body) = sender.send_request(request(method)?, false)?;
            body.send_data(Bytes::from_static(message), true)?;
            open.push(response);
        }
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(())
}

async fn brackets(socket: &Path) -> Result<()> {
    let mut client = Client::connect(&format!("unix:{}", socket.display())).await?;
    for name in ["a.yaml", "a.json", "a"] {
        let documents = [(name.to_owned(), "[".repeat(100_000))];
        let _ = tokio::time::timeout(Duration::from_millis(200), client.apply(documents, "x")).await;
    }
    Ok(())
}

fn large_text() -> String {
    let mut text = String::new();
    let mut number = 0;
    while text.len() < 200_000_000 {
        text += &format!("{{\"kind\": \"switch_port\", \"id\": \"x{number}\", \"switch\": \"s0\"}}\n");
        number += 1;
    }
    text + "{\"kind\": \"switch\", \"id\": \"\"}\n"
}

async fn large_requests(socket: &Path, text: &str) -> Result<()> {
    let mut client = Client::connect(&format!("unix:{}", socket.display())).await?;
    // Refused, or out of budget.
    client.apply([("x.json".to_owned(), text.to_owned())], "x").await?;
    Ok(())
}

/// The bytes are those of the first field of a status request, and of the second of an apply request: empty texts.
async fn empty_elements(socket: &Path) -> Result<()> {
    for (method, count, element) in [("Status", EMPTY, [0x0a, 0]), ("Apply", EMPTY / 2, [0x12, 0])] {
        let mut open = Vec::new();
        for _ in 0..4 {
            let mut sender = connect(socket).await?.ready().await?;
            let (response, mut body) = sender.send_request(request(method)?, false)?;
            let mut bytes = BytesMut::new();
            bytes.put_u8(0);
            bytes.put_u32(u32::try_from(2 * count)?);
            bytes.put_slice(&element.repeat(count));
            body.send_data(bytes.freeze(), true)?;
            open.push((response, sender));
        }
        for (response, _sender) in open {
            let _ = response.await;
        }
    }
    Ok(())
}

async fn idle_connections(socket: &Path) -> Result<()> {
    let mut open = Vec::new();
    while open.len() < 900 {
        if let Ok(mut stream) = StdUnixStream::connect(socket) {
            // Some begin to speak, and stop.
            if open.len().is_multiple_of(2) {
                let _ = stream.write_all(b"PRI * HT");
            }
            open.push(stream);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}
