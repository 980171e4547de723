//! The built-in rules say what they mean: fields, stages and priorities by their names. Only `layout.nlog` has numbers for
//! them, and the priorities stand where they are declared.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use nlog::syntax::{SyntaxKind as K, SyntaxNode, parse};
use nlog::{Program, Sources, compile};
use openflow_rs::Subfield;

/// The tables of flows: the columns before the stage.
const FLOWS: [(&str, usize); 6] = [
    ("common_flow", 0),
    ("logical_flow", 1),
    ("logical_port_flow", 1),
    ("logical_delivery", 1),
    ("logical_flood", 2),
    ("of_flow", 1),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../rules")
}

/// The nodes of a kind, outside declarations of names.
fn nodes(root: &SyntaxNode, kind: K) -> Vec<SyntaxNode> {
    let items = root.children().filter(|item| {
        !matches!(
            item.kind(),
            K::FieldDeclaration | K::StageDeclaration | K::PriorityDeclaration | K::ReserveDeclaration
        )
    });
    items.flat_map(|item| item.descendants()).filter(|node| node.kind() == kind).collect()
}

fn name(node: &SyntaxNode) -> String {
    let tokens = node.children_with_tokens().filter_map(rowan::NodeOrToken::into_token);
    tokens
        .filter(|token| token.kind() == K::Ident)
        .map(|token| token.text().to_owned())
        .next()
        .unwrap_or_default()
}

fn arguments(call: &SyntaxNode) -> Vec<SyntaxNode> {
    let list = call.children().find(|part| part.kind() == K::Arguments);
    list.iter().flat_map(SyntaxNode::children).filter(|part| part.kind() == K::Argument).collect()
}

fn text(node: &SyntaxNode) -> String {
    node.text().to_string().trim().to_owned()
}

/// A register, or the field of the datapath.
fn is_bare(field: &str) -> bool {
    let register = field.trim_start_matches('x').strip_prefix("reg");
    field == "metadata" || register.is_some_and(|number| number.parse::<u8>().is_ok())
}

/// A stage, a priority (or a sum that begins with one), or a variable.
fn is_named(value: &str, known: &[&str]) -> bool {
    let first = value.split(" + ").next().unwrap_or_default();
    known.contains(&first) || value.starts_with(|c: char| c.is_ascii_lowercase())
}

/// What a file writes without a name.
fn bare(text_of_file: &str, program: &Program) -> Vec<String> {
    let root = parse(text_of_file).root();
    let stages: Vec<&str> = program.stages.iter().map(|stage| stage.name.as_str()).collect();
    let priorities: Vec<&str> = program.priorities.iter().map(|priority| priority.name.as_str()).collect();
    let mut found = Vec::new();
    for kind in [K::MatchTerm, K::Name, K::Bits] {
        found.extend(
            nodes(&root, kind)
                .iter()
                .filter(|node| {
                    let named = node.first_token().is_some_and(|token| is_bare(token.text()));
                    named || is_bare(&name(node))
                })
                .map(text),
        );
    }
    for call in nodes(&root, K::Call) {
        let (called, arguments) = (name(&call), arguments(&call));
        let value = |at: usize| arguments.get(at).map(text).unwrap_or_default();
        if let Some((_, before)) = FLOWS.iter().find(|(table, _)| *table == called) {
            let (stage, priority) = (value(*before), value(before + 1));
            if !(stage.starts_with('_') || is_named(&stage, &stages)) {
                found.push(format!("{called}: stage {stage}"));
            }
            if !(priority.starts_with(['_', '.']) || is_named(&priority, &priorities)) {
                found.push(format!("{called}: priority {priority}"));
            }
        }
        let stage = match called.as_str() {
            "resubmit" | "goto_table" => Some(value(0)),
            _ => arguments.iter().map(text).find_map(|text| Some(text.strip_prefix("table: ")?.to_owned())),
        };
        let priority =
            arguments.iter().map(text).find_map(|text| Some(text.strip_prefix("priority: ")?.to_owned()));
        found.extend(
            stage.filter(|stage| !is_named(stage, &stages)).map(|stage| format!("{called}: stage {stage}")),
        );
        found.extend(
            priority.filter(|it| !is_named(it, &priorities)).map(|it| format!("{called}: priority {it}")),
        );
    }
    found
}

#[test]
fn rules_name_fields_stages_and_priorities() {
    let sources = Sources::load(&[folder()]).unwrap();
    let compilation = compile(&sources);
    assert!(compilation.diagnostics.is_empty(), "{:#?}", compilation.diagnostics);
    let program = compilation.program.unwrap();
    let files = sources.files().iter();
    let found: Vec<String> = files
        .flat_map(|file| bare(&file.text, &program).into_iter().map(|what| format!("{}: {what}", file.name)))
        .collect();
    assert!(found.is_empty(), "these have no names:\n{}", found.join("\n"));
    let elsewhere: Vec<String> = program
        .stages
        .iter()
        .map(|stage| (&stage.name, &stage.place))
        .chain(program.fields.iter().map(|field| (&field.name, &field.place)))
        .filter(|(_, place)| !place.file.ends_with("interface/layout.nlog"))
        .map(|(name, place)| format!("{place}: {name}"))
        .collect();
    assert!(elsewhere.is_empty(), "declare these in layout.nlog:\n{}", elsewhere.join("\n"));
}

/// Every name has a sentence for those who look at a switch.
#[test]
fn names_of_the_pipeline_are_explained() {
    let program = compile(&Sources::load(&[folder()]).unwrap()).program.unwrap();
    let stages = program.stages.iter().map(|stage| (&stage.name, &stage.docs));
    let priorities = program.priorities.iter().map(|priority| (&priority.name, &priority.docs));
    let fields = program.fields.iter().map(|field| (&field.name, &field.docs));
    let reserved = program.reservations.iter().map(|reserved| (&reserved.name, &reserved.docs));
    let silent: Vec<&String> = stages
        .chain(priorities)
        .chain(reserved)
        .chain(fields)
        .filter(|(_, docs)| !docs.as_ref().is_some_and(|docs| docs.ends_with('.')))
        .map(|(name, _)| name)
        .collect();
    assert!(silent.is_empty(), "{silent:?}");
}

/// What layout.nlog promises to packages: no built-in rule takes it.
#[test]
fn what_is_for_packages_is_left_to_them() {
    let program = compile(&Sources::load(&[folder()]).unwrap()).program.unwrap();
    let stages = program.stages.iter().filter(|stage| (128..=252).contains(&stage.number));
    let priorities = program.priorities.iter().filter(|priority| priority.greatest > 60_000);
    let bits = ["reg14[28..31]", "ct_mark[16..31]", "ct_label[64..127]"];
    let bits = bits.map(|bits| bits.parse::<Subfield>().unwrap());
    let fields = program.fields.iter().filter(|named| bits.iter().any(|bits| bits.overlaps(named.field)));
    let taken: Vec<&String> = stages
        .map(|stage| &stage.name)
        .chain(priorities.map(|priority| &priority.name))
        .chain(fields.map(|field| &field.name))
        .collect();
    assert!(taken.is_empty(), "{taken:?}");
    // All numbers of meters have an owner, so that a new use of them has to say whose it takes.
    let mut next = 1;
    for meters in program.reservations.iter().filter(|reserved| reserved.of == "meter_number") {
        assert_eq!(meters.least, next, "{}", meters.name);
        next = meters.greatest + 1;
    }
    assert_eq!(next, 200_001);
}

#[test]
fn what_has_no_name_is_found() {
    let sources = Sources::load(&[folder()]).unwrap();
    let program = compile(&sources).program.unwrap();
    let found = |rule: &str| bare(rule, &program);
    assert_eq!(found("common_flow(L2, PORT_ADDRESS, match{outport: 1}, actions[resubmit(FDB)]);"), [""; 0]);
    assert_eq!(
        found("of_flow(hv, stage, priority, _, _) :- logical_flow(dp, stage, priority, _, _);"),
        [""; 0]
    );
    for (rule, what) in [
        ("common_flow(20, PORT_ADDRESS, match{}, actions[]);", "common_flow: stage 20"),
        ("logical_flow(dp, L2, 50, match{}, actions[]);", "logical_flow: priority 50"),
        ("logical_flood(dp, \"all\", L2, L2, match{});", "logical_flood: priority L2"),
        ("x(match{reg1: 5});", "reg1: 5"),
        ("x(match{xxreg2[0..3]: 5});", "xxreg2[0..3]: 5"),
        ("x(actions[set(metadata, 5)]);", "metadata"),
        ("x(actions[move(outport, reg13[0..15])]);", "reg13[0..15]"),
        ("x(actions[resubmit(20)]);", "resubmit: stage 20"),
        ("x(actions[learn(table: FDB, priority: 50)]);", "learn: priority 50"),
        ("x(actions[learn(table: 21, priority: LEARNED)]);", "learn: stage 21"),
    ] {
        assert_eq!(found(rule), [what], "{rule}");
    }
}
