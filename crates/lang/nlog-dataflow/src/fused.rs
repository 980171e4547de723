//! The fused engine: all rules in their static order over traces in differential's spines. Timely carries messages between
//! its workers; [`operator`](crate::operator) runs it within a dataflow.
//!
//! A transaction costs only the rules that it touches, and an idle engine costs nothing. Differential's spine decides which batches
//! of a trace are merged and when. `docs/internals/rule-to-operators.md` explains the design and the
//! measurements behind it. The ideas come from delta joins (`half_join` in differential-dogs3) and from shared
//! arrangements ("Shared Arrangements", VLDB 2020).
//!
//! The modules, in reading order:
//!
//! - Storage: `trace` (pairs with counts, and the staged changes of a transaction), `batch` (the pairs, and how they are merged),
//!   `probe` (key lookup in batches), `direct` (in any order), `delta` (inserted and deleted rows), `sorted` (rows in order), `index`.
//! - Rules: `pipeline` (from changed rows of one atom to rows of the head) with `flow` (a run), `probe_batch` (bindings that wait for a probe),
//!   `keys` (the sort keys of a batch), `replaced` (rows that run together) and `pipeline_end`; `groups` (aggregates), `relation` (from rows to sets), `rule`,
//!   `bounded` (how far a transaction may go), `watch` and `watched` (sets that need no counts so far), `errors`, `fault` (failures that tests inject).
//! - Transactions: `core` (the engine), `engine` (one transaction), `reading` (rows of relations), `inputs` (checks of transactions),
//!   `output` and `raw_delta` (from symbols to values), `profile`,
//!   `planning` (re-planning for the rows present), `saved` (an engine as bytes, and back), `scrub` (what is stored, compared with the inputs).
//! - Edits of rules: `edit` (the transaction), `live` (moving state from one program to the next), `proposal` (the
//!   interface).
//! - Several workers: `placement` (the worker of each row), `rounds` (a transaction on several workers), `recount` (rows that are
//!   derived once more), `workers` (their protocol).

mod batch;
mod bounded;
pub(crate) mod core;
pub(crate) mod delta;
mod direct;
mod edit;
pub(crate) mod engine;
pub(crate) mod errors;
pub(crate) mod fault;
mod flow;
mod groups;
mod hooks;
mod index;
pub(crate) mod inputs;
mod keys;
mod live;
pub(crate) mod output;
mod pipeline;
mod pipeline_end;
pub(crate) mod placement;
pub(crate) mod planning;
mod probe;
mod probe_batch;
mod profile;
mod proposal;
mod raw_delta;
mod reading;
mod recount;
pub(crate) mod relation;
mod replaced;
pub(crate) mod rounds;
mod rule;
mod saved;
mod scrub;
mod sorted;
mod trace;
mod watch;
mod watched;
pub(crate) mod workers;

pub(crate) use planning::WORTH_PLANNING;
pub(crate) use saved::digest_of;

pub use profile::{HookProfile, IndexProfile, PipelineProfile, Profile, RelationProfile, RuleProfile};
pub use proposal::{ChangeError, Proposal};
pub use raw_delta::{RawDelta, RawTableDelta};
pub use workers::Load;
