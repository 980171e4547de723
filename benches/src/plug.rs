//! How long a machine waits for its network: from the moment its interface gets its `iface-id` until it answers.
//!
//! Three hosts with real Open vSwitch, a controller, and a small switch. Another machine sends the new one a datagram each millisecond all
//! along, so Open vSwitch has cached the drop, as it would for a machine that somebody is waiting for. The kernels of both machines know each
//! other's MAC addresses. The answer is to the first datagram that gets through.
//!
//! The id is set by an OVSDB transaction on an open connection, and in other runs by `ovs-vsctl`, whose own process takes its time.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use lab::{Host, VmSpec};
use serde_json::{Value, json};
use testbed::{DEADLINE, Settings, Testbed};

use crate::measure::{machine, weft};
use crate::report::{self, Aim, Line};

/// Hosts, each with two machines.
const HOSTS: u8 = 3;
/// Ports of the switch; most of them have no machine.
const PORTS: u8 = 30;
/// Times that the machine is plugged in, in each way, in a run.
const TIMES: usize = 20;
/// The machine that is plugged in, on the first host.
const NEW: u8 = 1;
/// A machine on the same host, and one on another.
const NEIGHBOUR: u8 = NEW + HOSTS;
const DISTANT: u8 = NEW + 1;
/// The port on which machines answer.
const ECHO: u16 = 7;
/// Between two datagrams.
const PAUSE: Duration = Duration::from_millis(1);
/// So many datagrams in a row without an answer, and the machine is off the network. So few reports of one host a second are taken at once
/// (`REPORTS_A_SECOND` in `levels.rs` of weft-core).
const SILENCE: usize = 250;

/// Who sets the `iface-id`.
#[derive(Clone, Copy)]
enum By {
    Transaction,
    Vsctl,
}

/// Prints the figures as a table.
pub(crate) fn print(runs: usize) -> Result<()> {
    let lines = lines(runs)?;
    println!(
        "\n{}; {HOSTS} hosts, {PORTS} ports; medians (least–greatest) of {} times.",
        machine(),
        runs * TIMES
    );
    report::print("From iface-id to the first answer", &lines);
    Ok(())
}

fn lines(runs: usize) -> Result<Vec<Line>> {
    let bench = Bench::start()?;
    let ways = [
        (NEIGHBOUR, By::Transaction),
        (DISTANT, By::Transaction),
        (NEIGHBOUR, By::Vsctl),
        (DISTANT, By::Vsctl),
    ];
    let mut answered: [Vec<f64>; 4] = Default::default();
    let mut confirmed = Vec::new();
    for run in 0..runs {
        for ((from, by), answered) in ways.into_iter().zip(&mut answered) {
            let sender = bench.socket(from, 0)?;
            sender.set_nonblocking(true)?;
            for _ in 0..TIMES {
                answered.push(millis(bench.plug(&sender, by)?));
                confirmed.push(bench.confirmed()?);
            }
        }
        eprintln!("run {} of {runs} is done", run + 1);
    }
    let [near, far, near_vsctl, far_vsctl] = answered;
    Ok(vec![
        Line::alone(
            "an OVSDB transaction, to an answer to a machine of the same host, ms",
            1,
            near,
            Aim::AtMost(10.0),
        ),
        Line::alone("… of another host, ms", 1, far, Aim::AtMost(10.0)),
        Line::alone(
            "… from its transaction here to the last confirmation of three switches, ms",
            1,
            confirmed,
            Aim::None,
        ),
        Line::alone(
            "`ovs-vsctl --no-wait` started, to an answer to a machine of the same host, ms",
            1,
            near_vsctl,
            Aim::None,
        ),
        Line::alone("… of another host, ms", 1, far_vsctl, Aim::None),
        Line::alone("that `ovs-vsctl` alone, until it ends, ms", 1, bench.vsctl_alone()?, Aim::None),
    ])
}

/// The hosts with their machines.
struct Bench {
    testbed: Testbed,
    host: Host,
    interface: String,
}

impl Bench {
    fn start() -> Result<Bench> {
        let settings =
            Settings { hosts: HOSTS, ..Settings::new(format!("plug-{}", std::process::id()), weft()?) };
        let testbed = Testbed::start(settings)?;
        testbed.apply("network.yaml", &network())?;
        let lab = testbed.lab()?;
        let specs: Vec<VmSpec> = (1..=2 * HOSTS)
            .map(|n| VmSpec::new(name(n), host(n), name(n), mac(n)).address(format!("{}/24", ip(n))))
            .collect();
        lab.add_vms(&specs)?;
        for (at, of) in [(NEIGHBOUR, NEW), (DISTANT, NEW), (NEW, NEIGHBOUR), (NEW, DISTANT)] {
            let words = ["ip", "neigh", "replace", &ip(of), "lladdr", &mac(of), "dev", "eth0"];
            lab.exec(&name(at), &words)?;
        }
        testbed.wait_in_sync()?;
        let (host, interface) = (lab.host(&host(NEW))?, lab.vm(&name(NEW))?.port);
        let bench = Bench { testbed, host, interface };
        bench.answer()?;
        Ok(bench)
    }

    /// A socket of a machine.
    fn socket(&self, machine: u8, port: u16) -> Result<UdpSocket> {
        let opened = self.testbed.lab()?.inside(&name(machine), || UdpSocket::bind(("0.0.0.0", port)))?;
        opened.context("a machine's socket")
    }

    /// The new machine sends back what it gets, while this process lives.
    fn answer(&self) -> Result<()> {
        let socket = self.socket(NEW, ECHO)?;
        std::thread::spawn(move || {
            let mut datagram = [0; 64];
            while let Ok((length, from)) = socket.recv_from(&mut datagram) {
                // The network is not there yet, or not any more.
                let _ = socket.send_to(&datagram[..length], from);
            }
        });
        Ok(())
    }

    /// Takes the machine off the network, sends to it, puts it back, and waits for its answer.
    fn plug(&self, sender: &UdpSocket, by: By) -> Result<Duration> {
        self.set_by_transaction(false)?;
        let mut plugged: BTreeMap<String, u64> = (1..=HOSTS).map(|n| (host(n), 2)).collect();
        plugged.insert(host(NEW), 1);
        self.testbed.wait_for_hosts(&plugged, |_| ())?;
        let mut silent = 0;
        while silent < SILENCE {
            silent = if exchange(sender)? { 0 } else { silent + 1 };
        }
        let start = Instant::now();
        std::thread::scope(|scope| {
            let setter = scope.spawn(|| match by {
                By::Transaction => self.set_by_transaction(true),
                By::Vsctl => self.set_by_vsctl(),
            });
            let answered = loop {
                if exchange(sender)? {
                    break start.elapsed();
                }
                ensure!(start.elapsed() < DEADLINE, "the machine does not answer");
            };
            match setter.join() {
                Ok(set) => set.map(|()| answered),
                Err(_) => bail!("setting the iface-id panicked"),
            }
        })
    }

    /// Milliseconds until all switches had confirmed the last transaction.
    fn confirmed(&self) -> Result<f64> {
        let last = self.testbed.status()?.last_txn;
        let receipt = self.testbed.settled(last)?;
        let slowest = receipt.switches.iter().filter_map(|switch| switch.confirmed_us).max();
        Ok(millis(Duration::from_micros(slowest.context("the last transaction changed no switch")?)))
    }

    fn set_by_transaction(&self, plugged: bool) -> Result<()> {
        let endpoint = self.host.ovsdb_endpoint();
        let path = endpoint.strip_prefix("unix:").context("the host's database has no unix socket")?;
        let mutation = if plugged {
            json!(["external_ids", "insert", ["map", [["iface-id", name(NEW)]]]])
        } else {
            json!(["external_ids", "delete", ["set", ["iface-id"]]])
        };
        let operation = json!({
            "op": "mutate", "table": "Interface", "where": [["name", "==", self.interface]], "mutations": [mutation],
        });
        let stream = UnixStream::connect(path)?;
        serde_json::to_writer(
            &stream,
            &json!({"method": "transact", "params": ["Open_vSwitch", operation], "id": 1}),
        )?;
        let answer = serde_json::Deserializer::from_reader(&stream).into_iter::<Value>().next();
        let answer = answer.context("the database closed the connection")??;
        ensure!(answer["result"][0]["count"] == 1, "the database answered {answer}");
        Ok(())
    }

    fn set_by_vsctl(&self) -> Result<()> {
        let id = format!("external_ids:iface-id={}", name(NEW));
        self.host.vsctl(&["--no-wait", "set", "interface", &self.interface, &id])?;
        Ok(())
    }

    /// Milliseconds of `ovs-vsctl` when there is nothing to do for others.
    fn vsctl_alone(&self) -> Result<Vec<f64>> {
        (0..TIMES)
            .map(|_| {
                let start = Instant::now();
                self.set_by_vsctl()?;
                Ok(millis(start.elapsed()))
            })
            .collect()
    }
}

/// Sends a datagram, and says whether one came within a pause, which may be the answer to an earlier one.
fn exchange(sender: &UdpSocket) -> Result<bool> {
    let start = Instant::now();
    sender.send_to(b"are you there?", (ip(NEW), ECHO))?;
    loop {
        match sender.recv(&mut [0; 64]) {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        let Some(rest) = PAUSE.checked_sub(start.elapsed()) else { return Ok(false) };
        std::thread::sleep(rest.min(PAUSE / 10));
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn name(machine: u8) -> String {
    format!("p{machine}")
}

fn host(machine: u8) -> String {
    format!("hv{}", (machine - 1) % HOSTS + 1)
}

fn mac(machine: u8) -> String {
    format!("02:00:00:00:30:{machine:02x}")
}

fn ip(machine: u8) -> String {
    format!("10.30.0.{machine}")
}

fn network() -> String {
    let ports = (1..=PORTS).map(|n| {
        format!(
            "---\n{{kind: switch_port, id: {}, switch: bench, port_security: true, addresses: [{{mac: '{}', ips: [{}]}}]}}\n",
            name(n),
            mac(n),
            ip(n)
        )
    });
    std::iter::once("{kind: switch, id: bench}\n".to_owned()).chain(ports).collect()
}
