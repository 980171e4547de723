//! `weft status`: the controller, its switches, and what the network cannot fulfil; or what is up of a tenant.

mod headline;
mod tenant;

use std::collections::BTreeMap;

use clap::Args;
use nlog_data::quotation::{cut, grouped};
use serde_json::{Value as Json, json};
use weft_client::FlowCounts;
use weft_client::pb::{EngineWork, StatusResponse, SwitchStatus};
use weft_core::{builtin, shown};

use crate::client::{Address, failed};
use crate::exit::{Failure, print_as, say};
use crate::flow_counts;

/// A command shows what the engine is doing once that takes so many milliseconds.
const DELAY: u64 = 3000;

/// Arguments of `weft status`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        weft status                            all switches and all problems\n  \
        weft status hv2 --drops                one host, with the packets that it has dropped\n  \
        weft status --tenant acme              what of a tenant is not up, and why\n  \
        weft status --check                    for scripts: exit with 4 unless all switches are in sync")]
pub(crate) struct Status {
    /// Only the switch of this transport node, and its problems [default: all]
    pub(crate) node: Option<String>,
    /// Whether this tenant's switches, routers and ports are up, and why not
    #[arg(long, value_name = "TENANT", conflicts_with_all = ["node", "drops"])]
    pub(crate) tenant: Option<String>,
    /// Exit with status 4 unless every switch is in sync, or the tenant is up
    #[arg(long)]
    pub(crate) check: bool,
    /// Ask all switches how many packets they have dropped, and why
    #[arg(long)]
    pub(crate) drops: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) address: Address,
}

impl Status {
    /// Runs the command.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if let Some(tenant) = &self.tenant {
            return tenant::run(&self.address, tenant, self.json, self.check);
        }
        let asks = self.drops;
        let (mut status, counts) = self.address.with(|mut client| async move {
            let status = client.status().await.map_err(failed)?;
            let counts = if asks { Some(client.drops_everywhere().await.map_err(failed)?) } else { None };
            Ok((status, counts))
        })?;
        if let Some(node) = &self.node {
            only(&mut status, node)?;
        }
        let text =
            if self.json { to_json(&status, counts.as_ref()) } else { to_text(&status, counts.as_ref()) };
        print_as(self.json, &text)?;
        if self.check { check(&status) } else { Ok(()) }
    }
}

/// Leaves the switch of one transport node, and what is wrong with it.
fn only(status: &mut StatusResponse, node: &str) -> Result<(), Failure> {
    status.switches.retain(|switch| switch.node == node);
    if status.switches.is_empty() {
        let kind = &status.node_kind;
        return Err(Failure::Rejected(format!(
            "there is no {kind} `{}`; `weft get {kind}` lists them",
            shown(&cut(node))
        )));
    }
    let kind = &status.node_kind;
    status.problems.retain(|problem| {
        problem.object.as_ref().is_some_and(|object| object.kind == *kind && object.id == node)
    });
    Ok(())
}

/// Names the switches that do not have what they should have.
fn check(status: &StatusResponse) -> Result<(), Failure> {
    let mut is_all = true;
    for switch in status.switches.iter().filter(|switch| !(switch.connected && switch.synced)) {
        is_all = false;
        say(format_args!("warning: {} is not in force: {}", switch.node, state(switch)));
    }
    if is_all { Ok(()) } else { Err(Failure::NotInForce) }
}

/// Since when a switch has not been connected; null if it is.
fn since(switch: &SwitchStatus) -> Option<&str> {
    Some(switch.not_connected_since.as_str()).filter(|since| !since.is_empty())
}

/// The state of a switch, in words.
fn state(switch: &SwitchStatus) -> String {
    match (switch.connected, switch.synced, switch.refused) {
        (false, ..) if switch.not_connected_since.is_empty() => "not connected".to_owned(),
        (false, ..) => format!("not connected (since {})", shown(&switch.not_connected_since)),
        (true, true, _) => "in sync".to_owned(),
        (true, false, 0) => "synchronising".to_owned(),
        (true, false, refused) => format!("{refused} refused"),
    }
}

fn to_json(status: &StatusResponse, counts: Option<&FlowCounts>) -> String {
    let switches: Vec<_> = status
        .switches
        .iter()
        .map(|switch| {
            json!({
                "node": switch.node,
                "connected": switch.connected, "not_connected_since": since(switch), "synced": switch.synced,
                "last_error": switch.last_error, "pending": switch.pending, "confirmed_txn": switch.confirmed_txn,
                "flows": switch.flows, "groups": switch.groups, "tunnels": switch.tunnels, "patches": switch.patches, "vifs": switch.vifs,
                "sync_flow_mods": switch.sync_flow_mods, "refused": switch.refused,
                "foreign_changes": switch.foreign_changes, "last_foreign_change": switch.last_foreign_change,
                "driver_restarts": switch.driver_restarts, "last_driver_failure": switch.last_driver_failure,
                "strays": strays_json(switch),
            })
        })
        .collect();
    let objects: BTreeMap<_, _> = status.objects.iter().collect();
    let problems: Vec<_> = status
        .problems
        .iter()
        .map(|problem| {
            let object = problem.object.clone().unwrap_or_default();
            json!({
                "kind": object.kind, "id": object.id, "code": problem.code, "text": problem.text,
                "since": Some(&problem.since).filter(|since| !since.is_empty()),
            })
        })
        .collect();
    let mut shown = json!({
        "version": status.version, "last_txn": status.last_txn, "objects": objects, "switches": switches,
        "problems": problems, "rules": status.rules, "tenants": status.tenants, "well": headline::is_well(status),
    });
    if let Some(engine) = &status.engine {
        shown["engine"] = json!({
            "with": engine.with, "milliseconds": engine.milliseconds, "rule": engine.rule, "rows": engine.rows,
            "stalled": engine.stalled,
        });
    }
    if let Some(counts) = counts {
        shown["drops"] = flow_counts::network_drops_json(counts);
    }
    format!("{shown}\n")
}

fn to_text(status: &StatusResponse, counts: Option<&FlowCounts>) -> String {
    let mut text = String::new();
    text += &headline::headline(status);
    text += &format!("controller {}, last transaction {}\n", status.version, status.last_txn);
    if status.rules != [builtin::NAME] {
        text += &format!("rules: {}\n", status.rules.join(", "));
    }
    text += &status.engine.as_ref().and_then(engine_line).unwrap_or_default();
    for switch in &status.switches {
        text += &format!(
            "{}: {}; {} flows, {} tunnels, {} vNICs",
            switch.node,
            state(switch),
            switch.flows,
            switch.tunnels,
            switch.vifs
        );
        if switch.foreign_changes > 0 {
            text += &format!(", {} changes by others", switch.foreign_changes);
        }
        if switch.driver_restarts > 0 {
            text += &format!(", {} restarts of its driver", switch.driver_restarts);
        }
        let error = &switch.last_error;
        text += &if error.is_empty() { "\n".to_owned() } else { format!("; {}\n", shown(error)) };
        text += &strays(switch);
    }
    for problem in &status.problems {
        let object = problem.object.clone().unwrap_or_default();
        text += &format!("problem: {} {}: {}\n", object.kind, object.id, shown(&problem.text));
    }
    text += &counts.map(flow_counts::network_drops).unwrap_or_default();
    text
}

/// A line for the interfaces of a host with ids that no object has: they are plugged into nothing.
fn strays(switch: &SwitchStatus) -> String {
    let count = usize::try_from(switch.stray_count).unwrap_or(usize::MAX);
    if count == 0 {
        return String::new();
    }
    let names = switch.strays.iter().map(|stray| {
        let meant = stray.nearest.as_ref().map(|near| format!(" (did you mean {} {}?)", near.kind, near.id));
        format!("`{}`{}", shown(&cut(&stray.id)), meant.unwrap_or_default())
    });
    let mut names = names.collect::<Vec<_>>().join(", ");
    if count > switch.strays.len() {
        names += &format!(" and {} more", grouped(count - switch.strays.len()));
    }
    let interfaces = if count == 1 { "interface" } else { "interfaces" };
    format!("    no object has the external_ids:iface-id of {} {interfaces}: {names}\n", grouped(count))
}

fn strays_json(switch: &SwitchStatus) -> Json {
    let first = switch.strays.iter().map(|stray| {
        let near = stray.nearest.as_ref().map(|near| json!({"kind": near.kind, "id": near.id}));
        json!({"id": stray.id, "nearest": near})
    });
    json!({"count": switch.stray_count, "first": first.collect::<Vec<_>>()})
}

/// What the engine is doing, if others wait for it.
fn engine_line(engine: &EngineWork) -> Option<String> {
    if engine.milliseconds < DELAY {
        return None;
    }
    let seconds = engine.milliseconds / 1000;
    let rule =
        if engine.rule.is_empty() { String::new() } else { format!(", in a rule for {}", engine.rule) };
    let rows = grouped(usize::try_from(engine.rows).unwrap_or(usize::MAX));
    let stalled =
        if engine.stalled { "; it has not turned for so long that something may be wrong" } else { "" };
    Some(format!("engine: {} for {seconds} s{rule}; {rows} rows derived so far{stalled}\n", engine.with))
}

#[cfg(test)]
mod tests {
    use weft_client::pb::{ObjectRef, StrayInterface};

    use super::*;

    #[test]
    fn d20_interfaces_of_no_object_are_named_with_the_object_that_may_be_meant() {
        let near = Some(ObjectRef { kind: "switch_port".into(), id: "blue-1".into() });
        let stray = |id: &str, nearest| StrayInterface { id: id.into(), nearest };
        let mut switch = SwitchStatus {
            stray_count: 1002,
            strays: vec![stray("blue-l", near), stray("x\u{1b}[2J\nhv2: in sync", None)],
            ..SwitchStatus::default()
        };
        assert_eq!(
            strays(&switch),
            "    no object has the external_ids:iface-id of 1,002 interfaces: `blue-l` (did you mean switch_port blue-1?), \
             `x\\u{1b}[2J\\nhv2: in sync` and 1,000 more\n"
        );
        assert_eq!(strays_json(&switch)["first"][0]["nearest"]["id"], "blue-1");
        switch.stray_count = 0;
        assert_eq!(strays(&switch), "");
    }
}
