//! The crate embeds the pages about codes; a file that is new is seen by this alone.

fn main() {
    println!("cargo::rerun-if-changed={}", concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors"));
}
