//! The crate embeds the pages about codes; only this makes cargo notice a new file.

fn main() {
    println!("cargo::rerun-if-changed=../../../docs/errors");
}
