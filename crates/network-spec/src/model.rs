//! The path of a frame through the network.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::World;
use crate::frame::{Body, Frame, is_group, tagged, untagged};
use crate::neighbour::Question;
use crate::security::{may_receive, may_send};
use crate::world::{Encap, Localnet, Mac, Port};

/// A learned address ages out this long after the last frame from it.
pub const AGE: Duration = Duration::from_mins(5);

/// A place where frames go in and come out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tap {
    /// The interface that a host has for a port, as the VM behind it sees it: frames of the port's children are tagged.
    Vnic {
        /// The host.
        host: String,
        /// The port; never a child.
        port: String,
    },
    /// A machine on a physical network that gets all its frames, tags included.
    Physical {
        /// The physical network.
        network: String,
    },
}

impl Tap {
    /// The interface that `host` has for `port`.
    pub fn vnic(host: &str, port: &str) -> Tap {
        Tap::Vnic { host: host.to_owned(), port: port.to_owned() }
    }

    /// A machine on `network`.
    pub fn physical(network: &str) -> Tap {
        Tap::Physical { network: network.to_owned() }
    }
}

/// A delivered frame.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// The place.
    pub at: Tap,
    /// Its bytes.
    pub frame: Vec<u8>,
}

/// The network at one time: the world, and the addresses that hosts have learned.
#[derive(Clone, Debug, Default)]
pub struct Model {
    world: World,
    now: Duration,
    /// By host, switch and MAC.
    learned: BTreeMap<(String, String, Mac), Learned>,
}

/// Where an address was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Learned {
    port: String,
    until: Duration,
}

/// A frame in its logical switch.
struct Sent<'a> {
    /// The host that it entered on.
    host: &'a str,
    switch: &'a str,
    /// The port that it is from.
    port: &'a str,
    frame: &'a Frame,
    /// As it is forwarded: without a tag.
    bytes: &'a [u8],
}

impl Model {
    /// The network before any frame.
    pub fn new(world: World) -> Model {
        Model { world, ..Model::default() }
    }

    /// The world.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Changes the world, as one transaction does.
    ///
    /// The addresses learned for a port are forgotten when the port is removed, leaves its switch, or no longer learns. A
    /// host forgets everything about a switch when it has no port of the switch any more. A migration forgets nothing.
    pub fn apply(&mut self, change: impl FnOnce(&mut World)) {
        change(&mut self.world);
        let world = &self.world;
        self.learned.retain(|(host, switch, _), learned| {
            world.is_learned_from(&learned.port)
                && world.switch_of(&learned.port) == Some(switch)
                && world.knows(host, switch)
        });
    }

    /// Lets time pass. A learned address ages out when more than [`AGE`] has passed since the last frame from it.
    pub fn advance(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        self.learned.retain(|_, learned| learned.until >= now);
    }

    /// Sends a frame into the network and returns the delivered frames, sorted.
    ///
    /// A frame comes in by the interface of a port where the port is, and nowhere else: the host that a VM has left, and the
    /// one that reports an interface for a port behind another, take nothing.
    pub fn inject(&mut self, at: &Tap, bytes: &[u8]) -> Vec<Arrival> {
        let mut out = Vec::new();
        match at {
            Tap::Vnic { host, port } => {
                if let Some((port, bytes)) = self.classify(host, port, bytes) {
                    self.enter(host, &port, bytes, &mut out);
                }
            }
            Tap::Physical { network } => self.arrive_from_network(network, None, bytes, &mut out),
        }
        out.sort();
        out
    }

    /// The logical port that a frame from the interface of `port` is of, and the frame as it sends it: untagged frames are
    /// of the port itself, and frames with the tag of a port behind it are that one's. Others are dropped.
    fn classify(&self, host: &str, port: &str, bytes: &[u8]) -> Option<(String, Vec<u8>)> {
        let frame = Frame::read(bytes)?;
        if self.world.owner(port)? != port || self.world.location(port)? != host {
            return None;
        }
        let Some(vlan) = frame.vlan else {
            return Some((port.to_owned(), bytes.to_vec()));
        };
        let is_child =
            |of: &Port| of.parent.as_ref().is_some_and(|(parent, tag)| parent == port && *tag == vlan);
        let child = self.world.ports.iter().find(|(_, of)| is_child(of));
        child.map(|(child, _)| (child.clone(), untagged(bytes)))
    }

    /// A frame comes out of the physical network at each host, but the one that sent it there. On each it is a frame of the
    /// localnet port of its VLAN; if that is 0, of untagged frames.
    fn arrive_from_network(
        &mut self,
        network: &str,
        sender: Option<&str>,
        bytes: &[u8],
        out: &mut Vec<Arrival>,
    ) {
        let Some(frame) = Frame::read(bytes) else {
            return;
        };
        let is_tagged = frame.vlan.is_some();
        // A tag of VLAN 0 is a tag, and nobody's.
        let of_vlan =
            |localnet: &Localnet| localnet.tag == frame.vlan.unwrap_or(0) && is_tagged == (localnet.tag != 0);
        let mut localnets = self.world.localnets.iter().filter(|(_, localnet)| localnet.network == network);
        let Some((port, localnet)) = localnets.find(|(_, localnet)| of_vlan(localnet)) else {
            return;
        };
        let (port, localnet) = (port.clone(), localnet.clone());
        let bytes = if is_tagged { untagged(bytes) } else { bytes.to_vec() };
        let hosts: Vec<String> = self.world.nodes.keys().cloned().collect();
        for host in hosts {
            if Some(host.as_str()) != sender && self.world.attached(&host, &localnet.switch) {
                self.enter(&host, &port, bytes.clone(), out);
            }
        }
    }

    /// A frame enters its logical switch from a port, on a host.
    ///
    /// A frame that still has a tag is dropped, and so is one that port security forbids. The switch learns, and answers
    /// questions for addresses of its ports, unless the frame came from a localnet port, where every host sees it.
    fn enter(&mut self, host: &str, port: &str, bytes: Vec<u8>, out: &mut Vec<Arrival>) {
        let Some(frame) = Frame::read(&bytes) else {
            return;
        };
        let own = self.world.ports.get(port);
        if frame.vlan.is_some() || frame.body == Body::Tag || own.is_some_and(|own| !may_send(own, &frame)) {
            return;
        }
        let Some(switch) = self.world.switch_of(port).map(str::to_owned) else {
            return;
        };
        if let Some(own) = self.world.ports.get(port)
            && let Some(answer) = self.answer(&switch, own, &frame, &bytes)
        {
            // The answer is for the asker, whatever its port security says of others' frames.
            self.hand_over(host, port, &answer, out);
        } else {
            self.forward(&Sent { host, switch: &switch, port, frame: &frame, bytes: &bytes }, out);
        }
        // What is learned counts from the next frame on, also for one to its own sender.
        self.learn(host, &switch, port, &frame);
    }

    /// Learns that the sender's address is at `port`, if that is a port to learn from.
    fn learn(&mut self, host: &str, switch: &str, port: &str, frame: &Frame) {
        if self.world.is_learned_from(port) && !is_group(frame.src) {
            let learned = Learned { port: port.to_owned(), until: self.now + AGE };
            self.learned.insert((host.to_owned(), switch.to_owned(), frame.src), learned);
        }
    }

    /// The answer to a frame that asks for an address that a port of the switch has, and is not the asker's own.
    fn answer(&self, switch: &str, asker: &Port, frame: &Frame, bytes: &[u8]) -> Option<Vec<u8>> {
        let question = Question::read(frame)?;
        let at = |port: &Port| {
            let mut addresses = port.addresses.iter();
            addresses.find(|address| address.ips.contains(&question.target())).map(|address| address.mac)
        };
        if at(asker).is_some() {
            return None;
        }
        let mac = self.world.ports_of(switch).find_map(|(_, port)| at(port))?;
        Some(question.answer(bytes, mac))
    }

    /// Where a frame goes: to all ports if it is for a group; else to the port that has its address; else, if the switch
    /// learns, to where the address was seen or, if it was not, to all ports that take what is for unknown addresses.
    fn forward(&mut self, sent: &Sent<'_>, out: &mut Vec<Arrival>) {
        let dst = sent.frame.dst;
        if is_group(dst) {
            return self.replicate(sent, |_| true, out);
        }
        let has = |port: &Port| port.addresses.iter().any(|address| address.mac == dst);
        let known = self.world.ports_of(sent.switch).find(|(_, port)| has(port)).map(|(id, _)| id.to_owned());
        let place = (sent.host.to_owned(), sent.switch.to_owned(), dst);
        let learned = self.learned.get(&place).map(|learned| learned.port.clone());
        if let Some(port) = known.or(learned) {
            self.unicast(sent, &port, out);
        } else if self.world.learns(sent.switch) {
            self.replicate(sent, |port| port.unknown_addresses, out);
        }
    }

    /// To one port, wherever it is; never back to the sender, and nowhere if it is nowhere. Between hosts it goes through a
    /// tunnel, or, if the switch has a localnet port, over the physical network.
    fn unicast(&mut self, sent: &Sent<'_>, port: &str, out: &mut Vec<Arrival>) {
        if port == sent.port {
            return;
        }
        if self.world.localnets.contains_key(port) {
            return self.leave_for_network(sent, out);
        }
        let Some(location) = self.world.location(port).map(str::to_owned) else {
            return;
        };
        if location == sent.host {
            self.deliver(sent.host, port, sent, out);
        } else if self.world.localnet_of(sent.switch).is_some() {
            self.leave_for_network(sent, out);
        } else if self.cross(sent, &location) {
            self.deliver(&location, port, sent, out);
        }
    }

    /// To all ports of the audience, each once, but the sender. The localnet port is always among them; a switch that has
    /// one leaves other hosts to it.
    fn replicate(&mut self, sent: &Sent<'_>, audience: impl Fn(&Port) -> bool, out: &mut Vec<Arrival>) {
        let is_physical = self.world.localnet_of(sent.switch).is_some();
        let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (id, port) in self.world.ports_of(sent.switch) {
            if let Some(host) = self.world.location(id)
                && audience(port)
                && id != sent.port
                && (!is_physical || host == sent.host)
            {
                members.entry(host.to_owned()).or_default().push(id.to_owned());
            }
        }
        for (host, ports) in members {
            if host == sent.host || self.cross(sent, &host) {
                for port in ports {
                    self.deliver(&host, &port, sent, out);
                }
            }
        }
        self.leave_for_network(sent, out);
    }

    /// A copy crosses to another host, if there is a tunnel. There the address is learned as well, if the encapsulation says
    /// which port the frame came from.
    fn cross(&mut self, sent: &Sent<'_>, to: &str) -> bool {
        let encap = self.world.tunnel(sent.host, to);
        if encap == Some(Encap::Geneve) {
            self.learn(to, sent.switch, sent.port, sent.frame);
        }
        encap.is_some()
    }

    /// Out of the localnet port of the switch, if the host has it and the frame did not come from it: in its VLAN, to whoever
    /// is on the physical network and to all other hosts there.
    fn leave_for_network(&mut self, sent: &Sent<'_>, out: &mut Vec<Arrival>) {
        let Some((id, localnet)) = self.world.localnet_of(sent.switch) else {
            return;
        };
        if id == sent.port || !self.world.attached(sent.host, sent.switch) {
            return;
        }
        let frame = if localnet.tag == 0 { sent.bytes.to_vec() } else { tagged(sent.bytes, localnet.tag) };
        let network = localnet.network.clone();
        out.push(Arrival { at: Tap::physical(&network), frame: frame.clone() });
        self.arrive_from_network(&network, Some(sent.host), &frame, out);
    }

    /// To a port on this host, if its port security lets it.
    fn deliver(&self, host: &str, port: &str, sent: &Sent<'_>, out: &mut Vec<Arrival>) {
        if self.world.ports.get(port).is_some_and(|port| may_receive(port, sent.frame)) {
            self.hand_over(host, port, sent.bytes, out);
        }
    }

    /// Out of the interface of a port, or under its tag out of its parent's.
    fn hand_over(&self, host: &str, port: &str, bytes: &[u8], out: &mut Vec<Arrival>) {
        let parent = self.world.ports.get(port).and_then(|port| port.parent.as_ref());
        let (owner, frame) = match parent {
            Some((parent, tag)) => (parent.as_str(), tagged(bytes, *tag)),
            None => (port, bytes.to_vec()),
        };
        out.push(Arrival { at: Tap::vnic(host, owner), frame });
    }
}
