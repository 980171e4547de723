//! Figure 6 as an engineer would write it by hand in differential dataflow: the baseline.
//!
//! Typed tuples of u32, one worker, every functional dependency of the tables used: only the pairs (source hypervisor,
//! datapath) are made distinct, and what belongs to a destination is looked up before the large join.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use differential_dataflow::input::Input;
use differential_dataflow::operators::ThresholdTotal;
use timely::dataflow::ProbeHandle;

use crate::figure6::Figures;
use crate::workload::Network;

/// Loads the network in one step, then moves ports, `ports_moved` a step.
pub(crate) fn run(network: &Network, steps: usize, ports_moved: usize) -> Figures {
    let network = network.clone();
    timely::execute_directly(move |worker| {
        let flows = Rc::new(Cell::new(0_i64));
        let changes = Rc::new(Cell::new(0_u64));
        let (counter, touched) = (Rc::clone(&flows), Rc::clone(&changes));
        let probe = ProbeHandle::new();
        let (mut port, mut place, mut encap, mut locator, mut stage, mut tunnel_port) = worker
            .dataflow::<u32, _, _>(|scope| {
                let (port_in, port) = scope.new_collection::<(u32, u32), i32>();
                let (place_in, place) = scope.new_collection::<(u32, u32), i32>();
                let (encap_in, encap) = scope.new_collection::<(u32, u32), i32>();
                let (locator_in, locator) = scope.new_collection::<(u32, u32), i32>();
                let (stage_in, stage) = scope.new_collection::<(u32, u32), i32>();
                let (tunnel_port_in, tunnel_port) = scope.new_collection::<((u32, u32, u32), u32), i32>();
                let (port, place) = (port.arrange_by_key(), place.arrange_by_key());
                let source = port
                    .clone()
                    .join_core(place.clone(), |_, datapath, host| Some((*datapath, *host)))
                    .threshold_total(|_, count| i32::from(*count > 0))
                    .arrange_by_key()
                    .join_core(encap.arrange_by_key(), |datapath, host, encap| {
                        Some((*datapath, (*host, *encap)))
                    })
                    .arrange_by_key();
                let destination = port
                    .join_core(place, |port, datapath, host| Some((*port, (*datapath, *host))))
                    .arrange_by_key()
                    .join_core(stage.arrange_by_key(), |port, (datapath, host), stage| {
                        Some((*host, (*datapath, *port, *stage)))
                    })
                    .arrange_by_key()
                    .join_core(locator.arrange_by_key(), |host, (datapath, port, stage), ip| {
                        Some((*datapath, (*port, *host, *ip, *stage)))
                    })
                    .arrange_by_key();
                let tunnel = source.join_core(destination, |_, (from, encap), (port, to, ip, stage)| {
                    (from != to).then_some(((*from, *encap, *ip), (*port, *stage)))
                });
                tunnel
                    .clone()
                    .arrange_by_key()
                    .join_core(tunnel_port.arrange_by_key(), |(from, _, _), (_, stage), number| {
                        Some((*from, *stage, *number))
                    })
                    .inspect(move |(_, _, change)| {
                        counter.set(counter.get() + i64::from(*change));
                        touched.set(touched.get() + 1);
                    })
                    .probe_with(&probe);
                tunnel
                    .map(|(tunnel, _)| tunnel)
                    .threshold_total(|_, count| i32::from(*count > 0))
                    .probe_with(&probe);
                (port_in, place_in, encap_in, locator_in, stage_in, tunnel_port_in)
            });

        macro_rules! step {
            ($time:expr) => {{
                for input in [&mut port, &mut place, &mut encap, &mut locator, &mut stage] {
                    input.advance_to($time);
                    input.flush();
                }
                tunnel_port.advance_to($time);
                tunnel_port.flush();
                worker.step_while(|| probe.less_than(&$time));
            }};
        }

        let tunnels = network.tunnels();
        let start = Instant::now();
        for number in 0..network.ports() {
            port.update((number as u32, network.switch_of[number] as u32), 1);
            place.update((number as u32, network.hypervisor_of[number] as u32), 1);
            stage.update((number as u32, number as u32), 1);
        }
        for datapath in 0..network.switches {
            encap.update((datapath as u32, 0), 1);
        }
        for host in 0..network.hypervisors {
            locator.update((host as u32, host as u32), 1);
        }
        for (number, (from, to)) in tunnels.into_iter().enumerate() {
            tunnel_port.update(((from as u32, 0, to as u32), number as u32), 1);
        }
        step!(1);
        let load = start.elapsed();

        let mut time = 1_u32;
        let latencies = network
            .moves(steps, ports_moved)
            .into_iter()
            .map(|moves| {
                let start = Instant::now();
                for step in moves {
                    place.update((step.port as u32, step.from as u32), -1);
                    place.update((step.port as u32, step.to as u32), 1);
                }
                time += 1;
                step!(time);
                start.elapsed()
            })
            .collect();
        Figures::new(load, latencies, flows.get())
    })
}
