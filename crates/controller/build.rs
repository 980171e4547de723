//! Generates the gRPC interface from `proto/`, without `protoc`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo runs this in the folder of the package.
    let root = "../../proto";
    println!("cargo::rerun-if-changed={root}");
    // The crate embeds the rules; a file that is new is seen by this alone.
    println!("cargo::rerun-if-changed=../../rules");
    let descriptors = protox::compile(["weft/v1/weft.proto"], [root])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
