//! `nvp-eval` with ACLs, with or without routers: what they cost a host, and what changes of ACLs and of groups cost.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::drive::{self, Driver, Loaded, Steps};
use super::world::{Step, World};
use super::{Acls, Changes, Load, Reach, Run, line, lines_of_changes};
use crate::figure6::workload::Network;
use crate::nvp::random::Random;
use crate::report::{Aim, Line};

/// The measurements of one run. What is added is removed again before the next transaction.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Figures {
    load: Load,
    flows: FlowsOfAcls,
    ports_added: Changes,
    ports_removed: Changes,
    acl_added: Changes,
    acl_removed: Changes,
    /// On a switch without any, whose ports have none.
    first_acl_added: Changes,
    last_acl_removed: Changes,
    /// To a large group, which ACLs of many priorities on many switches use.
    member_added: Changes,
    member_removed: Changes,
    /// It uses that group.
    group_acl_added: Changes,
    group_acl_removed: Changes,
}

/// The flows that hosts have beyond those without ACLs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct FlowsOfAcls {
    /// The ACLs that apply on a host, in the mean.
    acls: f64,
    /// Flows of single datapaths, for each of them.
    for_each_acl: f64,
    /// Flows of addresses in groups, of a host in the mean.
    of_groups: f64,
    /// All other flows, of a host in the mean: they are the same on all hosts.
    common: f64,
}

impl FlowsOfAcls {
    /// The differences between a network and the same without ACLs.
    fn new(loaded: &Loaded, without: &Loaded, world: &World) -> FlowsOfAcls {
        let hosts = world.hosts() as f64;
        let beyond = loaded.flows.all as f64 - without.flows.all as f64;
        let identities = loaded.identities as f64;
        let common = loaded.of_no_datapath as f64 - without.of_no_datapath as f64 - identities;
        FlowsOfAcls {
            acls: world.acls_of_hosts() as f64 / hosts,
            for_each_acl: (beyond - identities - common) / world.acls_of_hosts() as f64,
            of_groups: identities / hosts,
            common: common / hosts,
        }
    }
}

/// Makes a run in this process, which ends after it.
pub(crate) fn run(run: Run) -> Result<Figures> {
    let network = Network::nvp_eval(run.divisor);
    let (mut driver, load) = Driver::load(&network, run)?;
    let steps = run.steps;
    let (ports_added, ports_removed) =
        driver.each_and_back(steps, |world, random| ports(&network, world, random))?;
    let (acl_added, acl_removed) =
        driver.each_and_back(steps, |world, random| world.add_acl(random.below(network.ports())))?;
    let unfiltered = World::unfiltered_switches(&network, run.divisor);
    let (first_acl_added, last_acl_removed) = driver.each_and_back(steps, |world, random| {
        world.add_first_acl(unfiltered.start + random.below(unfiltered.len()))
    })?;
    for step in [driver.world.large_group(run.divisor, None), driver.world.acls_of_large_group()] {
        driver.commit(&step, &mut Steps::default())?;
    }
    let (member_added, member_removed) = members(&mut driver, run)?;
    let ports = World::ports_with_large_group(&network);
    let (group_acl_added, group_acl_removed) =
        driver.each_and_back(steps, |world, random| world.add_acl_of_large_group(random.below(ports)))?;
    // Now that the memory of the other load has been measured, and is free.
    let Driver { loaded, world, .. } = driver;
    let without = drive::load(&network, Run { acls: None, invariants: false, ..run })?;
    let flows = FlowsOfAcls::new(&loaded, &without, &world);
    Ok(Figures {
        load,
        flows,
        ports_added,
        ports_removed,
        acl_added,
        acl_removed,
        first_acl_added,
        last_acl_removed,
        member_added,
        member_removed,
        group_acl_added,
        group_acl_removed,
    })
}

/// Ten ports of a switch, on hosts all over, each with its ACL.
fn ports(network: &Network, world: &mut World, random: &mut Random) -> Step {
    let switch = random.below(network.switches);
    let hosts: Vec<usize> = (0..drive::PORTS).map(|_| random.below(world.hosts())).collect();
    world.add_filtered_ports(switch, hosts)
}

/// Adds members to the large group and takes them away again, one by one.
fn members(driver: &mut Driver, run: Run) -> Result<(Changes, Changes)> {
    let (mut added, mut removed) = (Steps::default(), Steps::default());
    for more in 0..run.steps {
        let with = driver.world.large_group(run.divisor, Some(more));
        driver.commit(&with, &mut added)?;
        let without = driver.world.large_group(run.divisor, None);
        driver.commit(&without, &mut removed)?;
    }
    Ok((added.figures(), removed.figures()))
}

/// A kind of transactions, what its median and its 99th percentile may be, and its figures.
type Kind = (&'static str, [Aim; 2], fn(&Figures) -> &Changes);

const KINDS: [Kind; 10] = [
    ("10 ports with their ACLs added", [Aim::AtMost(3.0), Aim::AtMost(8.0)], |run| &run.ports_added),
    ("10 ports with their ACLs removed", [Aim::None; 2], |run| &run.ports_removed),
    ("an ACL added", [Aim::AtMost(1.5), Aim::None], |run| &run.acl_added),
    ("an ACL removed", [Aim::None; 2], |run| &run.acl_removed),
    ("the first ACL of a switch added", [Aim::None; 2], |run| &run.first_acl_added),
    ("the last ACL of a switch removed", [Aim::AtMost(1.5), Aim::None], |run| &run.last_acl_removed),
    ("a member of a group of 10,000 added", [Aim::AtMost(5.0), Aim::None], |run| &run.member_added),
    ("a member of a group of 10,000 removed", [Aim::None; 2], |run| &run.member_removed),
    ("an ACL that uses the group added", [Aim::AtMost(1.5), Aim::None], |run| &run.group_acl_added),
    ("an ACL that uses the group removed", [Aim::None; 2], |run| &run.group_acl_removed),
];

/// A kind of transactions, the most flows that may change on a host, and its figures.
type MostFlows = (&'static str, Aim, fn(&Figures) -> &Changes);

const MOST_FLOWS: [MostFlows; 3] = [
    ("a member of the group added", Aim::AtMost(4.0), |run| &run.member_added),
    ("an ACL that uses the group added", Aim::AtMost(5.0), |run| &run.group_acl_added),
    ("an ACL added", Aim::None, |run| &run.acl_added),
];

/// What a load may take, in seconds and mebibytes.
fn most_of_load(reach: Option<Reach>) -> [Aim; 2] {
    match reach {
        None => [Aim::AtMost(7.0), Aim::AtMost(2048.0)],
        Some(Reach::Relay) => [Aim::AtMost(12.0), Aim::AtMost(3072.0)],
        // It follows from its flows.
        Some(Reach::Direct) => [Aim::None; 2],
    }
}

/// The figures of several runs.
pub(crate) fn lines(runs: usize, run: Run) -> Result<Vec<Line>> {
    let all: Vec<Figures> = run.children(runs)?;
    let add = |what: &str, digits, aim, of: fn(&Figures) -> f64| line(&all, what, digits, aim, of);
    let acls = run.acls.map_or("none", Acls::name);
    let routers =
        run.reach.map_or_else(|| "no routers".to_owned(), |reach| format!("reach {}", reach.name()));
    let rules = if run.invariants { ", with invariants" } else { "" };
    let load = format!("ACLs {acls}, {routers}{rules}: JSON objects to deltas, cold, s");
    let [most_time, most_memory] = most_of_load(run.reach);
    let mut lines = vec![
        add(&load, 2, most_time, |run| run.load.time_s),
        add("… processor time, s", 2, Aim::None, |run| run.load.cpu_s),
        add("… peak memory, MiB", 0, most_memory, |run| run.load.peak_mib),
        add("… idle work after it, s", 2, Aim::None, |run| run.load.idle_s),
        add("… memory at rest, MiB", 0, Aim::None, |run| run.load.rest_mib),
        add("… flows of a host, mean", 0, Aim::None, |run| run.load.flows.mean),
        add("… ACLs of a host, mean", 1, Aim::None, |run| run.flows.acls),
        add("… flows for each of them", 2, Aim::AtMost(1.2), |run| run.flows.for_each_acl),
        add("… flows of addresses in groups, of a host, mean", 1, Aim::None, |run| run.flows.of_groups),
        add("… common flows of a host", 1, Aim::AtMost(40.0), |run| run.flows.common),
    ];
    for (what, aims, of) in KINDS {
        lines.extend(lines_of_changes(&all, what, aims, of));
    }
    for (what, aim, of) in MOST_FLOWS {
        let text = format!("… {what}, flows that change on the host with the most, p99");
        lines.push(line(&all, &text, 0, aim, |run| of(run).flows_of_a_host.1 as f64));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundredth_goes_through_the_rules_and_what_is_added_goes_again() {
        let plain = Run { acls: Some(Acls::Stateless), ..Run::plain(100, 3, 1) };
        let guarded = Run { reach: Some(Reach::Relay), invariants: true, ..plain };
        for run in [plain, guarded] {
            let figures = super::run(run).expect("it runs");
            let flows = figures.flows;
            // 491 ports have an ACL, and each host some of the switches that have more.
            assert!(flows.acls > 491.0 / 30.0 && flows.acls < 40.0, "{flows:?}");
            // Its own, and one for each of its ports, which drops the port's own floods.
            assert!(flows.for_each_acl >= 2.0 && flows.for_each_acl < 3.0, "{flows:?}");
            assert!(flows.common > 10.0 && flows.common < 100.0 && flows.of_groups > 10.0, "{flows:?}");
            let pairs = [
                (figures.ports_added, figures.ports_removed),
                (figures.acl_added, figures.acl_removed),
                (figures.first_acl_added, figures.last_acl_removed),
                (figures.member_added, figures.member_removed),
                (figures.group_acl_added, figures.group_acl_removed),
            ];
            for (number, (added, removed)) in pairs.iter().enumerate() {
                assert_eq!(added.rows, removed.rows, "pair {number}");
                assert!(added.flows_of_a_host.0 > 0, "pair {number}: {added:?}");
            }
            assert_eq!(figures.member_added.flows_of_a_host.1, 1, "a flow for the address");
        }
    }
}
