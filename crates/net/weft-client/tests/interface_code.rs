//! The code that is generated from `proto/`. It is in the repository, because the compiler of descriptions and what it needs take a tenth
//! of the time in which `weft` is built.

use prost::Message as _;

/// The fields whose JSON is not that of their Rust type.
const FORMS: [(&str, &str); 16] = [
    ("ObjectOutcome.outcome", "outcome"),
    ("ObjectOutcome.before", "json_text"),
    ("FieldChange.before", "optional_json_text"),
    ("FieldChange.after", "optional_json_text"),
    ("SwitchReceipt.state", "switch_state"),
    ("Flow.cookie", "cookie"),
    ("Flow.origin", "optional_cookie"),
    ("Rule.fingerprint", "cookie"),
    ("Bucket.rule", "cookie"),
    ("LogicalFlow.rule", "cookie"),
    ("LogicalFlow.columns", "json_text"),
    ("ObjectState.columns", "json_text"),
    ("FlowDelta.rule", "cookie"),
    ("HistoryEntry.object", "json_text"),
    ("GetResponse.objects", "json_texts"),
    ("ReadListingResponse.rows", "json_texts"),
];

/// What says so in the code, with the function in the place of `NAME`.
const AS_JSON: &str = "#[serde(serialize_with = \"crate::message_json::NAME\")]";

/// The file has these bytes, or gets them with `UPDATE_EXPECT=1`.
fn same_bytes(path: &str, bytes: &[u8]) {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, bytes).expect("the descriptors are written");
    }
    let there = std::fs::read(path).unwrap_or_default();
    assert!(there == bytes, "{path} is not what proto/ says; run this test with UPDATE_EXPECT=1");
}

#[test]
fn the_code_is_that_of_the_description() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../proto");
    let descriptors = protox::compile(["weft/v1/weft.proto"], [root]).expect("the description is in order");
    let folder = tempfile::tempdir().expect("a folder");
    let descriptors_file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/weft.v1.descriptors");
    same_bytes(descriptors_file, &descriptors.encode_to_vec());
    let mut builder = tonic_prost_build::configure()
        .type_attribute(".", "#[derive(serde::Serialize)]")
        .btree_map(".")
        .boxed("Accepted.receipt")
        .boxed("Accepted.delta")
        .boxed("ObjectFault.changed");
    for (field, form) in FORMS {
        builder = builder.field_attribute(field, AS_JSON.replace("NAME", form));
    }
    builder.out_dir(folder.path()).compile_fds(descriptors).expect("code for the description");
    let code = std::fs::read_to_string(folder.path().join("weft.v1.rs")).expect("the code");
    expect_test::expect_file!["../src/weft.v1.rs"].assert_eq(&code);
}
