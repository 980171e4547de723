//! Rules added to a running engine: a six-atom rule is added to the loaded Figure 6 and removed again.
//!
//! The time is from the text of the edited program to the accepted delta in memory, in the engine's words. The baseline is the only way of
//! an engine without this feature: a new start with the edited program and a full load.

use std::time::Instant;

use anyhow::{Result, ensure};
use nlog_data::{ColumnDelta, Evaluator as _};
use nlog_dataflow::Dataflow;
use nlog_plan::Settings;
use serde::{Deserialize, Serialize};

use super::weft::{Tables as Figure6, Text};
use super::workload::{Change, Network};
use crate::engine;
use crate::measure::{self, Spread};
use crate::report::{Aim, Line};

/// Edits of each kind in a run. The first does not count, because it touches memory for the first time.
const EDITS: usize = 8;

/// A rule to add. `PORT` is a port's number or a variable.
const RULE: &str = "
output table reachable(dst_lport: int, src_hv: int, encap: int, dst_ip: int);
reachable(PORT, src_hv_id, encap, dst_ip) :-
    log_port(src_lport_id, log_datapath_id),
    log_port(PORT, log_datapath_id),
    log_datapath_encap(log_datapath_id, encap),
    log_port_presence(src_lport_id, src_hv_id),
    log_port_presence(PORT, dst_hv_id),
    hypervisor_locator(dst_hv_id, dst_ip),
    not_equal(src_hv_id, dst_hv_id);
";

/// What one run measured, in milliseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// A rule about one port: from text to delta.
    one: Edit,
    /// A rule about all.
    all: Edit,
}

/// Edits of one kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Edit {
    /// Rows of the delta.
    rows: usize,
    add_ms: f64,
    remove_ms: f64,
    /// A new engine: from the edited text to the rows of the table, once.
    anew_ms: f64,
}

/// Makes a run in this process, which ends after it.
pub(crate) fn run(divisor: usize) -> Result<Figures> {
    let network = Network::nvp_eval(divisor);
    // The last port is on a switch of 64.
    let one = RULE.replace("PORT", &(network.ports() - 1).to_string());
    let all = RULE.replace("PORT", "dst_lport_id");
    Ok(Figures { one: edit(&network, &one)?, all: edit(&network, &all)? })
}

fn edit(network: &Network, rule: &str) -> Result<Edit> {
    let before = include_str!("ids.nlog");
    let after = format!("{before}{rule}");
    let load = |engine: &mut Dataflow| -> Result<ColumnDelta> {
        let tables = Figure6::new(engine.schema(), Text::Ids)?;
        let transaction = tables.columns(Change { insert: network.rows(), ..Change::default() })?;
        Ok(engine.commit_columns(&transaction)?.delta)
    };
    let start = Instant::now();
    let mut anew = engine::start(engine::compile("figure6.nlog", &after)?, 1)?;
    let loaded = load(&mut anew)?;
    let anew_ms = start.elapsed().as_secs_f64() * 1e3;
    let expected = rows(&anew, &loaded);
    drop((anew, loaded));
    ensure!(!expected.is_empty(), "the rule derives nothing");

    let mut engine = engine::start(engine::compile("figure6.nlog", before)?, 1)?;
    let options = engine::options(1, Settings::default());
    drop(load(&mut engine)?);
    let (mut add, mut remove) = (Vec::new(), Vec::new());
    for number in 0..EDITS {
        let start = Instant::now();
        let proposal = engine.propose(engine::compile("figure6.nlog", &after)?, &options)?;
        ensure!(proposal.words().tables().count() > 0, "the added rule derives nothing");
        let mut added = start.elapsed();
        let delta = proposal.delta();
        let start = Instant::now();
        proposal.accept();
        added += start.elapsed();
        ensure!(rows(&engine, &delta) == expected, "the added rule derives other rows than a new engine");
        drop(delta);
        let start = Instant::now();
        engine.propose(engine::compile("figure6.nlog", before)?, &options)?.accept();
        if number > 0 {
            add.push(added.as_secs_f64() * 1e3);
            remove.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    let [add_ms, remove_ms] = [add, remove].map(|times| Spread::new(times).median());
    Ok(Edit { rows: expected.len(), add_ms, remove_ms, anew_ms })
}

/// The new table's rows in a delta.
fn rows(engine: &Dataflow, delta: &ColumnDelta) -> Vec<nlog_data::Row> {
    let table = engine.schema().find("reachable").and_then(|table| delta.tables.get(&table));
    table.map_or_else(Vec::new, |table| table.insert.to_rows())
}

/// Many runs.
pub(crate) fn lines(runs: usize, divisor: usize) -> Result<Vec<Line>> {
    let mut figures: Vec<Figures> = Vec::new();
    for _ in 0..=runs {
        figures.push(measure::child(&["figure6-live-run", "--divisor", &divisor.to_string()])?);
    }
    figures.remove(0);
    let column = |of: fn(&Figures) -> f64| figures.iter().map(of).collect::<Vec<_>>();
    let (one, all) = (figures[0].one.rows, figures[0].all.rows);
    let compared = |what: String, digits, aim, ours: fn(&Figures) -> f64, anew: fn(&Figures) -> f64| {
        Line::compared(what, digits, column(ours), column(anew), Aim::AtMost(aim))
    };
    Ok(vec![
        compared(
            format!(
                "six-atom rule added to the loaded Figure 6, {one} rows, text to delta, ms (compared with a new engine)"
            ),
            2,
            5.0,
            |run| run.one.add_ms,
            |run| run.one.anew_ms,
        ),
        Line::alone("… removed, ms", 2, column(|run| run.one.remove_ms), Aim::None),
        compared(
            format!("six-atom rule added, {all} rows, text to delta, ms (compared with a new engine)"),
            1,
            100.0,
            |run| run.all.add_ms,
            |run| run.all.anew_ms,
        ),
        Line::alone("… removed, ms", 1, column(|run| run.all.remove_ms), Aim::None),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_added_rule_derives_what_a_new_engine_derives() {
        let figures = run(100).expect("it runs");
        assert_eq!(figures.one.rows, 29, "a switch of 64 ports on 30 hypervisors");
        assert!(figures.all.rows > 1000, "{figures:?}");
    }
}
