//! The hosts: they make and report the ports that rules want, and load flows and groups.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use flow_simulator::trace::HandedOver;
use flow_simulator::{Bridge, Crossing, Encapsulation, Fabric, Host, Packet, Tunnelled};
use nlog_data::{TableDelta, TableId};
use openflow_rs::{Actions, FlowEntry, PortNo};
use switch_model::{FlowRow, Meters, Patches, Remote, Tunnels, Zones};
use tunnel_encap::Encap;

use crate::groups::{GroupChanges, Groups};
use crate::outputs::{Changed, Of};
use crate::{Out, Outputs, Place};

/// Tunnel and patch ports that switches report, by host and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    /// Tunnel ports and their numbers.
    pub tunnels: BTreeMap<(String, String), u16>,
    /// Patch ports and their numbers.
    pub patches: BTreeMap<(String, String), u16>,
}

/// Where a host is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its address on the underlay.
    pub address: IpAddr,
    /// The bridge to each of its physical networks.
    pub bridges: BTreeMap<String, String>,
}

/// A port that the rules want.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// A tunnel port, with the name of its only peer; without a peer it serves all.
    Tunnel(Encap, Option<&'a str>),
    /// A patch port.
    Patch,
}

/// The way of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// The delivered frames, sorted.
    pub out: Vec<Out>,
    /// The number of copies that went through tunnels from one host to another.
    pub copies: BTreeMap<(String, String), u64>,
    /// The packets that hosts handed over to their responders, in order.
    pub handed: Vec<(String, HandedOver)>,
}

/// The number of a port that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// The one that it has, or any that is free.
    Any,
    /// This one.
    Given(u16),
    /// None: the host fails to make the port.
    Fails,
}

/// Simulated hosts, and the physical networks that they are on.
#[derive(Default)]
pub struct Hosts {
    fabric: Fabric,
    /// The hosts there are.
    sites: BTreeMap<String, Site>,
    /// Existing vNICs, by host and number, and the inverse.
    vnics: BTreeMap<(String, u16), String>,
    /// The physical networks of existing patch ports, by host and number.
    attached: BTreeMap<(String, u16), String>,
    tunnels: BTreeMap<(String, String), (Encap, Option<IpAddr>)>,
    patches: BTreeMap<(String, String), String>,
    groups: Groups,
    reports: Reports,
    made: u16,
}

/// The first number of ports made here; vNICs have lower numbers.
const FIRST: u16 = 0x4000;

impl Hosts {
    /// The hosts' switches, for inspection.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The hosts' switches, for changes that the rules do not see.
    pub fn fabric_mut(&mut self) -> &mut Fabric {
        &mut self.fabric
    }

    /// The tunnel and patch ports that hosts report.
    pub fn reports(&self) -> &Reports {
        &self.reports
    }

    /// The tunnel ports that the rules want: host, encapsulation, and the peer's address for ports with a single peer.
    pub fn wanted_tunnels(&self) -> impl Iterator<Item = (&str, Encap, Option<IpAddr>)> {
        self.tunnels.iter().map(|((host, _), (encap, remote))| (host.as_str(), *encap, *remote))
    }

    /// The patch ports that the rules want: host and bridge.
    pub fn wanted_patches(&self) -> impl Iterator<Item = (&str, &str)> {
        self.patches.iter().map(|((host, _), bridge)| (host.as_str(), bridge.as_str()))
    }

    /// Updates hosts, and vNICs by host and number, to these.
    pub fn update(&mut self, sites: BTreeMap<String, Site>, vnics: BTreeMap<(String, u16), String>) {
        for (name, site) in &sites {
            match self.sites.get(name) {
                Some(old) if old.address == site.address => {}
                Some(_) => self.move_to(name, site.address),
                None => self.fabric.add(name, Host::new(Bridge::new([]), site.address, [])),
            }
        }
        let gone: Vec<String> =
            self.sites.keys().filter(|host| !sites.contains_key(*host)).cloned().collect();
        for host in gone {
            self.remove_host(&host);
        }
        self.sites = sites;
        let wanted = vnics;
        for (host, number) in self.vnics.keys().filter(|key| !wanted.contains_key(*key)) {
            if let Some(host) = self.fabric.host_mut(host) {
                host.remove_port(PortNo(*number));
            }
        }
        for (host, number) in wanted.keys().filter(|key| !self.vnics.contains_key(*key)) {
            if let Some(host) = self.fabric.host_mut(host) {
                host.bridge.add_port(PortNo(*number));
            }
        }
        self.vnics = wanted;
    }

    /// A host is at another address.
    fn move_to(&mut self, name: &str, address: IpAddr) {
        let Some(host) = self.fabric.remove(name) else { return };
        let mut host = Host::new(host.bridge, address, []);
        for ((_, number), network) in self.attached.iter().filter(|((at, _), _)| at == name) {
            host.attach(PortNo(*number), network);
        }
        self.fabric.add(name, host);
    }

    /// Removes a host with all its actual and wanted state.
    fn remove_host(&mut self, gone: &str) {
        self.fabric.remove(gone);
        self.attached.retain(|(host, _), _| host != gone);
        self.groups.remove_host(gone);
        self.reports.tunnels.retain(|(host, _), _| host != gone);
        self.reports.patches.retain(|(host, _), _| host != gone);
    }

    /// Follows the changes of the output tables: wanted ports, groups and flows.
    ///
    /// # Errors
    /// A row asks for something impossible.
    pub fn apply(&mut self, outputs: &Outputs, delta: &BTreeMap<TableId, TableDelta>) -> Result<(), String> {
        let changes = outputs.changes(delta).map_err(|error| error.to_string())?;
        self.change_tunnels(changes.tunnels);
        self.change_patches(changes.patches);
        for (host, meter, _) in &changes.meters.insert {
            if let Some(host) = self.fabric.host_mut(host) {
                host.bridge.add_meter(*meter);
            }
        }
        self.flush(&changes.zones.insert);
        self.change_flows(changes.groups, changes.flows)?;
        self.flush(&changes.zones.delete);
        self.remove_meters(&changes.meters)
    }

    /// Zones have another owner from now on, or none.
    fn flush(&mut self, zones: &[Of<'_, Zones>]) {
        for (host, zone, _) in zones {
            if let Some(host) = self.fabric.host_mut(host) {
                host.bridge.flush_zone(*zone);
            }
        }
    }

    /// Removes the meters that are not only changed, after the flows that used them.
    fn remove_meters(&mut self, meters: &Changed<Of<'_, Meters>>) -> Result<(), String> {
        let stays: BTreeSet<(&str, u32)> = meters.insert.iter().map(|(host, id, _)| (*host, *id)).collect();
        for (name, id, _) in meters.delete.iter().filter(|(host, id, _)| !stays.contains(&(*host, *id))) {
            let Some(host) = self.fabric.host_mut(name) else { continue };
            let before = host.bridge.flows().len();
            host.bridge.remove_meter(*id);
            if host.bridge.flows().len() != before {
                return Err(format!("{name}: flows used meter {id} as it went, and went with it"));
            }
        }
        Ok(())
    }

    /// Sets how many packets each meter of a host still lets through; `None` for any number.
    pub fn set_budgets(&mut self, host: &str, budget: impl Fn(u32) -> Option<u64>) {
        let Some(host) = self.fabric.host_mut(host) else { return };
        let meters: Vec<u32> = host.bridge.meters().map(|(id, _)| id).collect();
        for id in meters {
            // It is there.
            let _ = host.bridge.set_budget(id, budget(id));
        }
    }

    fn change_tunnels(&mut self, changed: Changed<Of<'_, Tunnels>>) {
        for (host, name, _) in changed.delete {
            let key = (host.to_owned(), name);
            self.unmake_tunnel(&key);
            self.tunnels.remove(&key);
        }
        for (host, name, tunnel) in changed.insert {
            let remote = match tunnel.remote {
                Remote::Flow => None,
                Remote::Address(address) => Some(address),
            };
            self.tunnels.insert((host.to_owned(), name), (tunnel.encap, remote));
        }
    }

    fn change_patches(&mut self, changed: Changed<Of<'_, Patches>>) {
        for (host, name, _) in changed.delete {
            let key = (host.to_owned(), name);
            self.unmake_patch(&key);
            self.patches.remove(&key);
        }
        for (host, name, patch) in changed.insert {
            self.patches.insert((host.to_owned(), name), patch.bridge);
        }
    }

    fn unmake_tunnel(&mut self, key: &(String, String)) {
        if let Some(number) = self.reports.tunnels.remove(key)
            && let Some(host) = self.fabric.host_mut(&key.0)
        {
            host.remove_port(PortNo(number));
        }
    }

    fn unmake_patch(&mut self, key: &(String, String)) {
        if let Some(number) = self.reports.patches.remove(key)
            && let Some(host) = self.fabric.host_mut(&key.0)
        {
            host.remove_port(PortNo(number));
            self.attached.remove(&(key.0.clone(), number));
        }
    }

    /// Makes the wanted ports of the hosts that there are, with the numbers that `number` gives for host and name, and removes all others.
    ///
    /// # Errors
    /// The rules want two equal tunnels, or a port to a bridge that does not exist.
    pub fn make_ports(
        &mut self,
        number: impl Fn(&(String, String), Wanted<'_>) -> Number,
    ) -> Result<(), String> {
        let ends: BTreeMap<IpAddr, String> =
            self.sites.iter().map(|(name, site)| (site.address, name.clone())).collect();
        let mut alike = BTreeSet::new();
        let there = |key: &(String, String)| self.sites.contains_key(&key.0);
        let tunnels: Vec<_> = self.tunnels.clone().into_iter().filter(|(key, _)| there(key)).collect();
        let patches: Vec<_> = self.patches.clone().into_iter().filter(|(key, _)| there(key)).collect();
        for (key, (encap, remote)) in tunnels {
            if !alike.insert((key.0.clone(), encap, remote)) {
                let name = encap.name();
                return Err(format!("{} is to have two tunnel ports of {name} to {remote:?}", key.0));
            }
            let peer = remote.and_then(|remote| ends.get(&remote));
            let possible = encapsulation(encap);
            let wanted = match number(&key, Wanted::Tunnel(encap, peer.map(String::as_str))) {
                _ if possible.is_none() => Number::Fails,
                wanted => wanted,
            };
            let present = self.reports.tunnels.get(&key).copied();
            let Some(made) = self.number_of(wanted, present) else {
                self.unmake_tunnel(&key);
                continue;
            };
            if let Some(encapsulation) = possible.filter(|_| present != Some(made)) {
                self.unmake_tunnel(&key);
                let tunnel = flow_simulator::Tunnel { encapsulation, remote };
                self.host(&key.0)?.add_tunnel(PortNo(made), tunnel);
                self.reports.tunnels.insert(key, made);
            }
        }
        for (key, bridge) in patches {
            let present = self.reports.patches.get(&key).copied();
            let Some(made) = self.number_of(number(&key, Wanted::Patch), present) else {
                self.unmake_patch(&key);
                continue;
            };
            if present == Some(made) {
                continue;
            }
            self.unmake_patch(&key);
            let bridges = self.sites.get(&key.0).map(|site| &site.bridges);
            let network = bridges.into_iter().flatten().find(|(_, behind)| **behind == bridge);
            let network = network.map(|(network, _)| network.clone());
            let network = network.ok_or_else(|| format!("{} has no bridge {bridge}", key.0))?;
            self.host(&key.0)?.attach(PortNo(made), &network);
            self.attached.insert((key.0.clone(), made), network);
            self.reports.patches.insert(key, made);
        }
        Ok(())
    }

    fn host(&mut self, name: &str) -> Result<&mut Host, String> {
        self.fabric.host_mut(name).ok_or_else(|| format!("there is no host {name}"))
    }

    /// The number of a port; none if the host does not make it.
    fn number_of(&mut self, wanted: Number, present: Option<u16>) -> Option<u16> {
        match wanted {
            Number::Any => Some(present.unwrap_or_else(|| self.new_number())),
            Number::Given(number) => Some(number),
            Number::Fails => None,
        }
    }

    fn new_number(&mut self) -> u16 {
        self.made = (self.made + 1) % FIRST;
        FIRST + self.made
    }

    /// Loads flows and groups in the driver's order: removals, groups from inner to outer, flows, unused groups.
    fn change_flows(&mut self, groups: GroupChanges<'_>, flows: Changed<FlowRow<'_>>) -> Result<(), String> {
        let sites = &self.sites;
        let touched = self.groups.change(groups, |host| sites.contains_key(host));
        self.remove_flows(&flows);
        // Groups that name another one come after those that name none: no group is nested deeper.
        let (outer, inner): (Vec<_>, Vec<_>) = touched.iter().partition(|key| self.groups.names_group(key));
        let mut unused = Vec::new();
        for key in inner.into_iter().chain(outer) {
            let Some(group) = self.groups.entry(key)? else {
                unused.push(key);
                continue;
            };
            let Some(host) = self.fabric.host_mut(&key.0) else { continue };
            let refused = |why| format!("{}: group {:#x}: {why}", key.0, key.1);
            host.bridge.replace_group(group).map_err(refused)?;
        }
        for flow in flows.insert {
            self.load(&flow)?;
        }
        for key in unused {
            let host = self.fabric.host_mut(&key.0);
            let Some(host) = host else { continue };
            let before = host.bridge.flows().len();
            host.bridge.remove_group(key.1);
            if host.bridge.flows().len() != before {
                return Err(format!("{}: flows used group {:#x} as it went, and went with it", key.0, key.1));
            }
        }
        self.groups.tidy();
        Ok(())
    }

    /// Removes the flows that others do not replace.
    fn remove_flows(&mut self, flows: &Changed<FlowRow<'_>>) {
        if flows.delete.is_empty() {
            return;
        }
        let key = |flow: &FlowRow<'_>| (flow.host.clone(), flow.table, flow.priority, flow.matches.clone());
        let stays: BTreeSet<_> = flows.insert.iter().map(key).collect();
        for flow in flows.delete.iter().filter(|flow| !stays.contains(&key(flow))) {
            if let Some(host) = self.fabric.host_mut(flow.host) {
                host.bridge.remove_flow(flow.table, flow.priority, &flow.matches.get());
            }
        }
    }

    fn load(&mut self, flow: &FlowRow<'_>) -> Result<(), String> {
        let (matches, actions) = (flow.matches.get(), flow.actions.get());
        self.load_flow(flow.host, FlowEntry::new(flow.table, flow.priority, matches, actions))
    }

    /// Loads a flow into a host, whose groups are there.
    ///
    /// # Errors
    /// There is no such host, or it cannot have the flow.
    pub fn load_flow(&mut self, host: &str, flow: FlowEntry) -> Result<(), String> {
        let at = self.fabric.host_mut(host);
        let at = at.ok_or_else(|| format!("a flow is for {host}, which is no host"))?;
        let flow = Arc::new(flow);
        let refused = |why| format!("{host}: {} {}: {why}", flow.matches, flow.actions);
        at.bridge.add_shared(flow.clone()).map_err(refused)
    }

    /// Checks, once nothing changes, that no port is wanted on a host that was removed.
    ///
    /// # Errors
    /// There is one.
    pub fn check_requests(&self) -> Result<(), String> {
        let of = |key: &(String, String)| self.sites.contains_key(&key.0);
        match self.tunnels.keys().chain(self.patches.keys()).find(|key| !of(key)) {
            Some((host, name)) => Err(format!("{host} is gone and still to have port {name}")),
            None => Ok(()),
        }
    }

    /// Lets time pass.
    pub fn wait(&mut self, time: Duration) {
        self.fabric.advance(time);
    }

    /// Sends a frame and returns the delivered frames, sorted. Hosts learn from it.
    ///
    /// # Errors
    /// The flow tables lost a copy, or sent it to a controller.
    pub fn send(&mut self, place: &Place, bytes: &[u8]) -> Result<Vec<Out>, String> {
        self.pass(place, bytes).map(|passage| passage.out)
    }

    /// Sends a frame. Hosts learn from it.
    ///
    /// # Errors
    /// As [`Hosts::send`].
    pub fn pass(&mut self, place: &Place, bytes: &[u8]) -> Result<Passage, String> {
        let crossing = match place {
            Place::Vnic(host, port) => match self.number(host, port) {
                Some(number) => self.fabric.send(host, Packet::new(bytes.to_vec(), number)),
                None => Crossing::default(),
            },
            Place::Tap(network) => self.fabric.send_physical(network, bytes.to_vec()),
        };
        self.whole(crossing)
    }

    /// A host carries out these actions on a frame that its responder sends out. Hosts learn from it.
    ///
    /// # Errors
    /// As [`Hosts::send`].
    pub fn send_out(&mut self, host: &str, bytes: Vec<u8>, actions: &Actions) -> Result<Passage, String> {
        let crossing = self.fabric.send_out(host, bytes, actions);
        self.whole(crossing)
    }

    /// The trace of such a frame on each host. No host learns from it.
    pub fn trace_out(&self, host: &str, bytes: Vec<u8>, actions: &Actions) -> Crossing {
        self.fabric.trace_out(host, bytes, actions)
    }

    /// Sends a packet to the tunnel endpoint of a host, from anywhere, and returns the delivered frames, sorted. Hosts learn
    /// from it.
    ///
    /// # Errors
    /// As [`Hosts::send`].
    pub fn send_tunnelled(&mut self, host: &str, tunnelled: &Tunnelled) -> Result<Vec<Out>, String> {
        let crossing = self.fabric.send_tunnelled(host, tunnelled);
        self.whole(crossing).map(|passage| passage.out)
    }

    /// The trace of such a packet on each host. No host learns from it.
    pub fn trace_tunnelled(&self, host: &str, tunnelled: &Tunnelled) -> Crossing {
        self.fabric.trace_tunnelled(host, tunnelled)
    }

    /// A crossing of which nothing was lost.
    fn whole(&self, crossing: Crossing) -> Result<Passage, String> {
        if let Some(lost) = crossing.lost.first() {
            return Err(lost.to_string());
        }
        self.passage(crossing)
    }

    /// The passage that a frame would have. No host learns from it, and copies may be lost.
    ///
    /// # Errors
    /// The flow tables sent a copy to a controller.
    pub fn try_out(&self, place: &Place, bytes: &[u8]) -> Result<Passage, String> {
        self.passage(self.trace(place, bytes))
    }

    /// A crossing with vNICs for ports.
    fn passage(&self, crossing: Crossing) -> Result<Passage, String> {
        let mut passage = Passage { handed: crossing.handed, ..Passage::default() };
        for arrival in crossing.arrived {
            let key = (arrival.host, arrival.port.0);
            let Some(port) = self.vnics.get(&key) else {
                return Err(format!("{}: a frame left by port {}", key.0, key.1));
            };
            passage.out.push(Out { at: Place::Vnic(key.0, port.clone()), bytes: arrival.bytes });
        }
        let tapped = crossing.tapped.into_iter();
        passage.out.extend(tapped.map(|tapped| Out { at: Place::Tap(tapped.network), bytes: tapped.bytes }));
        passage.out.sort();
        for hop in crossing.tunnelled {
            *passage.copies.entry(hop).or_default() += 1;
        }
        Ok(passage)
    }

    /// The trace of a frame on each host. No host learns from it.
    pub fn trace(&self, place: &Place, bytes: &[u8]) -> Crossing {
        match place {
            Place::Vnic(host, port) => match self.number(host, port) {
                Some(number) => self.fabric.trace(host, Packet::new(bytes.to_vec(), number)),
                None => Crossing::default(),
            },
            Place::Tap(network) => self.fabric.trace_physical(network, bytes.to_vec()),
        }
    }

    /// The `OpenFlow` port of a vNIC.
    fn number(&self, host: &str, port: &str) -> Option<PortNo> {
        let own = |((at, _), named): &(&(String, u16), &String)| at == host && *named == port;
        self.vnics.iter().find(own).map(|((_, number), _)| PortNo(*number))
    }
}

/// The simulator's encapsulation; none for one whose tunnel ports never come up.
fn encapsulation(encap: Encap) -> Option<Encapsulation> {
    match encap {
        Encap::Geneve => Some(Encapsulation::Geneve),
        Encap::Vxlan => Some(Encapsulation::Vxlan),
        Encap::Gre => Some(Encapsulation::Gre),
        Encap::Stt => None,
    }
}
