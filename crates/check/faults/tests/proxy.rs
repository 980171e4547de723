//! The proxy, before a socket that answers with what it is sent.

use std::path::Path;
use std::time::Duration;

use faults::proxy::{Mode, Proxy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixListener};
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_mins(1);

/// Sends back what it is sent.
fn echo(socket: &Path) {
    let listener = UnixListener::bind(socket).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
}

async fn connect(proxy: &Proxy) -> TcpStream {
    let endpoint = proxy.endpoint();
    TcpStream::connect(endpoint.trim_start_matches("tcp:")).await.unwrap()
}

/// Sends bytes and reads as many; the error if the connection ends before.
async fn exchange(stream: &mut TcpStream, bytes: usize) -> std::io::Result<()> {
    let (mut from, mut to) = stream.split();
    let (sent, mut got) = (vec![7; bytes], vec![0; bytes]);
    let (written, read) = tokio::join!(to.write_all(&sent), from.read_exact(&mut got));
    written?;
    read?;
    assert_eq!(sent, got);
    Ok(())
}

#[tokio::test]
async fn bytes_pass_stop_trickle_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    echo(&socket);
    let proxy = Proxy::start(socket, 1).await.unwrap();
    let mut stream = connect(&proxy).await;
    exchange(&mut stream, 100_000).await.unwrap();

    proxy.treat(Mode::Stalled);
    let stalled = timeout(Duration::from_millis(200), exchange(&mut stream, 1)).await;
    assert!(stalled.is_err(), "a byte passes");
    assert_eq!(proxy.done().held, 1);
    proxy.treat(Mode::Trickling);
    let mut late = [0];
    timeout(DEADLINE, stream.read_exact(&mut late)).await.unwrap().unwrap();
    timeout(DEADLINE, exchange(&mut stream, 200)).await.unwrap().unwrap();
    assert!(proxy.done().trickled >= 400, "{:?}", proxy.done());

    proxy.treat(Mode::Clear);
    proxy.reset();
    let ended = timeout(DEADLINE, exchange(&mut stream, 10)).await.unwrap();
    assert!(ended.is_err(), "a connection that was reset goes on");
    assert_eq!(proxy.done().reset, 1);
}

#[tokio::test]
async fn connections_are_cut_at_different_bytes_of_either_direction() {
    const LIMIT: usize = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    echo(&socket);
    let proxy = Proxy::start(socket, 3).await.unwrap();
    proxy.treat(Mode::Cut { to_daemon: LIMIT as u64, from_daemon: LIMIT as u64 });
    for number in 1..=20 {
        let mut stream = connect(&proxy).await;
        let ended = timeout(DEADLINE, exchange(&mut stream, 2 * LIMIT)).await.unwrap();
        assert!(ended.is_err(), "connection {number} is not cut");
    }
    let cut = async {
        while proxy.done().cut < 20 {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, cut).await.unwrap();
    proxy.treat(Mode::Clear);
    exchange(&mut connect(&proxy).await, 2 * LIMIT).await.unwrap();
}

#[tokio::test]
async fn nobody_listens_where_no_daemon_runs() {
    let folder = tempfile::tempdir().unwrap();
    let proxy = Proxy::start(folder.path().join("nobody"), 1).await.unwrap();
    let mut stream = connect(&proxy).await;
    assert!(timeout(DEADLINE, exchange(&mut stream, 1)).await.unwrap().is_err());
}
