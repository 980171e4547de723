//! Reads a row as answers print it, so that a line of one answer can be the question of the next.
//!
//! Programs write `some(5)`, `none()` and records with the names of their fields, because the types of their expressions must be known.
//! Answers print values as such, which is shorter: `5`, `none`, `(1, none)`. The columns of the table say what is meant.

use nlog::Program;
use nlog::program::Pattern;
use nlog_data::literal;

/// The pattern of a row in the form `table(5, none, _, ..)`; none if the text is not in this form.
pub fn pattern(program: &Program, text: &str) -> Option<Pattern> {
    let text = text.trim().trim_end_matches(';').trim_end();
    let (name, rest) = text.split_once('(')?;
    let table = program.schema.find(name.trim())?;
    let declared = &program.schema.table(table).columns;
    let mut terms = terms(rest.strip_suffix(')')?)?;
    let mut columns = Vec::with_capacity(declared.len());
    if terms.last() == Some(&"..") {
        terms.pop();
        terms.resize(declared.len().max(terms.len()), "_");
    }
    if terms.len() != declared.len() {
        return None;
    }
    for (term, column) in terms.into_iter().zip(declared) {
        if term.starts_with('_') {
            columns.push(None);
            continue;
        }
        let value = literal::parse(term).ok()?;
        columns.push(Some(value).filter(|value| column.ty.admits(value)).map(Some)?);
    }
    Some(Pattern { table, columns })
}

/// The terms between commas that are in no brackets and in no text.
fn terms(text: &str) -> Option<Vec<&str>> {
    let (mut terms, mut begin) = (Vec::new(), 0);
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if in_text => {
                in_text = c != '"' || escaped;
                escaped = c == '\\' && !escaped;
            }
            '"' => in_text = true,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                terms.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    let last = text[begin..].trim();
    if !last.is_empty() || !terms.is_empty() {
        terms.push(last);
    }
    Some(terms)
}
