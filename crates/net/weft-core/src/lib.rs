//! The controller as a pure machine: what it knows of a network and its switches, what a request or a report does to that, and what
//! is to be done outside.
//!
//! A request (objects to apply or to delete) or the report of a switch is validated, becomes a transaction of rows, and passes through
//! the rules. The caller writes its record to disk. Only then do its effects come out: orders for the drivers of switches, a receipt,
//! the answer. Nothing here reads a clock, a file or a socket or starts a thread, so the daemon, tests and simulations drive the same
//! code, and a history repeats itself exactly.
//!
//! In reading order: [`machine`] (events and effects) with [`now`] (the time, as a value); [`core`] (objects, reports, desired states,
//! and what a request does to them) with [`terms`] and [`harm`] (what it is refused for), [`rules`] with `rules_versions` (what was loaded while it ran), [`api_names`], [`builtin`], [`reports`], `refused_reports`, `beside`, `input_rows`, [`derived`] (the output of
//! the rules), `port_moves`, `announcements`, `object_status`, `universal` and [`provenance`]; [`record`], [`restore`] and [`times`] (the state as the journal has it), [`anonymise`] (the same under other names), [`relocate`] (the same with other switches);
//! [`fleet`] (the switches) with [`levels`] (what is observed), [`underlay`] (what probes measure) and `lasting`; [`receipt`] and [`status`]; and questions: [`snapshot`] with
//! [`neighbourhood`], [`listings`], [`logical_flows`], [`drops`], [`totals`] (counters over restarts of switches).
//!
//! Out of scope: the journal's file, the API, drivers and threads (crate `controller`), and the meaning of objects (crate `objects` and the
//! rules).
#![forbid(unsafe_code)]

mod announcements;
pub mod anonymise;
pub mod answered;
pub mod api_names;
mod beside;
pub mod builtin;
pub mod core;
pub mod derived;
pub mod drops;
pub mod fleet;
pub mod harm;
mod input_rows;
mod lasting;
pub mod levels;
pub mod listings;
pub mod logical_flows;
pub mod machine;
pub mod neighbourhood;
pub mod now;
mod object_status;
pub mod peer;
mod port_moves;
pub mod provenance;
pub mod receipt;
pub mod record;
mod refusal;
mod refused_reports;
pub mod relocate;
pub mod reports;
pub mod restore;
pub mod rules;
pub mod rules_versions;
pub mod snapshot;
pub mod status;
mod switch_address;
pub mod switch_delta;
pub mod terms;
#[cfg(test)]
mod test_core;
pub mod text;
pub mod times;
pub mod totals;
pub mod underlay;
mod universal;

pub use levels::Patience;
pub use machine::Machine;
pub use now::Now;
pub use rules::{Conventions, Rules};
pub use text::shown;
