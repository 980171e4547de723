//! `nvp-eval` with routers: one for every ten switches, which are neighbours in the order of size. Each switch has a /24, with
//! the addresses of its ports and of its router.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::drive::{self, Driver, Steps};
use super::{Changes, Load, Reach, Run, line, lines_of_changes};
use crate::figure6::workload::Network;
use crate::report::{Aim, Line};

/// The measurements of one run. What is added is removed again before the next transaction.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Figures {
    load: Load,
    routers: usize,
    ports_added: Changes,
    ports_removed: Changes,
    route_added: Changes,
    route_removed: Changes,
    /// A switch of two ports, which was there before, is connected to a router.
    router_port_added: Changes,
    router_port_removed: Changes,
    /// A router with one port, on a switch that has a router already.
    router_added: Changes,
    router_removed: Changes,
    policy_added: Changes,
    policy_removed: Changes,
    switch_added: Changes,
    switch_removed: Changes,
    host_added: Changes,
    host_removed: Changes,
}

/// Makes a run in this process, which ends after it.
pub(crate) fn run(run: Run) -> Result<Figures> {
    let network = Network::nvp_eval(run.divisor);
    let (mut driver, load) = Driver::load(&network, run)?;
    let (steps, switches) = (run.steps, network.switches);
    let (ports_added, ports_removed) =
        driver.each_and_back(steps, |world, random| drive::ports(&network, world, random))?;
    let (route_added, route_removed) =
        driver.each_and_back(steps, |world, random| world.add_route(random.below(switches)))?;
    let (router_port_added, router_port_removed) = connect_switches(&mut driver, steps)?;
    let (router_added, router_removed) =
        driver.each_and_back(steps, |world, random| world.add_router(random.below(switches)))?;
    let (policy_added, policy_removed) =
        driver.each_and_back(steps, |world, random| world.add_policy(random.below(switches)))?;
    let (switch_added, switch_removed) = driver.each_and_back(steps, drive::switch)?;
    let (host_added, host_removed) = driver.each_and_back(steps, |world, _| world.add_host())?;
    Ok(Figures {
        load,
        routers: driver.world.routers(),
        ports_added,
        ports_removed,
        route_added,
        route_removed,
        router_port_added,
        router_port_removed,
        router_added,
        router_removed,
        policy_added,
        policy_removed,
        switch_added,
        switch_removed,
        host_added,
        host_removed,
    })
}

/// Connects new switches to routers, and disconnects them. Only that is measured.
fn connect_switches(driver: &mut Driver, count: usize) -> Result<(Changes, Changes)> {
    let (mut done, mut undone) = (Steps::default(), Steps::default());
    for _ in 0..count {
        let Driver { world, random, .. } = &mut *driver;
        let switch = world.next_switch();
        let switch_step = drive::switch(world, random);
        let step = world.add_router_port(random.below(world.routers()), switch);
        driver.commit(&switch_step, &mut Steps::default())?;
        driver.commit(&step, &mut done)?;
        driver.commit(&step.inverse(), &mut undone)?;
        driver.commit(&switch_step.inverse(), &mut Steps::default())?;
    }
    Ok((done.figures(), undone.figures()))
}

/// The most flows of a host in the mean, without those that check the sources of tunnels.
fn most_flows(reach: Reach) -> f64 {
    match reach {
        Reach::Relay => 2100.0,
        Reach::Direct => 6384.0,
    }
}

/// A kind of transactions, what its median and its 99th percentile may be, and its figures.
type Kind = (&'static str, [Aim; 2], fn(&Figures) -> &Changes);

const KINDS: [Kind; 14] = [
    ("10 ports added", [Aim::AtMost(3.0), Aim::AtMost(8.0)], |run| &run.ports_added),
    ("10 ports removed", [Aim::None; 2], |run| &run.ports_removed),
    ("a static route added", [Aim::AtMost(0.65), Aim::None], |run| &run.route_added),
    ("a static route removed", [Aim::None; 2], |run| &run.route_removed),
    ("a switch of two ports connected to a router", [Aim::AtMost(5.0), Aim::None], |run| {
        &run.router_port_added
    }),
    ("a switch of two ports disconnected", [Aim::None; 2], |run| &run.router_port_removed),
    ("a router with one port added", [Aim::AtMost(5.0), Aim::None], |run| &run.router_added),
    ("a router with one port removed", [Aim::None; 2], |run| &run.router_removed),
    ("a routing policy added", [Aim::AtMost(2.0), Aim::None], |run| &run.policy_added),
    ("a routing policy removed", [Aim::None; 2], |run| &run.policy_removed),
    ("a switch with two ports added", [Aim::AtMost(1.0), Aim::None], |run| &run.switch_added),
    ("a switch with two ports removed", [Aim::None; 2], |run| &run.switch_removed),
    ("a host joins", [Aim::AtMost(3.0), Aim::None], |run| &run.host_added),
    ("a host leaves", [Aim::None; 2], |run| &run.host_removed),
];

/// The figures of several runs.
pub(crate) fn lines(runs: usize, run: Run, reach: Reach) -> Result<Vec<Line>> {
    let all: Vec<Figures> = Run { reach: Some(reach), ..run }.children(runs)?;
    let routers = all.first().map_or(0, |run| run.routers);
    let add =
        |what: &str, digits, aim, of: fn(&Load) -> f64| line(&all, what, digits, aim, |run| of(&run.load));
    let load = format!("{routers} routers, reach {}: JSON objects to deltas, cold, s", reach.name());
    // The memory of direct reach follows from its flows.
    let most_memory = if reach == Reach::Relay { Aim::AtMost(2560.0) } else { Aim::None };
    let most_time = if reach == Reach::Relay { Aim::AtMost(10.0) } else { Aim::None };
    let mut lines = vec![
        add(&load, 2, most_time, |load| load.time_s),
        add("… processor time, s", 2, Aim::None, |load| load.cpu_s),
        add("… peak memory, MiB", 0, most_memory, |load| load.peak_mib),
        add("… memory at rest, MiB", 0, Aim::None, |load| load.rest_mib),
    ];
    for (what, aims, of) in KINDS {
        lines.extend(lines_of_changes(&all, what, aims, of));
    }
    let without = "… flows of a host without the check of tunnel sources";
    lines.extend([
        add("… flows of a host, mean", 0, Aim::None, |load| load.flows.mean),
        add("… flows of a host, least", 0, Aim::None, |load| load.flows.least as f64),
        add("… flows of a host, most", 0, Aim::None, |load| load.flows.most as f64),
        add(&format!("{without}, mean"), 0, Aim::AtMost(most_flows(reach)), |load| load.unchecked.mean),
        add(&format!("{without}, least"), 0, Aim::None, |load| load.unchecked.least as f64),
        add(&format!("{without}, most"), 0, Aim::None, |load| load.unchecked.most as f64),
        add("… buckets of a host, mean", 0, Aim::None, |load| load.buckets.mean),
    ]);
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundredth_goes_through_the_rules_and_what_is_added_goes_again() {
        let run = |reach| super::run(Run { reach: Some(reach), ..Run::plain(100, 3, 1) }).expect("it runs");
        for reach in [Reach::Relay, Reach::Direct] {
            let figures = run(reach);
            assert_eq!(figures.routers, 7, "a router for every ten switches");
            let Load { flows, unchecked, .. } = &figures.load;
            assert!(flows.mean > unchecked.mean && unchecked.least > 500, "{flows}, {unchecked}");
            let pairs = [
                (figures.ports_added, figures.ports_removed),
                (figures.route_added, figures.route_removed),
                (figures.router_port_added, figures.router_port_removed),
                (figures.router_added, figures.router_removed),
                (figures.policy_added, figures.policy_removed),
                (figures.switch_added, figures.switch_removed),
                (figures.host_added, figures.host_removed),
            ];
            for (number, (added, removed)) in pairs.iter().enumerate() {
                assert_eq!(added.rows, removed.rows, "{reach:?}, pair {number}");
            }
        }
    }
}
