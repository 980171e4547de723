//! No frame crosses tenants, whatever part of a change hosts have got.
//!
//! The check reads the flow tables, groups and ports of all simulated switches as they are at this moment, and sends frames through a copy.
//! Physical networks end at each host in it: what their other machines may receive is up to their tags.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use conformance::frames::{Book, frame};
use flow_simulator::{Bridge, Encapsulation, Fabric, Host, Packet, Tunnel};
use openflow_rs::{FlowEntry, GroupEntry, PortNo};
use sim_switches::SimulatedHost;

use super::{Simulation, host_of};

/// Frames that each interface sends.
const FRAMES: usize = 3;

/// The tenants that each port has ever had. A port may become another tenant's, and hosts follow one after another.
pub(super) type Tenants = BTreeMap<String, BTreeSet<String>>;

/// The interfaces of machines, by host and `OpenFlow` port, each with its port.
pub(super) type Vnics = BTreeMap<(String, u16), String>;

/// A frame that an interface sends.
pub(super) struct Sent {
    pub(super) host: String,
    pub(super) number: u16,
    pub(super) port: String,
    pub(super) bytes: Vec<u8>,
}

impl Simulation {
    /// Remembers the present tenants of all ports.
    pub(super) fn remember_tenants(&mut self) {
        for (port, tenant) in self.network.tenants() {
            self.tenants.entry(port).or_default().insert(tenant);
        }
    }

    /// Sends frames from all interfaces, to addresses of ports of all tenants.
    ///
    /// # Errors
    /// A frame reaches a port of another tenant.
    pub(super) fn check_isolation(&mut self) -> Result<(), String> {
        let (fabric, vnics) = self.copied()?;
        for Sent { host, number, port, bytes } in self.frames_to_send(&vnics, FRAMES) {
            self.frames.sent += 1;
            let crossing = fabric.trace(&host, Packet::new(bytes.clone(), PortNo(number)));
            for arrival in crossing.arrived {
                let at = (arrival.host, arrival.port.0);
                let Some(other) = vnics.get(&at) else { continue };
                self.frames.received += 1;
                let ([from, to], none) = ([&port, other].map(|port| self.tenants.get(port)), BTreeSet::new());
                if from.unwrap_or(&none).is_disjoint(to.unwrap_or(&none)) {
                    return Err(format!(
                        "a frame of {port} at {host} ({from:?}) reaches {other} at {} ({to:?}): {bytes:02x?}",
                        at.0
                    ));
                }
            }
        }
        Ok(())
    }

    /// So many frames of each interface, to addresses of ports of all tenants.
    pub(super) fn frames_to_send(&mut self, vnics: &Vnics, of_each: usize) -> Vec<Sent> {
        let (own, all) = (self.network.addresses(), self.network.all_addresses());
        let mut sent = Vec::new();
        for ((host, number), port) in vnics {
            let book = Book {
                own: own.get(port).cloned().unwrap_or_default(),
                near: all.clone(),
                far: all.clone(),
                ..Book::default()
            };
            for _ in 0..of_each {
                let bytes = frame(&mut self.random, &book);
                sent.push(Sent { host: host.clone(), number: *number, port: port.clone(), bytes });
            }
        }
        sent
    }

    /// A copy of all hosts whose addresses are known.
    pub(super) fn copied(&self) -> Result<(Fabric, Vnics), String> {
        let (mut fabric, mut vnics) = (Fabric::default(), Vnics::new());
        for (name, address) in self.network.host_addresses() {
            let Some(host) = host_of(&self.names, &self.hosts, &name) else { continue };
            fabric.add(&name, copied(&name, host, address, &mut vnics)?);
        }
        Ok((fabric, vnics))
    }
}

fn copied(name: &str, host: &SimulatedHost, address: IpAddr, vnics: &mut Vnics) -> Result<Host, String> {
    let mut copy = Host::new(Bridge::new([]), address, []);
    for (interface, row) in host.database().interfaces() {
        let Some(number) = row.ofport.and_then(|number| u16::try_from(number).ok()) else { continue };
        let encapsulation = match row.interface_type.as_str() {
            "geneve" => Some(Encapsulation::Geneve),
            "vxlan" => Some(Encapsulation::Vxlan),
            "gre" => Some(Encapsulation::Gre),
            _ => None,
        };
        if let Some(encapsulation) = encapsulation {
            let remote = row.options.get("remote_ip").and_then(|remote| remote.parse().ok());
            copy.add_tunnel(PortNo(number), Tunnel { encapsulation, remote });
        } else if row.interface_type == "patch" {
            copy.attach(PortNo(number), &format!("{interface} of {name}"));
        } else if let Some(port) = row.external_ids.get("iface-id") {
            copy.bridge.add_port(PortNo(number));
            vnics.insert((name.to_owned(), number), port.clone());
        }
    }
    for id in host.switch().meters().into_keys() {
        copy.bridge.add_meter(id);
    }
    let refused = |why: &dyn std::fmt::Display| format!("{name} has what no switch takes: {why}");
    // A group may send packets to others, which must be there before it.
    let mut left: Vec<GroupEntry> = host.switch().groups().into_values().collect();
    while !left.is_empty() {
        let (before, mut last) = (left.len(), None);
        left.retain(|group| match copy.bridge.add_group(group.clone()) {
            Ok(()) => false,
            Err(why) => {
                last = Some(why);
                true
            }
        });
        if let Some(why) = last.filter(|_| left.len() == before) {
            return Err(refused(&why));
        }
    }
    for (key, flow) in host.switch().flows() {
        let (matches, actions) = (key.matching(), flow.actions());
        let (Ok(matches), Ok(actions)) = (matches, actions) else {
            return Err(refused(&format!("{key:?} {flow:?}")));
        };
        let entry = FlowEntry::new(key.table(), key.priority(), matches, actions);
        copy.bridge.add_flow(entry).map_err(|why| refused(&why))?;
    }
    Ok(copy)
}
