//! Literals against `ovs-ofctl`, against the parser of its text, and against each kind of mistake.

mod errors;
mod examples;
mod fields;
mod properties;
mod read;
