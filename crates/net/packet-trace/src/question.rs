//! A question about rows: which ones exist or are missing. They are named by a pattern, or as a flow of a host.

use nlog::Program;
use nlog::program::Pattern;
use nlog_data::{Packed, Row, Value};
use nlog_explain::tree::{Explainer, Explanation};
use nlog_explain::{OnDemand, WhyNot, explanation};
use openflow_rs::{FlowEntry, Match};
use switch_model::{Flows, Kind as _};

/// What is asked about.
#[derive(Debug)]
pub enum Question {
    /// The rows that fit a pattern.
    Rows(Pattern),
    /// Flows of a host.
    Flow(AskedFlow),
}

/// Flows of a host, by text or by cookie.
#[derive(Debug)]
pub struct AskedFlow {
    /// The host.
    pub host: String,
    /// How they are named.
    pub by: FlowName,
    /// The pattern of their rows.
    pattern: Pattern,
}

/// How a flow is named.
#[derive(Debug)]
pub enum FlowName {
    /// By what tells it from other flows.
    Key {
        /// The table of the switch.
        table: u8,
        /// The priority.
        priority: u16,
        /// The match.
        matches: Match,
    },
    /// By its cookie, which is that of all flows of a rule.
    Cookie(u64),
}

impl Question {
    /// Reads a flow as `ovs-ofctl dump-flows` or `weft get flows` print it, or `cookie=0x…` alone.
    ///
    /// # Errors
    /// The text is no flow, or the program has no table of flows.
    pub fn of_flow(program: &Program, host: &str, text: &str) -> Result<Question, String> {
        let table = Flows::TABLE.find(&program.schema).map_err(|misfit| misfit.to_string())?;
        let table = table.ok_or_else(|| format!("the program has no {}", Flows::TABLE))?;
        let by = if let Some(cookie) = cookie(text)? {
            FlowName::Cookie(cookie)
        } else {
            let flow: FlowEntry = text.parse().map_err(|error| {
                format!("{text:?} is no flow: {error}; give a line of ovs-ofctl -O OpenFlow15 dump-flows, or cookie=0x…")
            })?;
            FlowName::Key { table: flow.table, priority: flow.priority, matches: flow.matches }
        };
        let key = match &by {
            FlowName::Cookie(_) => [None, None, None],
            FlowName::Key { table, priority, matches } => [
                Some(Value::Int(i64::from(*table))),
                Some(Value::Int(i64::from(*priority))),
                Some(Value::Match(Packed::new(matches))),
            ],
        };
        let [table_id, priority, matching] = key;
        let columns = vec![Some(Value::String(host.into())), table_id, priority, matching, None];
        Ok(Question::Flow(AskedFlow { host: host.to_owned(), by, pattern: Pattern { table, columns } }))
    }

    /// The pattern of the rows.
    pub fn pattern(&self) -> &Pattern {
        match self {
            Question::Rows(pattern) => pattern,
            Question::Flow(flow) => &flow.pattern,
        }
    }

    /// The rows, ascending.
    pub fn rows(&self, state: &OnDemand) -> Vec<Row> {
        let pattern = self.pattern();
        let rows = state.matching(pattern.table, &pattern.columns).into_iter();
        rows.filter(|row| self.admits(state, row)).cloned().collect()
    }

    /// Whether a row that fits the pattern is meant. The cookie of a flow is the fingerprint of its rule; of several rules, the smallest.
    fn admits(&self, state: &OnDemand, row: &Row) -> bool {
        let Question::Flow(AskedFlow { by: FlowName::Cookie(cookie), .. }) = self else { return true };
        let ways = state.derivations(self.pattern().table, row, 1);
        ways.iter().map(|way| state.program().rule(way.rule).fingerprint).min() == Some(*cookie)
    }

    /// Says why these rows exist, the first `most` of them.
    ///
    /// # Errors
    /// There is none.
    pub fn explain(
        &self,
        explainer: &Explainer<'_>,
        rows: &[Row],
        most: usize,
    ) -> Result<Explanation, String> {
        if !rows.is_empty() {
            return Ok(explainer.explain(self.pattern().table, rows, most));
        }
        Err(match self {
            Question::Rows(pattern) => {
                let asked = explanation::pattern(explainer.state.program(), pattern);
                format!("no row matches {asked}; `weft why-not` explains why")
            }
            Question::Flow(AskedFlow { host, .. }) => format!(
                "no rule derives such a flow for {host}: it is not the controller's, or the network was another one then; \
                 `weft why-not --host {host}` explains why"
            ),
        })
    }

    /// Says why there is no such row. `rows` finds those that there are.
    ///
    /// # Errors
    /// There is one, or the question is about a cookie.
    pub fn why_not(&self, state: &OnDemand, rows: impl FnOnce() -> Vec<Row>) -> Result<WhyNot, String> {
        if let Question::Flow(AskedFlow { by: FlowName::Cookie(_), .. }) = self {
            return Err(
                "a cookie names a rule, and not a flow that is missing: give the flow's text".to_owned()
            );
        }
        let pattern = self.pattern();
        match rows().first() {
            None => Ok(state.why_not(pattern)),
            Some(row) => {
                let row = explanation::atom(state.program(), pattern.table, row);
                Err(format!("{row} exists; `weft explain` explains why"))
            }
        }
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
