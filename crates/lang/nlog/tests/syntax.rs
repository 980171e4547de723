//! The AST of texts.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;

use nlog::syntax::ast::{
    Argument, Call, Change, Expr, ExprKind, File, ItemKind, Packet, TestStepKind, TypeDefinition, TypeRef,
};
use nlog::syntax::{SyntaxKind, SyntaxNode, lower, parse};

/// Reads a text without mistakes.
fn read(text: &str) -> File {
    let parsed = parse(text);
    assert_eq!(parsed.root().text().to_string(), text);
    assert!(parsed.errors.is_empty(), "{text}\n{:#?}", parsed.errors);
    let file = lower(&parsed.root(), 0);
    assert!(file.errors.is_empty(), "{text}\n{:?}", file.errors);
    file
}

/// An expression with brackets around everything.
fn show(expr: &Expr) -> String {
    let all = |values: &[Expr]| values.iter().map(show).collect::<Vec<_>>().join(", ");
    match &expr.kind {
        ExprKind::Name(name) => name.clone(),
        ExprKind::Wildcard => "_".into(),
        ExprKind::Int(value) => value.to_string(),
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::String(text) => format!("{text:?}"),
        ExprKind::Prefixed(prefix, text) => format!("{prefix}{text:?}"),
        ExprKind::Malformed => "MALFORMED".into(),
        ExprKind::Call(call) => show_call(call),
        ExprKind::Negative(value) => format!("(-{})", show(value)),
        ExprKind::Negation(_, value) => format!("(not {})", show(value)),
        ExprKind::Binary(sign, left, right) => format!("({} {} {})", show(left), sign.name, show(right)),
        ExprKind::If(condition, then, otherwise) => {
            format!("(if {} then {} else {})", show(condition), show(then), show(otherwise))
        }
        ExprKind::List(values) => format!("[{}]", all(values)),
        ExprKind::Set(values) => format!("{{{}}}", all(values)),
        ExprKind::Record(name, fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(field, value)| format!("{}: {}", field.name, show(value))).collect();
            format!("{}{{{}}}", name.name, fields.join(", "))
        }
        ExprKind::Field(value, name) => format!("({}.{})", show(value), name.name),
        ExprKind::Match(terms) => {
            let terms = terms.iter().map(|term| {
                let bits = term.bits.map(|(first, last)| format!("[{first}..{last}]")).unwrap_or_default();
                let value = term.value.as_ref().map(|value| format!(": {}", show(value))).unwrap_or_default();
                format!("{}{bits}{value}", term.name.name)
            });
            format!("match{{{}}}", terms.collect::<Vec<_>>().join(", "))
        }
        ExprKind::Actions(actions) => format!("actions[{}]", all(actions)),
        ExprKind::Bits(name, first, last) => format!("{}[{first}..{last}]", name.name),
        ExprKind::Masked(value, mask) => format!("<{}/{}>", show(value), show(mask)),
    }
}

fn show_call(call: &Call) -> String {
    let mut arguments: Vec<String> = call
        .arguments
        .iter()
        .map(|Argument { name, value }| {
            let name = name.as_ref().map(|name| format!("{}: ", name.name)).unwrap_or_default();
            format!("{name}{}", show(value))
        })
        .collect();
    if call.rest.is_some() {
        arguments.push("..".into());
    }
    format!("{}({})", call.name.name, arguments.join(", "))
}

fn show_type(ty: &TypeRef) -> String {
    let of = ty.of.as_ref().map(|of| format!("<{}>", show_type(of))).unwrap_or_default();
    let kinds: Vec<String> = ty.kinds.iter().map(|kind| format!(" {}", kind.name)).collect();
    format!("{}{of}{}", ty.name.name, kinds.join(" |"))
}

fn value(text: &str) -> String {
    show(read(&format!("const C = {text};")).constants[0].value.as_ref().unwrap())
}

#[test]
fn types() {
    let file = read(
        "## How tunnels\n## are encapsulated.\ntype encap = enum {geneve, \"v x\", stt,};\ntype label = opt<int>;\n\
         type endpoint = record {host: string, encap: encap, next: set<opt<ip>>,}; type none = record {none: none};\n\
         type enum = record; type x = enum; type where = where; type vlan = int 1..LAST;\n\
         type few = set<vlan> -1..2 where f(value) else \"at most \\\"two\\\"\" where if a then b else c else \"d\";",
    );
    let shown: Vec<String> = file
        .types
        .iter()
        .map(|ty| {
            let definition = match ty.definition.as_ref().unwrap() {
                TypeDefinition::Alias(of) => show_type(of),
                TypeDefinition::Constrained(of) => {
                    let range = of
                        .range
                        .iter()
                        .map(|range| format!(" {}..{}", show(&range.least), show(&range.greatest)));
                    let conditions = of.conditions.iter().map(|condition| {
                        let message = condition.message.iter().map(|text| format!(" else {text:?}"));
                        format!(" where {}{}", show(&condition.holds), message.collect::<String>())
                    });
                    format!("{}{}", show_type(&of.base), range.chain(conditions).collect::<String>())
                }
                TypeDefinition::Enum(members) => {
                    let members: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
                    format!("{members:?}")
                }
                TypeDefinition::Record(fields) => {
                    let fields = fields.iter().map(|(name, ty)| format!("{}: {}", name.name, show_type(ty)));
                    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
                }
            };
            format!("{} = {definition}", ty.name.name)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "encap = [\"geneve\", \"v x\", \"stt\"]",
            "label = opt<int>",
            "endpoint = {host: string, encap: encap, next: set<opt<ip>>}",
            "none = {none: none}",
            "enum = record",
            "x = enum",
            "where = where",
            "vlan = int 1..LAST",
            "few = set<vlan> -1..2 where f(value) else \"at most \\\"two\\\"\" where (if a then b else c) else \"d\"",
        ]
    );
    assert_eq!(file.types[0].doc, "How tunnels\nare encapsulated.");
}

#[test]
fn hooks_of_tables() {
    let text =
        "input table a(x: int) key(x) from held(up, rise: 0x10, fall: from + 1,); input table b() from all(from);
         input table c(x: int) from held(up, rise: 1x); table d(); from(x) :- a(x);";
    let file = lower(&parse(text).root(), 0);
    let hooks: Vec<Option<String>> = file
        .tables
        .iter()
        .map(|table| {
            let hook = table.hook.as_ref()?;
            let settings =
                hook.settings.iter().map(|(name, value)| format!("{}: {}", name.name, show(value)));
            let settings: Vec<String> = settings.collect();
            let written = &text[hook.span.start as usize..hook.span.end as usize];
            Some(format!("{}({}) {settings:?} {written}", hook.name.name, hook.source.name))
        })
        .collect();
    let wanted = [
        Some(
            "held(up) [\"rise: 16\", \"fall: (from + 1)\"] from held(up, rise: 0x10, fall: from + 1,)"
                .to_owned(),
        ),
        Some("all(from) [] from all(from)".to_owned()),
        Some("held(up) [\"rise: MALFORMED\"] from held(up, rise: 1x)".to_owned()),
        None,
    ];
    assert_eq!(hooks, wanted);
    assert_eq!(file.errors.len(), 1, "the malformed number");
    assert_eq!(file.rules[0].head.name.name, "from");
}

#[test]
fn what_is_unique_in_tables() {
    let text =
        "table a(x: int, y: int) key(x) unique(y, x,) unique(y) from unique(a); table unique(unique: int)
         unique(unique); table b(x: int)\nunique(x) :- a(x);";
    let file = lower(&parse(text).root(), 0);
    let names = |names: &Vec<nlog::syntax::ast::Ident>| {
        names.iter().map(|name| name.name.clone()).collect::<Vec<_>>()
    };
    let uniques: Vec<Vec<Vec<String>>> =
        file.tables.iter().map(|table| table.uniques.iter().map(names).collect()).collect();
    assert_eq!(uniques, [vec![vec!["y", "x"], vec!["y"]], vec![vec!["unique"]], Vec::new()]);
    // At the start of a line it is the head of a rule, after a semicolon that is missing.
    assert_eq!(file.rules[0].head.name.name, "unique");
}

#[test]
fn kinds_of_objects() {
    let text =
        "## Doc.\nobject port {\n## Its switch.\n## Or router.\nswitch: ref switch | router; id_space ports;
                was: set<opt<ref where_>> was a, was = {f(1)}; unique(was.mac, switch,); ref: ref was b; }
                object object {} state table state(ref: ref, x: map<ref x>) key(ref); table t(x: int);";
    let file = read(text);
    let shown: Vec<String> = file
        .tables
        .iter()
        .map(|table| {
            let columns = table.columns.iter().flatten();
            let columns: Vec<String> =
                columns.map(|(name, ty)| format!("{}: {}", name.name, show_type(ty))).collect();
            let object = table.object.as_ref().map(|object| {
                let fields = object.fields.iter().map(|field| {
                    let formers: Vec<&str> =
                        field.formers.iter().map(|former| former.name.as_str()).collect();
                    format!(
                        "{formers:?} {} {:?}",
                        field.default.as_ref().map(show).unwrap_or_default(),
                        field.doc
                    )
                });
                let names = |path: &Vec<nlog::syntax::ast::Ident>| {
                    path.iter().map(|name| name.name.clone()).collect::<Vec<_>>().join(".")
                };
                let uniques: Vec<Vec<String>> =
                    object.uniques.iter().map(|paths| paths.iter().map(names).collect()).collect();
                let spaces: Vec<&str> = object.id_spaces.iter().map(|space| space.name.as_str()).collect();
                format!("; {}; {uniques:?} {spaces:?}", fields.collect::<Vec<_>>().join(", "))
            });
            let state = if table.state { "state " } else { "" };
            format!("{state}{}({}){}", table.name.name, columns.join(", "), object.unwrap_or_default())
        })
        .collect();
    assert_eq!(
        shown,
        [
            "port(id: ref port, switch: ref switch | router, was: set<opt<ref where_>>, ref: ref); []  \
             \"Its switch.\\nOr router.\", [\"a\", \"was\"] {f(1)} \"\", [\"b\"]  \"\"; [[\"was.mac\", \"switch\"]] [\"ports\"]",
            "object(id: ref object); ; [] []",
            "state state(ref: ref, x: map<ref x>)",
            "t(x: int)",
        ]
    );
    assert_eq!(file.tables[0].doc, "Doc.");
}

#[test]
fn names_of_the_pipeline() {
    let text = "## Egress.\n## Port.\nfield outport = reg1; field stage = reg2[5]; field field = reg3[0..0xf];
                ## Learned.\nstage FDB = 20; stage stage = (FDB + 1); ## Known.\npriority KNOWN of FDB = 50;
                priority of of of = 1000..(1000 + MORE); priority priority of stage = LEAST..-1;
                ## Kept.\nreserve KEPT of meter = 1..(2 + MORE); reserve reserve of of = 7; ## Told.\nrule(of);";
    let file = read(text);
    let fields = file.fields.iter().map(|field| {
        let of = field.of.as_ref().map(|of| of.name.as_str());
        format!("{} = {of:?} {:?} {:?}", field.name.name, field.bits, field.doc)
    });
    let value = |name: &str| {
        let constant = file.constants.iter().find(|constant| constant.name.name == name).unwrap();
        let value = constant.value.as_ref().unwrap();
        (show(value), value.span, constant.doc.clone())
    };
    let stages = file.stages.iter().map(|stage| {
        let (shown, span, doc) = value(&stage.name.name);
        assert_eq!((stage.number, &stage.doc), (Some(span), &doc));
        format!("{} = {shown} {doc:?}", stage.name.name)
    });
    let ranges = file.priorities.iter().chain(&file.reservations);
    let ranges = ranges.map(|priority| {
        let (shown, span, doc) = value(&priority.name.name);
        assert_eq!((priority.least, &priority.doc), (Some(span), &doc));
        let (stage, greatest) = (priority.of.as_ref().unwrap(), priority.greatest.as_ref().map(show));
        format!("{} of {} = {shown}..{greatest:?} {doc:?}", priority.name.name, stage.name)
    });
    let shown: Vec<String> = fields.chain(stages).chain(ranges).collect();
    assert_eq!(
        shown,
        [
            "outport = Some(\"reg1\") None \"Egress.\\nPort.\"",
            "stage = Some(\"reg2\") Some((5, 5)) \"\"",
            "field = Some(\"reg3\") Some((0, 15)) \"\"",
            "FDB = 20 \"Learned.\"",
            "stage = (FDB + 1) \"\"",
            "KNOWN of FDB = 50..None \"Known.\"",
            "of of of = 1000..Some(\"(1000 + MORE)\") \"\"",
            "priority of stage = LEAST..Some(\"-1\") \"\"",
            "KEPT of meter = 1..Some(\"(2 + MORE)\") \"Kept.\"",
            "reserve of of = 7..None \"\"",
        ]
    );
    assert_eq!(file.rules[0].doc, "Told.");
}

/// A program from before there were objects, or names of the pipeline, may have these names.
#[test]
fn words_of_declarations_are_names_of_everything() {
    for word in [
        "object", "state", "listing", "counter", "reads", "as", "ref", "was", "unique", "id_space", "map",
        "choice", "field", "stage", "priority", "reserve", "of",
    ] {
        let text = format!(
            "type {word} = int 1..5 where value > 0; input table {word}({word}: {word}, x: opt<{word}>) key({word});
             function f({word}: {word}) -> {word} = {word} + 1; const c: {word} = 3;
             output table o({word}: {word}, x: int); o({word}, f({word})) :- {word}({word}, _), {word} < c;
             {word}_(y) :- {word}(x, _), y = x; type {word}_ = {word} where value > 1;
             table {word}_(x: {word}_); o({word}: x, x: y) :- {word}_(x), y = x;"
        );
        let compilation = nlog::compile(&nlog::Sources::from_texts([("a.nlog", text.as_str())]));
        assert!(compilation.program.is_some(), "{word}: {:#?}", compilation.diagnostics);
        assert!(compilation.diagnostics.is_empty(), "{word}: {:#?}", compilation.diagnostics);
    }
}

#[test]
fn functions() {
    let text = "## Doc.\nfunction from_port(dp: int, of: opt<int>,) -> match = match{metadata: dp};\nfunction f() -> int = 1;";
    let file = read(text);
    let functions: Vec<String> = file
        .functions
        .iter()
        .map(|function| {
            let parameters = function.parameters.as_ref().unwrap().iter();
            let parameters = parameters.map(|(name, ty)| format!("{}: {}", name.name, show_type(ty)));
            format!(
                "{}({}) -> {} = {}",
                function.name.name,
                parameters.collect::<Vec<_>>().join(", "),
                show_type(function.result.as_ref().unwrap()),
                show(function.body.as_ref().unwrap())
            )
        })
        .collect();
    assert_eq!(
        functions,
        ["from_port(dp: int, of: opt<int>) -> match = match{metadata: dp}", "f() -> int = 1"]
    );
    assert_eq!(file.functions[0].doc, "Doc.");
}

#[test]
fn records_and_fields() {
    assert_eq!(value("endpoint{host: h, ip: a + 1,}"), "endpoint{host: h, ip: (a + 1)}");
    assert_eq!(value("none{}"), "none{}");
    assert_eq!(value("a.b.c + f(x).y"), "(((a.b).c) + (f(x).y))");
    assert_eq!(value("-a.b"), "(-(a.b))");
    assert_eq!(value("e{a: 1}.a\n  .b"), "((e{a: 1}.a).b)");
    assert_eq!(value("(a + b).c"), "((a + b).c)");
    assert_eq!(value("if a.b then {c.d} else [e.f]"), "(if (a.b) then {(c.d)} else [(e.f)])");
}

#[test]
fn match_literals() {
    assert_eq!(value("match{}"), "match{}");
    assert_eq!(value("match {tcp, tcp_dst: 80,}"), "match{tcp, tcp_dst: 80}");
    assert_eq!(
        value("match{reg2: 0x10/0x10, reg5[0..15]: zone, reg0[7]: 1/1, eth_dst: mac\"x\"/mac\"y\"}"),
        "match{reg2: <16/16>, reg5[0..15]: zone, reg0[7..7]: <1/1>, eth_dst: <mac\"x\"/mac\"y\">}"
    );
    // In brackets it is a division; under another operator too.
    assert_eq!(
        value("match{a: (1/2), b: 1/2/3, c: 1/(2/3)}"),
        "match{a: (1 / 2), b: <(1 / 2)/3>, c: <1/(2 / 3)>}"
    );
    assert_eq!(
        value("match{a: 1 + 2/3, b: f(1/2), c: e.f/g}"),
        "match{a: (1 + (2 / 3)), b: f((1 / 2)), c: <(e.f)/g>}"
    );
    assert_eq!(value("m & match{ip}"), "(m & match{ip})");
    assert_eq!(value("match"), "match");
    assert_eq!(value("match(1)"), "match(1)");
    assert_eq!(value("match\"ip\""), "match\"ip\"");
}

#[test]
fn actions_literals() {
    assert_eq!(value("actions[]"), "actions[]");
    assert_eq!(
        value("actions [set(reg0, 0x10/0x10), set(reg5[0..15], zone), dec_ttl, output(p), local,]"),
        "actions[set(reg0, <16/16>), set(reg5[0..15], zone), dec_ttl, output(p), local]"
    );
    assert_eq!(
        value(
            "actions[ct(commit, zone: z / 2, exec(set(ct_mark, 1/3))), ct(table: 42, zone_field: reg13[0..15], nat(src: ip))]"
        ),
        "actions[ct(commit, zone: <z/2>, exec(set(ct_mark, <1/3>))), ct(table: 42, zone_field: reg13[0..15], nat(src: ip))]"
    );
    assert_eq!(
        value(
            "actions[learn(table: 21, copy(metadata), match(reg0, 5/7)), clone(output(f(6/2)), output((6/2)))]"
        ),
        "actions[learn(table: 21, copy(metadata), match(reg0, <5/7>)), clone(output(f((6 / 2))), output((6 / 2)))]"
    );
    assert_eq!(value("a ++ actions[exit] ++ b"), "((a ++ actions[exit]) ++ b)");
    assert_eq!(value("actions"), "actions");
    assert_eq!(value("actions(1)"), "actions(1)");
    assert_eq!(value("[actions]"), "[actions]");
}

#[test]
fn bits_have_numbers() {
    let parsed = parse(
        "const A = match{reg0[70000]: 1}; const B = actions[set(reg0[5..2], 1), pop(reg0[0x1..0xf])]; const C = f(reg0[1x]);",
    );
    assert!(parsed.errors.is_empty(), "{:?}", parsed.errors);
    let said: Vec<String> = lower(&parsed.root(), 0)
        .errors
        .into_iter()
        .map(|(_, message, help)| format!("{message}; {help}"))
        .collect();
    assert_eq!(
        said,
        [
            "`70000` is not a bit number; bits are numbered from 0, the least significant bit: reg0[0..15]",
            "the last bit, 2, comes before the first, 5; write the lower one first: [2..5]",
            "`1x` is not a bit number; bits are numbered from 0, the least significant bit: reg0[0..15]",
        ]
    );
}

#[test]
fn default_rules() {
    let text = "default t(x, false) :- u(x);\nt(x, false) :- u(x);\ndefault t(1, 2);\ndefault not t(1);\ndefault(x, false) :- u(x);\ndefault default(x);";
    let file = read(text);
    let shown: Vec<String> = file
        .rules
        .iter()
        .map(|rule| {
            let default = if rule.default.is_some() { "default " } else { "" };
            format!("{default}{} {}", show_call(&rule.head), rule.body.len())
        })
        .collect();
    assert_eq!(
        shown,
        [
            "default t(x, false) 1",
            "t(x, false) 1",
            "default t(1, 2) 0",
            "default t(1) 0",
            "default(x, false) 1",
            "default default(x) 0",
        ]
    );
    assert!(file.rules[3].negated_head.is_some());
    let prints: Vec<u64> = file.rules.iter().map(|rule| rule.fingerprint).collect();
    let mut different = prints.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), prints.len(), "{prints:?}");
    let span = file.rules[0].span;
    assert_eq!(&text[span.start as usize..span.end as usize], "default t(x, false) :- u(x);");
    assert_eq!(file.rules[0].default.unwrap().end, 7);
}

#[test]
fn tests_have_steps() {
    let file = read(
        r#"## Why.
        test "a port's \"MAC\"" {
            given { port("p1", "blue"); given(1,); }
            given {}
            given objects "net/three-tier.yaml";
            given { objects(1); }
            change { delete port(name: "p1", ..); insert insert(1); }
            expect flow("blue", L2, _, match{metadata: 5}, "p1");   # there
            expect no flow("red", ..);
            expect no(1);
            expect exactly { flow(1); exactly(2); }
            expect delta { insert flow(1); delete flow(2); }
            expect delta(1);
            expect error "key-conflict";
            expect error("x");
            given port "p1" on "hv1";
            given { port(1); }
            expect packet from "p1" match{tcp} at "p2", "p\"3",;
            expect packet from "p1" at nowhere;
            expect packet(from);
        }
        test "empty" {}"#,
    );
    let change =
        |change: &Change| format!("{}{}", if change.insert { "+" } else { "-" }, show_call(&change.row));
    let changes = |list: &[Change]| list.iter().map(change).collect::<Vec<_>>().join(" ");
    let steps: Vec<String> = file.tests[0]
        .steps
        .iter()
        .map(|step| match &step.kind {
            TestStepKind::Transaction(list) => format!("transaction {}", changes(list)),
            TestStepKind::Objects(path) => format!("objects {}", path.name),
            TestStepKind::Holds(row) => format!("holds {}", show_call(row)),
            TestStepKind::Lacks(row) => format!("lacks {}", show_call(row)),
            TestStepKind::Exactly(rows) => {
                format!("exactly {}", rows.iter().map(show_call).collect::<String>())
            }
            TestStepKind::Delta(list) => format!("delta {}", changes(list)),
            TestStepKind::Error(code) => format!("error {}", code.name),
            TestStepKind::Port { port, host } => format!("{} on {}", port.name, host.name),
            TestStepKind::Packet(Packet { from, frame, at }) => {
                let at: Vec<&str> = at.iter().map(|port| port.name.as_str()).collect();
                format!("from {} {} at {at:?}", from.name, show(frame))
            }
        })
        .collect();
    assert_eq!(
        steps,
        [
            r#"transaction +port("p1", "blue") +given(1)"#,
            "transaction ",
            "objects net/three-tier.yaml",
            "transaction +objects(1)",
            r#"transaction -port(name: "p1", ..) +insert(1)"#,
            r#"holds flow("blue", L2, _, match{metadata: 5}, "p1")"#,
            r#"lacks flow("red", ..)"#,
            "holds no(1)",
            "exactly flow(1)exactly(2)",
            "delta +flow(1) -flow(2)",
            "holds delta(1)",
            "error key-conflict",
            r#"holds error("x")"#,
            "p1 on hv1",
            "transaction +port(1)",
            r#"from p1 match{tcp} at ["p2", "p\"3"]"#,
            "from p1 at at []",
            "holds packet(from)",
        ]
    );
    assert_eq!(
        (file.tests[0].name.name.as_str(), file.tests[1].name.name.as_str()),
        ("a port's \"MAC\"", "empty")
    );
}

#[test]
fn a_division_in_a_body_stays_one() {
    let file = read("t(x) :- u(x / 2), x / 2 == 1, y = x / 2, f(match{a: x / 2});");
    let ItemKind::Atom(call) = &file.rules[0].body[0].kind else { panic!() };
    assert_eq!(show_call(call), "u((x / 2))");
    let ItemKind::Binding(_, value) = &file.rules[0].body[2].kind else { panic!() };
    assert_eq!(show(value), "(x / 2)");
    let ItemKind::Atom(call) = &file.rules[0].body[3].kind else { panic!() };
    assert_eq!(show_call(call), "f(match{a: <x/2>})");
}

/// The tree without texts.
fn shape(node: &SyntaxNode) -> String {
    let mut shape = String::new();
    for event in node.preorder_with_tokens() {
        match event {
            rowan::WalkEvent::Enter(element) if !element.kind().is_trivia() => {
                write!(shape, "{:?}(", element.kind()).unwrap();
            }
            rowan::WalkEvent::Leave(element) if !element.kind().is_trivia() => shape.push(')'),
            _ => {}
        }
    }
    shape
}

/// A contextual keyword is still a name wherever it was one before its introduction.
#[test]
fn words_of_declarations_are_names_elsewhere() {
    let mut renamed = 0;
    for text in crate::support::CLASSIC {
        let expected = shape(&parse(text).root());
        let mut names: Vec<String> = crate::support::tokens(text)
            .into_iter()
            .filter(|(kind, _)| *kind == SyntaxKind::Ident)
            .map(|(_, text)| text)
            .collect();
        names.sort_unstable();
        names.dedup();
        for name in &names {
            for (word, _) in SyntaxKind::CONTEXTUAL_WORDS {
                let text: String = crate::support::all_tokens(text)
                    .into_iter()
                    .map(|(_, text)| if text == *name { (*word).to_owned() } else { text })
                    .collect();
                let parsed = parse(&text);
                assert!(parsed.errors.is_empty(), "{name} as {word}: {:?}\n{text}", parsed.errors);
                assert_eq!(shape(&parsed.root()), expected, "{name} as {word}");
                renamed += 1;
            }
        }
    }
    assert!(renamed > 1000, "{renamed}");
}

#[test]
fn the_lists_of_words_are_complete() {
    use SyntaxKind as K;
    for (word, kind) in K::RESERVED_WORDS {
        assert_eq!(crate::support::all_tokens(word), [(*kind, (*word).to_owned())]);
        assert!(kind.is_keyword() && !kind.is_contextual_keyword());
    }
    for (word, kind) in K::CONTEXTUAL_WORDS {
        assert!(kind.is_contextual_keyword() && !kind.is_keyword());
        assert_eq!(format!("{kind:?}").to_lowercase(), format!("{}kw", word.replace('_', "")));
    }
    // Each occurs in the tree as a keyword.
    let parsed = parse(crate::support::EVERYTHING_NEW);
    let all = parsed.root().descendants_with_tokens().map(|element| element.kind());
    let all: std::collections::HashSet<K> = all.collect();
    for (word, kind) in K::CONTEXTUAL_WORDS {
        assert!(all.contains(kind), "{word}");
    }
}

/// What the allowances of a text cover.
fn allowed(text: &str) -> Vec<(String, &str)> {
    let file = lower(&parse(text).root(), 0);
    file.allowances
        .iter()
        .map(|allowance| {
            let codes: Vec<&str> = allowance.codes.iter().map(|code| code.name.as_str()).collect();
            for code in &allowance.codes {
                assert_eq!(&text[code.span.start as usize..code.span.end as usize], code.name);
            }
            (codes.join("+"), &text[allowance.scope.start as usize..allowance.scope.end as usize])
        })
        .collect()
}

#[test]
fn comments_allow_warnings_where_they_stand() {
    // Right before a declaration, on its first line.
    assert_eq!(
        allowed(
            "import \"x\";\n\n# Why.\n# weft: allow(unused-table, arity): because\n## Doc.\ntable t(x: int)\n  key(x);\nu(1);"
        ),
        [("unused-table+arity".into(), "table t(x: int)\n  key(x);")]
    );
    assert_eq!(
        allowed("u(1);\ntable t(x: int) #weft:allow( a )\n  key(x);\nu(1);"),
        [("a".into(), "table t(x: int) #weft:allow( a )\n  key(x);")]
    );
    assert_eq!(allowed("u(1);\nt(1); t(2); # weft: allow(a)\nu(1);"), [("a".into(), "t(1); t(2);")]);
    // At the top of the file, before a blank line.
    let text = "# About.\n# weft: allow(a)\n# More.\n\n# weft: allow(b)\nt(1);";
    assert_eq!(allowed(text), [("a".into(), text), ("b".into(), "t(1);")]);
    let text = "\u{feff}# weft: allow(a)\r\n\r\nt(1);\r\n";
    assert_eq!(allowed(text), [("a".into(), text)]);
    assert_eq!(allowed("# weft: allow(a)\n"), [("a".into(), "# weft: allow(a)\n")]);
    // Within a declaration: its line, or the next one.
    assert_eq!(
        allowed("t(x) :-\n  u(x, y), # weft: allow(a)\n  # weft: allow(b)\n  # more\n  v(x), w(x);\n"),
        [("a".into(), "  u(x, y), "), ("b".into(), "v(x), w(x);")]
    );
    assert_eq!(allowed("t(x) :-\n  u(x, y); # weft: allow(a)\n"), [("a".into(), "  u(x, y); ")]);
    // At a position without a name.
    assert_eq!(
        allowed("t(1);\n# weft: allow(a)\n\nt(2);\n# weft: allow(b)\n"),
        [("a".into(), "# weft: allow(a)"), ("b".into(), "# weft: allow(b)")]
    );
    // No allowance, and malformed ones.
    assert_eq!(allowed("## weft: allow(a)\n# about weft: allow(a)\n# weft: fine\nt(1);"), []);
    assert_eq!(
        allowed("# weft: allow()\n# weft: allow a\nt(1);"),
        [("allow()".into(), "t(1);"), ("allow a".into(), "t(1);")]
    );
}
