//! Ports that become others: in another switch, tenant or trunk, under the same name.

use network_spec::{Localnet, Port};

use super::{Generator, Speaker};
use crate::frames::connections::{ACK, Talk, say};
use crate::world::Change;

impl Generator<'_> {
    /// A port moves to another switch or another parent, a switch to another tenant, or a localnet port to another switch or VLAN.
    pub(super) fn become_other(&mut self) {
        let switches: Vec<String> = self.world.switches.keys().cloned().collect();
        if switches.is_empty() {
            return;
        }
        let switch = self.others.pick(&switches).clone();
        let ports: Vec<(String, Port)> = self.world.ports.clone().into_iter().collect();
        let localnets: Vec<(String, Localnet)> = self.world.localnets.clone().into_iter().collect();
        let change = match self.others.below(10) {
            0..6 if !ports.is_empty() => {
                let (name, port) = self.others.pick(&ports).clone();
                let addresses = if self.others.chance(60) { port.addresses.clone() } else { Vec::new() };
                Change::Port(name, Port { switch, addresses, ..port })
            }
            6 if !ports.is_empty() => {
                let (name, port) = self.others.pick(&ports).clone();
                let parent = self.others.pick(&ports).0.clone();
                let tag = *self.others.pick(&[1, 5, 6]);
                let parent = (port.parent.is_none() || self.others.chance(70)).then_some((parent, tag));
                Change::Port(name, Port { parent, ..port })
            }
            7 if !localnets.is_empty() => {
                let (name, localnet) = self.others.pick(&localnets).clone();
                Change::Localnet(name, Localnet { switch, tag: *self.others.pick(&[0, 5, 6]), ..localnet })
            }
            _ => Change::Switch(switch, self.others.pick(&["", "t0", "t1"]).to_string()),
        };
        let one_by_one = self.others.chance(self.style.one_by_one);
        if one_by_one { self.one_by_one(vec![change]) } else { self.change(vec![change]) }
    }

    /// In the middle of a conversation, its other end changes places with a port of another switch that has the same addresses.
    /// Whoever has the address of the first there goes on with the conversation.
    pub(super) fn change_places(&mut self, one: &Speaker, other: &Speaker, talk: Talk) {
        let (Some(here), Some(first)) = (self.world.ports.get(&other.port), self.world.ports.get(&one.port))
        else {
            return;
        };
        let alike = |switch: &str, addresses: &Port| {
            let found = self
                .world
                .ports_of(switch)
                .find(|(_, port)| port.addresses.iter().any(|address| addresses.addresses.contains(address)));
            found.map(|(name, _)| name.to_owned())
        };
        let places: Vec<(String, Option<String>, String)> = self
            .world
            .switches
            .keys()
            .filter(|switch| **switch != here.switch)
            .filter_map(|switch| Some((switch.clone(), alike(switch, here), alike(switch, first)?)))
            .collect();
        if places.is_empty() {
            return;
        }
        let (mine, here) = (here.switch.clone(), here.clone());
        let (there, twin, peer) = self.others.pick(&places).clone();
        let mut changes = Vec::new();
        let twin = twin.and_then(|name| Some((self.world.ports.get(&name)?.clone(), name)));
        if let Some((port, name)) = &twin {
            changes.push(Change::Port(name.clone(), Port { addresses: Vec::new(), ..port.clone() }));
        }
        changes.push(Change::Port(other.port.clone(), Port { switch: there, ..here }));
        if let Some((port, name)) = twin {
            changes.push(Change::Port(name, Port { switch: mine, ..port }));
        }
        self.change(changes);
        let Some(place) = self.place_of(&peer) else { return };
        let peer = Speaker { port: peer, place, tag: None, end: one.end };
        if self.world.ports.get(&peer.port).is_some_and(|port| port.parent.is_some()) {
            return;
        }
        for asks in [self.others.chance(50), self.others.chance(50)] {
            let (from, to) = if asks { (&peer, other) } else { (other, &peer) };
            self.speak(from, say(from.end, to.end, talk, asks, ACK));
        }
    }
}
