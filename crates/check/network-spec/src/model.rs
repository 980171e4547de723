//! The path of a frame through the network.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::World;
use crate::acl::{Direction, Tracking};
use crate::frame::{Body, Frame, is_group, tagged, untagged};
use crate::guard;
use crate::learned::Learned;
use crate::messages::{Asked, Messages, Served};
use crate::migration::{Announced, announces};
use crate::neighbour::{MACHINE, Question};
use crate::overlay::carries_ingress_port;
use crate::routing::{Choices, Dropped, Nats, Outside};
use crate::security::{may_receive, may_send};
use crate::world::{Localnet, Mac, Port};

/// A place where frames go in and come out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tap {
    /// The interface that a host has for a port, as the VM sees it: frames of trunk members are tagged.
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

/// The state of the network: the world, the addresses that hosts have learned, the announcements that they have heard, the
/// next hops that flows take, and the connections that ports know.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub(crate) world: World,
    learned: Learned,
    announced: Announced,
    pub(crate) choices: Choices,
    pub(crate) tracking: Tracking,
    pub(crate) outside: Outside,
    pub(crate) nats: Nats,
    /// The frames on physical networks that other hosts have yet to receive: the network, the sender and the frame.
    crossing: VecDeque<(String, String, Vec<u8>)>,
    /// The copies of the last frame that crossed between hosts.
    pub(crate) copies: BTreeMap<(String, String), u64>,
    /// The places where the last frame entered a switch.
    entries: Vec<Entry>,
    /// What routers dropped of the last frame.
    pub(crate) dropped: Vec<Dropped>,
    /// How many times routers sent it on its way.
    pub(crate) routed: usize,
    /// What the network says of the last frame.
    pub(crate) messages: Messages,
}

/// The entry of a frame, which may enter and is not answered, into a switch.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) host: String,
    pub(crate) switch: String,
    pub(crate) port: String,
    /// The frame, without a tag.
    pub(crate) bytes: Vec<u8>,
}

/// Whether a copy of a frame has carried the port that sent it all the way to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crossed {
    WithPort,
    WithoutPort,
}

/// A frame in its logical switch.
#[derive(Clone, Copy)]
pub(crate) struct Sent<'a> {
    /// The host that it entered on.
    pub(crate) host: &'a str,
    pub(crate) switch: &'a str,
    /// The port that it is from, of the switch or of a router.
    pub(crate) port: &'a str,
    pub(crate) frame: &'a Frame,
    /// The frame as it is forwarded, without a tag.
    pub(crate) bytes: &'a [u8],
    /// How many routers it has entered.
    pub(crate) routers: usize,
}

impl Model {
    /// The network before any frame.
    pub fn new(world: World) -> Model {
        Model { world, ..Model::default() }
    }

    /// As [`Model::new`], but each interface of a standby may have announced itself, and each connection may be known.
    pub(crate) fn of_any_past(world: World) -> Model {
        Model { announced: Announced::Any, tracking: Tracking::any(), ..Model::new(world) }
    }

    /// The world.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Changes the world in one transaction. Hosts forget some of the learned addresses and connections, and all that they know of
    /// ports that are others now.
    pub fn apply(&mut self, change: impl FnOnce(&mut World)) {
        let (before, identities) = (self.world.filtering(), self.world.identities());
        let overruled = self.world.overruled.clone();
        let nats = self.world.nat_view();
        change(&mut self.world);
        self.world.overruled = overruled;
        self.world.overrule();
        let others = self.world.others_than(&identities);
        self.tracking.revise(&self.world, self.world.filtering() != before, &others);
        self.learned.revise(&self.world, &others);
        self.announced.revise(&self.world, &others);
        self.outside.revise(&self.world, &others);
        self.nats.revise(&self.world, &nats);
        self.choices.revise(&self.world);
    }

    /// The interfaces of hosts that stand by for their ports, (host, port), that have announced themselves: the machine runs there,
    /// which the world does not say yet ([`World::announced`]).
    pub fn heard(&self) -> BTreeSet<(String, String)> {
        self.announced.heard()
    }

    /// Whether another state of the network is the same but for the next hops that flows have taken, and the connections that
    /// are known.
    pub(crate) fn differs_in_choices_alone(&self, other: &Model) -> bool {
        self.world == other.world
            && self.learned == other.learned
            && self.announced == other.announced
            && self.outside == other.outside
            && self.tracking.may_unite(&other.tracking)
            && self.nats.may_unite(&other.nats)
    }

    /// Advances time. Learned addresses age out, and nobody knows how long silent connections are remembered.
    pub fn advance(&mut self, time: Duration) {
        self.tracking.advance(time);
        self.learned.advance(time);
        self.outside.advance(time);
        self.nats.advance(time);
    }

    /// Sends a frame into the network and returns the delivered frames, sorted.
    ///
    /// A frame is accepted only from the interface on the host where the port is: a host that the VM has left accepts
    /// nothing, and neither does a host that the port does not request, nor one that reports an interface for a trunk
    /// member. A host that stands by for the port accepts an announcement from its interface, and from then on everything.
    /// What the network itself says of the frame comes besides ([`Model::messages`]).
    pub fn inject(&mut self, at: &Tap, bytes: &[u8]) -> Vec<Arrival> {
        let mut out = Vec::new();
        self.copies.clear();
        self.entries.clear();
        self.dropped.clear();
        self.routed = 0;
        self.messages.clear();
        self.choices.begin();
        self.tracking.begin();
        self.nats.begin_frame();
        match at {
            Tap::Vnic { host, port } => {
                if let Some((from, bytes)) = self.classify(host, port, bytes) {
                    let is_silent = self.announced.is_silent(&self.world, host, port);
                    let is_announcement = Frame::read(&bytes).is_some_and(|frame| announces(&frame));
                    if !is_silent || is_announcement {
                        self.enter(host, &from, bytes, &mut out);
                    }
                    if is_silent && is_announcement {
                        self.announced.hear(&self.world, host, port);
                    }
                }
            }
            Tap::Physical { network } => self.arrive_from_network(network, None, bytes, &mut out),
        }
        self.cross_networks(&mut out);
        // While hosts change, nobody says when a responder answers.
        if !self.tracking.may_be_any() {
            let entered = self.entries.len();
            self.send_messages();
            self.entries.truncate(entered);
        }
        self.choices.end();
        out.sort();
        out
    }

    /// The places where the last injected frame entered a switch.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// How many copies of the last injected frame went through tunnels from each host to each other one.
    pub fn copies(&self) -> &BTreeMap<(String, String), u64> {
        &self.copies
    }

    /// The logical ingress port of a frame from the interface of `port`, and the frame without its tag: untagged frames
    /// belong to the port itself, and frames with the tag of an enabled trunk member belong to the member. Others are
    /// dropped. A tag with VLAN 0 names no VLAN, only a priority (IEEE 802.1Q, 6.9), so its frame is an untagged one. No
    /// priority of a tag is kept.
    fn classify(&self, host: &str, port: &str, bytes: &[u8]) -> Option<(String, Vec<u8>)> {
        let frame = Frame::read(bytes)?;
        if self.world.owner(port)? != port || !self.world.hosts_with(port).contains(host) {
            return None;
        }
        let vlan = match frame.vlan {
            None => return Some((port.to_owned(), bytes.to_vec())),
            Some(0) => return Some((port.to_owned(), untagged(bytes))),
            Some(vlan) => vlan,
        };
        let is_child =
            |of: &Port| of.parent.as_ref().is_some_and(|(parent, tag)| parent == port && *tag == vlan);
        let (child, of) = self.world.ports.iter().find(|(_, of)| is_child(of))?;
        of.enabled.then(|| (child.clone(), untagged(bytes)))
    }

    /// The other hosts receive what hosts have sent on physical networks, in this order: what is said to a frame comes after the frame.
    pub(crate) fn cross_networks(&mut self, out: &mut Vec<Arrival>) {
        while let Some((network, sender, bytes)) = self.crossing.pop_front() {
            self.arrive_from_network(&network, Some(&sender), &bytes, out);
        }
    }

    /// Receives a frame from the physical network at each host except the sender. On each host, it belongs to the localnet
    /// port of its VLAN; VLAN 0 stands for untagged frames, with or without a tag that says only a priority.
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
        let of_vlan = |localnet: &Localnet| localnet.tag == frame.vlan.unwrap_or(0);
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

    /// Processes a frame that enters its logical switch from a port, on a host.
    ///
    /// A frame that still has a tag is dropped, and so is one that no port may send or that port security forbids. The switch
    /// learns from the frame. A message that [`guard`] or an ACL withholds goes nowhere, and neither does a request that a server of the
    /// switch takes, but its sender is where it is.
    fn enter(&mut self, host: &str, port: &str, bytes: Vec<u8>, out: &mut Vec<Arrival>) {
        let Some(frame) = Frame::read(&bytes) else {
            return;
        };
        let own = self.world.ports.get(port);
        let is_tagged = frame.vlan.is_some() || frame.body == Body::Tag;
        if is_tagged || !guard::is_forwarded(&frame) || own.is_some_and(|own| !may_send(own, &frame)) {
            return;
        }
        let withheld =
            guard::is_forged_discovery(&frame) || own.is_some_and(|own| guard::misleads(own, &frame));
        let Some(switch) = self.world.switch_of(port).map(str::to_owned) else {
            return;
        };
        let served = self.world.ports.get(port).map_or(Served::GoesOn, |own| {
            self.world.serve(Asked { switch: &switch, port: own, frame: &frame, bytes: &bytes })
        });
        let admitted = match served {
            _ if withheld => Vec::new(),
            Served::Taken(answer) => {
                if let Some(answer) = answer {
                    self.messages.tell(host, port, answer);
                }
                Vec::new()
            }
            Served::GoesOn => self.admit((host, port), Direction::FromPort, &frame, &bytes, false),
        };
        for bytes in admitted {
            if let Some(frame) = Frame::read(&bytes) {
                let sent = Sent { host, switch: &switch, port, frame: &frame, bytes: &bytes, routers: 0 };
                self.answer_or_forward(&sent, out);
            }
        }
        // A learned address applies from the next frame on, even to a frame for its own sender.
        self.learned.hear(&self.world, host, &switch, port, frame.src);
    }

    /// Answers a request for an address of a port of the switch or of a router, unless it came from a localnet port, because every
    /// host receives those. Sends an announcement of another's address to the owner alone. Forwards any other frame.
    fn answer_or_forward(&mut self, sent: &Sent<'_>, out: &mut Vec<Arrival>) {
        let Sent { host, switch, port, frame, bytes, .. } = *sent;
        if self.world.localnets.contains_key(port) && self.hear_outside(sent, out) {
            return;
        }
        let own = self.world.ports.get(port);
        if let Some(owner) = own.and_then(|own| self.contradicted(switch, own, frame)) {
            let bytes = [owner.as_slice(), &bytes[6..]].concat();
            if let Some(frame) = Frame::read(&bytes) {
                self.forward(&Sent { frame: &frame, bytes: &bytes, ..*sent }, out);
            }
            return;
        }
        if own.is_some() {
            self.answer_solicitation(sent);
        }
        let own = self.world.ports.get(port);
        let of_router = || self.world.answer_of_router(switch, frame, bytes);
        match own.and_then(|own| self.answer(switch, own, frame, bytes).or_else(of_router)) {
            // The asker gets the answer, even if its port security would drop such a frame from another port.
            Some(answer) => self.hand_over(host, port, &answer, out),
            None => self.forward(sent, out),
        }
    }

    /// The answer to a frame that asks for an address of another port of the switch.
    fn answer(&self, switch: &str, asker: &Port, frame: &Frame, bytes: &[u8]) -> Option<Vec<u8>> {
        let question = Question::read(frame)?;
        let mac = self.owner(switch, asker, &question)?;
        Some(question.answer(bytes, mac, MACHINE))
    }

    /// The MAC of another port whose address the sender of a frame announces as its own. The owner must hear of the conflict (RFC 5227,
    /// 2.4) and may defend its address; nobody else hears of it, whose packets the sender could draw to itself. In IPv6 nothing else is
    /// needed: solicitations that detect duplicates and advertisements are forwarded like any frame.
    fn contradicted(&self, switch: &str, sender: &Port, frame: &Frame) -> Option<Mac> {
        let question = Question::read(frame).filter(Question::is_announcement)?;
        self.owner(switch, sender, &question)
    }

    /// The MAC of another port of the switch, or of one of its servers, for the address in a question. A port that lives on the physical
    /// network answers for itself.
    fn owner(&self, switch: &str, asker: &Port, question: &Question) -> Option<Mac> {
        let at = |port: &Port| {
            let mut addresses = port.addresses.iter();
            addresses.find(|address| address.ips.contains(&question.target())).map(|address| address.mac)
        };
        if at(asker).is_some() {
            return None;
        }
        let here = |(id, port): (&str, &Port)| (!self.world.lives_outside(id)).then(|| at(port)).flatten();
        let mut servers = self.world.servers_on(switch);
        let server = servers.find(|server| server.ip == question.target()).map(|server| server.mac);
        server.or_else(|| self.world.ports_of(switch).find_map(here))
    }

    /// Forwards a frame. A frame to a group address goes to all ports, any other to the port with its address, which may be a
    /// router's, wherever the frame is: routers are on no host. If no port has the address and the switch learns, the frame goes to the port where the address was learned, or, if it was not
    /// learned, to all ports that receive frames to unknown addresses. A frame that would go to many ports is dropped whole
    /// if its port has flooded as many as it may: copies are not counted, but frames, once, where they enter. What the switch
    /// learns from it and what is answered is not flooded.
    pub(crate) fn forward(&mut self, sent: &Sent<'_>, out: &mut Vec<Arrival>) {
        let router = self.world.routers_on(sent.switch).find(|(_, port)| port.mac == sent.frame.dst);
        if let Some(port) = router.map(|(_, port)| port.clone()) {
            return self.enter_router(sent, &port, out);
        }
        let outside = self.world.outside_ports(sent.switch).find(|(_, port)| port.mac == sent.frame.dst);
        if let Some(id) = outside.map(|(id, _)| id.to_owned()) {
            return self.forward_to_gateway(sent, &id, out);
        }
        let Sent { host, switch, port, .. } = *sent;
        let [host, switch, port] = [host, switch, port].map(str::to_owned);
        self.entries.push(Entry { host, switch, port, bytes: sent.bytes.to_vec() });
        let dst = sent.frame.dst;
        if is_group(dst) {
            return self.replicate(sent, |_| true, out);
        }
        let has = |port: &Port| port.addresses.iter().any(|address| address.mac == dst);
        let known = self.world.ports_of(sent.switch).find(|(_, port)| has(port)).map(|(id, _)| id.to_owned());
        let learned = self.learned.find(sent.host, sent.switch, dst).map(str::to_owned);
        if let Some(port) = known.or(learned) {
            self.unicast(sent, &port, out);
        } else if self.world.learns(sent.switch) {
            self.replicate(sent, |port| port.unknown_addresses, out);
        }
    }

    /// Forwards to one port on its host, never back to the sender, and drops the frame if the port is on no host, unless it lives on
    /// the physical network. Between
    /// hosts the frame goes through a tunnel, or, if the switch has a localnet port, over the physical network. Each host that
    /// stands by for the port gets a copy too: the machine may run there already.
    fn unicast(&mut self, sent: &Sent<'_>, port: &str, out: &mut Vec<Arrival>) {
        if self.world.localnets.contains_key(port) {
            if port != sent.port {
                self.leave_for_network(sent, out);
            }
            return;
        }
        let hosts: BTreeSet<String> = self.world.hosts_with(port).into_iter().map(str::to_owned).collect();
        let (here, elsewhere): (Vec<&String>, Vec<&String>) =
            hosts.iter().partition(|host| *host == sent.host);
        if !here.is_empty() && port != sent.port {
            self.deliver(sent.host, port, sent, out);
        }
        if self.world.localnet_of(sent.switch).is_some() {
            if !elsewhere.is_empty() || self.world.lives_outside(port) {
                self.leave_for_network(sent, out);
            }
            return;
        }
        for host in elsewhere {
            let latest = self.latest(host, port, sent).to_owned();
            if let Some(crossed) = self.cross(sent, sent.host, host) {
                self.deliver_crossed(host, &latest, sent, crossed, out);
            }
        }
    }

    /// The port of host `at` that a frame from another host is for. The sender says `port`, but if that is one whose
    /// addresses are learned, `at` may have heard since that the address moved to another of its own ports. A port keeps the
    /// frames for its configured addresses: another machine may send from them.
    fn latest<'a>(&'a self, at: &str, port: &'a str, sent: &Sent<'_>) -> &'a str {
        let dst = sent.frame.dst;
        let is_own = |port: &Port| port.addresses.iter().any(|address| address.mac == dst);
        if !self.world.is_learned_from(port) || self.world.ports.get(port).is_some_and(is_own) {
            return port;
        }
        let learned = self.learned.find(at, sent.switch, dst);
        learned.filter(|learned| self.world.hosts_with(learned).contains(at)).unwrap_or(port)
    }

    /// Forwards to all ports of the audience except the sender, once to each interface that a host has for it. The localnet port is
    /// always included; if a switch has one, it reaches the other hosts. Otherwise each remote host with ports of the audience gets
    /// one copy, and other hosts get none ([`World::ways`]).
    fn replicate(&mut self, sent: &Sent<'_>, audience: impl Fn(&Port) -> bool, out: &mut Vec<Arrival>) {
        if self.world.is_exhausted(sent.host, sent.port) {
            return;
        }
        let is_physical = self.world.localnet_of(sent.switch).is_some();
        let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (id, port) in self.world.ports_of(sent.switch) {
            let hosts = self.world.hosts_with(id).into_iter();
            for host in hosts.filter(|host| audience(port) && (!is_physical || *host == sent.host)) {
                members.entry(host.to_owned()).or_default().push(id.to_owned());
            }
        }
        let mut reached = BTreeMap::from([(sent.host.to_owned(), Crossed::WithPort)]);
        if !is_physical {
            let hosts = members.keys().map(String::as_str).collect();
            let ways = self.world.ways(sent.switch, sent.host, &hosts);
            let ways: Vec<_> = ways.iter().map(|hop| (hop.from.to_owned(), hop.to.to_owned())).collect();
            for (from, to) in ways {
                if reached.contains_key(&from)
                    && let Some(crossed) = self.cross(sent, &from, &to)
                {
                    reached.insert(to, crossed);
                }
            }
        }
        for (host, crossed) in reached {
            for port in members.get(&host).into_iter().flatten() {
                self.deliver_crossed(&host, port, sent, crossed, out);
            }
        }
        self.leave_for_network(sent, out);
    }

    /// Sends a copy from one host to another, if there is a tunnel. The receiver learns the address too, if the copy has
    /// carried the ingress port all the way. Otherwise it hears the address somewhere: what it learned before may not be so
    /// any more.
    fn cross(&mut self, sent: &Sent<'_>, from: &str, to: &str) -> Option<Crossed> {
        let encap = self.world.tunnel(from, to)?;
        *self.copies.entry((from.to_owned(), to.to_owned())).or_default() += 1;
        let first = if from == sent.host { Some(encap) } else { self.world.tunnel(sent.host, from) };
        if carries_ingress_port(encap) && first.is_some_and(carries_ingress_port) {
            self.learned.hear(&self.world, to, sent.switch, sent.port, sent.frame.src);
            Some(Crossed::WithPort)
        } else {
            self.learned.forget(to, sent.switch, sent.frame.src);
            Some(Crossed::WithoutPort)
        }
    }

    /// Sends a frame out of the localnet port of the switch, if the host has it and the frame did not come from it: in its
    /// VLAN, to all machines on the physical network and to all other hosts there.
    pub(crate) fn leave_for_network(&mut self, sent: &Sent<'_>, out: &mut Vec<Arrival>) {
        let Some((id, localnet)) = self.world.localnet_of(sent.switch) else {
            return;
        };
        if id == sent.port || !self.world.attached(sent.host, sent.switch) {
            return;
        }
        let frame = if localnet.tag == 0 { sent.bytes.to_vec() } else { tagged(sent.bytes, localnet.tag) };
        let network = localnet.network.clone();
        out.push(Arrival { at: Tap::physical(&network), frame: frame.clone() });
        self.crossing.push_back((network, sent.host.to_owned(), frame));
    }

    /// Delivers a copy to a port on the host that it has reached. A port hears nothing of what it sends itself, if the host knows
    /// who has sent it. A host that stands by for a port may not know that the frame is from another interface of it.
    fn deliver_crossed(
        &mut self,
        host: &str,
        port: &str,
        sent: &Sent<'_>,
        crossed: Crossed,
        out: &mut Vec<Arrival>,
    ) {
        if port != sent.port || crossed == Crossed::WithoutPort {
            self.deliver(host, port, sent, out);
        }
    }

    /// Delivers to a port on this host, if its ACLs and then its port security allow it. A host that stands by for the port
    /// delivers only what is for a group, until its interface has announced itself.
    pub(crate) fn deliver(&mut self, host: &str, port: &str, sent: &Sent<'_>, out: &mut Vec<Arrival>) {
        let is_silent = self.is_silent(host, port, sent);
        let going_on = self.admit((host, port), Direction::ToPort, sent.frame, sent.bytes, is_silent);
        for bytes in going_on.into_iter().filter(|_| !is_silent) {
            if let Some(frame) = Frame::read(&bytes) {
                self.secure(host, port, &frame, &bytes, out);
            }
        }
    }

    /// Delivers what [`Model::deliver`] may deliver, whatever connections the port knows.
    pub(crate) fn deliver_any(&self, host: &str, port: &str, sent: &Sent<'_>, out: &mut Vec<Arrival>) {
        let may_pass = self.may_admit(port, Direction::ToPort, sent.frame, sent.bytes);
        if may_pass && !self.is_silent(host, port, sent) {
            self.secure(host, port, sent.frame, sent.bytes, out);
        }
    }

    fn is_silent(&self, host: &str, port: &str, sent: &Sent<'_>) -> bool {
        let owner = self.world.owner(port).unwrap_or(port);
        !is_group(sent.frame.dst) && self.announced.is_silent(&self.world, host, owner)
    }

    /// Outputs a frame to a port, if its port security allows it.
    fn secure(&self, host: &str, port: &str, frame: &Frame, bytes: &[u8], out: &mut Vec<Arrival>) {
        if self.world.ports.get(port).is_some_and(|port| may_receive(port, frame)) {
            self.hand_over(host, port, bytes, out);
        }
    }

    /// Outputs a frame to the interface of a port; for a trunk member, tagged to the parent's interface.
    pub(crate) fn hand_over(&self, host: &str, port: &str, bytes: &[u8], out: &mut Vec<Arrival>) {
        let parent = self.world.ports.get(port).and_then(|port| port.parent.as_ref());
        let (owner, frame) = match parent {
            Some((parent, tag)) => (parent.as_str(), tagged(bytes, *tag)),
            None => (port, bytes.to_vec()),
        };
        out.push(Arrival { at: Tap::vnic(host, owner), frame });
    }
}
