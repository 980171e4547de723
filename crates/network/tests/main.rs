//! Network objects: reading, faults, the store, and what is derived from kinds.

mod derived;
mod faults;
mod kinds;
mod random;
mod store;
mod support;
