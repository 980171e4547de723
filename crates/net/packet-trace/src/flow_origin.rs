//! The rules behind a flow.

use nlog::Program;
use nlog_data::{Row, RuleId, TableId};
use nlog_explain::OnDemand;

/// The rules that derive a flow of a host.
#[derive(Debug)]
pub struct FlowOrigin {
    /// The rule that places the flow on the host.
    pub placed: RuleId,
    /// The rule that says the flow. It is the same one if no rule says it without a host.
    pub said: RuleId,
    /// The row in which that rule says it.
    pub row: (TableId, Row),
}

impl FlowOrigin {
    /// The rules behind a row of the table of flows, by the first derivation of each; none if no rule derives the row.
    pub fn of(state: &OnDemand, flows: TableId, row: Row) -> Option<FlowOrigin> {
        let first = |(table, row): &(TableId, Row)| state.derivations(*table, row, 1).into_iter().next();
        let mut at = (flows, row);
        let placed = first(&at)?;
        let mut said = placed.clone();
        // Rules between the two may add to the match, such as the datapath.
        while let Some(before) =
            said.bodies.iter().flatten().find(|(table, _)| holds_flows(state.program(), *table))
        {
            let Some(earlier) = first(before) else { break };
            at = before.clone();
            said = earlier;
        }
        Some(FlowOrigin { placed: placed.rule, said: said.rule, row: at })
    }
}

/// Whether the rows of a table are flows that name no host yet.
fn holds_flows(program: &Program, table: TableId) -> bool {
    let columns = &program.schema.table(table).columns;
    ["table_id", "match"].iter().all(|name| columns.iter().any(|column| column.name == *name))
}
