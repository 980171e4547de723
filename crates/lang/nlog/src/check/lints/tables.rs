//! The lint `unused-table`.

use nlog_data::Role;

use crate::check::declarations::{Declarations, Usage};
use crate::diagnostic::{Code, Report, Reports};

/// Reports tables that no rule reads and that neither are outputs nor forbid their rows.
pub(in crate::check) fn unused_tables(declarations: &Declarations<'_>, usage: &Usage, reports: &mut Reports) {
    for (index, table) in declarations.tables.iter().enumerate() {
        let serves_alone = matches!(table.role, Role::Output | Role::Forbid);
        if serves_alone || usage.read.contains(&index) || table.columns.is_none() {
            continue;
        }
        let name = &table.name.name;
        let (message, help) = match table.role {
            _ if table.object.is_some() => (
                format!("no rule reads the objects of kind `{name}`, and no other object refers to them"),
                "remove the kind, or use it in a rule",
            ),
            Role::Input => {
                (format!("no rule reads the input table `{name}`"), "remove it, or use it in a rule")
            }
            _ => (
                format!("no rule reads the table `{name}`, and it is not an output table"),
                "declare it as `output table` if its rows are results, or remove it",
            ),
        };
        reports.push(Report::new(Code::UnusedTable, table.name.span, message, help));
    }
}
