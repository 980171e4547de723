//! Framing, probes and deadlines of one connection.

use std::time::Duration;

use crate::line_protocol::{LINE_MAX, Lines};
use peer_connection::{
    Connection, Dial, Dialling, Endpoint, InMemoryNetwork, PeerMemory, Resolver, Sockets, Stream, Timeouts,
    within,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream, DuplexStream};
use tokio::sync::watch;
use tokio::time::Instant;

const PROBE_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(4);

const TIMEOUTS: Timeouts = Timeouts {
    probe_interval: PROBE_INTERVAL,
    probe_timeout: PROBE_TIMEOUT,
    write_timeout: WRITE_TIMEOUT,
    message_timeout: None,
};

type Server = BufStream<DuplexStream>;

async fn connected(timeouts: Timeouts) -> (Connection<Lines>, Server) {
    let endpoint = Endpoint::Unix("peer".into());
    let network = InMemoryNetwork::default();
    let mut listener = network.listen(endpoint.clone());
    let connection =
        Connection::open(&network, &endpoint, in_time(), Lines, timeouts, PeerMemory::default().account())
            .await
            .unwrap();
    (connection, BufStream::new(listener.accept().await.unwrap()))
}

fn in_time() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

async fn send(server: &mut Server, bytes: &str) {
    server.write_all(bytes.as_bytes()).await.unwrap();
    server.flush().await.unwrap();
}

async fn line(server: &mut Server) -> String {
    let mut line = String::new();
    server.read_line(&mut line).await.unwrap();
    line
}

/// Waits for the end of the connection and returns the error and how long it took.
async fn end(connection: &mut Connection<Lines>) -> (String, Duration) {
    let start = Instant::now();
    let error = connection.receive().await.expect_err("the connection should end").to_string();
    (error, start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn dialling_an_endpoint_without_a_listener_is_refused() {
    let network = InMemoryNetwork::default();
    let endpoint = Endpoint::Unix("nobody".into());
    let error =
        Connection::open(&network, &endpoint, in_time(), Lines, TIMEOUTS, PeerMemory::default().account())
            .await
            .unwrap_err();
    assert_eq!(error.to_string(), "cannot connect: connection refused");
    drop(network.listen(endpoint.clone()));
    assert!(
        Connection::open(&network, &endpoint, in_time(), Lines, TIMEOUTS, PeerMemory::default().account())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn dialling_has_a_deadline() {
    struct Unreachable;
    impl Dial for Unreachable {
        fn dial<'a>(&'a self, _: &'a Endpoint) -> Dialling<'a> {
            Box::pin(std::future::pending())
        }
    }
    let start = Instant::now();
    let deadline = start + Duration::from_secs(7);
    let endpoint = Endpoint::Unix("far".into());
    let error =
        Connection::open(&Unreachable, &endpoint, deadline, Lines, TIMEOUTS, PeerMemory::default().account())
            .await
            .unwrap_err();
    assert_eq!(error.to_string(), "cannot connect within 7.0 s");
    assert_eq!(start.elapsed(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn messages_are_whole_however_the_stream_is_cut() {
    let (mut connection, mut server) = connected(TIMEOUTS).await;
    let writer = tokio::spawn(async move {
        for part in ["one\ntw", "o", "\n", "three\nfour\n"] {
            send(&mut server, part).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        server
    });
    for expected in ["one", "two", "three", "four"] {
        assert_eq!(connection.receive().await.unwrap(), expected);
    }
    drop(writer.await.unwrap());
    assert_eq!(end(&mut connection).await.0, "the peer closed the connection");
}

#[tokio::test(start_paused = true)]
async fn a_message_cut_off_by_the_end_is_reported() {
    let (mut connection, mut server) = connected(TIMEOUTS).await;
    send(&mut server, "one\ntwo").await;
    drop(server);
    assert_eq!(connection.receive().await.unwrap(), "one");
    let error = end(&mut connection).await.0;
    assert_eq!(error, "the peer closed the connection in the middle of a message (3 bytes of it received)");
}

#[tokio::test(start_paused = true)]
async fn a_message_over_the_limit_is_refused_before_it_is_whole() {
    let (mut connection, mut server) = connected(TIMEOUTS).await;
    send(&mut server, &format!("{}\n{}", "a".repeat(LINE_MAX), "b".repeat(LINE_MAX + 1))).await;
    assert_eq!(connection.receive().await.unwrap().len(), LINE_MAX);
    let (error, after) = end(&mut connection).await;
    assert_eq!((error.as_str(), after), ("a line is longer than 40 bytes", Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn an_answered_probe_keeps_the_connection() {
    let (mut connection, mut server) = connected(TIMEOUTS).await;
    let start = Instant::now();
    let server = tokio::spawn(async move {
        for probe in 1..=4 {
            assert_eq!(line(&mut server).await, "ping\n");
            // Each probe follows the last answer by the interval, and is answered just before the timeout.
            let late = Duration::from_millis(2999);
            assert_eq!(start.elapsed(), PROBE_INTERVAL * probe + late * (probe - 1));
            tokio::time::sleep(late).await;
            send(&mut server, "pong\n").await;
        }
        send(&mut server, "hello\n").await;
        server
    });
    assert_eq!(connection.receive().await.unwrap(), "hello", "probes and answers are not messages");
    drop(server.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn any_byte_answers_a_probe() {
    let (mut connection, mut server) = connected(TIMEOUTS).await;
    tokio::spawn(async move {
        assert_eq!(line(&mut server).await, "ping\n");
        send(&mut server, "x").await;
        assert_eq!(line(&mut server).await, "ping\n");
        std::future::pending::<()>().await;
    });
    let (error, after) = end(&mut connection).await;
    assert_eq!(
        error,
        "the peer sent nothing for 8.0 s in the middle of a message (1 bytes of it received) and did not answer an \
         echo request"
    );
    assert_eq!(after, PROBE_INTERVAL * 2 + PROBE_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_probe_ends_the_connection() {
    let (mut connection, _server) = connected(TIMEOUTS).await;
    let (error, after) = end(&mut connection).await;
    assert_eq!(error, "the peer sent nothing for 8.0 s and did not answer an echo request");
    assert_eq!(after, PROBE_INTERVAL + PROBE_TIMEOUT);
}

/// A probe is answered after the bytes before it, so a peer that reads slowly is alive as long as it reads.
#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_bytes_is_alive_until_it_stops() {
    let (mut connection, server) = connected(TIMEOUTS).await;
    for _ in 0..10_000 {
        connection.send("x".repeat(LINE_MAX)).unwrap();
    }
    let mut server = server.into_inner();
    let reads = tokio::spawn(async move {
        tokio::time::sleep(PROBE_INTERVAL).await;
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            server.read_exact(&mut [0; 1000]).await.unwrap();
        }
        (Instant::now(), server)
    });
    let error = connection.receive().await.unwrap_err().to_string();
    let (stopped, _server) = reads.await.unwrap();
    assert!(error.ends_with("and did not answer an echo request"), "{error}");
    // The probe was sent before the peer began to read.
    assert_eq!(stopped.elapsed(), PROBE_TIMEOUT);
}

/// The socket has the bytes of the peer, but the runtime has not reported them yet when the deadline passes, since the
/// task was starved.
#[tokio::test(start_paused = true)]
async fn bytes_that_wait_in_the_socket_count_before_a_deadline_that_has_passed() {
    let message = Timeouts { message_timeout: Some(MESSAGE_TIMEOUT), ..TIMEOUTS };
    // The probe's deadline passes, or that of a message that has begun.
    for (timeouts, begun, starved) in
        [(TIMEOUTS, "", PROBE_TIMEOUT), (message, "hel", MESSAGE_TIMEOUT), (TIMEOUTS, "", PROBE_TIMEOUT / 2)]
    {
        let network = InMemoryNetwork::default();
        let endpoint = Endpoint::Unix("peer".into());
        let mut listener = network.listen(endpoint.clone());
        let dialler = Unreported { network, reported: watch::Sender::new(true) };
        let connection = Connection::open(
            &dialler,
            &endpoint,
            in_time(),
            Lines,
            timeouts,
            PeerMemory::default().account(),
        )
        .await
        .unwrap();
        let mut server = BufStream::new(listener.accept().await.unwrap());
        let received = tokio::spawn(async move {
            let mut connection = connection;
            connection.receive().await.map_err(|error| error.to_string())
        });
        send(&mut server, begun).await;
        if begun.is_empty() {
            assert_eq!(line(&mut server).await, "ping\n");
        } else {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        dialler.reported.send_replace(false);
        send(&mut server, if begun.is_empty() { "hello\n" } else { "lo\n" }).await;
        // Nothing runs for so long, then all timers fire, and only then the bytes are reported.
        tokio::time::advance(starved * 3).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        dialler.reported.send_replace(true);
        assert_eq!(received.await.unwrap().as_deref(), Ok("hello"), "{starved:?}");
    }
}

/// Dials streams whose bytes can be read only while they are reported.
struct Unreported {
    network: InMemoryNetwork,
    reported: watch::Sender<bool>,
}

impl Dial for Unreported {
    fn dial<'a>(&'a self, endpoint: &'a Endpoint) -> Dialling<'a> {
        Box::pin(async move {
            let far = self.network.dial(endpoint).await?;
            let (near, end) = tokio::io::duplex(64 << 10);
            let mut reported = self.reported.subscribe();
            let (mut from_peer, mut to_peer) = tokio::io::split(far);
            let (mut from_us, mut to_us) = tokio::io::split(end);
            tokio::spawn(async move { tokio::io::copy(&mut from_us, &mut to_peer).await });
            tokio::spawn(async move {
                let mut chunk = [0; 1000];
                while let Ok(length @ 1..) = from_peer.read(&mut chunk).await {
                    reported.wait_for(|reported| *reported).await.unwrap();
                    to_us.write_all(&chunk[..length]).await.unwrap();
                }
            });
            Ok(Box::new(near) as Stream)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_future_that_waits_for_bytes_that_are_there_is_not_late() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let waits = tokio::spawn(within(Instant::now() + PROBE_TIMEOUT, receiver));
    tokio::task::yield_now().await;
    tokio::time::advance(PROBE_TIMEOUT * 3).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    sender.send("there").unwrap();
    assert_eq!(waits.await.unwrap(), Some(Ok("there")));
    let late = within(Instant::now() + PROBE_TIMEOUT, std::future::pending::<()>()).await;
    assert_eq!(late, None);
}

#[tokio::test(start_paused = true)]
async fn the_peers_probe_is_answered() {
    let (mut connection, mut server) = connected(TIMEOUTS).await;
    let server = tokio::spawn(async move {
        send(&mut server, "ping\n").await;
        assert_eq!(line(&mut server).await, "pong\n");
        send(&mut server, "done\n").await;
        server
    });
    assert_eq!(connection.receive().await.unwrap(), "done");
    drop(server.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_message_has_a_deadline_where_one_is_set() {
    let timeouts = Timeouts { message_timeout: Some(MESSAGE_TIMEOUT), ..TIMEOUTS };
    let (mut connection, mut server) = connected(timeouts).await;
    tokio::spawn(async move {
        // Bytes keep arriving, so the peer is not silent.
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if server.write_all(b"x").await.and(server.flush().await).is_err() {
                return;
            }
        }
    });
    let (error, after) = end(&mut connection).await;
    assert!(error.starts_with("the peer stalled in the middle of a message ("), "{error}");
    assert!(error.ends_with(" bytes of it received) for 4.0 s"), "{error}");
    assert_eq!(after, Duration::from_secs(1) + MESSAGE_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_given_up() {
    let (mut connection, mut server) = connected(TIMEOUTS).await;
    for _ in 0..10_000 {
        connection.send("x".repeat(LINE_MAX)).unwrap();
    }
    tokio::spawn(async move {
        // The peer talks all the time, so it is not silent.
        while server.write_all(b"talk\n").await.and(server.flush().await).is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let start = Instant::now();
    let error = loop {
        match connection.step().await {
            Ok(_) => {}
            Err(error) => break error.to_string(),
        }
    };
    let unsent = 10_000 * (LINE_MAX + 1) - (64 << 10);
    assert_eq!(error, format!("the peer took none of the {unsent} bytes sent to it for 20.0 s"));
    assert_eq!(start.elapsed(), WRITE_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn writing_does_not_block_reading() {
    let (mut connection, mut server) = connected(TIMEOUTS).await;
    let count = 100_000;
    for n in 0..count {
        connection.send(n.to_string()).unwrap();
    }
    // The peer answers each line before it reads the next, and reads nothing while its answers are not taken.
    tokio::spawn(async move {
        loop {
            let request = line(&mut server).await;
            server.write_all(request.as_bytes()).await.unwrap();
            server.flush().await.unwrap();
        }
    });
    for n in 0..count {
        assert_eq!(connection.receive().await.unwrap(), n.to_string());
    }
    assert_eq!(connection.unsent(), 0);
}

#[tokio::test(start_paused = true)]
async fn d12_a_connection_that_waits_has_no_buffers() {
    let (mut connection, mut server) = connected(TIMEOUTS).await;
    assert_eq!(connection.buffer_bytes(), 0);
    for round in 0..3 {
        for n in 0..1000 {
            connection.send(n.to_string()).unwrap();
        }
        assert!(connection.buffer_bytes() > 0);
        let answers = "x".repeat(LINE_MAX) + "\nhal";
        send(&mut server, &answers).await;
        assert_eq!(connection.receive().await.unwrap().len(), LINE_MAX);
        send(&mut server, "f\n").await;
        assert_eq!(connection.receive().await.unwrap(), "half");
        while connection.unsent() > 0 {
            connection.step().await.unwrap();
        }
        assert_eq!(connection.buffer_bytes(), 0, "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_closes_while_it_is_written_to_has_closed() {
    let (mut connection, server) = connected(TIMEOUTS).await;
    drop(server);
    connection.send("hello".to_owned()).unwrap();
    assert_eq!(end(&mut connection).await.0, "the peer closed the connection");
}

/// A name that is never found holds no thread that others need: not those of the runtime's blocking calls, of which there is one here.
#[test]
fn d7_a_dead_name_server_holds_nobody_else() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let resolver = Resolver::new(move |name| {
        if name == "localhost" {
            return Ok(vec![std::net::Ipv4Addr::LOCALHOST.into()]);
        }
        // Ends with an error once the sender is gone.
        let _ = held.lock().unwrap().recv();
        Err(std::io::ErrorKind::TimedOut.into())
    });
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let sockets = Sockets::new(resolver);
        let dead: Vec<_> = (0..3000)
            .map(|n| {
                let (sockets, host) = (sockets.clone(), format!("hv{}.example", n % 4));
                let dial = async move { sockets.dial(&Endpoint::Tcp { host, port: 6640 }).await.map(drop) };
                tokio::spawn(dial)
            })
            .collect();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost"] {
            let ours = sockets.dial(&Endpoint::Tcp { host: host.to_owned(), port }).await.unwrap();
            let (mut theirs, _) = listener.accept().await.unwrap();
            theirs.write_all(b"x").await.unwrap();
            drop(ours);
        }
        assert_eq!(tokio::task::spawn_blocking(|| 7).await.unwrap(), 7, "what the API needs");
        for dead in dead {
            let error = dead.await.unwrap().unwrap_err().to_string();
            assert!(error.contains("no answer about hv") && error.contains("within 3 s"), "{error}");
        }
    });
    drop(release);
}

/// The dialler of the operating system, over both kinds of socket.
#[tokio::test]
async fn sockets_are_dialled_by_endpoint() {
    let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint: Endpoint = format!("tcp:{}", tcp.local_addr().unwrap()).parse().unwrap();
    let mut ours = Sockets::default().dial(&endpoint).await.unwrap();
    let (mut theirs, _) = tcp.accept().await.unwrap();
    ours.write_all(b"over tcp").await.unwrap();
    drop(ours);
    let mut text = String::new();
    theirs.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "over tcp");

    let path = std::env::temp_dir().join(format!("peer-connection-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let unix = tokio::net::UnixListener::bind(&path).unwrap();
    let mut ours = Sockets::default().dial(&Endpoint::Unix(path.clone())).await.unwrap();
    let (mut theirs, _) = unix.accept().await.unwrap();
    ours.write_all(b"over unix").await.unwrap();
    drop(ours);
    text.clear();
    theirs.read_to_string(&mut text).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(text, "over unix");
}
