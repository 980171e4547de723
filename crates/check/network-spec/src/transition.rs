//! Updates of hosts one after another: the frames that may arrive in the meantime.

use std::collections::BTreeSet;

use crate::frame::{Frame, is_group};
use crate::model::{Entry, Sent};
use crate::{Arrival, Model, Tap, World};

/// A change of the world that some hosts have made and others have not.
///
/// A host changes in one step, but hosts change one after another, in any order. Meanwhile a frame may be lost, because its
/// sender's host sends it where the port no longer is, or not yet. What must hold all the time is isolation. Each host acts
/// by its own state, and between hosts a frame carries what its sender's host has decided, so:
///
/// - The sender's host decides by its state whether the frame enters, in which switch, and who is asked for: one port, the
///   ports with unknown addresses, or all. It answers for a port by its state, too.
/// - It decides about the whole way through routers, too: a frame that a router has forwarded enters the last switch on the
///   sender's host. It may take any of several next hops.
/// - A port receives the frame only if it is on its host in that host's state, its ACLs and its security there allow the frame, and it
///   belongs to the frame's switch in the state of its own host. If the sender's host sent the frame to this port alone, it is the
///   same port in both states, and not one of this name in another switch, tenant or trunk.
///   A VM that moves may hear its own flood at the host that it leaves.
/// - A frame enters a physical network only in the state of the sender's host, and another host takes it for a frame of the
///   switch that has the VLAN in that other host's state: a VLAN is what its members take it for.
/// - Nobody receives a frame twice, except that a host on its way from one branch of a replication tree to another may get
///   the copies of both. A leader that has changed may take the sender's host for one of its branch, and return the frame to
///   its ports, the sender included. Bridges duplicate frames while they learn a new topology, too (IEEE 802.1Q, 6.5.4); to rule it out,
///   floods would have to stop until all hosts have changed.
/// - What a port floods beyond its limit goes nowhere. Unicast may go on: it is flooded only to addresses that are not learned.
/// - Broadcasts reach the hosts that [`Transition::keeps_broadcasts`] names once each, whoever leads a branch before and after.
#[derive(Clone, Debug)]
pub struct Transition {
    old: Model,
    new: Model,
    changed: BTreeSet<String>,
}

/// The frames that may arrive.
struct Permitted {
    arrivals: BTreeSet<Arrival>,
    /// How often each.
    times: usize,
}

impl Transition {
    /// A change that no host has made yet. What hosts have learned only narrows where frames go, so it is not needed. Which
    /// interfaces have announced themselves is not known, so each may have, and so any connection may be known.
    pub fn new(old: World, new: World) -> Transition {
        let [old, new] = [old, new].map(Model::of_any_past);
        Transition { old, new, changed: BTreeSet::new() }
    }

    /// A host makes the change.
    pub fn change(&mut self, host: &str) {
        self.changed.insert(host.to_owned());
    }

    /// Whether broadcasts in a switch reach a host as before while hosts change one after another, if nothing else about the
    /// sender, the host and the tunnels between them changes: none is lost, and none comes twice.
    ///
    /// The sender's host sends by its state to all hosts, or to those of its own branch and to one host of each other. That
    /// host sends to all of its branch by its own state, leader or not. So both must mean the same branch, but for hosts that
    /// come or go, and none of those may lead it.
    pub fn keeps_broadcasts(&self, switch: &str, host: &str) -> bool {
        let worlds = [self.old.world(), self.new.world()];
        if !worlds.iter().any(|world| world.trees.used.contains(switch)) {
            return true;
        }
        let [Some(old), Some(new)] = worlds.map(|world| world.trees.branch_of(switch, host)) else {
            return false;
        };
        let [before, after] = worlds.map(|world| world.trees.branches.get(switch));
        let stays = |host: &&str| [before, after].iter().flatten().all(|of| of.contains_key(*host));
        let leads =
            |world: &World, branch: &[&str]| world.trees.first(switch, branch).as_ref().is_some_and(stays);
        let staying =
            |branch: &[&str]| branch.iter().copied().filter(stays).map(str::to_owned).collect::<Vec<_>>();
        leads(worlds[0], &old) && leads(worlds[1], &new) && staying(&old) == staying(&new)
    }

    /// The state of a host.
    fn state(&self, host: &str) -> &Model {
        if self.changed.contains(host) { &self.new } else { &self.old }
    }

    /// The same change with every port within its limit.
    fn within_limits(&self) -> Transition {
        let mut all = self.clone();
        for model in [&mut all.old, &mut all.new] {
            model.apply(|world| world.exhausted.clear());
        }
        all
    }

    /// The arrivals, of those of a frame that enters at a place, that must not be.
    pub fn forbidden(&self, at: &Tap, bytes: &[u8], arrivals: &[Arrival]) -> Vec<Arrival> {
        let to_one = bytes.first_chunk().is_some_and(|dst| !is_group(*dst));
        let permitted =
            if to_one { self.within_limits().permitted(at, bytes) } else { self.permitted(at, bytes) };
        let mut forbidden = Vec::new();
        let mut seen: Vec<&Arrival> = Vec::new();
        for arrival in arrivals {
            let before = seen.iter().filter(|other| **other == arrival).count();
            if !permitted.arrivals.contains(arrival) || before >= permitted.times {
                forbidden.push(arrival.clone());
            }
            seen.push(arrival);
        }
        forbidden
    }

    fn permitted(&self, at: &Tap, bytes: &[u8]) -> Permitted {
        let mut permitted = Permitted { arrivals: BTreeSet::new(), times: 1 };
        match at {
            Tap::Vnic { host, .. } => {
                for (state, by_state) in self.state(host).outcomes(at, bytes) {
                    self.permit(host, &state, &by_state, &mut permitted);
                }
            }
            Tap::Physical { network } => self.arrive(network, bytes, &mut permitted),
        }
        permitted
    }

    /// Permits what may become of a frame that the sender's host forwards in this way.
    fn permit(&self, host: &str, state: &Model, by_state: &[Arrival], permitted: &mut Permitted) {
        // What stays on this host, as the host's answer does, and what leaves for a physical network.
        let here = |arrival: &&Arrival| match &arrival.at {
            Tap::Vnic { host: to, .. } => to == host,
            Tap::Physical { .. } => true,
        };
        permitted.arrivals.extend(by_state.iter().filter(here).cloned());
        for entry in state.entries().iter().filter(|entry| entry.host == *host) {
            self.spread(state, entry, permitted);
        }
        for arrival in by_state {
            if let Tap::Physical { network } = &arrival.at {
                self.arrive(network, &arrival.frame, permitted);
            }
        }
    }

    /// Permits what each host does by its state with a frame from a physical network.
    fn arrive(&self, network: &str, bytes: &[u8], permitted: &mut Permitted) {
        let hosts: BTreeSet<&String> =
            self.old.world().nodes.keys().chain(self.new.world().nodes.keys()).collect();
        for host in hosts {
            let out = self.state(host).clone().inject(&Tap::physical(network), bytes);
            let here = |arrival: &Arrival| matches!(&arrival.at, Tap::Vnic { host: to, .. } if to == host);
            permitted.arrivals.extend(out.into_iter().filter(here));
        }
    }

    /// Permits what other hosts may do with a frame that has entered a switch.
    fn spread(&self, state: &Model, entry: &Entry, permitted: &mut Permitted) {
        let Some(frame) = Frame::read(&entry.bytes) else { return };
        let Entry { host, switch, port, bytes } = entry;
        let sent = Sent { host, switch, port, frame: &frame, bytes, routers: 0 };
        let before = |id: &str| state.world().ports.get(id).filter(|port| port.switch == *switch);
        let is_asked_for = |id: &str| {
            before(id).is_some_and(|port| port.addresses.iter().any(|address| address.mac == frame.dst))
        };
        let is_shared =
            [state, &self.old, &self.new].iter().any(|state| state.world().is_shared(switch, frame.dst));
        let tree = [&self.old, &self.new].into_iter().any(|state| state.world().may_take_tree(switch));
        for (receiver, has_changed) in [(&self.old, false), (&self.new, true)] {
            for (id, of) in &receiver.world().ports {
                let belongs = of.switch == *switch;
                // What is for one port carries what it was for the sender: another one in its place does not take it.
                let is_same = || state.world().identity(id) == receiver.world().identity(id);
                let takes = if is_group(frame.dst) {
                    belongs
                } else {
                    (is_asked_for(id) && is_same())
                        || ((of.unknown_addresses || is_shared)
                            && (belongs || before(id).is_some() && is_same()))
                };
                let hosts = receiver.world().hosts_with(id).into_iter();
                for to in hosts.filter(|to| self.changed.contains(*to) == has_changed) {
                    if takes && (to != host || tree) {
                        let mut out = Vec::new();
                        receiver.deliver_any(to, id, &sent, &mut out);
                        permitted.arrivals.extend(out);
                    }
                }
            }
        }
        if tree {
            permitted.times = 2;
        }
    }
}
