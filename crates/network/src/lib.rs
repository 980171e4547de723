//! Network objects: transport zones and nodes, switches and their ports, as users declare them.
//!
//! A [`Batch`] reads objects from YAML or JSON and finds every fault of every object at once, each with the path of
//! the field. An [`ObjectStore`] has the objects in force and checks a batch as a whole: references, duplicate
//! addresses, deletion of objects that others refer to. An accepted batch becomes a [`ChangeSet`], with the rows to
//! insert into and to delete from the tables of `rules/interface/objects.nlog`.
//!
//! ```
//! use network::{Batch, ObjectStore, Outcome};
//!
//! let mut batch = Batch::default();
//! batch.add_document("net.yaml", "
//! kind: switch_port
//! id: blue-1
//! switch: blue
//! addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.0.1]}]
//! ---
//! kind: switch
//! id: blue
//! ");
//! let mut store = ObjectStore::default();
//! let changes = store.plan(batch).unwrap();
//! assert_eq!(changes.changes[0].outcome(), Outcome::Created);
//! assert_eq!(changes.rows().insert["port_mac"].len(), 1);
//! store.commit(&changes);
//!
//! let mut batch = Batch::default();
//! batch.add_document("more.yaml", "{kind: switch_port, id: red-1, swich: red}");
//! let faults: Vec<String> = store.plan(batch).unwrap_err().iter().map(ToString::to_string).collect();
//! assert_eq!(faults, [
//!     "more.yaml: document 1: switch_port red-1: switch: is missing",
//!     "more.yaml: document 1: switch_port red-1: swich: unknown field; did you mean `switch`?",
//! ]);
//! ```
//!
//! In reading order: [`object`] (the kinds; how to add one), [`transport_zone`], [`transport_node`], [`switch`], [`switch_port`],
//! [`localnet_port`] (a file for each), [`document`] with `tree` (text to objects), [`store`] with `plan` (objects in force, and changes to them), [`error`]. The private `field` reads
//! single fields and records their faults.
//!
//! Out of scope: any I/O; labels, which the controller allocates; whether a switch supports the features that an
//! object needs.
#![forbid(unsafe_code)]

pub mod document;
pub mod error;
mod field;
pub mod localnet_port;
pub mod object;
pub mod store;
pub mod switch;
pub mod switch_port;
pub mod transport_node;
pub mod transport_zone;
mod tree;

pub use document::{Batch, Entry};
pub use error::{FaultCode, ObjectError, Place};
pub use field::Labels;
pub use localnet_port::LocalnetPort;
pub use object::{Kind, Object, ObjectKey, UnknownKind};
pub use store::{Change, ChangeSet, ObjectStore, Outcome, Rows};
pub use switch::Switch;
pub use switch_port::{Address, SwitchPort};
pub use transport_node::{DatapathType, Endpoint, Role, TransportNode};
pub use transport_zone::{TransportZone, TunnelForm};
pub use tree::Cancel;
pub use tunnel_encap::Encap;
