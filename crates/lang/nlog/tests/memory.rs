//! Reading a program takes memory in proportion to its text, whatever the text is.

use nlog::syntax::parse;
use nlog::{Sources, compile};

/// What any text takes: the diagnostics that are shown, and the types and functions of the language.
const ANY_TEXT: usize = 2 << 20;

/// Texts of some hundred kilobytes, each made to take as much memory as it can.
fn worst() -> Vec<(String, String)> {
    let mut texts: Vec<(String, String)> = [
        ";",
        "(",
        ")",
        "a",
        "a ",
        "a;",
        "a(",
        "a()",
        "a();",
        "a(b):-",
        "a(b);\n",
        "a(b):-a(b);",
        "{",
        "[",
        "[]",
        ",",
        "_,",
        ":-",
        "\"\"",
        "\"\" ",
        "1 ",
        "-",
        "- ",
        "#\n",
        "##\n",
        "## a\n",
        " ",
        "\n",
        "\u{e9}",
        "\u{0}",
        "é ",
        "table ",
        "table a(b:int);",
        "table a(b:int) key(b);",
        "input table a();",
        "const a=1;",
        "import \"a\";",
        "type a=int;",
        "function a()=1;",
        "if ",
        "match{",
        "match{}",
        "actions[",
        "actions[]",
        "ip\"\"",
        "ip\"::\" ",
        "x=1,",
        "a.b.",
        "stage a=1;",
        "field a=reg0;",
        "test a{}",
        "!",
        "not a();",
        "a|",
        "a+",
        "++",
    ]
    .iter()
    .map(|piece| (format!("{piece:?} again and again"), piece.repeat(200_000 / piece.len())))
    .collect();
    for (name, before, piece, after) in [
        ("a list", "input table t(a: list<int>);\nt(", "1,", ");"),
        ("a list of lists", "table t(a: list<list<int>>);\nt([", "[],", "]);"),
        ("a list of texts", "table t(a: list<string>);\nt([", "\"\",", "]);"),
        ("a set", "table t(a: set<int>);\nt({", "1,", "});"),
        ("a sum", "table t(a: int);\nt(0", "+1", ");"),
        ("conditions", "input table u(a: int);\ntable t(a: int);\nt(a) :- u(a)", ",a==1", ";"),
        ("atoms", "input table u(a: int);\ntable t(a: int);\nt(a) :- u(a)", ",u(_)", ";"),
        ("columns", "input table u(a: int", ",a:int", ");"),
        ("facts", "output table t(a: int);\n", "t(1);", ""),
        ("rules", "input table u(a: int);\noutput table t(a: int);\n", "t(a):-u(a);", ""),
        ("brackets", "output table t(a: int);\nt(", "(", ");"),
    ] {
        texts.push((name.to_owned(), format!("{before}{}{after}", piece.repeat(200_000 / piece.len()))));
    }
    let numbered = |item: &dyn Fn(usize) -> String| (0..20_000).map(item).collect::<String>();
    texts.push(("tables".to_owned(), numbered(&|n| format!("input table t{n}();"))));
    texts.push(("constants".to_owned(), numbered(&|n| format!("const c{n}=1;"))));
    texts.push(("unknown tables".to_owned(), numbered(&|n| format!("t{n}();"))));
    texts
}

/// What a syntax tree takes for each byte: 24 bytes for each token while a node grows, three times over when its list doubles, and the
/// tokens themselves. It is more than decoders of foreign input may take: whoever gives a program runs it.
const OF_TREE: usize = 110;
/// What the check of a program takes for each byte, mostly rules and facts of five bytes.
const OF_PROGRAM: usize = 300;

#[test]
fn d1_the_memory_of_a_tree_follows_its_text() {
    for (name, text) in worst() {
        // Lists double at powers of two.
        for length in [text.len(), 131_100] {
            let text = &text[..text.floor_char_boundary(length)];
            let (_, peak) = decoder_memory::peak(|| parse(text));
            assert!(peak <= OF_TREE * text.len() + ANY_TEXT, "{name}: {peak} for {}", text.len());
        }
    }
}

#[test]
fn d1_the_memory_of_a_program_follows_its_text() {
    for (name, text) in worst() {
        let sources = Sources::from_texts([("main.nlog", text.as_str())]);
        let (_, peak) = decoder_memory::peak(|| compile(&sources));
        assert!(peak <= OF_PROGRAM * text.len() + ANY_TEXT, "{name}: {peak} for {}", text.len());
    }
}
