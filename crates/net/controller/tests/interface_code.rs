//! The code that is generated from `proto/`. It is in the repository, because the compiler of descriptions and what it needs take a tenth
//! of the time in which `weft` is built.

#[test]
fn the_code_is_that_of_the_description() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../proto");
    let descriptors = protox::compile(["weft/v1/weft.proto"], [root]).expect("the description is in order");
    let folder = tempfile::tempdir().expect("a folder");
    tonic_prost_build::configure()
        .out_dir(folder.path())
        .compile_fds(descriptors)
        .expect("code for the description");
    let code = std::fs::read_to_string(folder.path().join("weft.v1.rs")).expect("the code");
    expect_test::expect_file!["../src/api/weft.v1.rs"].assert_eq(&code);
}
