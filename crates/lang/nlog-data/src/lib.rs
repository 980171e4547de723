//! The data of nlog: values, the functions over them, and rows.
//!
//! The crates that evaluate rules, check rules or carry their rows all share this crate, so that a value has one
//! order, one canonical text and one meaning everywhere.
//!
//! In reading order: [`types`] with [`constrained`], [`value`] (values, their order and text) with
//! [`interface_address`], [`literal`] (values as nlog text),
//! [`schema`] (tables), [`function`] (the one table of functions and operators), [`transaction`] (transactions and
//! their results), [`refusal`] (why they are refused), [`columns`] (large transactions, by columns), [`json`]
//! (transactions and deltas as JSON Lines), [`encoding`] (texts from outside), [`quotation`] (data in messages),
//! [`bound`] (bounds on the work of a transaction), [`inputs`] (the contents of input tables, and the checks of transactions against them), [`state`] (these contents
//! as a file).
//!
//! ```
//! use nlog_data::{Column, Inputs, Role, Schema, Table, Type, json};
//!
//! let column = |name: &str, ty| Column { name: name.to_string(), ty };
//! let schema = std::sync::Arc::new(Schema::new(vec![Table {
//!     name: "hypervisor".to_string(),
//!     role: Role::Input,
//!     columns: vec![column("hv", Type::String), column("address", Type::Ip)],
//!     key: Some(vec![0]),
//!     uniques: Vec::new(),
//!     doc: String::new(),
//! }]));
//! let mut inputs = Inputs::new(schema.clone());
//! let line = br#"{"insert":{"hypervisor":[["hv1","2001:DB8::1"]]},"by":"me"}"#;
//! let changes = inputs.apply(&json::parse_line(line, 1, &schema)?.transaction)?;
//! let mut out = Vec::new();
//! json::write_delta_line(&mut out, 1, &changes.delta, &schema);
//! assert_eq!(out, b"{\"txn\":1,\"insert\":{\"hypervisor\":[[\"hv1\",\"2001:db8::1\"]]},\"delete\":{}}\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Out of scope: rules (crate `nlog`), the storage of rows in an engine (crate `nlog-dataflow`), any I/O.
#![forbid(unsafe_code)]

pub mod bound;
pub mod columns;
pub mod constrained;
pub mod encoding;
pub mod function;
pub mod inputs;
pub mod interface_address;
pub mod json;
pub mod literal;
pub mod object;
pub mod quotation;
pub mod refusal;
pub mod schema;
pub mod state;
pub mod transaction;
pub mod types;
pub mod value;

pub use bound::{Bound, Cancel, Measure, Most, Progress, Stage, Stopped, TooMuch};
pub use columns::{ColumnDelta, ColumnTransaction, Columns, ColumnsError, CommittedColumns, TableColumns};
pub use constrained::{Condition, Constrained, Constraint, Meaning};
pub use function::{Failure, FailureCode, Function, Results, Tuples};
pub use inputs::{Changes, Inputs};
pub use interface_address::{InterfaceAddress, InterfaceAddressError};
pub use object::{FieldPath, ObjectField, ObjectKind, Unique};
pub use openflow_rs::Packed;
pub use refusal::{
    DerivedCause, DerivedError, DerivedErrors, ForbiddenRows, KeyConflict, MOST_FORBIDDEN, TransactionError,
};
pub use schema::{Column, Role, Schema, Table, TableId};
pub use transaction::{
    CommitError, Committed, Delta, ErrorCode, Evaluator, MOST_WAYS, Memories, Row, RuleId, Scrubbed,
    StoredRelation, StoredRows, TableDelta, Tables, Transaction, WorkOfRule, no_memory, no_timed_hook,
};
pub use types::{Enumeration, Record, Type};
pub use value::Value;
