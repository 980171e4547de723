//! `weft lab plug` and `weft lab reach`: the machines of a network and their expected reachability, from a file.

use std::path::Path;

use lab::{Error, Lab};
use testbed::scenario::{Pair, Scenario};

use super::{failed, print};
use crate::exit::Failure;

/// Reads a scenario; errors are faults of the file.
fn read(file: &Path) -> Result<Scenario, Failure> {
    Scenario::read(file).map_err(|error| Failure::Rejected(format!("{error:#}")))
}

/// Creates the machines of a file in a running lab.
pub(super) fn plug(network: &Lab, file: &Path) -> Result<(), Failure> {
    for name in read(file)?.plug_in(network).map_err(outside)? {
        let vm = network.vm(&name).map_err(failed)?;
        let place = match &vm.link {
            lab::Link::Host => format!("on {}, plugged in as logical port {}", vm.host, vm.iface_id),
            lab::Link::Tag { parent, tag } => format!("behind {parent}, in VLAN {tag}"),
            lab::Link::Physical { network, tag: 0 } => format!("on physical network {network}"),
            lab::Link::Physical { network, tag } => format!("on physical network {network}, in VLAN {tag}"),
        };
        eprintln!("{name} runs {place}");
    }
    Ok(())
}

/// Tests all pairs of a file in the running lab, or in a temporary one with a controller.
pub(super) fn reach(lab: &str, file: &Path, json: bool) -> Result<(), Failure> {
    let scenario = read(file)?;
    let pairs = match Lab::open(lab) {
        Ok(network) => {
            scenario.plug_in(&network).map_err(outside)?;
            scenario.who_reaches_whom(&network).map_err(outside)?
        }
        Err(Error::NoLab(_)) => alone(&scenario).map_err(outside)?,
        Err(error) => return Err(failed(error)),
    };
    print(&if json { as_json(&pairs) } else { as_text(&pairs) })?;
    match pairs.iter().filter(|pair| !pair.is_right()).count() {
        0 => Ok(()),
        wrong => Err(Failure::Rejected(format!(
            "{wrong} of {} pairs are not as {} says",
            pairs.len(),
            file.display()
        ))),
    }
}

fn alone(scenario: &Scenario) -> anyhow::Result<Vec<Pair>> {
    lab::preflight()?;
    super::sweep_after_this_process()?;
    let name = format!("reach-{}", std::process::id());
    let testbed = scenario.start(name, std::env::current_exe()?)?;
    scenario.who_reaches_whom(testbed.lab()?)
}

fn outside(error: anyhow::Error) -> Failure {
    Failure::Outside(format!("{error:#}"))
}

/// A line for each pair, in columns.
fn as_text(pairs: &[Pair]) -> String {
    let width = pairs.iter().flat_map(|pair| [pair.from.len(), pair.to.len()]).max().unwrap_or(0);
    let line = |pair: &Pair| {
        let found = match (pair.reached.is_empty(), pair.missed.is_empty()) {
            (true, _) => "not reached".to_owned(),
            (false, true) => "reached".to_owned(),
            (false, false) => {
                let missed: Vec<_> = pair.missed.iter().map(ToString::to_string).collect();
                format!("reached, but not at {}", missed.join(", "))
            }
        };
        let (from, to) = (&pair.from, &pair.to);
        format!("{:6}  {from:width$}  {to:width$}  {found}", if pair.is_right() { "ok" } else { "FAILED" })
    };
    pairs.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// An object with all pairs.
fn as_json(pairs: &[Pair]) -> String {
    let pair = |pair: &Pair| {
        serde_json::json!({
            "from": pair.from, "to": pair.to, "wanted": pair.wanted, "ok": pair.is_right(),
            "reached": pair.reached, "missed": pair.missed,
        })
    };
    let failed = pairs.iter().filter(|pair| !pair.is_right()).count();
    serde_json::json!({"pairs": pairs.iter().map(pair).collect::<Vec<_>>(), "failed": failed}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_has_a_line_that_says_whether_it_is_right() {
        let pair = |to: &str, wanted, reached: &[&str], missed: &[&str]| Pair {
            from: "a".into(),
            to: to.into(),
            wanted,
            reached: reached.iter().map(|ip| ip.parse().unwrap()).collect(),
            missed: missed.iter().map(|ip| ip.parse().unwrap()).collect(),
        };
        let pairs = [
            pair("b", true, &["10.0.0.2"], &[]),
            pair("other", false, &[], &["10.0.0.3"]),
            pair("c", true, &["10.0.0.4"], &["fd00::4"]),
            pair("d", false, &["10.0.0.5"], &[]),
        ];
        assert_eq!(
            as_text(&pairs),
            "ok      a      b      reached\n\
             ok      a      other  not reached\n\
             FAILED  a      c      reached, but not at fd00::4\n\
             FAILED  a      d      reached"
        );
        let value: serde_json::Value = serde_json::from_str(&as_json(&pairs)).unwrap();
        assert_eq!(
            (value["failed"].as_u64(), value["pairs"][2]["missed"][0].as_str()),
            (Some(2), Some("fd00::4"))
        );
    }
}
