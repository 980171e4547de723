//! The unit tests of the repository's rules.

mod objects;
mod packets;
mod rules;
