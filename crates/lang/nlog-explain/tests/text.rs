//! Explanations as text are for people: they quote values of any length in a line.

use nlog::{Sources, compile};
use nlog_data::Value;
use nlog_explain::{OnDemand, explanation};

#[test]
fn d26_an_explanation_quotes_the_beginning_of_a_long_value() {
    let text = "input table a(s: string); output table b(s: string); b(s) :- a(s);";
    let compilation = compile(&Sources::from_texts([("main.nlog", text)]));
    let program = compilation.program.expect("a program");
    let (a, b) = (program.schema.find("a").expect("a table"), program.schema.find("b").expect("a table"));
    let row = vec![Value::from("x".repeat(400_000).as_str())];
    let state = OnDemand::new(program.clone(), [(a, row.clone())]);
    let lines = explanation::why(&state, b, &row);
    let said = lines.join("\n");
    assert!(said.contains("xxx… (400,002 bytes)") && said.len() < 2000, "{} bytes", said.len());
    let short = explanation::atom(&program, a, &[Value::from("x")]);
    assert_eq!(short, "a(\"x\")");
}
