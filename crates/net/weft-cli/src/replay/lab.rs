//! Recorded hosts with real Open vSwitch, in the state that was recorded: a lab to look for a fault in.
//!
//! The controller of the lab starts from the recorded state, in which the hosts that are built have the switches of the lab, and all
//! others have switches that do not exist. Machines are plugged in before it starts, so no port leaves its place.

mod hosts;
mod machines;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use controller::snapshots;
use lab::{Lab, Options, VmSpec};
use nlog_data::Cancel;
use nlog_data::quotation::grouped;
use testbed::{Settings, Testbed};
use weft_core::core::{Core, History, SwitchAddress};
use weft_core::record::Record;
use weft_core::relocate::{Place, Recording};
use weft_core::rules::Rules;

use self::hosts::Hosts;
use self::machines::Machines;
use crate::exit::{Failure, print, say};
use crate::lab::{failed, free_address, leave_running, testbed_failed, this_program, usual_name};
use crate::recorded::{self, Head, Recorded};
use crate::snapshot::fold_failure;

/// The folder of the sockets of hosts that are not built, in that of the controller. Nobody makes it.
const NOWHERE: &str = "not-built";
/// Hosts that are not built never connect. If they were lost, others would take over what they relay and replicate, as they did not when
/// the fault was recorded.
const NOBODY_IS_LOST: &str = "host_lost_after = 65535";

/// Builds these hosts as they were after a transaction, and leaves them running.
pub(super) fn run(recorded: &Recorded, names: &[String], at: &Head, workers: usize) -> Result<(), Failure> {
    let rules = Arc::new(recorded.rules(at)?);
    let sum = snapshots::sum(recorded.records()?, Some(at.txn), &rules, &Cancel::default());
    let (record, _) = sum.map_err(|error| fold_failure(&error))?;
    let recording = Recording::of(&record, &rules).map_err(rejected)?;
    let hosts = Hosts::of(&recording, names)?;
    let machines = Machines::of(&recording, &hosts);
    ::lab::preflight().map_err(|missing| Failure::Outside(missing.to_string()))?;
    Lab::check_free(&usual_name()).map_err(failed)?;
    let address = free_address()?;

    say(format_args!(
        "transaction {} of {}: building {} of {} hosts and {} machines",
        grouped(at.txn as usize),
        at.at,
        hosts.len(),
        recording.hosts().count(),
        machines.specs.len()
    ));
    let lab = build(&hosts, &machines.specs).map_err(failed)?;
    let places = hosts.places(&lab).map_err(failed)?;
    let settings = Settings {
        may_be_kept: true,
        listen: Some(address),
        configuration: vec![NOBODY_IS_LOST.to_owned()],
        ..Settings::new(lab.name(), this_program()?)
    };
    let mut testbed = Testbed::around(lab, settings).map_err(testbed_failed)?;
    let nowhere = testbed.folder().join(NOWHERE);
    let configured = Rules::built_in().map_err(rejected)?;
    let moved = recording.at(&places, &nowhere, &configured).map_err(rejected)?;
    check_addresses(&moved, &rules, &places, &nowhere, workers)?;
    write_state(&moved, &testbed.state())?;
    testbed.start_controller().map_err(testbed_failed)?;
    say("the controller has started; waiting until it has programmed the switches");
    let ready = |switch: &weft_client::pb::SwitchStatus| {
        let (flows, vifs) = (grouped(switch.flows as usize), switch.vifs);
        say(format_args!("{}: in sync, {flows} flows, {vifs} interfaces", switch.node));
    };
    testbed.wait_for_hosts(&machines.interfaces, ready).map_err(testbed_failed)?;
    print(&(hosts.text() + &machines.text() + &next_steps(&hosts, &machines)))?;
    leave_running(testbed)
}

fn rejected(error: impl std::fmt::Display) -> Failure {
    Failure::Rejected(error.to_string())
}

/// The hosts with their machines, without a controller.
fn build(hosts: &Hosts, machines: &[VmSpec]) -> Result<Lab, ::lab::Error> {
    let mut options = Options::new(usual_name()).with_integration_bridge();
    options.hosts = hosts.specs();
    options.physical = hosts.networks().cloned().collect();
    (options.underlay_prefix, options.underlay_mtu) = (hosts.prefix, hosts.mtu);
    let lab = Lab::create(options)?;
    lab.add_vms(machines)?;
    Ok(lab)
}

/// Makes sure that a controller which starts from a state reaches only the switches of the lab, whatever rules make of the objects.
fn check_addresses(
    state: &Record,
    rules: &Arc<Rules>,
    places: &BTreeMap<String, Place>,
    nowhere: &Path,
    workers: usize,
) -> Result<(), Failure> {
    let mut history = History::new(rules);
    history.add(state).map_err(rejected)?;
    let evaluator = controller::evaluator(rules, workers).map_err(Failure::Outside)?;
    let (core, _) =
        Core::restore(evaluator, rules.clone(), history, SystemTime::UNIX_EPOCH).map_err(rejected)?;
    let nowhere = format!("unix:{}/", nowhere.display());
    for (host, address) in core.addresses() {
        if let Some(endpoint) = foreign(address, places.get(host), &nowhere) {
            return Err(Failure::Rejected(format!(
                "the recorded rules give host {host} the endpoint {endpoint}, which is not in the lab; such rules cannot run in one"
            )));
        }
    }
    Ok(())
}

/// An endpoint that is neither that of the place nor below `nowhere`.
fn foreign<'a>(address: &'a SwitchAddress, place: Option<&Place>, nowhere: &str) -> Option<&'a str> {
    let of_place = |which: fn(&Place) -> &String| place.map(|place| which(place).as_str());
    let endpoints = [
        (&address.ovsdb, of_place(|place| &place.ovsdb)),
        (&address.openflow, of_place(|place| &place.openflow)),
    ];
    let all = endpoints.into_iter().filter_map(|(endpoint, own)| Some((endpoint.as_deref()?, own)));
    let mut foreign = all.filter(|(endpoint, own)| match own {
        Some(own) => endpoint != own,
        None => !endpoint.starts_with(nowhere),
    });
    foreign.next().map(|(endpoint, _)| endpoint)
}

/// Makes the state folder of the lab's controller.
fn write_state(state: &Record, folder: &Path) -> Result<(), Failure> {
    let cannot = |error| Failure::outside(format!("cannot write {}", folder.display()), error);
    let file = recorded::temporary(&snapshots::of_record(state).map_err(cannot)?)?;
    snapshots::restore(&file, folder).map_err(|error| Failure::outside("the state of the lab", error))?;
    Ok(())
}

/// What to do with the lab.
fn next_steps(hosts: &Hosts, machines: &Machines) -> String {
    let mut text = "\nNow you can:\n".to_owned();
    if let Some((from, to)) = machines.pair() {
        text += &format!("  weft lab exec {from} ping -c 3 {to}\n");
    }
    if let Some((_, host)) = hosts.names().next() {
        text += &format!("  weft lab host {host} ovs-ofctl -O OpenFlow15 dump-flows br-int\n");
    }
    text + "  weft lab down\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_outside_the_lab_is_found() {
        let address = |ovsdb: &str, openflow: &str| SwitchAddress {
            ovsdb: Some(ovsdb.to_owned()),
            openflow: Some(openflow.to_owned()),
            datapath_type: None,
        };
        let place = Place {
            ip: None,
            ovsdb: "unix:/lab/hv1/db.sock".to_owned(),
            openflow: "unix:/lab/hv1/br-int.mgmt".to_owned(),
            bridge_mappings: BTreeMap::new(),
        };
        let found =
            |address: &SwitchAddress, place| foreign(address, place, "unix:/lab/none/").map(str::to_owned);
        let own = address(&place.ovsdb, &place.openflow);
        assert_eq!(found(&own, Some(&place)), None);
        assert_eq!(found(&own, None), Some(place.ovsdb.clone()));
        assert_eq!(found(&address("unix:/lab/none/1.ovsdb", "unix:/lab/none/1.openflow"), None), None);
        assert_eq!(found(&SwitchAddress::default(), None), None);
        let production = address(&place.ovsdb, "tcp:192.0.2.1:6653");
        assert_eq!(found(&production, Some(&place)), Some("tcp:192.0.2.1:6653".to_owned()));
    }
}
