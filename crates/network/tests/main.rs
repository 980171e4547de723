//! Network objects: reading, faults, the store.

mod faults;
mod store;
