//! Reading objects takes memory in proportion to their text, whatever the text is.

use network::{Batch, Cancel};

use crate::support::built_in;

/// What one object takes while it is read, beyond the bound for each byte: at most 100,000 values, of which mappings with
/// one field take most, 33,000 of them a node of a tree with room for eleven fields. It is not kept.
const ONE_OBJECT: usize = 24 << 20;

/// Texts of some hundred kilobytes, each made to take as much memory as it can.
fn worst() -> Vec<(&'static str, String)> {
    let object = |fields: &str| format!("{{\"kind\": \"switch\", \"id\": \"a\", {fields}}}");
    let list = |item: &str, count: usize| object(&format!("\"x\": [{}0]", item.repeat(count)));
    let objects = |count: usize, each: &dyn Fn(usize) -> String, between: &str| {
        (0..count).map(each).collect::<Vec<_>>().join(between)
    };
    vec![
        ("empty lists", list("[],", 90_000)),
        ("lists of one number", list("[0],", 45_000)),
        ("numbers", list("0,", 90_000)),
        ("too many numbers", list("0,", 150_000)),
        ("empty mappings", list("{},", 90_000)),
        ("mappings of one field", list("{\"a\":0},", 30_000)),
        ("too many mappings", list("{\"a\":0},", 40_000)),
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
        decoder_memory::bounded(&format!("{form}, {name}"), text.len(), ONE_OBJECT, || {
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
