//! Figure 6 as an engineer would write it by hand in differential dataflow: the baseline.
//!
//! Typed tuples of u32, one worker, and full use of everything known about the tables, declared or not: ports are
//! placed once, for sources and destinations alike; only the pairs (datapath, source hypervisor) are made distinct; the
//! data of a destination is looked up before the large join; flows are not made distinct, because no two ports share a
//! stage number.
//!
//! Measured and slower (nvp-eval, same machine, same hour): the ports placed twice (1.2 times the load); the tunnels'
//! port numbers found by `half_join` of differential-dogs3, without an arrangement of all tunnels (1.5 times the load,
//! twice the time of a move, 1.2 times the memory); tunnels made distinct from the arrangement that the flows read (the
//! same time, 1.03 times the memory).

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result};
use differential_dataflow::input::{Input, InputSession};
use differential_dataflow::operators::ThresholdTotal;
use hashbrown::HashMap;
use serde::Deserialize;
use timely::dataflow::ProbeHandle;
use timely::worker::Worker;

use super::workload::{Change, Network, Rows};
use super::{Figures, Outcome, Run, drive};
use crate::measure::Clock;

/// Hypervisor, stage of the destination port, OpenFlow port.
pub(super) type Flow = (u32, u32, u32);
/// Hypervisor, encapsulation, address.
pub(super) type Tunnel = (u32, u32, u32);
/// The pending output of an operator.
type Changes<T> = Rc<RefCell<Vec<(T, u32, i32)>>>;

/// The dataflow's inputs and outputs.
pub(super) struct Dataflow {
    /// The tables of two columns, in the order of [`pairs`].
    pairs: [InputSession<u32, (u32, u32), i32>; 5],
    tunnel_port: InputSession<u32, (Tunnel, u32), i32>,
    flows: Changes<Flow>,
    tunnels: Changes<Tunnel>,
    probe: ProbeHandle<u32>,
    time: u32,
}

fn pairs(rows: &Rows) -> [&[[u32; 2]]; 5] {
    [&rows.port, &rows.presence, &rows.encap, &rows.locator, &rows.stage]
}

impl Dataflow {
    pub(super) fn new(worker: &mut Worker) -> Dataflow {
        let (flows, tunnels) = (Changes::default(), Changes::default());
        let (flows_out, tunnels_out) = (Rc::clone(&flows), Rc::clone(&tunnels));
        let probe = ProbeHandle::new();
        let (pairs, tunnel_port) = worker.dataflow::<u32, _, _>(|scope| {
            let (port_in, port) = scope.new_collection::<(u32, u32), i32>();
            let (presence_in, presence) = scope.new_collection::<(u32, u32), i32>();
            let (encap_in, encap) = scope.new_collection::<(u32, u32), i32>();
            let (locator_in, locator) = scope.new_collection::<(u32, u32), i32>();
            let (stage_in, stage) = scope.new_collection::<(u32, u32), i32>();
            let (tunnel_port_in, tunnel_port) = scope.new_collection::<(Tunnel, u32), i32>();
            let placed = port
                .arrange_by_key()
                .join_core(presence.arrange_by_key(), |port, switch, host| Some((*port, (*switch, *host))));
            let source = placed
                .clone()
                .map(|(_, place)| place)
                .threshold_total(|_, count| i32::from(*count > 0))
                .arrange_by_key()
                .join_core(encap.arrange_by_key(), |switch, host, encap| Some((*switch, (*host, *encap))))
                .arrange_by_key();
            let destination = placed
                .arrange_by_key()
                .join_core(stage.arrange_by_key(), |_, (switch, host), stage| {
                    Some((*host, (*switch, *stage)))
                })
                .arrange_by_key()
                .join_core(locator.arrange_by_key(), |host, (switch, stage), ip| {
                    Some((*switch, (*host, *ip, *stage)))
                })
                .arrange_by_key();
            let tunnel = source.join_core(destination, |_, (from, encap), (to, ip, stage)| {
                (from != to).then_some(((*from, *encap, *ip), *stage))
            });
            tunnel
                .clone()
                .arrange_by_key()
                .join_core(tunnel_port.arrange_by_key(), |(from, _, _), stage, number| {
                    Some((*from, *stage, *number))
                })
                .inspect_batch(move |_, batch| flows_out.borrow_mut().extend_from_slice(batch))
                .probe_with(&probe);
            tunnel
                .map(|(tunnel, _)| tunnel)
                .threshold_total(|_, count| i32::from(*count > 0))
                .inspect_batch(move |_, batch| tunnels_out.borrow_mut().extend_from_slice(batch))
                .probe_with(&probe);
            ([port_in, presence_in, encap_in, locator_in, stage_in], tunnel_port_in)
        });
        Dataflow { pairs, tunnel_port, flows, tunnels, probe, time: 0 }
    }

    fn update(&mut self, rows: &Rows, difference: i32) {
        for (input, rows) in self.pairs.iter_mut().zip(pairs(rows)) {
            for [key, value] in rows {
                input.update((*key, *value), difference);
            }
        }
        for [from, encap, ip, number] in &rows.tunnel_port {
            self.tunnel_port.update(((*from, *encap, *ip), *number), difference);
        }
    }

    /// Runs a transaction.
    pub(super) fn commit(&mut self, worker: &mut Worker, change: &Change) -> (Deltas<Flow>, Deltas<Tunnel>) {
        self.update(&change.delete, -1);
        self.update(&change.insert, 1);
        self.time += 1;
        for input in &mut self.pairs {
            input.advance_to(self.time);
            input.flush();
        }
        self.tunnel_port.advance_to(self.time);
        self.tunnel_port.flush();
        worker.step_while(|| self.probe.less_than(&self.time));
        (net(&self.flows), net(&self.tunnels))
    }

    /// Runs a transaction and times it.
    fn timed(&mut self, worker: &mut Worker, change: &Change) -> Outcome {
        let clock = Clock::start();
        let (flows, tunnels) = self.commit(worker, change);
        let mut outcome = Outcome::after(&clock);
        for ((host, stage, port), _, difference) in flows {
            outcome.flow(host, stage, port, difference > 0);
        }
        for ((from, _, to), _, difference) in tunnels {
            outcome.tunnel(from, to, difference > 0);
        }
        outcome
    }
}

/// Rows with +1 or -1. The time, which is the same for all, stays in the tuples, because removing it would move all
/// rows.
pub(super) type Deltas<T> = Vec<(T, u32, i32)>;

/// The net changes since the last call. If nothing was deleted, nothing can cancel.
fn net<T: Ord>(changes: &Changes<T>) -> Deltas<T> {
    let mut changes = changes.take();
    if changes.iter().any(|(_, _, difference)| *difference < 0) {
        differential_dataflow::consolidation::consolidate_updates(&mut changes);
    }
    changes
}

/// Numbers in memory to numbers in memory.
pub(super) fn ids(network: Network, run: Run) -> Result<Figures> {
    timely::execute_directly(move |worker| {
        let mut dataflow = Dataflow::new(worker);
        drive(&network, run.steps, |change| Ok(dataflow.timed(worker, &change)))
    })
}

/// All transactions of a run, in order, with the answers of Open vSwitch.
pub(super) fn transactions(network: Network, run: Run) -> Result<Vec<Change>> {
    timely::execute_directly(move |worker| {
        let mut dataflow = Dataflow::new(worker);
        let mut transactions = Vec::new();
        drive(&network, run.steps, |change| {
            let outcome = dataflow.timed(worker, &change);
            transactions.push(change);
            Ok(outcome)
        })?;
        Ok(transactions)
    })
}

/// Rows as they come from outside.
#[derive(Default, Deserialize)]
#[serde(default, bound = "S: Default + Deserialize<'de>")]
pub(super) struct Texts<S> {
    #[serde(rename = "log_port")]
    port: Vec<(S, S)>,
    #[serde(rename = "log_port_presence")]
    presence: Vec<(S, S)>,
    #[serde(rename = "log_datapath_encap")]
    encap: Vec<(S, S)>,
    #[serde(rename = "hypervisor_locator")]
    locator: Vec<(S, Ipv4Addr)>,
    #[serde(rename = "lport_stage_id")]
    stage: Vec<(S, i64)>,
    #[serde(rename = "ovsdb_tport")]
    tunnel_port: Vec<(S, S, Ipv4Addr, i64)>,
}

impl Texts<String> {
    fn new(rows: Rows) -> Self {
        let port = |port: u32| format!("p{port}");
        let switch = |switch: u32| format!("s{switch}");
        let host = |host: u32| format!("h{host}");
        let geneve = || "geneve".to_owned();
        let tunnel = |[from, _, to, number]: [u32; 4]| (host(from), geneve(), address(to), i64::from(number));
        Texts {
            port: rows.port.into_iter().map(|[of, at]| (port(of), switch(at))).collect(),
            presence: rows.presence.into_iter().map(|[of, at]| (port(of), host(at))).collect(),
            encap: rows.encap.into_iter().map(|[of, _]| (switch(of), geneve())).collect(),
            locator: rows.locator.into_iter().map(|[of, at]| (host(of), address(at))).collect(),
            stage: rows.stage.into_iter().map(|[of, stage]| (port(of), i64::from(stage))).collect(),
            tunnel_port: rows.tunnel_port.into_iter().map(tunnel).collect(),
        }
    }
}

/// The address of a hypervisor.
pub(crate) fn address(host: u32) -> Ipv4Addr {
    Ipv4Addr::from(0xac10_0000 + host)
}

/// Names as numbers.
#[derive(Default)]
pub(super) struct Names {
    numbers: HashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let (name, number): (Arc<str>, _) = (name.into(), self.names.len() as u32);
        self.numbers.insert(Arc::clone(&name), number);
        self.names.push(name);
        number
    }

    pub(super) fn name(&self, number: u32) -> Arc<str> {
        Arc::clone(&self.names[number as usize])
    }

    /// Rows as the dataflow takes them.
    pub(super) fn rows<S: AsRef<str>>(&mut self, texts: &Texts<S>) -> Result<Rows> {
        let number = |number: i64| u32::try_from(number).context("a number of more than 32 bits");
        let mut rows = Rows::default();
        for (port, switch) in &texts.port {
            rows.port.push([self.number(port.as_ref()), self.number(switch.as_ref())]);
        }
        for (port, host) in &texts.presence {
            rows.presence.push([self.number(port.as_ref()), self.number(host.as_ref())]);
        }
        for (switch, encap) in &texts.encap {
            rows.encap.push([self.number(switch.as_ref()), self.number(encap.as_ref())]);
        }
        for (host, ip) in &texts.locator {
            rows.locator.push([self.number(host.as_ref()), (*ip).into()]);
        }
        for (port, stage) in &texts.stage {
            rows.stage.push([self.number(port.as_ref()), number(*stage)?]);
        }
        for (host, encap, ip, port) in &texts.tunnel_port {
            rows.tunnel_port.push([
                self.number(host.as_ref()),
                self.number(encap.as_ref()),
                (*ip).into(),
                number(*port)?,
            ]);
        }
        Ok(rows)
    }
}

/// A flow entry as a struct, ready for encoding.
struct FlowEntry {
    host: Arc<str>,
    reg1: u32,
    output: u32,
    came: bool,
}

/// A tunnel for OVSDB.
struct TunnelEntry {
    host: Arc<str>,
    /// Not used here, but needed to make the tunnel.
    _encap: Arc<str>,
    ip: Ipv4Addr,
    came: bool,
}

/// Values in memory to values in memory.
pub(super) fn values(network: Network, run: Run) -> Result<Figures> {
    timely::execute_directly(move |worker| {
        let mut dataflow = Dataflow::new(worker);
        let mut names = Names::default();
        drive(&network, run.steps, |change| {
            let (insert, delete) = (Texts::new(change.insert), Texts::new(change.delete));
            let clock = Clock::start();
            let change = Change { insert: names.rows(&insert)?, delete: names.rows(&delete)? };
            let (flows, tunnels) = dataflow.commit(worker, &change);
            let flow = |((host, reg1, output), _, difference): (Flow, u32, i32)| FlowEntry {
                host: names.name(host),
                reg1,
                output,
                came: difference > 0,
            };
            let tunnel = |((host, encap, ip), _, difference): (Tunnel, u32, i32)| TunnelEntry {
                host: names.name(host),
                _encap: names.name(encap),
                ip: Ipv4Addr::from(ip),
                came: difference > 0,
            };
            let flows: Vec<FlowEntry> = flows.into_iter().map(flow).collect();
            let tunnels: Vec<TunnelEntry> = tunnels.into_iter().map(tunnel).collect();
            let mut outcome = Outcome::after(&clock);
            for flow in flows {
                outcome.flow(after_letter(&flow.host)?, flow.reg1, flow.output, flow.came);
            }
            for tunnel in tunnels {
                let to = u32::from(tunnel.ip) - u32::from(address(0));
                outcome.tunnel(after_letter(&tunnel.host)?, to, tunnel.came);
            }
            Ok(outcome)
        })
    })
}

/// The number in a name such as `h12`.
pub(super) fn after_letter(name: &str) -> Result<u32> {
    name.get(1..)
        .and_then(|digits| digits.parse().ok())
        .with_context(|| format!("`{name}` is no name of ours"))
}
