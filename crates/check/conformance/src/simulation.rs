//! The rules on simulated hosts: the engine derives flows from a world's rows, hosts load them, frames pass through them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use flow_simulator::{Crossing, VlanLimit};
use network_spec::{Encap, Node, Trees, Tunnel, World};
use nlog::Program;
use nlog_data::{Row, TableDelta, TableId, Value};
use simulated_hosts::{Number, Outputs, Site, Wanted};
use test_random::Random;

use crate::derivation::{Contents, Derivation};
use crate::frames::Mac;
use crate::generate::Place;
use crate::rows::rows;
use crate::world::{AUDIENCES, NumberedWorld};

pub use simulated_hosts::{Hosts, Out, Passage};

/// The rules and their hosts.
pub struct Simulation {
    rules: Derivation,
    tables: Outputs,
    hosts: Hosts,
    /// The rows of the other tables: MTUs, problems, replication trees and relays.
    status: BTreeSet<(TableId, Row)>,
}

/// What the rules have derived and hosts are to follow; nothing if there is nothing new.
#[derive(Debug)]
pub struct Derived(Option<Parts>);

/// Changes of switches, by host.
type Parts = BTreeMap<String, BTreeMap<TableId, TableDelta>>;

/// The maximum rounds of reports after a change: rules request a port, a host reports it, rules react. More rounds mean a
/// loop.
const ROUNDS: usize = 6;

impl Simulation {
    /// The rules without hosts.
    ///
    /// # Errors
    /// The program does not start, or lacks one of the output tables.
    pub fn new(program: Arc<Program>) -> Result<Simulation, String> {
        let tables = Outputs::of(&program.schema)?;
        let rules = Derivation::new(program)?;
        Ok(Simulation { rules, tables, hosts: Hosts::default(), status: BTreeSet::new() })
    }

    /// The hosts.
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// The hosts, to change their switches.
    pub fn hosts_mut(&mut self) -> &mut Hosts {
        &mut self.hosts
    }

    /// The rows of the rules' output tables.
    ///
    /// # Errors
    /// The engine fails.
    pub fn contents(&mut self) -> Result<Contents, String> {
        self.rules.contents()
    }

    /// The rows that hooks have given.
    ///
    /// # Errors
    /// The engine fails.
    pub fn given_by_hooks(&mut self) -> Result<Contents, String> {
        self.rules.given_by_hooks()
    }

    /// Gives rules and hosts a new world, and lets hosts report until nothing changes. The rules compute only the hosts
    /// that `managed` selects.
    ///
    /// # Errors
    /// The rules refuse the change, or ask hosts for something impossible.
    pub fn change(&mut self, world: &NumberedWorld, managed: &dyn Fn(&str) -> bool) -> Result<(), String> {
        self.update_hosts(world)?;
        for _ in 0..ROUNDS {
            let wanted = rows(world, self.rules.kinds(), self.hosts.reports(), managed);
            let Some(delta) = self.rules.replace(wanted)? else {
                world.nodes.keys().for_each(|host| self.set_budgets(world, host));
                return self.hosts.check_requests();
            };
            self.hosts.apply(&self.tables, &delta)?;
            world.nodes.keys().for_each(|host| self.set_budgets(world, host));
            self.say(delta);
            self.make_ports(world)?;
        }
        Err(endless())
    }

    /// As [`Simulation::change`], for all hosts, but hosts change one after another, in a random order. Calls `between` with
    /// the hosts that have changed before the first, and after each.
    ///
    /// # Errors
    /// As [`Simulation::change`], or those of `between`.
    pub fn change_one_by_one<E: From<String>>(
        &mut self,
        world: &NumberedWorld,
        random: &mut Random,
        between: impl FnMut(&Hosts, &BTreeSet<String>) -> Result<(), E>,
    ) -> Result<(), E> {
        let first = self.derive(world)?;
        self.follow_one_by_one(world, first, random, between)
    }

    /// Gives the rules a new world. No host follows yet.
    ///
    /// # Errors
    /// The rules refuse the change.
    pub fn derive(&mut self, world: &NumberedWorld) -> Result<Derived, String> {
        self.update_hosts(world)?;
        self.derive_again(world)
    }

    fn derive_again(&mut self, world: &NumberedWorld) -> Result<Derived, String> {
        let wanted = rows(world, self.rules.kinds(), self.hosts.reports(), &|_| true);
        let Some(delta) = self.rules.replace(wanted)? else { return Ok(Derived(None)) };
        let parts = self.parts(&delta);
        // What the rules say of the network is true before hosts follow, and also if somebody ends this.
        self.say(delta);
        Ok(Derived(Some(parts)))
    }

    /// Hosts follow what the rules have derived, one after another, as [`Simulation::change_one_by_one`] says.
    ///
    /// # Errors
    /// As [`Simulation::change_one_by_one`].
    pub fn follow_one_by_one<E: From<String>>(
        &mut self,
        world: &NumberedWorld,
        first: Derived,
        random: &mut Random,
        mut between: impl FnMut(&Hosts, &BTreeSet<String>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut changed = BTreeSet::new();
        between(&self.hosts, &changed)?;
        let mut next = Some(first);
        for _ in 0..ROUNDS {
            let derived = match next.take() {
                Some(first) => first,
                None => self.derive_again(world)?,
            };
            let Derived(Some(mut parts)) = derived else {
                return Ok(self.hosts.check_requests()?);
            };
            // A host without a part of the first transaction has no difference to make.
            for host in world.nodes.keys() {
                parts.entry(host.clone()).or_default();
            }
            let mut order: Vec<String> = parts.keys().cloned().collect();
            random.shuffle(&mut order);
            for host in order {
                self.hosts.apply(&self.tables, &parts[&host])?;
                self.make_ports(world)?;
                self.set_budgets(world, &host);
                changed.insert(host);
                between(&self.hosts, &changed)?;
            }
        }
        Err(endless().into())
    }

    /// The parts of a delta that concern one switch each, by host.
    fn parts(&self, delta: &BTreeMap<TableId, TableDelta>) -> Parts {
        let mut parts = Parts::new();
        for (table, delta) in delta.iter().filter(|(table, _)| self.tables.contains(**table)) {
            for (rows, is_new) in [(&delta.delete, false), (&delta.insert, true)] {
                for row in rows {
                    let Some(Value::String(host)) = row.first() else { continue };
                    let part = parts.entry(host.to_string()).or_default().entry(*table).or_default();
                    if is_new { part.insert.push(row.clone()) } else { part.delete.push(row.clone()) }
                }
            }
        }
        parts
    }

    /// The meters of ports that have used up their limits on a host drop everything there, and others nothing.
    fn set_budgets(&mut self, world: &NumberedWorld, host: &str) {
        self.hosts.set_budgets(host, |meter| {
            let port = world.labels.metered(meter)?;
            world.exhausted.contains(&(host.to_owned(), port.to_owned())).then_some(0)
        });
    }

    fn make_ports(&mut self, world: &World) -> Result<(), String> {
        self.hosts.make_ports(|(host, _), wanted| match wanted {
            Wanted::Tunnel(encap, peer) if fails(world, host, encap, peer) => Number::Fails,
            _ => Number::Any,
        })
    }

    fn say(&mut self, delta: BTreeMap<TableId, TableDelta>) {
        for (table, delta) in delta.into_iter().filter(|(table, _)| !self.tables.contains(*table)) {
            for row in delta.delete {
                self.status.remove(&(table, row));
            }
            self.status.extend(delta.insert.into_iter().map(|row| (table, row)));
        }
    }

    /// The hosts are those of this world, with its interfaces. A tunnel port may fail, or work again, without any other
    /// change.
    fn update_hosts(&mut self, world: &NumberedWorld) -> Result<(), String> {
        self.hosts.update(sites(world), vnics(world));
        for name in world.nodes.keys() {
            if let Some(host) = self.hosts.fabric_mut().host_mut(name) {
                host.bridge.vlan_limit = vlan_limit(name);
            }
        }
        self.make_ports(world)
    }

    /// Lets time pass.
    pub fn wait(&mut self, time: Duration) {
        self.hosts.wait(time);
    }

    /// Sends a frame and returns the delivered frames, sorted.
    ///
    /// # Errors
    /// The flow tables lost a copy, or sent it to a controller.
    pub fn send(&mut self, place: &Place, bytes: &[u8]) -> Result<Vec<Out>, String> {
        self.hosts.send(place, bytes)
    }

    /// Sends a frame and returns the delivered frames and the copies between hosts.
    ///
    /// # Errors
    /// As [`Simulation::send`].
    pub fn pass(&mut self, place: &Place, bytes: &[u8]) -> Result<Passage, String> {
        self.hosts.pass(place, bytes)
    }

    /// The trace of a frame on each host.
    pub fn trace(&self, place: &Place, bytes: &[u8]) -> Crossing {
        self.hosts.trace(place, bytes)
    }

    /// The problems that the rules show: kind, id and code.
    pub fn problems(&self) -> BTreeSet<(String, String, String)> {
        let Some(table) = self.rules.schema().find("problem") else { return BTreeSet::new() };
        let problem = |(id, row): &(TableId, Row)| match &row[..] {
            [Value::String(kind), Value::String(object), Value::String(code), _] if *id == table => {
                Some((kind.to_string(), object.to_string(), code.to_string()))
            }
            _ => None,
        };
        self.status.iter().filter_map(problem).collect()
    }

    /// Writes the replication trees that the rules have chosen into the model's.
    pub fn trees(&self, trees: &mut Trees) {
        let schema = self.rules.schema();
        let [branch, leader, uses] = ["branch", "branch_leader", "uses_tree"].map(|table| schema.find(table));
        (trees.used, trees.branches, trees.ranks) = Default::default();
        for (table, row) in &self.status {
            match &row[..] {
                [Value::String(switch), Value::String(host), Value::String(name)]
                    if Some(*table) == branch =>
                {
                    let branches = trees.branches.entry(switch.to_string()).or_default();
                    branches.insert(host.to_string(), name.to_string());
                }
                // The leader for all comes first among all: then no other than it leads where it is in the audience.
                [Value::String(switch), Value::String(audience), _, Value::String(host)]
                    if Some(*table) == leader =>
                {
                    let rank = i64::from(&**audience != AUDIENCES[0]);
                    let before = trees.ranks.entry((switch.to_string(), host.to_string())).or_insert(rank);
                    *before = rank.min(*before);
                }
                [Value::String(switch), Value::Bool(true)] if Some(*table) == uses => {
                    trees.used.insert(switch.to_string());
                }
                _ => {}
            }
        }
        for (switch, branches) in &trees.branches {
            for host in branches.keys() {
                trees.ranks.entry((switch.clone(), host.clone())).or_insert(AUDIENCES.len() as i64);
            }
        }
    }

    /// The addresses that the rules have given, by port and MAC address.
    pub fn given(&self) -> BTreeMap<(String, Mac), BTreeSet<IpAddr>> {
        let mut given: BTreeMap<_, BTreeSet<IpAddr>> = BTreeMap::new();
        let Some(id) = self.rules.schema().find("dynamic_ip") else { return given };
        for (_, row) in self.status.iter().filter(|(table, _)| *table == id) {
            if let [Value::String(port), Value::Mac(mac), _, Value::Ip(ip)] = &row[..] {
                given.entry((port.to_string(), mac.0)).or_default().insert(*ip);
            }
        }
        given
    }

    /// The relays that the rules have chosen, by host and switch, in the order in which the host prefers them.
    pub fn relays(&self) -> BTreeMap<(String, String), Vec<String>> {
        let schema = self.rules.schema();
        let [relay, watched] = ["relay", "watched_relay"].map(|table| schema.find(table));
        let mut numbered: BTreeMap<(String, String), BTreeMap<i64, String>> = BTreeMap::new();
        for (table, row) in &self.status {
            let (host, switch, number, relay) = match &row[..] {
                [Value::String(host), Value::String(switch), Value::String(remote)]
                    if Some(*table) == relay =>
                {
                    (host, switch, 0, remote)
                }
                [Value::String(host), Value::String(switch), Value::Int(number), Value::String(remote)]
                    if Some(*table) == watched =>
                {
                    (host, switch, *number, remote)
                }
                _ => continue,
            };
            let of = numbered.entry((host.to_string(), switch.to_string())).or_default();
            of.insert(number, relay.to_string());
        }
        numbered.into_iter().map(|(of, relays)| (of, relays.into_values().collect())).collect()
    }

    /// The interfaces of which the rules await an announcement and whose hosts have heard one: (host, port).
    ///
    /// # Errors
    /// A host has learned an announcement that the rules do not await.
    pub fn heard(&self) -> Result<BTreeSet<(String, String)>, String> {
        let Some(id) = self.rules.schema().find("awaited_flow") else { return Ok(BTreeSet::new()) };
        let awaited =
            self.status.iter().filter(|(table, _)| *table == id).filter_map(|(_, row)| match &row[..] {
                [Value::String(host), Value::Int(table), Value::Int(cookie), Value::String(port)] => {
                    Some(((&**host, *table, *cookie), &**port))
                }
                _ => None,
            });
        let awaited: BTreeMap<_, _> = awaited.collect();
        let tables: BTreeSet<i64> = awaited.keys().map(|(_, table, _)| *table).collect();
        let mut heard = BTreeSet::new();
        for (host, at) in self.hosts.fabric().hosts() {
            for flow in at.bridge.learned().into_iter().filter(|flow| tables.contains(&flow.table.into())) {
                let port = awaited.get(&(host, flow.table.into(), flow.cookie as i64));
                let port = port.ok_or_else(|| format!("{host} has learned what nobody awaits: {flow}"))?;
                heard.insert((host.to_owned(), (*port).to_owned()));
            }
        }
        Ok(heard)
    }

    /// The MTU of a switch that the rules report.
    pub fn mtu(&self, switch: &str) -> Option<i64> {
        let table = self.rules.schema().find("switch_state")?;
        self.status.iter().find_map(|(id, row)| match &row[..] {
            [Value::String(of), Value::Int(mtu)] if *id == table && **of == *switch => Some(*mtu),
            _ => None,
        })
    }
}

/// The number of VLAN tags that the switch of a host reads. Hosts differ, because it must make no difference.
fn vlan_limit(host: &str) -> VlanLimit {
    VlanLimit::new(host.bytes().last().unwrap_or_default() % 3)
}

fn endless() -> String {
    format!("after {ROUNDS} rounds of reports the rules still ask for other ports")
}

/// The hosts of a world.
fn sites(world: &World) -> BTreeMap<String, Site> {
    let site = |node: &Node| Site { address: node.ip, bridges: node.mappings.clone() };
    world.nodes.iter().map(|(name, node)| (name.clone(), site(node))).collect()
}

/// The vNICs of a world, by host and number.
fn vnics(world: &NumberedWorld) -> BTreeMap<(String, u16), String> {
    world.ofports.iter().map(|((host, port), ofport)| ((host.clone(), *ofport), port.clone())).collect()
}

/// Whether a host fails to make a tunnel port, for all peers or for this one.
fn fails(world: &World, host: &str, encap: Encap, peer: Option<&str>) -> bool {
    let fails = |peer: Option<&str>| {
        let tunnel = Tunnel { host: host.to_owned(), encap, peer: peer.map(str::to_owned) };
        world.failing.contains(&tunnel)
    };
    fails(None) || (peer.is_some() && fails(peer))
}
