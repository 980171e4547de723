//! Packets of a test: where they arrive, and why.

use std::collections::{BTreeMap, BTreeSet};

use flow_simulator::Crossing;
use nlog::program::{Packet, Place as SourcePlace};
use nlog_data::{Packed, Row, RuleId, TableId};
use openflow_rs::FlowEntry;
use simulated_hosts::{Out, Place};
use switch_model::FlowRow;
use switch_model::rows::{self, Vif};

use crate::run::{Failure, Stage};
use crate::switches::{Tables, listed, read_optional};
use packet_trace::FlowOrigin;
use packet_trace::frame::{Addresses, frame, text, vlan};

/// The hosts whose part of a trace is shown.
const HOSTS: usize = 6;

/// Where the ports of a test are.
struct Ports {
    vifs: Vec<Vif>,
    /// Ports behind a parent: port, parent, VLAN tag.
    parents: Vec<(String, String, u16)>,
    /// Ports of a physical network: port, network, VLAN tag or 0.
    localnets: Vec<(String, String, u16)>,
}

impl Ports {
    /// The place of a port, and the VLAN tag that its frames have there, or 0. The latest report of an interface counts.
    fn place(&self, port: &str) -> Option<(Place, u16)> {
        if let Some((_, network, tag)) = self.localnets.iter().find(|(own, ..)| own == port) {
            return Some((Place::Tap(network.clone()), *tag));
        }
        let parent = self.parents.iter().find(|(own, ..)| own == port);
        let (owner, tag) = parent.map_or((port, 0), |(_, parent, tag)| (parent, *tag));
        let latest = self.vifs.iter().filter(|vif| vif.port == owner).max_by_key(|vif| vif.since)?;
        Some((Place::Vnic(latest.host.clone(), owner.to_owned()), tag))
    }

    /// The name of the port that a frame reaches.
    fn receiver(&self, out: &Out) -> String {
        let tag = vlan(&out.bytes);
        let known = match &out.at {
            Place::Vnic(_, owner) if tag == 0 => return quoted(owner),
            Place::Vnic(_, owner) => self.parents.iter().find(|(_, of, own)| of == owner && *own == tag),
            Place::Tap(network) => self.localnets.iter().find(|(_, of, own)| of == network && *own == tag),
        };
        match (known, &out.at) {
            (Some((port, ..)), _) => quoted(port),
            (None, Place::Vnic(_, owner)) => format!("{owner:?} with VLAN tag {tag}"),
            (None, Place::Tap(network)) if tag == 0 => {
                format!("physical network {network:?} without a VLAN tag")
            }
            (None, Place::Tap(network)) => format!("physical network {network:?} with VLAN tag {tag}"),
        }
    }

    /// The remedy for a port that has no place.
    fn unknown(&self, port: &str) -> String {
        let parent = self.parents.iter().find(|(own, ..)| own == port).map(|(_, parent, _)| parent);
        let others: BTreeSet<&str> = self.vifs.iter().map(|vif| &*vif.port).collect();
        let known = match others.len() {
            0 => "no port has one".to_owned(),
            1..=HOSTS => format!("those that have one are {}", listed(others.into_iter())),
            many => format!("{many} others have one"),
        };
        let owner = parent.map_or(port, |parent| parent);
        format!(
            "port {port:?} has no interface: write given port {owner:?} on \"HOST\"; before this ({known})"
        )
    }
}

fn quoted(name: &str) -> String {
    format!("{name:?}")
}

impl Stage<'_> {
    /// Sends a packet. Returns the failure if it does not go to exactly the expected ports.
    pub(crate) fn packet(
        &mut self,
        packet: &Packet,
        place: &SourcePlace,
    ) -> Result<Option<Failure>, Failure> {
        // A test with packets has switches.
        let Some(tables) = self.switches.as_ref().map(|switches| switches.tables) else { return Ok(None) };
        let ports = self.ports(tables, place)?;
        let own = self.addresses(tables, &packet.from, place)?;
        let sent = ports.place(&packet.from).ok_or_else(|| ports.unknown(&packet.from));
        let sent = sent.and_then(|(at, tag)| Ok((at, frame(&packet.fields, &own)?, tag)));
        let (at, bytes, tag) = match sent {
            Ok(sent) => sent,
            Err(why) => return Ok(Some(Failure::new(place, why))),
        };
        let bytes = match tag {
            0 => bytes,
            tag => frame_builder::tagged(&bytes, frame_builder::VLAN, tag),
        };
        let Some(switches) = self.switches.as_mut() else { return Ok(None) };
        // The trace changes nothing, so it is that of the packet sent next.
        let crossing = switches.hosts.trace(&at, &bytes);
        let message = match switches.hosts.send(&at, &bytes) {
            Ok(outs) => difference(packet, &outs, &ports),
            Err(why) => Some(format!("the packet is lost: {why}")),
        };
        let Some(message) = message else { return Ok(None) };
        let mut failure = Failure::new(place, message);
        failure.reasons.push(("the packet".to_owned(), vec![text(&bytes)]));
        failure.reasons.extend(self.trace(tables, &crossing, place)?);
        Ok(Some(failure))
    }

    fn ports(&mut self, tables: Tables, place: &SourcePlace) -> Result<Ports, Failure> {
        Ok(Ports {
            vifs: read_optional(self, Some(tables.vif), place, rows::vif)?,
            parents: read_optional(self, tables.parents, place, rows::parent)?,
            localnets: read_optional(self, tables.localnets, place, rows::localnet)?,
        })
    }

    /// The addresses of a port.
    fn addresses(&mut self, tables: Tables, port: &str, place: &SourcePlace) -> Result<Addresses, Failure> {
        let mac = |row: &Row| rows::port_mac(row).map(|(port, mac)| (port.to_owned(), mac));
        let ip = |row: &Row| rows::port_ip(row).map(|(port, ip, mac)| (port.to_owned(), (ip, mac)));
        let macs = read_optional(self, tables.macs, place, mac)?.into_iter();
        let ips = read_optional(self, tables.ips, place, ip)?.into_iter();
        Ok(Addresses {
            macs: macs.filter(|(own, _)| own == port).map(|(_, mac)| mac).collect(),
            ips: ips.filter(|(own, _)| own == port).map(|(_, ip)| ip).collect(),
        })
    }

    /// What the packet met on each host: the flows, with the rules that derived them, and their actions.
    fn trace(
        &mut self,
        tables: Tables,
        crossing: &Crossing,
        place: &SourcePlace,
    ) -> Result<Vec<(String, Vec<String>)>, Failure> {
        let flows = self.contents(tables.outputs.flows(), place)?;
        let mut hops = Vec::new();
        for (host, steps) in crossing.hops.iter().take(HOSTS) {
            let note = |table: u8, entry: &FlowEntry| {
                let own = flows.iter().find(|row| {
                    FlowRow::read(row).is_ok_and(|flow| {
                        **flow.host == **host
                            && (flow.table, flow.priority) == (table, entry.priority)
                            && *flow.matches == Packed::new(&entry.matches)
                    })
                });
                let origin = own.map_or("learned".to_owned(), |row| self.origin(tables.outputs.flows(), row));
                Some(self.stage(table, entry.priority) + &origin)
            };
            let lines = steps.iter().flat_map(|step| {
                let text = step.text(&note);
                text.lines().map(str::to_owned).collect::<Vec<_>>()
            });
            hops.push((format!("on {host}"), lines.collect()));
        }
        if let Some(more @ 1..) = crossing.hops.len().checked_sub(HOSTS) {
            hops.push((format!("and on {more} more"), Vec::new()));
        }
        Ok(hops)
    }

    /// The names of a stage and of a priority there, as far as the program gives them, and a comma.
    fn stage(&self, table: u8, priority: u16) -> String {
        let Some(stage) = self.program.stage(table) else { return String::new() };
        match self.program.priority(&stage.name, priority) {
            Some(priority) => format!("{} of {}, ", priority.name, stage.name),
            None => format!("{}, ", stage.name),
        }
    }

    /// The rule that derived a flow: the one that says it, and the one that places it on the host.
    fn origin(&self, flows: TableId, row: &Row) -> String {
        match FlowOrigin::of(&self.state(), flows, row.clone()) {
            None => "derived by no rule".to_owned(),
            Some(FlowOrigin { placed, said, .. }) if said == placed => self.line(placed),
            Some(FlowOrigin { placed, said, .. }) => {
                format!("{}, placed by {}", self.line(said), self.line(placed))
            }
        }
    }

    fn line(&self, rule: RuleId) -> String {
        let place = &self.program.rule(rule).place;
        format!("{}:{}", place.file, place.line)
    }
}

/// How the receivers of a packet differ from those that are expected; none if they do not.
fn difference(packet: &Packet, outs: &[Out], ports: &Ports) -> Option<String> {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for out in outs {
        *found.entry(ports.receiver(out)).or_default() += 1;
    }
    if let Some((port, times)) = found.iter().find(|(_, times)| **times > 1) {
        return Some(format!("the packet arrived {times} times at {port}"));
    }
    let mut expected: Vec<String> = packet.at.iter().map(|port| quoted(port)).collect();
    expected.sort();
    let found: Vec<String> = found.into_keys().collect();
    if found == expected {
        return None;
    }
    let all_found = !expected.is_empty() && expected.iter().all(|port| found.contains(port));
    let alone = if all_found { " alone" } else { "" };
    let mut message = format!("the packet arrived {}, but is expected {}{alone}", at(&found), at(&expected));
    if let Some(port) = packet.at.iter().find(|port| ports.place(port).is_none()) {
        message += &format!("; {}", ports.unknown(port));
    }
    Some(message)
}

fn at(ports: &[String]) -> String {
    match ports {
        [] => "nowhere".to_owned(),
        [one] => format!("at {one}"),
        [others @ .., last] => format!("at {} and {last}", others.join(", ")),
    }
}
