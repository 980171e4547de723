//! The layout: reviewed examples, and properties that hold for every program, whatever its previous
//! layout.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use nlog::format;
use nlog::format::WIDTH;
use nlog::syntax::{SyntaxKind as K, lower, parse};
use proptest::prelude::*;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The files named `*.nlog` in a folder and below it.
fn programs(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(programs(&path));
        } else if path.extension().is_some_and(|extension| extension == "nlog") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The tokens with a meaning: all except commas before closing brackets and at the ends of bodies.
fn significant(text: &str) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for (kind, text) in crate::support::tokens(text) {
        if matches!(kind, K::RParen | K::RBracket | K::RBrace | K::Semicolon)
            && said.last().is_some_and(|last| last == ",")
        {
            said.pop();
        }
        said.push(text);
    }
    said
}

fn comments(text: &str) -> Vec<String> {
    let all = crate::support::all_tokens(text).into_iter();
    let comments = all.filter(|(kind, _)| matches!(kind, K::Comment | K::DocComment));
    comments.map(|(_, text)| text.trim_end().to_owned()).collect()
}

fn fingerprints(text: &str) -> Vec<u64> {
    lower(&parse(text).root(), 0).rules.iter().map(|rule| rule.fingerprint).collect()
}

/// Formats a valid text, and checks the properties of every result.
fn laid_out(text: &str) -> String {
    let out = format(text).unwrap_or_else(|errors| panic!("{errors:#?}\n{text}"));
    assert_eq!(significant(&out), significant(text), "other tokens\n{text}\n--- became\n{out}");
    assert_eq!(comments(&out), comments(text), "other comments\n{text}\n--- became\n{out}");
    assert_eq!(fingerprints(&out), fingerprints(text));
    assert_eq!(format(&out).as_ref(), Ok(&out), "a second time it is laid out in another way\n{text}");
    assert!(out.is_empty() || (out.ends_with('\n') && !out.ends_with("\n\n")), "{out:?}");
    assert!(
        !out.contains("\n\n\n") && !out.starts_with('\n') && !out.contains(['\r', '\u{feff}']),
        "{out:?}"
    );
    for line in out.lines() {
        assert_eq!(line, line.trim_end());
        let code = line.split('#').next().unwrap().trim_end();
        assert!(code.chars().count() <= WIDTH || code.contains("name_that_is_long"), "too long: {line}");
    }
    out
}

#[test]
fn layouts_are_those_that_were_reviewed() {
    let mut seen = 0;
    for before in programs(&folder("tests/format")) {
        let text = fs::read_to_string(&before).unwrap();
        expect_test::expect_file![before.with_extension("txt")].assert_eq(&laid_out(&text));
        seen += 1;
    }
    assert!(seen >= 5);
}

#[test]
fn the_project_s_own_programs_are_laid_out() {
    let programs = [programs(&folder("../../../rules")), programs(&folder("../../../examples"))].concat();
    assert!(programs.len() > 10);
    for path in programs {
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(laid_out(&text), text, "run `weft fmt {}`", path.display());
    }
}

#[test]
fn other_programs_keep_what_they_say() {
    for text in crate::support::CLASSIC.into_iter().chain([crate::support::EVERYTHING_NEW]) {
        laid_out(text);
    }
}

#[test]
fn mistakes_are_reported_and_nothing_is_laid_out() {
    let errors = format("a(1);\nb(;\nc(1)").unwrap_err();
    assert_eq!(errors.len(), 2);
    assert!(errors[0].message.contains("expected"), "{errors:?}");
}

#[test]
fn texts_without_declarations() {
    for (text, out) in [
        ("", ""),
        ("\n\n", ""),
        ("\u{feff}", ""),
        ("# a", "# a\n"),
        ("\n\n\n  # a  \r\n\n\n\n# b\n\n", "# a\n\n# b\n"),
        ("## a\n\n\nt(1);", "## a\nt(1);\n"),
    ] {
        assert_eq!(laid_out(text), out);
    }
}

#[test]
fn allowances_keep_what_they_cover() {
    // A blank line before a declaration takes it out of the comment's scope.
    let text = "a(1);\n\n## Doc.\n# weft: allow(unused-table)\n\ntable t(x: int);\n";
    assert_eq!(laid_out(text), text);
}

/// The possible contents of a gap between two tokens.
#[derive(Debug, Clone, Copy)]
enum Gap {
    Same,
    Nothing,
    Text(&'static str),
}

const SPACES: [&str; 4] = [" ", "\n", "\t  ", "\r\n      "];
const OTHERS: [&str; 8] = [
    " # end\n",
    "\n# own\n",
    "\n\n",
    " # end\n\n  # own\n",
    "\n## doc\n",
    " #\n",
    "\n\n\n# own\r\n\n# own too\n\n",
    " # end\n# own\n\n## doc\n\n",
];

/// The program with other gaps. An empty gap stays empty where white space would split tokens, and others
/// stay non-empty where tokens would run together.
fn with_gaps(text: &str, gaps: &mut impl FnMut() -> Gap, commas: &mut impl FnMut() -> bool) -> String {
    let tree = parse(text).root();
    let tokens: Vec<_> = tree.descendants_with_tokens().filter_map(rowan::NodeOrToken::into_token).collect();
    let mut out = String::new();
    let mut gap = String::new();
    let mut before: Option<(K, K)> = None;
    for token in tokens {
        let kind = token.kind();
        if kind.is_trivia() {
            gap += token.text();
            continue;
        }
        let parent = token.parent().unwrap().kind();
        let joined = matches!((before, kind), (Some((K::Gt, K::Binary)), K::Gt) | (Some((K::Dot, _)), _));
        let punctuation = |kind| {
            matches!(
                kind,
                K::LParen
                    | K::RParen
                    | K::LBracket
                    | K::RBracket
                    | K::LBrace
                    | K::RBrace
                    | K::Comma
                    | K::Semicolon
            )
        };
        let listed = matches!(
            parent,
            K::Arguments
                | K::Columns
                | K::Parameters
                | K::Key
                | K::List
                | K::Set
                | K::Record
                | K::Match
                | K::Actions
                | K::EnumType
                | K::RecordType
        );
        let closes = matches!(kind, K::RParen | K::RBracket | K::RBrace) && listed;
        let after_element =
            before.is_some_and(|(kind, _)| !matches!(kind, K::Comma | K::LParen | K::LBracket | K::LBrace));
        if closes && after_element && commas() {
            out += " ,";
        }
        let free = before.is_none_or(|(kind, _)| punctuation(kind)) || punctuation(kind);
        if !joined {
            match gaps() {
                Gap::Same => out += &gap,
                Gap::Nothing if free && !gap.contains('#') => {}
                Gap::Nothing => out += &gap,
                // Separate tokens stay separate, and comments stay.
                Gap::Text(other) if gap.contains('#') => {
                    out += &gap;
                    out += other.trim_start_matches(' ');
                }
                Gap::Text(other) => out += other,
            }
        }
        out += token.text();
        gap.clear();
        before = Some((kind, parent));
    }
    out += &gap;
    out
}

fn a_gap(spaces_only: bool) -> impl Strategy<Value = Gap> {
    let others = if spaces_only { 0 } else { 2 };
    prop_oneof![
        6 => Just(Gap::Same),
        3 => Just(Gap::Nothing),
        4 => prop::sample::select(SPACES.to_vec()).prop_map(Gap::Text),
        others => prop::sample::select(OTHERS.to_vec()).prop_map(Gap::Text),
    ]
}

/// The text of a value with this many levels.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "x",
        "12",
        "0x1f",
        "\"text\"",
        "ip\"10.0.0.1\"",
        "_",
        "true",
        "some_rather_long_name_of_a_variable",
        "match{}",
        "actions[]",
        "{}",
        "[]",
        "reg0[0..15]",
        "\"a text that is long enough to break a line, if there is one\"",
        "type",
    ]);
    let leaf = leaf.prop_map(str::to_owned);
    leaf.prop_recursive(5, 40, 5, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..6).prop_map(|values| values.join(", "));
        let operators = vec!["+", "-", "*", "/", "++", "&", "|", "^", "<<", ">>", "%"];
        prop_oneof![
            list.clone().prop_map(|list| format!("function_name({list})")),
            list.clone().prop_map(|list| format!("f(a: {list})")),
            list.clone().prop_map(|list| format!("[{list}]")),
            list.clone().prop_map(|list| format!("{{{list}}}")),
            list.clone().prop_map(|list| format!("match{{tcp, field[0..3]: {list}}}")
                .replace(", ", ", f: ")
                .replace("f: field", "field")),
            list.clone().prop_map(|list| format!(
                "actions[output({list}), dec_ttl, clone(set(reg0, 1/2), output(1/3))]"
            )),
            list.prop_map(|list| format!("record_name{{first_field: {list}}}").replace(", ", ", f: ")),
            (prop::collection::vec((inner.clone(), prop::sample::select(operators)), 1..6), inner.clone())
                .prop_map(|(links, last)| {
                    let mut text = String::new();
                    for (operand, operator) in links {
                        write!(text, "{operand} {operator} ").unwrap();
                    }
                    text + &last
                }),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("(if {a} == ({b}) then {b} else {c})")),
            inner.clone().prop_map(|value| format!("({value}).field.other")),
            inner.clone().prop_map(|value| format!("-({value})")),
            inner.prop_map(|value| format!("({value})")),
        ]
    })
}

/// A declaration with such values in it.
fn declaration() -> impl Strategy<Value = String> {
    prop::collection::vec(expression(), 1..5).prop_map(|values| {
        let list = values.join(", ");
        let first = &values[0];
        match list.len() % 10 {
            0 => format!("const C = {first};"),
            1 => format!("head({list}) :- atom({list}), x = {first}, {first} != 3;"),
            2 => format!("default head({list}) :- atom({list});"),
            3 => format!("fact({list});"),
            8 => format!("## Doc.\nfield a_field=reg1 [ 0 .. 5 ];stage S=({first});priority P of S=1..({first});reserve R of t=1 ..  ({first});"),
            9 => "input table a(first: int, second: int, third: int) key(first) unique ( second ,third,)unique(third);".to_owned(),
            4 => format!("function f(a: set<int>, b: int) -> opt<int> = {first};"),
            6 => format!("object o {{ first_field: set<ref a | b> was one, another_former_name = {first}; ## Doc.\nb: int = {first}; unique(first_field, b.c); id_space s; }}"),
            5 => format!("test \"t\" {{ given {{ row({list}); }} expect row({list}, ..); expect delta {{ insert row({list}); delete r(1); }} }}"),
            _ => format!("head(1) :- x = {first};"),
        }
    })
}

/// Takes from the list, over and over.
fn cycle<T: Copy>(list: &[T]) -> impl FnMut() -> T + '_ {
    let mut all = list.iter().cycle();
    move || *all.next().unwrap()
}

fn good() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => prop::sample::select([crate::support::CLASSIC.to_vec(), vec![crate::support::EVERYTHING_NEW]].concat()).prop_map(str::to_owned),
        1 => prop::collection::vec(declaration(), 1..4).prop_map(|declarations| declarations.join("\n")),
        3 => declaration(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_layout_of_a_program_keeps_what_it_says(
        text in good().prop_filter("valid", |text| parse(text).errors.is_empty()),
        gaps in prop::collection::vec(a_gap(false), 1..200),
        commas in prop::collection::vec(any::<bool>(), 1..20),
    ) {
        laid_out(&with_gaps(&text, &mut cycle(&gaps), &mut cycle(&commas)));
    }

    /// The layout is unique, apart from comments and blank lines.
    #[test]
    fn all_layouts_of_a_program_become_one(
        text in good().prop_filter("valid", |text| parse(text).errors.is_empty()),
        gaps in prop::collection::vec(a_gap(true), 1..200),
        commas in prop::collection::vec(any::<bool>(), 1..20),
    ) {
        let plain: String = crate::support::tokens(&text)
            .into_iter()
            .scan(K::Eof, |before, (kind, text)| {
                // Not between the two characters of `>>`, nor after a full stop.
                let joined = (*before == K::Gt && kind == K::Gt) || *before == K::Dot;
                *before = kind;
                Some(if joined { text } else { format!(" {text}") })
            })
            .collect();
        let other = with_gaps(&plain, &mut cycle(&gaps), &mut cycle(&commas));
        prop_assert_eq!(laid_out(&other), laid_out(&plain));
    }
}
