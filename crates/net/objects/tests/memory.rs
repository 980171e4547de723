//! Reading objects takes memory in proportion to their text, whatever the text is.

use objects::{Batch, Cancel};

use crate::support::built_in;

/// What reading takes of any text: the faults that are reported, of which there are at most a thousand, and the buffers of the parsers.
const ANY_TEXT: usize = 512 << 10;

/// Texts of some hundred kilobytes, each made to take as much memory as it can.
fn worst() -> Vec<(&'static str, String)> {
    let node = |fields: &str| format!("{{\"kind\": \"transport_node\", \"id\": \"a\", {fields}}}");
    let port = |addresses: &str| {
        format!("{{\"kind\": \"switch_port\", \"id\": \"a\", \"switch\": \"a\", \"addresses\": {addresses}}}")
    };
    let group =
        |ports: &str| format!("{{\"kind\": \"port_group\", \"id\": \"a\", \"ports\": [{ports}\"a\"]}}");
    let acl = |labels: &str| {
        format!(
            "{{\"kind\": \"acl\", \"id\": \"a\", \"to\": {{\"ports\": {{\"labels\": {{{labels}\"a\":\"\"}}}}}}}}"
        )
    };
    let object = |fields: &str| format!("{{\"kind\": \"switch\", \"id\": \"a\", {fields}}}");
    let list = |item: &str, count: usize| object(&format!("\"x\": [{}0]", item.repeat(count)));
    let objects = |count: usize, each: &dyn Fn(usize) -> String, between: &str| {
        (0..count).map(each).collect::<Vec<_>>().join(between)
    };
    vec![
        ("empty lists", list("[],", 90_000)),
        ("lists of one number", list("[0],", 45_000)),
        ("numbers", list("0,", 90_000)),
        ("numbers whose list has just doubled", list("0,", 65_540)),
        ("mappings whose list has just doubled", list("{\"a\":0},", 32_770)),
        ("too many numbers", list("0,", 150_000)),
        ("empty mappings", list("{},", 90_000)),
        ("mappings of one field", list("{\"a\":0},", 30_000)),
        ("too many mappings", list("{\"a\":0},", 40_000)),
        ("mappings of two fields", list("{\"a\":0,\"b\":0},", 20_000)),
        ("lists of an empty list", list("[[]],", 60_000)),
        ("mappings of an empty mapping", list("{\"a\":{}},", 30_000)),
        ("short texts", list("\"\",", 90_000)),
        (
            "different fields",
            object(&format!("\"x\": {{{}\"a\":0}}", numbered(60_000, |n| format!("\"{n}\":0,")))),
        ),
        ("unknown fields", object(numbered(60_000, |n| format!("\"{n}\":0,")).trim_end_matches(','))),
        (
            "labels",
            object(&format!("\"labels\": {{{}\"a\":\"\"}}", numbered(45_000, |n| format!("\"{n}\":\"\",")))),
        ),
        (
            "labels that are none",
            object(&format!("\"labels\": {{{}\"a\":\"\"}}", numbered(45_000, |n| format!("\"{n}\":0,")))),
        ),
        ("addresses that are none", port(&format!("[{}0]", "0,".repeat(90_000)))),
        ("empty addresses", port(&format!("[{}0]", "{},".repeat(90_000)))),
        (
            "addresses of many addresses",
            port(&format!(
                "[{{\"mac\":\"02:00:00:00:00:01\",\"ips\":[{}\"::\"]}}]",
                "\"::\",".repeat(45_000)
            )),
        ),
        ("roles", node(&format!("\"roles\": [{}\"gateway\"]", "\"gateway\",".repeat(45_000)))),
        ("roles that are none", node(&format!("\"roles\": [{}0]", "\"\",".repeat(90_000)))),
        ("members of a group", group(&numbered(45_000, |n| format!("\"{n}\",")))),
        ("one member of a group", group(&"\"a\",".repeat(45_000))),
        ("the labels of ports", acl(&numbered(30_000, |n| format!("\"{n}\":\"\",")))),
        ("one field again and again", object(&"\"x\":0,".repeat(150_000))),
        ("nested lists", list(&("[".repeat(100) + &"]".repeat(100) + ","), 900)),
        ("brackets that do not close", "[".repeat(300_000)),
        ("escapes", object(&format!("\"x\": \"{}\"", "\\u00e9".repeat(40_000)))),
        ("empty objects", objects(100_000, &|_| "{}".to_owned(), "\n")),
        ("objects", objects(10_000, &|n| format!("{{\"kind\":\"switch\",\"id\":\"s{n}\"}}"), "\n")),
        ("objects of many columns", {
            objects(
                10_000,
                &|n| format!("{{\"kind\":\"transport_node\",\"id\":\"s{n}\",\"ip\":\"10.0.0.1\"}}"),
                "\n",
            )
        }),
        (
            "deletions",
            objects(10_000, &|n| format!("{{\"kind\":\"switch\",\"id\":\"s{n}\",\"delete\":true}}"), "\n"),
        ),
        (
            "one object again and again",
            objects(10_000, &|_| "{\"kind\":\"switch\",\"id\":\"s\"}".to_owned(), "\n"),
        ),
    ]
}

/// So many items, each with its own number in few digits.
fn numbered(count: usize, item: impl Fn(&str) -> String) -> String {
    (0..count).map(|number| item(&format!("{number:x}"))).collect()
}

/// Likewise, in the forms that YAML alone has.
fn worst_yaml() -> Vec<(&'static str, String)> {
    let long = "x".repeat(5_000);
    vec![
        ("aliases", format!("- &a {long}\n{}", "- *a\n".repeat(20_000))),
        ("pairs in a list", format!("[{}a]", "?,".repeat(80_000))),
        ("empty pairs", format!("[{}a]", "a:,".repeat(60_000))),
        ("keys alone", "?\n".repeat(120_000)),
        ("dashes", "-\n".repeat(120_000)),
        ("dashes in a line", "- ".repeat(100_000)),
        ("sets", format!("kind: switch\nid: a\nx: [{}a]", "{a},".repeat(30_000))),
        ("sets whose list has just doubled", format!("kind: switch\nid: a\nx: [{}a]", "{a},".repeat(32_770))),
        ("nothings whose list has just doubled", "-\n".repeat(65_540)),
        (
            "fields whose list has just doubled",
            format!("kind: switch\nid: a\nx: {{{}}}", numbered(32_770, |n| format!("{n}x,"))),
        ),
        ("sets of sets", format!("kind: switch\nid: a\nx: [{}a]", "{{a}},".repeat(30_000))),
        ("fields alone", format!("kind: switch\nid: a\nx: {{{}}}", numbered(60_000, |n| format!("{n}x,")))),
        (
            "labels alone",
            format!("kind: switch\nid: a\nlabels: {{{}}}", numbered(60_000, |n| format!("x{n},"))),
        ),
        (
            "labels of one letter",
            format!("kind: switch\nid: a\nlabels: {{{}}}", numbered(45_000, |n| format!("x{n}: a,"))),
        ),
        (
            "ports alone",
            format!("kind: port_group\nid: a\nports: [{}]", numbered(60_000, |n| format!("x{n},"))),
        ),
        ("one port", format!("kind: port_group\nid: a\nports: [{}]", "a,".repeat(90_000))),
        (
            "labels of ports",
            format!(
                "kind: acl\nid: a\nto: {{ports: {{labels: {{{}}}}}}}",
                numbered(45_000, |n| format!("x{n}: a,"))
            ),
        ),
        ("many documents", "---\n".repeat(60_000)),
        (
            "short documents",
            (0..10_000).map(|n| format!("---\n{{kind: switch, id: s{n}}}\n")).collect::<Vec<_>>().concat(),
        ),
        ("quotes", format!("'{}'", "''".repeat(100_000))),
        ("escapes of three bytes", format!("\"{}\"", "\\P".repeat(100_000))),
        ("folded lines", format!(">\n{}", " a\n".repeat(80_000))),
        ("empty lines", "\n".repeat(250_000)),
        ("comments", "#\n".repeat(120_000)),
        ("long tag", format!("!{} a", "x".repeat(250_000))),
        ("directives", "%TAG ! a\n".repeat(100_000)),
        ("indentation", (0..600).map(|n| " ".repeat(n) + "-\n").collect()),
    ]
}

#[test]
fn d1_the_memory_of_objects_follows_their_text() {
    let kinds = built_in();
    let check = |form: &str, name: &str, text: &str| {
        decoder_memory::bounded(&format!("{form}, {name}"), text.len(), ANY_TEXT, || {
            let mut batch = Batch::new(&kinds, Cancel::default());
            batch.add_document(form, text);
            batch
        });
    };
    for (name, text) in worst() {
        check("net.json", name, &text);
        check("net.yaml", name, &text);
        check("-", name, &text);
    }
    for (name, text) in worst_yaml() {
        check("net.yaml", name, &text);
        check("-", name, &text);
    }
}

/// What stays after the reading has a bound without an allowance: an object is kept, its tree is not.
#[test]
fn d1_a_batch_is_no_larger_than_its_text_by_far() {
    let kinds = built_in();
    for (name, text) in worst().into_iter().chain(worst_yaml()) {
        let (mut batch, _) = decoder_memory::peak(|| Batch::new(&kinds, Cancel::default()));
        decoder_memory::kept(name, text.len(), 1 << 20, || batch.add_document("-", &text));
    }
}
