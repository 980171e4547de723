//! How the time of the front end grows with the text: about 1 is linear, 8 would be quadratic.
//!
//! Each shape of text once made some part of the compiler visit everything again for each element.

use std::time::Instant;

use nlog::{Sources, compile};

use crate::measure::Spread;

/// The length of the long text, relative to the short one.
const LONGER: usize = 8;
const TABLES: &str = "input table e(a: int, b: int);\noutput table t(a: int);\n";

/// A text of `n` pieces.
type Shape = (&'static str, usize, fn(usize) -> String);

const SHAPES: [Shape; 10] = [
    ("rules", 500, |n| pieces("", n, |i| format!("t(x) :- e(x, {i}), e({i}, x);\n"), "")),
    ("mistakes", 500, |n| pieces("", n, |i| format!("t(x{i}) :- f(x);\n"), "")),
    ("one line", 500, |n| pieces("", n, |_| "t(x) :- f(x);".into(), "")),
    ("one rule", 500, |n| pieces("t(x0) :- e(x0, _)", n, |i| format!(", e(x{i}, x{})", i + 1), ";")),
    ("definitions", 500, |n| pieces("t(x0) :- e(x0, _)", n, |i| format!(", x{} = x{i} & 1", i + 1), ";")),
    ("constants", 500, |n| pieces("", n, |i| format!("const C{i} = C{} + 1;", i + 1), "")),
    ("tables", 500, |n| pieces("", n, |i| format!("table t{i}(); t{i}() :- t{}();", i + 1), "")),
    ("brackets", 4000, |n| "(".repeat(n)),
    ("columns", 500, |n| pieces("table w(", n, |i| format!("c{i}: int,"), ");")),
    ("unclosed", 500, |n| pieces("", n, |i| format!("t({i}) :- e({i},\n"), "")),
];

fn pieces(head: &str, count: usize, piece: impl Fn(usize) -> String, tail: &str) -> String {
    let parts: String = (0..count).map(piece).collect();
    format!("{TABLES}{head}{parts}{tail}")
}

/// Prints a row for each shape.
pub(crate) fn growth(runs: usize) {
    println!(
        "\ncompiling a text {LONGER} times as long; {runs} runs\n\n| text | ms | longer | growth |\n|---|---|---|---|"
    );
    for (name, size, text) in SHAPES {
        let (short, long) = (milliseconds(&text(size), runs), milliseconds(&text(size * LONGER), runs));
        let growth = long.median() / short.median() / LONGER as f64;
        println!("| {name} | {short:.2} | {long:.2} | {growth:.2} |");
    }
}

fn milliseconds(text: &str, runs: usize) -> Spread {
    let once = || {
        let start = Instant::now();
        compile(&Sources::from_texts([("a.nlog", text)]));
        start.elapsed().as_secs_f64() * 1e3
    };
    Spread::new((0..runs).map(|_| once()).collect())
}
