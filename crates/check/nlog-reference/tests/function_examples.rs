//! Every example on the page of functions is valid nlog and has the result that the page shows.

use nlog::{Sources, compile};
use nlog_data::function::reference_markdown;
use nlog_data::{CommitError, ErrorCode, Evaluator, Tables, json};
use nlog_reference::Reference;

/// The outcome of a rule for one row of input.
#[derive(Debug, PartialEq)]
enum Outcome {
    Derives,
    Nothing,
    Fails(&'static str),
    Refused(String),
}

/// Whether the body holds. The compiler finds failures of constants; other failures occur at run
/// time.
fn outcome(body: &str) -> Outcome {
    let text = format!("input table i(k: int);\noutput table o(k: int);\no(k) :- i(k), {body};\n");
    let compiled = compile(&Sources::from_texts([("example.nlog", text.as_str())]));
    let Some(program) = compiled.program else {
        let codes: Vec<&str> = compiled.diagnostics.iter().map(|found| found.code.name()).collect();
        return match codes.join(" ").as_str() {
            "constant-overflow" => Outcome::Fails("overflow"),
            "constant-range" => Outcome::Fails("range"),
            _ => Outcome::Refused(format!("{:?}", compiled.diagnostics)),
        };
    };
    let mut reference = Reference::new(program, Tables::Outputs);
    let transaction = json::parse_line(br#"{"insert":{"i":[[1]]}}"#, 1, reference.schema()).expect("a row");
    match reference.commit(&transaction.transaction) {
        Ok(committed) if committed.delta.tables.is_empty() => Outcome::Nothing,
        Ok(_) => Outcome::Derives,
        Err(CommitError::Refused(error)) if error.code == ErrorCode::Overflow => Outcome::Fails("overflow"),
        Err(CommitError::Refused(error)) if error.code == ErrorCode::Range => Outcome::Fails("range"),
        Err(error) => Outcome::Refused(error.to_string()),
    }
}

/// The calls on the page and their results.
fn examples(page: &str) -> Vec<(&str, &str)> {
    let blocks = page.split("```nlog\n").skip(1).filter_map(|rest| rest.split("```").next());
    let parts = blocks.flat_map(str::lines).filter_map(|line| line.rsplit_once("   # "));
    parts.map(|(call, result)| (call.trim_end(), result)).collect()
}

#[test]
fn every_example_on_the_page_is_nlog_and_true() {
    let page = reference_markdown();
    let examples = examples(&page);
    assert!(examples.len() > 400, "only {} examples", examples.len());
    let mut wrong = Vec::new();
    for (call, result) in examples {
        let open = call.trim_end_matches(')');
        // An empty argument does not determine its type; the input's column does.
        let empty = ["[]", "{}", "none()"].iter().any(|argument| call.ends_with(&format!("({argument})")));
        let x = if empty { "k" } else { "_" };
        let first = if call.starts_with("element_at(") { "_, " } else { "" };
        let has_value = if empty { format!("{call} == k") } else { format!("x = {call}, x == x") };
        let (body, wanted) = match (result, result.strip_prefix("error: ")) {
            (_, Some("overflow")) => (has_value, Outcome::Fails("overflow")),
            (_, Some(_)) if call.starts_with("range(") => (format!("{open}, _)"), Outcome::Fails("range")),
            (_, Some(_)) => (has_value, Outcome::Fails("range")),
            ("no result", _) => (has_value, Outcome::Nothing),
            ("no results", _) => (format!("{open}, {first}{x})"), Outcome::Nothing),
            // Every tuple of results as the last terms of an atom.
            _ if result.starts_with('(') => {
                let tuples = result[1..result.len() - 1].split(") (");
                let atoms: Vec<String> = tuples.map(|tuple| format!("{open}, {tuple})")).collect();
                (atoms.join(", "), Outcome::Derives)
            }
            _ => (format!("({call}) == {result}"), Outcome::Derives),
        };
        let found = outcome(&body);
        if found != wanted {
            wrong.push(format!("{call}   # {result}\n  {body}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
