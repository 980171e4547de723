//! `weft pipeline` and its page of the book.

use std::path::Path;

use crate::support::Folder;

const PROGRAM: &str = r"
## The label of the port that sent the packet.
field inport = reg0;

## Checks what ports send.
stage CHECK = 4;
## Frames of ports.
priority PORT of CHECK = 50;

input table port(port: string, label: int) key(port);
input table managed(hv: string) key(hv);
output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);

## A port may send anything.
of_flow(hv, CHECK, PORT, match{inport: label}, actions[output(1)]) :- managed(hv), port(_, label);
";

/// `UPDATE_EXPECT=1` writes the page.
#[test]
fn the_page_of_the_pipeline_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/pipeline.md");
    let page = Folder::new().weft(&["pipeline", "--markdown"]).has_status(0).stdout.clone();
    expect_test::expect_file![path].assert_eq(&page);
}

#[test]
fn every_form_of_output_says_the_same() {
    let folder = Folder::new();
    folder.write("p.nlog", PROGRAM);
    let text = folder.weft(&["pipeline", "p.nlog"]);
    assert_eq!(
        text.has_status(0).stdout,
        "fields:\n    inport  reg0  The label of the port that sent the packet.\n\
         stage 4 CHECK: Checks what ports send.\n  \
         priority 50 PORT: Frames of ports.\n    \
         inport=<label of port>\n        \
         -> output(1)\n        \
         p.nlog:16: A port may send anything.\n"
    );
    let json = folder.weft(&["pipeline", "--json", "p.nlog"]).has_status(0).stdout.clone();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let entry = &json["stages"][0]["priorities"][0]["entries"][0];
    assert_eq!(
        (&entry["match"], &entry["outcomes"][0]["actions"], &entry["rules"][0]["doc"]),
        (&"inport=<label of port>".into(), &"output(1)".into(), &"A port may send anything.".into())
    );
    let page = folder.weft(&["pipeline", "--markdown", "p.nlog"]).has_status(0).stdout.clone();
    assert!(
        page.contains(
            "- `inport=<label of port>` → `output(1)`\n  - A port may send anything. (p.nlog:16)\n"
        ),
        "{page}"
    );
    folder.write("bad.nlog", "stage {");
    folder.weft(&["pipeline", "bad.nlog"]).has_status(1);
    folder.weft(&["pipeline", "missing.nlog"]).has_status(3);
}
