//! Generates the gRPC interface from `proto/`, without `protoc`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");
    println!("cargo::rerun-if-changed={root}");
    // The crate embeds the rules; a file that is new is seen by this alone.
    println!("cargo::rerun-if-changed={}", concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules"));
    let descriptors = protox::compile(["weft/v1/weft.proto"], [root])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
