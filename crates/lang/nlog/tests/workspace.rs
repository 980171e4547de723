//! At every moment, an edited program has the same result as a fresh compilation of its files.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use nlog::{Compilation, Sources, Workspace, compile};
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Everything that a compilation says.
fn told(compilation: &Compilation) -> String {
    format!("{:#?}\n{:#?}", compilation.diagnostics, compilation.program)
}

fn fresh(files: &[(String, String)]) -> String {
    told(&compile(&Sources::from_texts(files.iter().map(|(name, text)| (name, text)))))
}

/// Declarations and rules that interact in many ways; some contain mistakes, alone or together.
const PIECES: [&str; 87] = [
    "input table a(x: int, y: int);",
    "input table a(x: int, y: string) key(x);",
    "input table a(x: int, other: int) key(x);",
    "input table a(x: int);",
    "table b(x: int, y: int);",
    "input table b(x: int, y: int) from hysteresis(a, rise: 1, fall: 1);",
    "table b(x: int, y: int) key(x);",
    "table b(y: int, x: int);",
    "output table b(x: int, y: int);",
    "input table c(m: mac, i: ip);",
    "input table c(m: ip, i: ip);",
    "output table d(n: int);",
    "output table d(n: string);",
    "output table d(n: unknown);",
    "table aa(x: int);",
    "output table e(m: match, acts: actions);",
    "table b(x: int, y: int",
    "table (x: int);",
    "const K = 3;",
    "const K = 4;",
    "const K = \"text\";",
    "const K: int = L + 1;",
    "const L = 5;",
    "const L = K;",
    "const x = 7;",
    "const L = 9223372036854775807 + 1;",
    "b(x, y) :- a(x, y);",
    "b(x, y) :-\n    a(x, y),\n    x < K;",
    "b(x, y) :- a(y, x);",
    "b(x, y) :- a(x: x, y: y);",
    "b(x, 1) :- a(x, unused);",
    "b(x, K) :- a(x, _), x > 2;",
    "b(x, L) :- a(x, ..);",
    "b(x, y) :- b(x, y), a(x, _);",
    "b(1, 2);",
    "b(K, L);",
    "aa(x) :- a(x, _);",
    "aa(x) :- aa(x), b(x, _);",
    "aa(x + 1) :- a(x, _), b(y, y), y != x;",
    "d(count(x)) :- a(x, y), b(y, _);",
    "d(max(y)) :- b(x, y);",
    "d(n) :- b(n, _), not a(n, n);",
    "d(n) :- a(n, m), b(o, p);",
    "d(n) :- a(n, n), n == K;",
    "d(n) :- nothing(n);",
    "d(n) :- nothing(n), a(n, _);",
    "d(f(n)) :- a(n, _);",
    "d(n) :- a(x, y), n = x + y;",
    "d(n) :- b(x, _), f(x, n);",
    "e(match_reg1(x), resubmit(K)) :- a(x, _);",
    "e(match_eth_dst(m), actions\"\") :- c(m, i), is_ipv4(i);",
    "e(m & match_reg0(x), set_reg0(x) ++ resubmit(1)) :- a(x, _), match_metadata(x, m);",
    "e(match{metadata: x}, actions[resubmit(K)]) :- a(x, _);",
    "type t = enum {one, two};",
    "field x = reg1;",
    "field x = reg2[0..15];",
    "stage K = 3;",
    "priority L of K = 4..9;",
    "type small = int 0..9; reserve M of small = K..9;",
    "reserve N of small = 1..4;",
    "## Told.\ne(match{x: 1}, actions[set(x, 2)]) :- a(_, _);",
    "e(match{x: 1}, actions[set(x, 2)]) :- a(_, _);",
    "type t = record {x: int, y: int};",
    "type t = int;",
    "table b(x: t, y: int);",
    "table b(x: int, y: int) key(x) unique(y);",
    "function f(p: int) -> int = p + K;",
    "function f(p: int) -> int = g(p) * 2;",
    "function g(p: int) -> int = p - 1;",
    "function g(p: t) -> int = 1;",
    "default b(x, 0) :- aa(x);",
    "d(\"one\") :- b(x, _), x == \"one\";",
    "import \"two.nlog\";",
    "import \"one.nlog\";",
    "object o { x: int = 3; }",
    "object o { x: int = K; unique(x); }",
    "object o {\n    id_space a;\n    x: int was n, y = L;\n    other: opt<ref o | p>;\n}",
    "object o { x: t; }",
    "object p { r: ref o; m: map<t>; unique(r, m.x); }",
    "object p { r: ref o; m: choice<t>; unique(r, m.x); }",
    "object p { r: set<ref o | p | q> = {};",
    "state table s(o: ref o, n: int) key(o);",
    "s(o, n) :- o(o, n);",
    "b(x, 1) :- o(_, x), p(..);",
    "forbid table refuse(kind: string, id: string, path: string, text: string);",
    "refuse(\"o\", id, \"x\", \"no\") :- o(id, _);",
    "refuse(\"o\", to_string(x), \"x\", \"no\") :- a(x, _);",
];

/// A change of one file.
#[derive(Debug, Clone)]
enum Edit {
    /// A piece comes in somewhere.
    Insert(Index, &'static str),
    /// A piece goes.
    Remove(Index),
    /// A piece becomes another one.
    Replace(Index, &'static str),
    /// Moves the following text.
    Move(Index, &'static str),
    /// Something is typed within a piece.
    Type(Index, Index, &'static str),
}

fn edits() -> impl Strategy<Value = Vec<(Index, Edit)>> {
    let index = any::<Index>;
    let edit = prop_oneof![
        2 => (index(), select(&PIECES[..])).prop_map(|(at, piece)| Edit::Insert(at, piece)),
        2 => index().prop_map(Edit::Remove),
        4 => (index(), select(&PIECES[..])).prop_map(|(at, piece)| Edit::Replace(at, piece)),
        2 => (index(), select(vec!["", "# é weft: allow(unused-variable)", "\n\n", "## doc"]))
            .prop_map(|(at, text)| Edit::Move(at, text)),
        1 => (index(), index(), select(vec![" ", "x", ")", "1", "\n", "\"", "é"]))
            .prop_map(|(at, inside, text)| Edit::Type(at, inside, text)),
    ];
    prop::collection::vec((index(), edit), 1..12)
}

fn apply(file: &mut Vec<String>, edit: &Edit) {
    let room = file.len();
    match edit {
        Edit::Insert(at, piece) | Edit::Move(at, piece) => {
            file.insert(at.index(room + 1), (*piece).to_owned());
        }
        _ if room == 0 => {}
        Edit::Remove(at) => drop(file.remove(at.index(room))),
        Edit::Replace(at, piece) => (*piece).clone_into(&mut file[at.index(room)]),
        Edit::Type(at, inside, text) => {
            let piece = &mut file[at.index(room)];
            let places: Vec<usize> = piece.char_indices().map(|(at, _)| at).chain([piece.len()]).collect();
            piece.insert_str(places[inside.index(places.len())], text);
        }
    }
}

fn texts(files: &[Vec<String>]) -> Vec<(String, String)> {
    let names = ["one.nlog", "two.nlog", "three.nlog"];
    names.iter().zip(files).map(|(name, file)| ((*name).to_owned(), file.join("\n"))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn an_edited_program_is_a_fresh_one(
        start in prop::collection::vec(prop::collection::vec(select(&PIECES[..]), 0..12), 3),
        edits in edits(),
    ) {
        let mut files: Vec<Vec<String>> =
            start.iter().map(|file| file.iter().map(|piece| (*piece).to_owned()).collect()).collect();
        let mut workspace = Workspace::from_texts(texts(&files));
        prop_assert_eq!(told(&workspace.compilation()), fresh(&texts(&files)));
        for (file, edit) in &edits {
            let file = file.index(files.len());
            apply(&mut files[file], edit);
            let (name, text) = &texts(&files)[file];
            workspace.set_text(name, text).unwrap();
            prop_assert_eq!(told(&workspace.compilation()), fresh(&texts(&files)), "after {:?} in {}", edit, name);
        }
    }
}

/// The parts of programs without errors, by file: each part has several forms, and all forms are
/// compatible.
const PARTS: [(usize, &[&str]); 19] = [
    (
        0,
        &[
            "input table a(x: int, y: int);",
            "input table a(x: int, y: int) key(x);",
            "input table a(z: int, y: int);",
        ],
    ),
    (
        0,
        &[
            "table b(x: int, y: int);",
            "table b(x: int, y: int) key(x, y);",
            "## Told.\ntable b(y: int, x: int);",
        ],
    ),
    (
        0,
        &[
            "output table d(n: int);",
            "output table d(many: int);",
            "table d(n: int); output table dd(n: int); dd(n) :- d(n);",
        ],
    ),
    (0, &["", "output table aa(n: int); aa(n) :- a(n, _);", "output table c(n: int); c(n) :- a(n, _);"]),
    (0, &["const K = 3;", "const K = 4;", "const L = 3; const K = L + 2;"]),
    (
        0,
        &[
            "object o { x: int = 3; r: opt<ref o>; }",
            "object o { x: int = 4; r: opt<ref o | p>; unique(x); }",
            "object o { x: int was y = K; r: opt<ref o> = some(\"a\"); unique(x, r); id_space p; }",
            "## Told.\nobject o { r: opt<ref o>; x: int; }",
        ],
    ),
    (
        2,
        &[
            "object p { x: int = K; }",
            "object p { x: int; unique(x); }",
            "object p { x: string was y = \"\"; }",
        ],
    ),
    (
        1,
        &[
            "b(x, 1) :- o(x: x, ..), p(..); forbid table f(x: int); f(x) :- o(x: x, ..), x > K;",
            "state table s(o: ref o, x: int) key(o); s(o, x) :- o(id: o, x: x, ..), p(..);",
            "forbid table refuse(kind: string, id: string, path: string, text: string);
             refuse(\"o\", id, \"x\", \"\") :- o(id: id, x: x, ..), x < K, p(id: other, ..), other == id ++ \"\";",
        ],
    ),
    (1, &["", "# é", "\n\n\n"]),
    (1, &["b(x, y) :- a(x, y);", "b(x, y) :- a(y, x);", "b(x, K) :- a(x, _), x < K;"]),
    (1, &["", "   b(K, 1);", "b(K, 1); b(K, 2);", "b(7, 7);"]),
    (1, &["d(n) :- a(n, _);", "d(n) :- b(n, _);", "d(n + K) :- b(n, m), a(m, n);"]),
    (
        2,
        &["d(count(x)) :- a(x, y),\n    b(y, _);", "d(max(y)) :- b(_, y);", "d(K);", "d(n) :- a(n, unused);"],
    ),
    (2, &["", "# weft: allow(unused-variable)", "\n# é\n"]),
    (0, &["field port = reg1;", "field port = reg2[0..15];", "## Told.\nfield port = reg1; field other = reg2[0..3];"]),
    (
        1,
        &[
            "output table flow(m: match, a: actions); flow(match{port: n, reg3: 5}, actions[set(port, 7)]) :- a(n, _);",
            "output table flow(m: match, a: actions); ## Told.\nflow(match{port: n, reg3: 5}, actions[set(port, 7)]) :- a(n, _);",
            "output table flow(m: match, a: actions); flow(match{port[1]: 1}, actions[set(reg3[0], 1)]) :- a(_, _);",
        ],
    ),
    (2, &["", "stage S = 4; priority P of S = 1..K;", "## Told.\nstage S = K; priority P of S = K; d(S + P);", "type u = int 0..99; reserve R of u = 1..K; d(R);"]),
    (2, &["", "d(n) :- a(m, _), b(m, m), n = m * K;", "d(n) :- a(m, _), b(m, m), n = m + 1;"]),
    (2, &["d(n) :- b(n, n);", "d(n) :- b(n, n), n != K;", "d(n) :-\n    b(n, n),\n    n != K;"]),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn an_edited_program_without_errors_is_a_fresh_one(
        start in prop::collection::vec(any::<Index>(), PARTS.len()),
        edits in prop::collection::vec((0..PARTS.len(), any::<Index>()), 1..12),
    ) {
        let written = |forms: &[Index]| {
            let mut files = vec![Vec::new(); 3];
            for ((file, all), form) in PARTS.iter().zip(forms) {
                files[*file].push((*form.get(all)).to_owned());
            }
            texts(&files)
        };
        let mut forms = start;
        let mut workspace = Workspace::from_texts(written(&forms));
        workspace.compilation();
        for (part, form) in edits {
            forms[part] = form;
            let texts = written(&forms);
            let (name, text) = &texts[PARTS[part].0];
            workspace.set_text(name, text).unwrap();
            let compilation = workspace.compilation();
            prop_assert!(compilation.program.is_some(), "{:#?}", compilation.diagnostics);
            prop_assert_eq!(told(&compilation), fresh(&texts));
        }
    }
}

const TABLES: &str = "input table a(x: int);\ntable b(x: int);\noutput table c(x: int);\n";
const RULES: &str = "b(x) :- a(x);\nc(x) :- b(x);\nc(x) :- a(x), x > 1;\n";

/// The number of rules that are not checked again after the tables and rules become these.
fn reused(tables: &str, rules: &str) -> usize {
    let mut workspace = Workspace::from_texts([("rules.nlog", RULES), ("tables.nlog", TABLES)]);
    workspace.compilation();
    assert_eq!(workspace.reused_rules(), 0);
    workspace.set_text("tables.nlog", tables).unwrap();
    workspace.set_text("rules.nlog", rules).unwrap();
    assert!(workspace.compilation().program.is_some());
    workspace.reused_rules()
}

/// The rules stay, and the program has the new kind.
#[test]
fn what_is_said_of_objects_beside_their_columns_is_never_old() {
    let object = "object o {\n    x: int = K;\n    y: opt<string>;\n}\n";
    let rules = "const K = 3;\noutput table out(x: int);\nout(x) :- o(x: x, y: _y, ..);\n";
    let forms = [
        ("", ""),
        ("= K", "= 4"),
        ("= K", ""),
        ("int = K", "int was z = K"),
        ("}", "    unique(x);\n}"),
        ("}", "    unique(y, x);\n}"),
        ("}", "    id_space ports;\n}"),
        ("    x", "    ## Told.\n    x"),
        ("object", "## Told.\nobject"),
    ];
    let mut programs = Vec::new();
    for (part, by) in forms {
        let mut workspace = Workspace::from_texts([("rules.nlog", rules), ("objects.nlog", object)]);
        workspace.compilation();
        let object = if part.is_empty() { object.to_owned() } else { object.replace(part, by) };
        workspace.set_text("objects.nlog", object.as_str()).unwrap();
        let compilation = workspace.compilation();
        assert_eq!(workspace.reused_rules(), 1, "{object}");
        let files = [("rules.nlog".to_owned(), rules.to_owned()), ("objects.nlog".to_owned(), object)];
        assert_eq!(told(&compilation), fresh(&files));
        programs.push(format!("{:?}", compilation.program.as_ref().unwrap().objects));
    }
    // A constant elsewhere is the default.
    let mut workspace = Workspace::from_texts([("rules.nlog", rules), ("objects.nlog", object)]);
    workspace.compilation();
    workspace.set_text("rules.nlog", rules.replace('3', "5")).unwrap();
    programs.push(format!("{:?}", workspace.compilation().program.as_ref().unwrap().objects));
    let count = programs.len();
    programs.sort();
    programs.dedup();
    assert_eq!(programs.len(), count, "{programs:#?}");
}

#[test]
fn only_what_changed_is_checked_again() {
    assert_eq!(reused(TABLES, RULES), 3);
    assert_eq!(reused(TABLES, &RULES.replace("x > 1", "x > 2")), 2, "one rule");
    assert_eq!(reused(TABLES, &format!("\n\n# moved\n{RULES}")), 3, "a place is no meaning");
    assert_eq!(reused(&TABLES.replace("table b(x", "table b(y"), RULES), 1, "two rules name b");
    assert_eq!(
        reused(&TABLES.replace("table b", "## What b holds.\ntable b"), RULES),
        3,
        "nor is documentation"
    );
    assert_eq!(
        reused(&format!("{TABLES}output table aa(x: int);"), RULES),
        3,
        "numbers change, names do not"
    );
    assert_eq!(reused(&format!("{TABLES}const limit = 1;"), RULES), 3, "a constant that no rule names");
}

/// A rule that calls a function depends on the names that the function uses, although the rule does
/// not contain them.
#[test]
fn functions_carry_what_they_use() {
    let declared = "const n = 1; function f(x: int) -> int = g(x) + n; function g(x: int) -> int = x;";
    let rules = "input table a(x: int);\noutput table c(x: int);\nc(f(x)) :- a(x);\n";
    let mut workspace = Workspace::from_texts([("rules.nlog", rules), ("functions.nlog", declared)]);
    assert!(workspace.compilation().program.is_some());
    for changed in [declared.replace("n = 1", "n = 2"), declared.replace("= x;", "= x + 1;")] {
        workspace.set_text("functions.nlog", changed.as_str()).unwrap();
        assert!(workspace.compilation().program.is_some());
        assert_eq!(workspace.reused_rules(), 0, "{changed}");
    }
}

#[test]
fn what_was_undone_is_as_it_was() {
    let mut workspace = Workspace::from_texts([("rules.nlog", RULES), ("tables.nlog", TABLES)]);
    let before = told(&workspace.compilation());
    workspace.set_text("tables.nlog", "input table a(x: string);").unwrap();
    assert!(workspace.compilation().program.is_none());
    workspace.set_text("tables.nlog", TABLES).unwrap();
    assert_eq!(told(&workspace.compilation()), before);
}

fn write(root: &Path, name: &str, text: &str) {
    fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
    fs::write(root.join(name), text).unwrap();
}

#[track_caller]
fn as_on_disk(workspace: &mut Workspace, paths: &[&Path]) {
    assert_eq!(told(&workspace.compilation()), told(&compile(&Sources::load(paths).unwrap())));
}

#[test]
fn files_on_the_disk_are_followed() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("program");
    write(&folder, "rules.nlog", &format!("import \"tables.nlog\";\n{RULES}"));
    write(&folder, "tables.nlog", TABLES);
    let mut workspace = Workspace::open(&[&folder]).unwrap();
    as_on_disk(&mut workspace, &[&folder]);
    assert!(!workspace.reload().unwrap(), "nothing changed");

    write(&folder, "rules.nlog", &format!("import \"tables.nlog\";\n{}", RULES.replace('1', "2")));
    assert!(workspace.reload().unwrap());
    as_on_disk(&mut workspace, &[&folder]);
    assert_eq!(workspace.reused_rules(), 2);

    write(&folder, "again.nlog", "import \"../outside.nlog\"; c(x) :- outside(x);");
    write(root.path(), "outside.nlog", "input table outside(x: int);");
    assert!(workspace.reload().unwrap());
    as_on_disk(&mut workspace, &[&folder]);
    assert!(workspace.compilation().program.is_some());
    assert_eq!(workspace.sources().files().len(), 4);

    fs::remove_file(folder.join("again.nlog")).unwrap();
    assert!(workspace.reload().unwrap());
    as_on_disk(&mut workspace, &[&folder]);
    assert_eq!(workspace.sources().files().len(), 2, "what only it imported is gone as well");
}

#[test]
fn an_editor_has_the_last_word_until_it_closes() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "rules.nlog", RULES);
    write(root.path(), "tables.nlog", TABLES);
    let mut workspace = Workspace::open(&[root.path()]).unwrap();
    let rules = root.path().join("rules.nlog");
    assert!(workspace.set_text(&rules, "c(x) :- b(x);").unwrap());
    assert_eq!(workspace.compilation().program.as_ref().unwrap().rules.len(), 1);
    write(root.path(), "tables.nlog", &format!("{TABLES}# more"));
    assert!(workspace.reload().unwrap());
    assert_eq!(workspace.compilation().program.as_ref().unwrap().rules.len(), 1, "the editor's text stays");
    assert!(workspace.discard(&rules).unwrap());
    as_on_disk(&mut workspace, &[root.path()]);
    assert!(!workspace.discard(&rules).unwrap());
    assert!(!workspace.set_text(root.path().join("other.nlog"), "").unwrap(), "no file of this program");
}

#[test]
fn an_import_that_is_typed_is_followed() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "program/rules.nlog", RULES);
    write(root.path(), "library/tables.nlog", TABLES);
    let folder = root.path().join("program");
    let mut workspace = Workspace::open(&[&folder]).unwrap();
    assert!(workspace.compilation().program.is_none());
    let rules = folder.join("rules.nlog");
    assert!(workspace.set_text(&rules, format!("import \"../library/tables.nlog\";\n{RULES}")).unwrap());
    assert!(workspace.compilation().program.is_some());
    // An unreadable file is not a mistake of the program, which stays as it was.
    std::os::unix::fs::symlink("loop.nlog", folder.join("../loop.nlog")).unwrap();
    assert!(workspace.set_text(&rules, format!("import \"../loop.nlog\";\n{RULES}")).is_err());
    assert!(workspace.compilation().program.is_some());
    // A folder is there, but no file.
    assert!(workspace.set_text(&rules, format!("import \"../library\";\n{RULES}")).unwrap());
    assert!(workspace.compilation().program.is_none());
    assert!(workspace.set_text(&rules, RULES).unwrap());
    assert!(workspace.compilation().program.is_none());
}

#[test]
fn a_changed_file_of_objects_changes_the_program() {
    let text = |workspace: &mut Workspace| {
        let compilation = workspace.compilation();
        let steps = compilation.program.as_ref().map(|program| program.tests[0].steps[0].kind.clone());
        steps.map(|kind| match kind {
            nlog::program::TestStepKind::Objects(file) => file.text.to_string(),
            other => panic!("{other:?}"),
        })
    };
    let program = |given: &str| {
        format!(
            "object s {{ x: int = 1; }} output table t(id: string); t(id) :- s(id, _);\n\
             test \"t\" {{ given objects \"{given}\"; expect no t(..); }}"
        )
    };
    let root = tempfile::tempdir().unwrap();
    let [test, document] = ["a.test.nlog", "net.yaml"].map(|name| root.path().join(name));
    fs::write(&test, program("net.yaml")).unwrap();
    let mut workspace = Workspace::open(&[&test]).unwrap();
    assert_eq!(text(&mut workspace), None, "it does not exist yet");
    for content in ["one", "two"] {
        fs::write(&document, content).unwrap();
        assert!(workspace.reload().unwrap());
        assert_eq!(text(&mut workspace).as_deref(), Some(content));
        assert!(!workspace.reload().unwrap(), "nothing has changed");
    }
    assert!(workspace.set_text(&test, program("./gone.yaml")).unwrap());
    assert_eq!(text(&mut workspace), None);
    assert!(workspace.set_text(&test, program("./net.yaml")).unwrap());
    assert_eq!(text(&mut workspace).as_deref(), Some("two"));

    let mut workspace = Workspace::from_texts([("in/a.test.nlog", program("../net.yaml"))]);
    assert_eq!(text(&mut workspace), None);
    for content in ["one", "two"] {
        workspace.set_text("net.yaml", content).unwrap();
        assert_eq!(text(&mut workspace).as_deref(), Some(content));
    }
}
