//! A flow as `ovs-ofctl dump-flows` prints it: the rows of the rules that mean it.

use std::sync::Arc;

use nlog::Program;
use nlog::program::Pattern;
use nlog_data::{Canonical, Row, Value};
use nlog_reference::OnDemand;
use openflow_rs::FlowEntry;
use switch_tables::FLOWS;

/// A flow of a host, by its text or by its cookie.
#[derive(Debug)]
pub struct AskedFlow {
    /// The pattern of its row.
    pub pattern: Pattern,
    /// The cookie, if nothing else says which flow it is.
    cookie: Option<u64>,
}

impl AskedFlow {
    /// Reads a flow as `ovs-ofctl dump-flows` or `weft get flows` print it, or `cookie=0x…` alone.
    ///
    /// # Errors
    /// The text is no flow, or the program has no table of flows.
    pub fn read(program: &Program, host: &str, text: &str) -> Result<AskedFlow, String> {
        let table = FLOWS.find(&program.schema).map_err(|misfit| misfit.to_string())?;
        let table = table.ok_or_else(|| format!("the program has no {FLOWS}"))?;
        let host = Some(Value::String(host.into()));
        if let Some(cookie) = cookie(text)? {
            let columns = vec![host, None, None, None, None];
            return Ok(AskedFlow { pattern: Pattern { table, columns }, cookie: Some(cookie) });
        }
        let flow: FlowEntry = text.parse().map_err(|error| {
            format!("{text:?} is no flow: {error}; give a line of ovs-ofctl -O OpenFlow15 dump-flows, or cookie=0x…")
        })?;
        let FlowEntry { table: stage, priority, matches, .. } = flow;
        let matching = Value::Match(Arc::new(Canonical::new(matches)));
        let numbers = [i64::from(stage), i64::from(priority)].map(|number| Some(Value::Int(number)));
        let [stage, priority] = numbers;
        let columns = vec![host, stage, priority, Some(matching), None];
        Ok(AskedFlow { pattern: Pattern { table, columns }, cookie: None })
    }

    /// Whether a row that fits the pattern is such a flow. The cookie of a flow is the fingerprint of its rule; of several rules,
    /// the smallest.
    pub fn admits(&self, state: &OnDemand, row: &Row) -> bool {
        let Some(cookie) = self.cookie else { return true };
        let rules = state.derivations(self.pattern.table, row, 1);
        rules.iter().map(|way| state.program().rule(way.rule).fingerprint).min() == Some(cookie)
    }
}

/// The cookie, if the text says nothing else.
fn cookie(text: &str) -> Result<Option<u64>, String> {
    let Some(number) = text.trim().trim_end_matches(',').strip_prefix("cookie=") else { return Ok(None) };
    if number.contains([',', ' ']) {
        return Ok(None);
    }
    let parsed = match number.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => number.parse(),
    };
    parsed.map(Some).map_err(|error| format!("{text:?} is no cookie: {error}"))
}
