//! The reference against results worked out by hand, and against an oracle of its own.

mod build;
mod defaults;
mod random;
mod semantics;
mod source;
