//! The parts of an anonymised bundle. Each is made of what is known to be no name, and of names that the snapshot has and replaces:
//! everything else is left out.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use weft_client::pb::{Problem, StatusResponse, SwitchStatus, TenantStatus};
use weft_core::anonymise::Mapping;

use crate::samples::Sample;

/// The new names of a snapshot, by the old ones.
#[derive(Clone)]
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
    pub(super) fn of(mapping: &Mapping) -> Names {
        Names(mapping.pairs().collect())
    }

    /// The new name. `None`: the snapshot does not have the old one.
    pub(super) fn renamed(&self, old: &str) -> Option<String> {
        self.0.get(old).cloned()
    }
}

/// The numbers and the switches that are on or off. All other values can be names or paths.
pub(super) fn configuration(text: &str) -> String {
    let mut kept = String::new();
    for (key, value) in toml::from_str::<toml::Table>(text).unwrap_or_default() {
        kept += &match value {
            toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) => {
                format!("{key} = {value}\n")
            }
            _ => format!("# {key} is left out\n"),
        };
    }
    kept
}

/// The version of Open vSwitch: the numbers of the release.
pub(super) fn version(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

pub(super) fn status(status: &StatusResponse, names: &Names) -> Json {
    let switches = status.switches.iter().map(|status| switch(status, names));
    let tenants = status.tenants.iter().map(|status| tenant(status, names));
    let engine = status.engine.as_ref().map(
        |engine| json!({"milliseconds": engine.milliseconds, "rows": engine.rows, "stalled": engine.stalled}),
    );
    json!({
        "version": status.version,
        "last_txn": status.last_txn,
        "objects": status.objects.iter().collect::<BTreeMap<_, _>>(),
        "node_kind": status.node_kind,
        "engine": engine,
        "switches": switches.collect::<Vec<_>>(),
        "tenants": tenants.collect::<Vec<_>>(),
    })
}

/// The status of a switch, without texts. `has_error` says that there is one.
fn switch(status: &SwitchStatus, names: &Names) -> Json {
    json!({
        "node": names.renamed(&status.node),
        "connected": status.connected,
        "not_connected_since": status.not_connected_since,
        "synced": status.synced,
        "has_error": !status.last_error.is_empty(),
        "pending": status.pending,
        "confirmed_txn": status.confirmed_txn,
        "refused": status.refused,
        "flows": status.flows,
        "groups": status.groups,
        "tunnels": status.tunnels,
        "patches": status.patches,
        "vifs": status.vifs,
        "sync_flow_mods": status.sync_flow_mods,
        "foreign_changes": status.foreign_changes,
        "driver_restarts": status.driver_restarts,
        "stray_count": status.stray_count,
        "ovs_version": version(&status.ovs_version),
    })
}

fn tenant(status: &TenantStatus, names: &Names) -> Json {
    let TenantStatus { tenant, up, members, members_up, .. } = status;
    json!({"tenant": names.renamed(tenant), "up": up, "members": members, "members_up": members_up})
}

/// The problems, without their texts. The snapshot has them in full, under the new names.
pub(super) fn problems(status: &StatusResponse, names: &Names) -> Json {
    let problem = |problem: &Problem| {
        let object = problem.object.clone().unwrap_or_default();
        json!({"kind": object.kind, "id": names.renamed(&object.id), "code": problem.code, "since": problem.since})
    };
    status.problems.iter().map(problem).collect()
}

/// The labels whose values are numbers, such as the limits of a histogram.
const NUMBERS: [&str; 2] = ["le", "quantile"];

/// Labels whose values are words of Weft, or of the rules, whose text stays too.
const OWN: [&str; 15] = [
    "call",
    "cause",
    "channel",
    "code",
    "counter",
    "kind",
    "part",
    "queue",
    "result",
    "stage",
    "state",
    "table",
    "transport",
    "version",
    "what",
];

/// The label that is left out: a folder on somebody's disk.
const FOLDER: &str = "package";

/// How the comments begin that say what a metric is.
const DESCRIPTIONS: [&str; 4] = ["# HELP ", "# TYPE ", "# UNIT ", "# EOF"];

/// Metrics in the text form of `OpenMetrics`. A line stays if its labels have names that are replaced, or numbers; comments that describe
/// metrics stay.
pub(super) fn metrics(text: &str, names: &Names) -> String {
    let mut kept = String::new();
    let mut dropped = 0;
    for line in text.lines() {
        let is_about_metric = DESCRIPTIONS.iter().any(|start| line.starts_with(start));
        match if is_about_metric { Some(line.to_owned()) } else { sample(line, names) } {
            Some(line) => kept += &format!("{line}\n"),
            None => dropped += 1,
        }
    }
    if dropped > 0 {
        kept = format!("# {dropped} lines with other labels are left out\n{kept}");
    }
    kept
}

/// A sample with new names. `None` if the value of a label is neither Weft's own, nor of the rules, nor a number, nor a name that is replaced.
fn sample(line: &str, names: &Names) -> Option<String> {
    let Sample { name, labels, rest } = Sample::read(line)?;
    if labels.is_empty() {
        return Some(format!("{name} {rest}"));
    }
    let mut new = Vec::new();
    for (label, value) in labels.into_iter().filter(|(label, _)| *label != FOLDER) {
        let is_number = NUMBERS.contains(&label) && value.trim_start_matches('+').parse::<f64>().is_ok();
        let value = if is_number || OWN.contains(&label) { value } else { names.renamed(&value)? };
        new.push(format!("{label}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")));
    }
    Some(format!("{name}{{{}}} {rest}", new.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names(
            [("hv1", "n00001"), ("a\"b", "n00002")].map(|(old, new)| (old.to_owned(), new.to_owned())).into(),
        )
    }

    #[test]
    fn metrics_keep_what_is_known_to_be_no_name() {
        let text = "\
# TYPE weft_switch_flows gauge
weft_switch_flows{switch=\"hv1\"} 7
weft_switch_flows{switch=\"a\\\"b\"} 8 1700000000
weft_switch_flows{switch=\"new\"} 9
weft_seconds_bucket{le=\"+Inf\",switch=\"hv1\"} 3 # {by=\"alice\"} 1
weft_seconds_bucket{le=\"alice\"} 3
weft_stage_seconds_count{stage=\"derive\"} 4
weft_objects 12
# from alice
# EOF
";
        let expected = "\
# 3 lines with other labels are left out
# TYPE weft_switch_flows gauge
weft_switch_flows{switch=\"n00001\"} 7
weft_switch_flows{switch=\"n00002\"} 8 1700000000
weft_seconds_bucket{le=\"+Inf\",switch=\"n00001\"} 3
weft_stage_seconds_count{stage=\"derive\"} 4
weft_objects 12
# EOF
";
        assert_eq!(metrics(text, &names()), expected);
    }

    #[test]
    fn of_a_configuration_numbers_stay() {
        let text = "listen = \"unix:/home/alice/x\" # /home/alice/weft.toml:3\nworkers = 1 # default\ntake_over = false\nrules = [\"acme\"]\n";
        let expected = "# listen is left out\n# rules is left out\ntake_over = false\nworkers = 1\n";
        let mut lines: Vec<String> = configuration(text).lines().map(|line| format!("{line}\n")).collect();
        lines.sort();
        assert_eq!(lines.concat(), expected);
    }

    #[test]
    fn a_version_is_its_numbers() {
        assert_eq!(["3.1.0", "3.1.0-acme", "acme", ""].map(version), ["3.1.0", "3.1.0", "", ""]);
    }
}
