//! Network objects: reading, faults, the store, and what is derived from kinds.

mod amend;
mod choices;
mod derived;
mod faults;
mod kinds;
mod memory;
mod merge;
mod random;
mod references;
mod refused;
mod revisions;
mod selection;
mod store;
mod support;
