//! The weft command.
fn main() {}
