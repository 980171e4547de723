//! Tests which machines reach each other, even if tenants have the same addresses: the arrival of a datagram decides, not
//! the address that answers.
//!
//! Every machine listens on a UDP port and sends datagrams, numbered by sender, to every address of any other machine. The
//! receiver records the number and returns the datagram. All pairs are tried at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::inside::inside;
use crate::state::Vm;
use crate::{Error, Lab, RunningPing};

/// The port that machines listen at.
const PORT: u16 = 4791;

/// Time between two tries of a pair.
const AGAIN: Duration = Duration::from_millis(100);

/// The number of network crossings for one datagram: neighbour request, reply, datagram, and its return.
const CROSSINGS: usize = 4;

/// The destinations that one machine's datagrams reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// The machines at which they arrived.
    pub arrived_at: BTreeSet<String>,
    /// The addresses from which datagrams came back.
    pub answered: BTreeSet<IpAddr>,
    /// The machines where they arrived, with the destination address.
    pub arrivals: BTreeSet<(IpAddr, String)>,
}

struct Machine {
    name: String,
    own: BTreeSet<IpAddr>,
    sockets: Vec<UdpSocket>,
}

impl Lab {
    /// Sends from each machine to every address of any other of `vms`, repeatedly, until `enough` has arrived, or until
    /// nothing new has arrived for `patience`. Then sends once more and waits until no frame is in flight, so that
    /// unwanted arrivals are seen too.
    pub fn who_reaches_whom(
        &self,
        vms: &[&str],
        enough: impl Fn(&BTreeMap<String, Reach>) -> bool,
        patience: Duration,
    ) -> Result<BTreeMap<String, Reach>, Error> {
        let machines = vms.iter().map(|vm| machine(&self.vm(vm)?)).collect::<Result<Vec<_>, Error>>()?;
        let own = machines.iter().flat_map(|machine| machine.own.iter().copied());
        let addresses: Vec<IpAddr> = own.collect::<BTreeSet<_>>().into_iter().collect();
        let mut reach: BTreeMap<String, Reach> =
            vms.iter().map(|vm| ((*vm).to_owned(), Reach::default())).collect();
        let question = question();
        let receive_all = |reach: &mut BTreeMap<String, Reach>| {
            (0..machines.len()).try_for_each(|at| receive(&machines, at, &addresses, question, reach))
        };
        let (mut sent, mut last_new): (Option<Instant>, _) = (None, Instant::now());
        while !enough(&reach) && last_new.elapsed() < patience {
            if sent.is_none_or(|sent| sent.elapsed() >= AGAIN) {
                sent = Some(Instant::now());
                send_all(&machines, &addresses, question);
            }
            let before = reach.clone();
            receive_all(&mut reach)?;
            if reach != before {
                last_new = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        send_all(&machines, &addresses, question);
        for _ in 0..CROSSINGS {
            self.drain()?;
            receive_all(&mut reach)?;
        }
        Ok(reach)
    }
}

/// Answers to each ping that still come when enough has been answered, so that those without an answer have tried meanwhile.
const MORE: u64 = 2;

/// A ping from each machine to every address of any other: sender, address, ping.
struct Pings {
    running: Vec<(String, IpAddr, RunningPing)>,
}

impl Pings {
    fn start(lab: &Lab, vms: &[&str]) -> Result<Pings, Error> {
        let machines = vms.iter().map(|vm| lab.vm(vm)).collect::<Result<Vec<Vm>, Error>>()?;
        let mut running = Vec::new();
        for from in &machines {
            let own = from.ips();
            let others = machines.iter().flat_map(Vm::ips).collect::<BTreeSet<_>>();
            for to in others.into_iter().filter(|to| !own.contains(to)) {
                if own.iter().any(|own| own.is_ipv4() == to.is_ipv4()) {
                    running.push((from.name.clone(), to, lab.spawn_ping(&from.name, to, AGAIN)?));
                }
            }
        }
        Ok(Pings { running })
    }

    fn answered(&self, reach: &mut BTreeMap<String, Reach>) {
        for (from, to, _) in self.running.iter().filter(|(.., ping)| ping.received() > 0) {
            reach.entry(from.clone()).or_default().answered.insert(*to);
        }
    }
}

impl Lab {
    /// Pings every address of any other of `vms` from each machine until `enough` has answered, or until nothing new has
    /// answered for `patience`. Only [`Reach::answered`] is filled: which of two machines with the same address has answered, a
    /// ping cannot tell.
    pub fn who_answers_whom(
        &self,
        vms: &[&str],
        enough: impl Fn(&BTreeMap<String, Reach>) -> bool,
        patience: Duration,
    ) -> Result<BTreeMap<String, Reach>, Error> {
        let pings = Pings::start(self, vms)?;
        let mut reach: BTreeMap<String, Reach> =
            vms.iter().map(|vm| ((*vm).to_owned(), Reach::default())).collect();
        let mut last_new = Instant::now();
        while !enough(&reach) && last_new.elapsed() < patience {
            let before = reach.clone();
            pings.answered(&mut reach);
            if reach != before {
                last_new = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        for (.., ping) in pings.running.iter().filter(|(.., ping)| ping.received() > 0) {
            ping.wait_received(MORE, patience)?;
        }
        for _ in 0..CROSSINGS {
            self.drain()?;
        }
        pings.answered(&mut reach);
        Ok(reach)
    }
}

/// A number that distinguishes this run's datagrams from those of an earlier run that are still in flight.
fn question() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id()) << 40
}

fn machine(vm: &Vm) -> Result<Machine, Error> {
    let own: BTreeSet<IpAddr> = vm.ips();
    if own.is_empty() {
        return Err(Error::invalid("virtual machine", &vm.name, "it has no address to reach it at"));
    }
    let mut wanted: Vec<IpAddr> = Vec::new();
    if own.iter().any(IpAddr::is_ipv4) {
        wanted.push(Ipv4Addr::UNSPECIFIED.into());
    }
    // A socket for all IPv6 addresses also accepts IPv4, and there may already be a socket for IPv4.
    wanted.extend(own.iter().filter(|ip| ip.is_ipv6()));
    let open = || -> std::io::Result<Vec<UdpSocket>> {
        wanted.iter().map(|ip| UdpSocket::bind((*ip, PORT))).collect()
    };
    let sockets = inside(&vm.namespace, open)?.map_err(Error::io("open a socket at", &vm.name))?;
    for socket in &sockets {
        socket.set_nonblocking(true).map_err(Error::io("open a socket at", &vm.name))?;
    }
    Ok(Machine { name: vm.name.clone(), own, sockets })
}

/// A datagram: the run's number, the sender's number, the address's number, and whether it is on its way back.
type Datagram = [u8; 13];

fn datagram(question: u64, from: usize, to: usize, back: bool) -> Datagram {
    let mut bytes = [0; 13];
    bytes[..8].copy_from_slice(&question.to_be_bytes());
    bytes[8..10].copy_from_slice(&(from as u16).to_be_bytes());
    bytes[10..12].copy_from_slice(&(to as u16).to_be_bytes());
    bytes[12] = u8::from(back);
    bytes
}

fn read(bytes: &[u8], question: u64) -> Option<(usize, usize, bool)> {
    let bytes = bytes.strip_prefix(&question.to_be_bytes())?;
    let [a, b, c, d, back] = *bytes else { return None };
    Some((u16::from_be_bytes([a, b]).into(), u16::from_be_bytes([c, d]).into(), back == 1))
}

fn send_all(machines: &[Machine], addresses: &[IpAddr], question: u64) {
    for (from, machine) in machines.iter().enumerate() {
        for (to, ip) in addresses.iter().enumerate().filter(|(_, ip)| !machine.own.contains(ip)) {
            if let Some(socket) = machine.socket(*ip) {
                // No route, or nobody answers ARP: not reached, which is an answer.
                let _ = socket.send_to(&datagram(question, from, to, false), SocketAddr::new(*ip, PORT));
            }
        }
    }
}

impl Machine {
    /// The socket for an address's family, if the machine has one.
    fn socket(&self, to: IpAddr) -> Option<&UdpSocket> {
        self.sockets.iter().find(|socket| socket.local_addr().is_ok_and(|own| own.is_ipv4() == to.is_ipv4()))
    }
}

fn receive(
    machines: &[Machine],
    at: usize,
    addresses: &[IpAddr],
    question: u64,
    reach: &mut BTreeMap<String, Reach>,
) -> Result<(), Error> {
    let machine = &machines[at];
    let mut buffer = [0; 64];
    for socket in &machine.sockets {
        loop {
            let (length, peer) = match socket.recv_from(&mut buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // An ICMP error for something sent earlier.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(Error::io("receive at", &machine.name)(error)),
            };
            let Some((from, to, back)) = read(&buffer[..length], question) else { continue };
            let (Some(sender), Some(address)) = (machines.get(from), addresses.get(to)) else { continue };
            let Some(found) = reach.get_mut(&sender.name) else { continue };
            if back {
                found.answered.extend((from == at).then_some(*address));
            } else {
                found.arrived_at.insert(machine.name.clone());
                found.arrivals.insert((*address, machine.name.clone()));
                let _ = socket.send_to(&datagram(question, from, to, true), peer);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_says_whose_it_is_and_of_which_question() {
        assert_eq!(read(&datagram(7, 300, 2, true), 7), Some((300, 2, true)));
        assert_eq!(read(&datagram(7, 300, 2, true), 8), None);
        assert_eq!(read(b"something else", 7), None);
    }
}
