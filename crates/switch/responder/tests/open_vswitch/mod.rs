//! Two machines behind a router whose flows are written here by hand, real Open vSwitch, and the kernels of the machines as judges.

mod announced;
mod asked;
mod held;
mod machines;
mod names;
mod probed;

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lab::{HostSpec, Lab, Options, VmSpec};
use openflow_rs::{Actions, Field, Subfield};
use packet_answers::{Address, Ask, ErrorAsk, Instruction, Operand, Reason};
use peer_connection::Sockets;
use responder::{Config, Counts, Database, ResponderError, run};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The longest wait for something that takes milliseconds on an idle machine.
const DEADLINE: Duration = Duration::from_mins(1);
const ROUTER_MAC: &str = "02:00:00:00:ff:01";
/// The MTU of the second network, for each IP version.
const MTU: [u16; 2] = [1200, 1280];

/// A lab with a router between two machines, and perhaps a responder.
struct Routed {
    runtime: Runtime,
    lab: Lab,
    folder: tempfile::TempDir,
    counts: Arc<Counts>,
    running: Option<JoinHandle<Result<std::convert::Infallible, ResponderError>>>,
}

/// A machine's number, addresses and routers.
fn machine(name: &str, number: u8) -> VmSpec {
    VmSpec {
        ofport: Some(number.into()),
        mtu: Some(1500),
        ..VmSpec::new(name, "hv1", format!("port-{name}"), mac(number))
    }
    .address(format!("10.0.{number}.1/24"))
    .address(format!("fd0{number}::1/64"))
}

fn mac(number: u8) -> String {
    format!("02:00:00:00:00:0{number}")
}

impl Routed {
    /// Machine `a`, at 10.0.1.1 and `fd01::1`, and machine `b`, at 10.0.2.1 and `fd02::1`.
    fn start(name: &str) -> Routed {
        let lab = Lab::create(
            Options::new(name).host(HostSpec::new("hv1", [172, 31, 0, 1])).with_integration_bridge(),
        )
        .unwrap();
        for (name, number) in [("a", 1), ("b", 2)] {
            lab.add_vm(&machine(name, number)).unwrap();
            for router in [format!("10.0.{number}.254"), format!("fd0{number}::fe")] {
                for words in [
                    format!("ip neigh replace {router} lladdr {ROUTER_MAC} dev eth0 nud permanent"),
                    format!("ip route add default via {router}"),
                ] {
                    let done = lab.exec(name, &words.split(' ').collect::<Vec<_>>()).unwrap();
                    assert!(done.success(), "{words}: {}", done.stderr);
                }
            }
        }
        let routed = Routed::without_flows(lab);
        routed.host().add_flows("br-int", &flows()).unwrap();
        routed
    }

    /// A responder for host `hv1` of a lab, which does not run yet.
    fn without_flows(lab: Lab) -> Routed {
        Routed {
            runtime: Runtime::new().unwrap(),
            lab,
            folder: tempfile::tempdir().unwrap(),
            counts: Arc::default(),
            running: None,
        }
    }

    fn host(&self) -> lab::Host {
        self.lab.host("hv1").unwrap()
    }

    fn config(&self) -> Config {
        Config {
            endpoint: self.host().openflow_endpoint().parse().unwrap(),
            controller_id: responder::CONTROLLER_ID,
            database: Some(Database {
                endpoint: self.host().ovsdb_endpoint().parse().unwrap(),
                bridge: "br-int".to_owned(),
            }),
            lock: self.lock(),
        }
    }

    fn lock(&self) -> PathBuf {
        self.folder.path().join("run/responder.lock")
    }

    /// Starts a responder, and waits until it answers.
    fn answer(&mut self) {
        self.begin();
        self.wait_for_answers();
    }

    /// Starts a responder.
    fn begin(&mut self) {
        let (config, counts) = (self.config(), self.counts.clone());
        let runs = async move { run(&config, Arc::new(Sockets::default()), &counts, &Notify::new()).await };
        self.running = Some(self.runtime.spawn(runs));
    }

    fn wait_for_answers(&self) {
        let begun = Instant::now();
        while self.is_silent() {
            assert!(begun.elapsed() < DEADLINE, "no answers; counted: {}", self.counts);
        }
    }

    /// Ends the responder as a kill does: at once.
    fn stop(&mut self) {
        let running = self.running.take().unwrap();
        running.abort();
        assert!(self.runtime.block_on(running).unwrap_err().is_cancelled());
    }

    /// What a single ping of a machine says, which ends with the first answer of any kind.
    fn ping(&self, from: &str, words: &[&str]) -> String {
        self.ping_for("30", from, words)
    }

    /// Whether a machine gets no answer to a packet whose TTL ends, neither an error nor a reply.
    fn is_silent(&self) -> bool {
        let said = self.ping_for("1", "a", &["-t", "1", "10.0.2.1"]);
        said.contains("100% packet loss") && !said.contains("exceeded")
    }

    fn ping_for(&self, seconds: &str, from: &str, words: &[&str]) -> String {
        let said = self.lab.exec(from, &[&["ping", "-n", "-c", "1", "-W", seconds], words].concat()).unwrap();
        said.stdout + &said.stderr
    }

    fn count(&self, name: &str) -> u64 {
        self.counts.get(name).unwrap()
    }
}

/// The flows of the router. Field reg1 has the reason and reg2 the MTU, as rules may choose.
fn flows() -> String {
    let address = |text: &str, prefix| Address { address: text.parse::<IpAddr>().unwrap(), prefix };
    let asked = |reason, mtu| {
        let addresses = vec![
            address("10.0.2.254", 24),
            address("10.0.1.254", 24),
            address("fd02::fe", 64),
            address("fd01::fe", 64),
        ];
        let instruction = Instruction {
            ask: Ask::Error(ErrorAsk { reason, mtu, addresses }),
            kept: vec![],
            actions: "set_field:0x77->metadata,resubmit(,29)".parse().unwrap(),
        };
        let bytes = instruction.encode().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        format!("controller(id={},userdata={bytes})", responder::CONTROLLER_ID)
    };
    let field = |of, bits| Operand::Field(Subfield::new(of, 4, bits).unwrap());
    let by_register = asked(field(Field::Reg1, 4), field(Field::Reg2, 16));
    let closed = asked(Operand::Constant(Reason::Closed as u16), Operand::Constant(0));
    let reason = |reason: Reason| format!("set_field:{:#x}->reg1,resubmit(,60)", (reason as u16) << 4);
    let [mtu4, mtu6] = MTU.map(|mtu| u32::from(mtu) << 4);
    let [frame4, frame6] = MTU.map(|mtu| mtu + 14);
    let (expired, no_route, too_big) =
        (reason(Reason::TimeExceeded), reason(Reason::NoRoute), reason(Reason::TooBig));
    let (a, b) = (mac(1), mac(2));
    let to = |mac: &str, port: u16| {
        format!("set_field:{mac}->eth_dst,set_field:{ROUTER_MAC}->eth_src,set_field:{port}->reg3")
    };
    let [to_a, to_b] = [to(&a, 1), to(&b, 2)];
    format!(
        "delete
table=0,ip actions=set_field:0x77->metadata,resubmit(,28)
table=0,ipv6 actions=set_field:0x77->metadata,resubmit(,28)
table=28,priority=300,icmp,icmp_type=8,nw_dst=10.0.1.254 actions=drop
table=28,priority=200,ip,nw_ttl=1 actions={expired}
table=28,priority=200,ipv6,nw_ttl=1 actions={expired}
table=28,priority=150,ip,nw_dst=10.0.1.254 actions={closed}
table=28,priority=150,ipv6,ipv6_dst=fd01::fe actions={closed}
table=28,priority=100,ip actions=dec_ttl,resubmit(,29)
table=28,priority=100,ipv6 actions=dec_ttl,resubmit(,29)
table=29,priority=50,ip,nw_dst=10.0.1.0/24 actions={to_a},resubmit(,40)
table=29,priority=50,ipv6,ipv6_dst=fd01::/64 actions={to_a},resubmit(,40)
table=29,priority=50,ip,nw_dst=10.0.2.0/24 actions={to_b},set_field:{mtu4:#x}->reg2,check_pkt_larger({frame4})->reg4[0],resubmit(,33)
table=29,priority=50,ipv6,ipv6_dst=fd02::/64 actions={to_b},set_field:{mtu6:#x}->reg2,check_pkt_larger({frame6})->reg4[0],resubmit(,33)
table=29,priority=0 actions={no_route}
table=33,priority=100,reg4=1/1 actions={too_big}
table=33,priority=0 actions=resubmit(,40)
table=40,reg3=1 actions=set_field:0->in_port,output:1
table=40,reg3=2 actions=set_field:0->in_port,output:2
table=60 actions={by_register}
"
    )
}

/// A flow that no packet meets, with an instruction.
fn unmet(number: u32, kind: &str, settings: &[&str], into: &str) -> String {
    let into: Actions = into.parse().unwrap();
    let instruction = Instruction::from_settings(kind, settings.iter().copied(), into).unwrap();
    format!("table=60,priority=9,reg15={number:#x} actions={}\n", instruction.action(0))
}
