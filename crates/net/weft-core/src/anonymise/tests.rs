//! Which texts of a state are names, and what becomes of them.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::*;

const RULES: &str = r#"
type how = enum {plain, fancy};
type word_of = record {word: string, how: how};
object thing {
    mac: opt<mac>;
    ips: list<ip> = [];
    at: opt<interface_address>;
    filter: packet_filter = "";
    friend: opt<ref thing>;
    words: map<word_of> = {};
    text: string = "";
}
input table seen(thing: string, net: net, text: string, count: int);
input table tunnel_port(hv: string, tunnel: string, ofport: int) key(hv, tunnel);
input table patch_port(hv: string, patch: string, ofport: int) key(hv, patch);
table wants(owner: string);
wants(id ++ "/7") :- thing(id: id, text: "stays", ..);
wants("int-") :- thing(text: "phy-", ..);
wants(id) :- thing(id: id, mac: some(mac"02:00:00:00:00:99"), ips: [ip"198.51.100.1"], ..);
input table number(owner: string, number: int) key(owner) from allocate(wants, first: 1, last: 9);
"#;

/// What a controller needs of any rules.
const INTERFACE: &str = "
object transport_node { ovsdb: opt<string>; openflow: opt<string>; datapath_type: opt<string>; }
output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);
output table switch_address(hv: ref transport_node, ovsdb: opt<string>, openflow: opt<string>, datapath_type: opt<string>)
    key(hv);
";

fn rules(text: &str) -> Arc<Rules> {
    crate::test_core::rules(&format!("{INTERFACE}{text}"))
}

/// A record with these objects, rows and memories.
fn record(objects: &Json, insert: &Json, memory: &Json) -> Record {
    let revisions: Vec<(u64, u64)> = objects.as_array().into_iter().flatten().map(|_| (3, 4)).collect();
    let record = json!({
        "txn": 9, "at": "2026-11-27T00:00:00Z", "by": "ann", "peer": {"uid": 7, "user": "ann"}, "insert": insert, "memory": memory,
        "objects": {"put": objects}, "announcements": {"begun": ["ann-1 00:16:3e:00:00:07"]},
        "base": {
            "format": 1, "journal": "2026-11-27T00:00:00Z-12345678", "sum": 5, "revisions": revisions,
            "answered": [{"key": {"text": "ann-key", "checksum": 1}, "txn": 8, "at": "2026-11-27T00:00:00Z"}],
            "rules": {"packages": ["builtin", "/home/ann/rules"], "files": {"a.nlog": "# text"}},
            "versions": [{"txn": 5, "at": "2026-11-27T00:00:00Z", "by": "ann", "text": {"packages": [], "files": {}}}],
        },
    });
    serde_json::from_value(record).unwrap()
}

/// What becomes of these.
fn anonymised(objects: &Json, insert: &Json, memory: &Json) -> Json {
    let (record, _) = anonymise(&record(objects, insert, memory), &rules(RULES), [7; SECRET_BYTES]).unwrap();
    serde_json::to_value(record).unwrap()
}

#[test]
fn names_have_numbers_in_their_order_and_what_is_no_name_stays() {
    let objects = json!([
        {"kind": "thing", "id": "ann-1", "labels": {"owner": "ann"}, "mac": "00:16:3e:00:00:07",
            "ips": ["fe80::216:3eff:fe00:7", "10.1.2.3", "127.0.0.1", "198.51.100.1"], "at": "10.1.2.3/24",
            "filter": {"ip_src": "10.1.2.0/24", "tp_dst": 22, "ip_proto": "tcp"}, "words": {"b": "fancy", "a": "plain"},
            "text": "stays"},
        {"kind": "thing", "id": "bob-2", "mac": "02:00:00:00:00:99", "friend": "ann-1", "text": "tcp:10.1.2.3:6640"},
        {"kind": "thing", "id": "cat", "mac": "33:33:00:00:00:01", "text": "unix:/home/ann/db"},
        {"kind": "thing", "id": "dog", "mac": "52:54:00:11:22:33", "text": "ssl:ann.example.org:6640"},
    ]);
    let insert = json!({
        "seen": [["bob-2", "10.1.2.0/24", "00:16:3E:00:00:07", 3], ["dog", "::/0", "could not open bob-2", 4]],
        "number": [["ann-1/7", 1]],
        "unknown": [["bob-2", ["10.1.2.3"], 7]],
    });
    let memory = json!({"number": {"given": [["ann-1/7", 1]], "next": [[2]]}});
    let new = anonymised(&objects, &insert, &memory);
    // In their order: /home/ann/db, a, ann, ann-1, ann.example.org, b, bob-2, cat, "could not open bob-2", dog, owner.
    let (ann, bob, mac, ip) = ("n00004", "n00007", "00:01:00:00:00:01", "10.28.96.3");
    assert_eq!(
        new["objects"]["put"],
        json!([
            {"kind": "thing", "id": ann, "labels": {"n00011": "n00003"}, "mac": mac,
                "ips": ["fe80::201:ff:fe00:1", ip, "127.0.0.1", "198.51.100.1"], "at": format!("{ip}/24"),
                "filter": {"ip_src": "10.28.96.0/24", "tp_dst": 22, "ip_proto": "tcp"},
                "words": {"n00006": "fancy", "n00002": "plain"}, "text": "stays"},
            {"kind": "thing", "id": bob, "mac": "02:00:00:00:00:99", "friend": ann, "text": format!("tcp:{ip}:6640"),
                "ips": [], "filter": {}, "words": {}},
            {"kind": "thing", "id": "n00008", "mac": "33:33:00:00:00:01", "text": "unix:/n00001", "ips": [], "filter": {},
                "words": {}},
            {"kind": "thing", "id": "n00010", "mac": "02:01:00:00:00:02", "text": "ssl:n00005:6640", "ips": [], "filter": {},
                "words": {}},
        ])
    );
    assert_eq!(
        new["insert"],
        json!({
            "seen": [[bob, "10.28.96.0/24", mac, 3], ["n00010", "::/0", "n00009", 4]],
            "number": [[format!("{ann}/7"), 1]],
            "unknown": [[bob, [ip], 7]],
        })
    );
    assert_eq!(new["memory"], json!({"number": {"given": [[format!("{ann}/7"), 1]], "next": [[2]]}}));
    assert_eq!(new["announcements"], json!({"begun": [format!("{ann} {mac}")]}));
    assert_eq!(new["base"]["revisions"], json!([[3, 4], [3, 4], [3, 4], [3, 4]]));
}

#[test]
fn names_that_rules_have_made_of_names_stay_that() {
    let objects = json!([{"kind": "thing", "id": "net"}]);
    let hash = |name: &str| format!("{:#x}", nlog_data::function::hash_values(&[name.into()]) & 0xffff_ffff);
    let insert = json!({
        "tunnel_port": [["hv", "plain-0x1f", 1], ["hv", "mine", 2]],
        "patch_port": [["hv", format!("int-{}", hash("net")), 3], ["hv", "int-0x1", 4]],
    });
    let new = anonymised(&objects, &insert, &json!({}));
    let [hv, other, own, net] = ["n00002", "n00003", "n00005", "n00006"];
    assert_eq!(new["insert"]["tunnel_port"], json!([[hv, "plain-0x1f", 1], [hv, own, 2]]));
    let patch = format!("int-{}", hash(net));
    assert_eq!(new["insert"]["patch_port"], json!([[hv, patch, 3], [hv, other, 4]]));
}

#[test]
fn nothing_says_who_it_was() {
    let new = anonymised(&json!([]), &json!({}), &json!({}));
    for secret in ["\"ann\"", "ann-", "/home", "12345678"] {
        assert!(!new.to_string().contains(secret), "{secret}: {new:#}");
    }
    assert_eq!(
        new["base"]["rules"],
        json!({"packages": ["builtin", "package-1"], "files": {"a.nlog": "# text"}})
    );
}

#[test]
fn bytes_in_hexadecimal_become_those_of_the_new_name() {
    let text = r#"type bytes = string where matches(value, "([0-9a-f]{2})+") else "must be bytes"; input table a(x: bytes);"#;
    let record = record(&json!([]), &json!({"a": [["616e6e"]]}), &json!({}));
    let (new, _) = anonymise(&record, &rules(text), [7; SECRET_BYTES]).unwrap();
    let new = serde_json::to_value(new).unwrap();
    // The bytes of n00001.
    assert_eq!(new["insert"]["a"], json!([["6e3030303031"]]));
}

#[test]
fn what_cannot_be_replaced_is_refused() {
    let why = |text: &str, insert: &Json| {
        let record = record(&json!([]), insert, &json!({}));
        anonymise(&record, &rules(text), [7; SECRET_BYTES]).unwrap_err().to_string()
    };
    let tap =
        r#"type tap = string where matches(value, "tap[0-9]+") else "must be a tap"; input table a(x: tap);"#;
    let refused = why(tap, &json!({"a": [["tap1"]]}));
    assert!(
        refused.contains("a.x") && refused.contains("must be a tap") && refused.contains("n00001"),
        "{refused}"
    );
    let refused = why("input table a(x: match);", &json!({"a": [["tcp"]]}));
    assert!(refused.contains("a.x has matches or actions"), "{refused}");
    let refused = why("input table a(x: int);", &json!({"a": [["tcp"]]}));
    assert!(refused.starts_with("a does not fit the rules: "), "{refused}");
    let transaction = Record { base: None, ..record(&json!([]), &json!({}), &json!({})) };
    let refused = anonymise(&transaction, &rules(""), [7; SECRET_BYTES]).unwrap_err();
    assert!(matches!(refused, AnonymiseError::NoBase));
}
