//! Names by position. In the texts, `‹` and `›` mark the name in question.

#![allow(clippy::unwrap_used)]

use nlog::index::{Index, Symbol, SymbolKind};
use nlog::{Sources, compile, compile_indexed};

/// The index of a text without its marks, the text, and the position of the first mark.
fn indexed(marked: &str) -> (Index, String, u32) {
    let at = marked.find('‹').map_or(0, |at| at as u32);
    let text = marked.replace(['‹', '›'], "");
    let (_, index) = compile_indexed(&Sources::from_texts([("a.nlog", text.as_str())]));
    (index, text, at)
}

/// The entry of the marked name: kind, name, type, and the text from its definition on.
fn at(marked: &str) -> String {
    let (index, text, at) = indexed(marked);
    let Some(symbol) = index.at(0, at) else { return "nothing".to_owned() };
    let Symbol { kind, name, span, definition, ty, .. } = symbol;
    assert_eq!(text[span.start as usize..span.end as usize].trim_matches('"'), name.trim_matches('"'));
    assert_eq!(index.at(0, span.end.max(1) - 1), Some(symbol), "its last letter");
    let ty = ty.as_ref().map_or("?".to_owned(), ToString::to_string);
    let place = definition.map_or("built in".to_owned(), |place| {
        let rest = &text[place.start as usize..];
        rest.chars().take(14).collect()
    });
    format!("{kind:?} {name}: {ty} @ {place}")
}

const TYPES: &str = "type encap = enum {geneve, vxlan}; type endpoint = record {host: string, encap: encap}; \
                     input table up(e: endpoint, n: int) key(e); output table o(x: string, n: int); \
                     const LIMIT = 10; function twice(of: int) -> int = of + of; ";

#[track_caller]
fn says(rule: &str, wanted: &str) {
    assert_eq!(at(&format!("{TYPES}{rule}")), wanted, "{rule}");
}

#[test]
fn names_in_rules() {
    says("‹o›(e.host, n) :- up(e, n);", "Table o: ? @ o(x: string, n");
    says("o(e.host, n) :- ‹up›(e, n);", "Table up: ? @ up(e: endpoint");
    says("o(‹e›.host, n) :- up(e, n);", "Variable e: endpoint @ e.host, n) :- ");
    says("o(e.host, n) :- up(‹e›, n);", "Variable e: endpoint @ e.host, n) :- ");
    says("o(e.‹host›, n) :- up(e, n);", "Field host: string @ host: string, ");
    says("o(x.‹host›, n) :- n = 1, x = y, y = z, up(z, _);", "Field host: string @ host: string, ");
    says("o(e.host, n) :- up(‹n›: n, e: e);", "Column n: int @ n: int) key(e)");
    says("o(e.host, twice(n)) :- up(e, n), n < ‹LIMIT›;", "Constant LIMIT: int @ LIMIT = 10; fu");
    says("o(e.host, ‹twice›(n)) :- up(e, n);", "Function twice: int @ twice(of: int)");
    says("o(e.host, m) :- up(e, n), ‹twice›(n, m);", "Function twice: int @ twice(of: int)");
    says("o(‹lower›(e.host), n) :- up(e, n);", "Function lower: string @ built in");
    says("o(\"\", ‹count›(e)) :- up(e, _);", "Aggregate count: ? @ built in");
    says(
        "o(\"\", 1) :- up(‹endpoint›{host: \"a\", encap: \"vxlan\"}, _);",
        "Type endpoint: endpoint @ endpoint = rec",
    );
    says(
        "o(\"\", 1) :- up(endpoint{‹host›: \"a\", encap: \"vxlan\"}, _);",
        "Field host: string @ host: string, ",
    );
    says("o(\"\", 1) :- up(e, _), e.encap == ‹encap›\"vxlan\";", "Type encap: encap @ encap = enum {");
    says("o(\"\", 1) :- up(e, _), e.encap == \"vxlan\"‹;›", "nothing");
}

#[test]
fn names_in_declarations() {
    assert_eq!(at("input table a(x: int, y: ip) key(‹y›);"), "Column y: ip @ y: ip) key(y);");
    assert_eq!(
        at("table up(x: int); input table a(x: int) from hysteresis(‹up›, rise: 1, fall: 1);"),
        "Table up: ? @ up(x: int); in"
    );
    assert_eq!(
        at(
            "table up(x: int); input table a(x: int, n: int) key(x) from allocate(up, scope: ‹x›, first: 1, last: 2);"
        ),
        "Column x: int @ x: int); input"
    );
    let allocated = |settings: &str| {
        at(&format!(
            "const x = 7; table up(x: int); input table a(x: int, n: int) key(x) from allocate(up, {settings});"
        ))
    };
    assert_eq!(allocated("scope: ‹x›, first: x, last: x"), "Column x: int @ x: int); input");
    assert_eq!(allocated("scope: x, first: ‹x›, last: 9"), "Constant x: int @ x = 7; table u");
    assert_eq!(allocated("first: 1, last: x * ‹max_of›(x, 8)"), "Function max_of: ? @ built in");
    assert_eq!(at("table a(x: int, y: int) key(x) unique(‹y›);"), "Column y: int @ y: int) key(x)");
    assert_eq!(at("type a = set<‹b›>; type b = int;"), "Type b: int @ b = int;");
    assert_eq!(at("type a = set<‹int›>;"), "Type int: int @ built in");
    assert_eq!(at("type a = enum {x, ‹y›};"), "Member y: a @ y};");
    assert_eq!(at("type a = record {x: int, ‹y›: set<ip>};"), "Field y: set<ip> @ y: set<ip>};");
    assert_eq!(at("function f(x: int) -> int = ‹x› + 1;"), "Parameter x: int @ x: int) -> int");
    assert_eq!(at("const x = 1; function f(x: ip) -> ip = ‹x›;"), "Parameter x: ip @ x: ip) -> ip =");
    assert_eq!(at("const A = 1; const B = ‹A› + 1;"), "Constant A: int @ A = 1; const B");
}

#[test]
fn names_of_objects() {
    let text = "type pair = record {k: string, n: int}; const N = 1; object switch { ## MTU.\nmtu: int was size = N; } \
                object port { switch: ref switch; peers: list<ref port | switch>; pairs: map<pair> = {}; \
                unique(switch, pairs.k); } forbid table refuse(kind: string, id: string, path: string, text: string); \
                refuse(\"port\", p, \"pairs[0].n\", \"no\") :- port(id: p, switch: s, ..), switch(s, mtu), mtu > N;";
    let at = |before: &str, name: &str| {
        let whole = format!("{before}{name}");
        assert_eq!(text.matches(&whole).count(), 1, "{whole}");
        at(&text.replace(&whole, &format!("{before}‹{name}›")))
    };
    assert_eq!(at("object ", "switch"), "Table switch: ? @ switch { ## MT");
    assert_eq!(at("## MTU.\n", "mtu"), "Column mtu: int @ mtu: int was s");
    assert_eq!(at("was ", "size"), "Column size: int @ mtu: int was s");
    assert_eq!(at("size = ", "N"), "Constant N: int @ N = 1; object ");
    assert_eq!(at("switch: ref ", "switch"), "Table switch: ? @ switch { ## MT");
    assert_eq!(at("port | ", "switch"), "Table switch: ? @ switch { ## MT");
    assert_eq!(at("map<", "pair"), "Type pair: pair @ pair = record ");
    assert_eq!(at("unique(", "switch"), "Column switch: ref switch @ switch: ref sw");
    assert_eq!(at("switch, ", "pairs"), "Column pairs: map<pair> @ pairs: map<pai");
    assert_eq!(at("pairs.", "k"), "Field k: string @ k: string, n: ");
    assert_eq!(at("refuse(\"", "port"), "Table port: ? @ port { switch:");
    assert_eq!(at("p, \"", "pairs"), "Column pairs: map<pair> @ pairs: map<pai");
    assert_eq!(at("pairs[0].", "n"), "Field n: int @ n: int}; const");
    assert_eq!(at("port(", "id"), "Column id: ref port @ built in");
    assert_eq!(at("refuse(\"port\", ", "p"), "Variable p: ref port @ p, \"pairs[0].n");
    assert_eq!(at("switch: ", "s"), "Variable s: ref switch @ s, ..), switch");
    assert_eq!(at("p, ", "switch"), "Column switch: ref switch @ switch: ref sw");
    let (index, _, _) = indexed(text);
    let mtu = index.at(0, text.find("mtu: int").unwrap() as u32).unwrap();
    assert_eq!(mtu.doc, "MTU.");
    let outline: Vec<&str> = index.definitions(0).into_iter().map(|symbol| symbol.name.as_str()).collect();
    assert_eq!(
        outline,
        [
            "pair", "k", "n", "N", "switch", "mtu", "port", "switch", "peers", "pairs", "refuse", "kind",
            "id", "path", "text"
        ]
    );
}

#[test]
fn names_of_the_pipeline() {
    let text = "## Egress.\nfield outport = reg1; field mark = reg2[5]; ## Learned.\nstage FDB = 21; priority KNOWN of FDB = 50..LAST; \
                type small = int 0..LAST; reserve FEW of small = 1..LAST; \
                const LAST = 60; output table o(s: int, p: int, m: match, a: actions); input table i(outport: int); \
                o(FDB, KNOWN, match{outport: outport, mark: 1}, actions[set(mark, 1), move(outport[0..7], reg5[0..7]), \
                learn(table: FDB, priority: KNOWN, copy(outport)), output_field(outport)]) :- i(outport);";
    let all = |of: &str| -> Vec<String> {
        let places = text.match_indices(of).map(|(place, _)| place);
        places.map(|place| at(&format!("{}‹{of}›{}", &text[..place], &text[place + of.len()..]))).collect()
    };
    let field = "PacketField outport: ? @ outport = reg1";
    let column = "Column outport: int @ outport: int);";
    let variable = "Variable outport: int @ outport, mark:";
    let shown: Vec<String> =
        all("outport").iter().map(|shown| shown.chars().take(field.len()).collect()).collect();
    let wanted = [field, column, field, variable, field, field, field, variable];
    let wanted: Vec<String> = wanted.iter().map(|shown| shown.chars().take(field.len()).collect()).collect();
    assert_eq!(shown, wanted);
    assert!(
        all("mark").iter().all(|shown| shown == "PacketField mark: ? @ mark = reg2[5]"),
        "{:?}",
        all("mark")
    );
    assert!(all("FDB").iter().all(|shown| shown == "Constant FDB: int @ FDB = 21; prio"), "{:?}", all("FDB"));
    assert!(
        all("KNOWN").iter().all(|shown| shown == "Constant KNOWN: int @ KNOWN of FDB ="),
        "{:?}",
        all("KNOWN")
    );
    assert!(
        all("LAST").iter().all(|shown| shown == "Constant LAST: int @ LAST = 60; out"),
        "{:?}",
        all("LAST")
    );
    assert_eq!(all("reg5"), ["OpenFlowField reg5: ? @ built in"]);
    assert_eq!(all("FEW"), ["Constant FEW: int @ FEW of small ="]);
    assert_eq!(all("small"), ["Type small: int @ small = int 0."; 2]);
    let (index, _, _) = indexed(text);
    let doc = |of: &str| index.at(0, text.find(of).unwrap() as u32).unwrap().doc.clone();
    assert_eq!(doc("outport"), "Egress.\nstands for reg1");
    assert_eq!(doc("mark"), "stands for reg2[5]");
    assert_eq!(doc("FDB"), "21\nLearned.");
    let outline: Vec<&str> = index.definitions(0).into_iter().map(|symbol| symbol.name.as_str()).collect();
    assert_eq!(outline[..7], ["outport", "mark", "FDB", "KNOWN", "small", "FEW", "LAST"]);
}

#[test]
fn names_of_openflow() {
    let table = "output table f(m: match, a: actions); input table i(port: int); ";
    let at = |rule: &str| at(&format!("{table}{rule}"));
    assert_eq!(at("f(match{‹reg0›: port}, actions[]) :- i(port);"), "OpenFlowField reg0: ? @ built in");
    assert_eq!(
        at("f(match{‹tcp›, tcp_dst: port}, actions[]) :- i(port);"),
        "OpenFlowField tcp: ? @ built in"
    );
    assert_eq!(at("f(match{reg0: ‹port›}, actions[]) :- i(port);"), "Variable port: int @ port}, actions");
    assert_eq!(at("f(match{}, actions[‹set›(reg0, port)]) :- i(port);"), "OpenFlowAction set: ? @ built in");
    assert_eq!(at("f(match{}, actions[set(‹reg0›, port)]) :- i(port);"), "OpenFlowField reg0: ? @ built in");
    assert_eq!(
        at("f(match{}, actions[set(reg0, ‹port›)]) :- i(port);"),
        "Variable port: int @ port)]) :- i(p"
    );
    assert_eq!(
        at("f(match{}, actions[ct(commit, exec(set(ct_mark, ‹port›)))]) :- i(port);"),
        "Variable port: int @ port)))]) :- i"
    );
}

#[test]
fn documentation_is_at_hand() {
    let doc = |marked: &str| {
        let (index, _, at) = indexed(marked);
        index.at(0, at).unwrap().doc.clone()
    };
    assert_eq!(
        doc("## All ports.\ninput table a(x: int); output table b(x: int); b(x) :- ‹a›(x);"),
        "All ports."
    );
    assert_eq!(doc("## How.\ntype e = enum {a}; input table a(x: ‹e›);"), "How.");
    assert_eq!(
        doc("## Twice.\nfunction f(x: int) -> int = 2 * x; const A = ‹f›(1);"),
        "f(x: int) -> result: int\nTwice."
    );
    assert_eq!(doc("const A = 2; const B = ‹A›;"), "2");
    assert!(doc("const A = ‹lower›(\"A\");").contains("lower(text: string) -> lower: string\n"));
}

#[test]
fn references_are_found_from_anywhere() {
    let text = "input table a(x: int, y: int) key(x); output table b(x: int, y: int); b(x, y) :- a(x: x, y: y), x > 1; b(x, 1) :- a(x, _);";
    let (index, _, _) = indexed(text);
    let places = |name: &str, nth: usize| {
        let at = text.match_indices(name).nth(nth).unwrap().0 as u32;
        let definition = index.at(0, at).unwrap().definition.unwrap();
        index.references(definition).iter().map(|span| span.start).collect::<Vec<u32>>()
    };
    // The table.
    let tables: Vec<u32> =
        ["a(x: int", "a(x: x", "a(x, _"].iter().map(|part| text.find(part).unwrap() as u32).collect();
    assert_eq!(places("a(x", 1), tables);
    // The column `x` of `a`: declared, in the key, named in an atom.
    let columns: Vec<u32> =
        [text.find("x: int").unwrap(), text.find("key(x").unwrap() + 4, text.find("x: x").unwrap()]
            .map(|at| at as u32)
            .to_vec();
    assert_eq!(places("x: x", 0), columns);
    // The variable `x` of the first rule is not that of the second.
    let first = text.find("b(x, y)").unwrap() as u32 + 2;
    assert_eq!(
        places("x, y) :-", 0),
        [first, text.find("x, y: y").unwrap() as u32, text.find("x > 1").unwrap() as u32]
    );
}

#[test]
fn files_have_outlines() {
    let texts = [
        (
            "a.nlog",
            "import \"b.nlog\"; const A: int = 1; output table o(x: t); function f(p: int) -> int = p; o(x) :- i(x);",
        ),
        ("b.nlog", "type t = enum {a, b}; type r = record {f: t}; input table i(x: t);"),
    ];
    let (_, index) = compile_indexed(&Sources::from_texts(texts));
    let outline = |file: u32| {
        let all = index.definitions(file).into_iter();
        all.map(|symbol| format!("{:?} {}", symbol.kind, symbol.name)).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(outline(0), "Constant A, Table o, Column x, Function f");
    assert_eq!(outline(1), "Type t, Member a, Member b, Type r, Field f, Table i, Column x");
    // Across files.
    let table = index.definitions(1).into_iter().find(|symbol| symbol.kind == SymbolKind::Table).unwrap();
    assert_eq!(index.references(table.span).iter().map(|span| span.file).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn programs_with_errors_are_known_as_far_as_they_go() {
    says(
        "o(e.host, n) :- up(e, n), n == ; o(‹e›.hos, n) :- up(e, m), n = m ++ 1;",
        "Variable e: endpoint @ e.hos, n) :- u",
    );
    says("o(e.hos, n) :- up(e, m), ‹n› = unknown(m);", "Variable n: int @ n) :- up(e, m)");
    says("o(e, ‹m›) :- up(e, m), nothing(m);", "Variable m: int @ m) :- up(e, m)");
    says("o(‹e›, \"a\") :- up(e, 1); table broken(x: ;", "Variable e: ? @ e, \"a\") :- up(");
    says("o(‹e›.host, 1) :- up(e);", "Variable e: ? @ e.host, 1) :- ");
}

#[test]
fn an_index_changes_nothing() {
    let text = format!("{TYPES} o(e.host, n) :- up(e, n), missing(n); o(x, 1) :- up(y, 1);");
    let sources = Sources::from_texts([("a.nlog", text)]);
    assert_eq!(compile(&sources).diagnostics, compile_indexed(&sources).0.diagnostics);
}
