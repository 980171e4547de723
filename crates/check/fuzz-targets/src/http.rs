//! Requests to a whole controller over HTTP.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use controller::config::SocketMode;
use controller::drivers::{Driver, Drivers};
use controller::{Config, Daemon, Diagnostics, Listen, PROBE, Parts};
use nlog::Sources;
use ovs_driver::Event;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use weft_core::Rules;

/// How long an answer may pause. A watch goes on for ever, so what it has sent by then is all that is looked at.
const PAUSE: Duration = Duration::from_millis(200);

/// The longest target of a request: longer ones are refused before anything of ours sees them.
const TARGET_MAX: usize = 8 << 10;

/// Why a packet is not traced, once its request has been read.
const NO_NETWORK: &str = "a packet needs the rules of a whole network";

/// Headers that say how the request is cut into bytes, which is not what this target is about.
const FRAMING: [&str; 8] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Rules with the forms of fields that paths, queries and bodies are about, and what a controller needs of any rules. No object is a switch
/// that can be reached, so whatever is declared, nothing is dialled.
const RULES: &str = r#"
type address = record {mac: mac, ips: list<ip>};
object transport_node { ovsdb: opt<string>; openflow: opt<string>; datapath_type: opt<string>; }
object switch { tenant: opt<string>; mtu: int = 1500; }
object switch_port {
    switch: ref switch;
    addresses: list<address> = [];
    filter: packet_filter = "";
    unique(switch, addresses.mac);
}
output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);
output table of_bucket(hv: string, group: int, bucket: int, actions: actions) key(hv, group, bucket);
output table ovsdb_tunnel(hv: string, tunnel: string, encap: string, remote: string) key(hv, tunnel);
output table ovsdb_patch(hv: string, patch: string, bridge: string, peer: string) key(hv, patch);
output table switch_address(hv: ref transport_node, ovsdb: opt<string>, openflow: opt<string>, datapath_type: opt<string>)
    key(hv);
of_flow("nowhere", 0, mtu, match{}, actions[]) :- switch(id: "one", mtu: mtu, ..);
"#;

/// Drivers of no switch.
struct NoSwitches;

impl Drivers for NoSwitches {
    fn spawn(&self, _config: ovs_driver::Config, _events: mpsc::Sender<(String, Event)>) -> Box<dyn Driver> {
        panic!("the rules have no switch, but a driver is started")
    }
}

/// A controller that serves as long as the process lives. Its folder stays behind in that of temporary files.
struct Served {
    address: SocketAddr,
    _runtime: Runtime,
}

static SERVED: LazyLock<Served> = LazyLock::new(|| {
    let folder =
        tempfile::Builder::new().prefix("weft-fuzz-http-").tempdir().expect("a temporary folder").keep();
    let compilation = nlog::compile(&Sources::from_texts([("http.nlog", RULES)]));
    let program = compilation.program.unwrap_or_else(|| panic!("{:#?}", compilation.diagnostics));
    let rules = Rules::new(program).unwrap_or_else(|error| panic!("{error}"));
    let parts = Parts {
        state: folder,
        listen: Listen::Tcp(([127, 0, 0, 1], 0).into()),
        listen_metrics: None,
        socket_mode: SocketMode::default(),
        credentials: None,
        tokens: None,
        probe: PROBE,
        settings: Config::default().settings(),
        counters: Config::default().counters(),
        rules: Arc::new(rules),
        evaluator: Arc::new(|rules: &Rules| controller::evaluator(rules, 1)),
        drivers: Box::new(NoSwitches),
        dial_in: None,
        spans: None,
        take_over: false,
        diagnostics: Diagnostics::default(),
    };
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let daemon = runtime.block_on(Daemon::start(parts)).unwrap_or_else(|error| panic!("{error}"));
    let Listen::Tcp(address) = *daemon.listen() else { panic!("it listens elsewhere") };
    runtime.spawn(async {
        let ended = daemon.run(std::future::pending()).await;
        panic!("the controller ends: {ended:?}");
    });
    Served { address, _runtime: runtime }
});

/// A text as a request: a line with method and target, headers, an empty line, the body. It is put into the form of HTTP/1.1, so that what
/// is invented passes the parser, which is not ours. Every request has an answer, and no answer is an internal error.
///
/// What requests have changed stays, so a failure may need those before it.
pub fn http(bytes: &[u8]) {
    let (head, body) = split(bytes);
    let mut lines = head.split(|byte| *byte == b'\n');
    let request = request(lines.next().unwrap_or_default(), lines, body.len());
    let mut stream = TcpStream::connect(SERVED.address).expect("the controller accepts connections");
    stream.set_read_timeout(Some(PAUSE)).expect("a time that is not 0");
    // It may answer, and close, before it has read everything.
    let _sent = stream.write_all(request.as_bytes()).and_then(|()| stream.write_all(body));
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    if answer.is_empty() && ended.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
        // It waits, for switches or for changes.
        return;
    }
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let code = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse::<u16>().ok());
    let answer = String::from_utf8_lossy(&answer);
    match code {
        Some(200..500 | 503) => {}
        Some(500) if answer.contains(NO_NETWORK) => {}
        _ => panic!("{request:?} has the answer {answer:?} ({ended:?})"),
    }
}

/// What is before the first empty line, and what is after it.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let at = bytes.windows(2).position(|pair| pair == b"\n\n");
    at.map_or((bytes, &[]), |at| (&bytes[..at], &bytes[at + 2..]))
}

/// The head of a request of HTTP/1.1.
fn request<'a>(line: &[u8], headers: impl Iterator<Item = &'a [u8]>, body: usize) -> String {
    let mut words = line.splitn(2, |byte| *byte == b' ');
    let method = words.next().unwrap_or_default();
    let is_method = !method.is_empty() && method.len() < 10 && method.iter().all(u8::is_ascii_uppercase);
    let method = str::from_utf8(method).ok().filter(|_| is_method).unwrap_or("GET");
    let mut text = format!("{method} /");
    let target = words.next().unwrap_or_default();
    for byte in target.strip_prefix(b"/").unwrap_or(target).iter().take(TARGET_MAX) {
        if byte.is_ascii_graphic() && *byte != b'#' {
            text.push(char::from(*byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(text, "%{byte:02x}");
        }
    }
    let _ = write!(text, " HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {body}\r\n");
    for header in headers.filter_map(|header| str::from_utf8(header).ok()) {
        let Some((name, value)) = header.split_once(':') else { continue };
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let is_value = value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        if is_name && is_value && !FRAMING.contains(&name.to_ascii_lowercase().as_str()) {
            let _ = write!(text, "{name}:{value}\r\n");
        }
    }
    text + "\r\n"
}
