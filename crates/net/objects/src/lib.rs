//! Network objects, as users declare them: read from documents, checked and kept.
//!
//! The crate knows no kind of object. [`Kinds`] are what a program declares: each with its fields, their types and
//! defaults, and the values that no two objects can share. A [`Batch`] reads objects from YAML or JSON and finds every
//! fault of every object at once, each with the path of the field. An [`ObjectStore`] has the objects in force and
//! checks a batch as a whole: references, unique values, deletion of objects that others refer to. An accepted batch
//! becomes a [`ChangeSet`], with the rows to insert into and to delete from the tables of the kinds.
//!
//! ```
//! use objects::{Batch, Cancel, Kinds, ObjectStore, Outcome};
//! use nlog_data::{Constrained, ObjectField, ObjectKind, TableId, Type};
//!
//! // object room { building: opt<string>; }    object desk { room: ref room; }
//! let field = |name: &str, ty, default| ObjectField {
//!     name: name.to_owned(),
//!     ty,
//!     default,
//!     formers: Vec::new(),
//!     doc: String::new(),
//! };
//! let kind = |name: &str, fields| ObjectKind {
//!     name: name.to_owned(),
//!     table: TableId(0),
//!     id_space: name.to_owned(),
//!     fields,
//!     uniques: Vec::new(),
//!     doc: String::new(),
//! };
//! let room = Type::Constrained(Constrained::reference(vec!["room".to_owned()]).into());
//! let kinds = Kinds::new(vec![
//!     kind("room", vec![field("building", Type::opt(Type::String), Some(nlog_data::Value::None))]),
//!     kind("desk", vec![field("room", room, None)]),
//! ]);
//!
//! let mut batch = Batch::new(&kinds, Cancel::default());
//! batch.add_document("office.yaml", "
//! kind: desk
//! id: by-the-window
//! room: blue
//! ---
//! kind: room
//! id: blue
//! ");
//! let mut store = ObjectStore::new(&kinds);
//! let changes = store.plan(batch).unwrap();
//! assert_eq!(changes.changes[0].outcome(), Outcome::Created);
//! assert_eq!(changes.rows().insert["desk"], [["by-the-window".into(), "blue".into()]]);
//! store.commit(&changes);
//!
//! let mut batch = Batch::new(&kinds, Cancel::default());
//! batch.add_document("more.yaml", "{kind: desk, id: second, rom: red}");
//! let faults: Vec<String> = store.plan(batch).unwrap_err().iter().map(ToString::to_string).collect();
//! assert_eq!(faults, [
//!     "more.yaml:1: desk second: room: is missing",
//!     "more.yaml:1: desk second: rom: unknown field; did you mean `room`?",
//! ]);
//! ```
//!
//! In reading order: [`kinds`], [`object`] with `print` (objects and their texts), [`document`] with `tree`, `read`, `value`
//! and `field` (texts to objects: JSON values, objects, values, names) and `amend` and `merge` (changes of some fields), [`store`] with `change`,
//! `difference`, `expected`, `plan`, `refused`, `selection` and `walk` (objects in force, changes to them, checks, the values inside objects), [`error`] with `lines`, `schema` and `reference` (the
//! kinds as JSON Schema and as documentation).
//!
//! Out of scope: any I/O; what rules refuse; whether a switch supports the features that an object needs.
#![forbid(unsafe_code)]

mod amend;
pub mod document;
pub mod error;
mod field;
pub mod kinds;
mod lines;
mod merge;
mod named;
pub mod object;
mod print;
mod read;
mod reference;
mod schema;
pub mod store;
mod tree;
mod value;
mod walk;
mod yaml;

pub use amend::Amendment;
pub use document::{Batch, Entry};
pub use error::{FaultCode, ListedFault, ObjectError, Place, fault_lines};
pub use kinds::{Kind, Kinds, Spelling, UnknownKind};
pub use lines::locate;
pub use nlog_data::Cancel;
pub use object::{Labels, Object, ObjectKey, Revision};
pub use store::{
    Change, ChangeSet, Deletion, Faulty, FieldChange, ObjectStore, Outcome, REFUSE, Refusal, Rows, Scope,
    Selection, named_in,
};
