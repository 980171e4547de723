//! The flows that a host should have, as `ovs-ofctl dump-flows` prints them.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::PathBuf;

use switch_model::Desired;
use weft_core::rules::Rules;

use crate::compare::core_at;
use crate::exit::{Failure, print};
use crate::recorded::{Head, Recorded};

/// Prints the flows of a host after a transaction; with other rules, the lines that differ.
pub(super) fn run(
    recorded: &Recorded,
    host: &str,
    at: &Head,
    other_rules: &[PathBuf],
    workers: usize,
) -> Result<(), Failure> {
    let with = |rules: Rules| flows(recorded, host, at, rules, workers);
    let lines = with(recorded.rules(at)?)?;
    if other_rules.is_empty() {
        return print(&text("", &lines));
    }
    let others = with(Rules::load(other_rules).map_err(|error| Failure::Rejected(error.to_string()))?)?;
    let [before, after] = [&lines, &others].map(|lines| lines.iter().collect::<BTreeSet<_>>());
    let only = |these: &[String], those: &BTreeSet<&String>| -> Vec<String> {
        these.iter().filter(|line| !those.contains(line)).cloned().collect()
    };
    print(&(text("-", &only(&lines, &after)) + &text("+", &only(&others, &before))))
}

fn text(mark: &str, lines: &[String]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(mark);
        text.push(' ');
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// The flows of a host, each as a line.
fn flows(
    recorded: &Recorded,
    host: &str,
    at: &Head,
    rules: Rules,
    workers: usize,
) -> Result<Vec<String>, Failure> {
    let core = core_at(recorded, at, rules, workers)?;
    if !core.is_managed(host) {
        return Err(Failure::Rejected(format!(
            "transport node {host} does not exist after transaction {}; `weft snapshot show` counts what there is",
            at.txn
        )));
    }
    Ok(lines(&core.desired(host)))
}

/// Flows by table and falling priority.
fn lines(desired: &Desired) -> Vec<String> {
    let unreadable = |error: openflow_rs::DecodeError| format!("cannot be decoded: {error}");
    let flow = |(key, flow): (&switch_model::FlowKey, &switch_model::Flow)| {
        let matching = key.matching().map_or_else(unreadable, |matching| matching.to_string());
        let actions = flow.actions().map_or_else(unreadable, |actions| actions.to_string());
        let comma = if matching.is_empty() { "" } else { "," };
        let (table, priority) = (key.table(), key.priority());
        let line = format!(
            "cookie={:#x}, table={table}, priority={priority}{comma}{matching} actions={actions}",
            flow.cookie()
        );
        ((table, Reverse(priority), matching), line)
    };
    let mut flows: Vec<_> = desired.flows.iter().map(flow).collect();
    flows.sort();
    flows.into_iter().map(|(_, line)| line).collect()
}
