//! Prints descriptions of plans for the authors of rules.

use std::fmt;

use crate::describe::{Description, IndexDescription, PipelineDescription, RelationDescription};
use crate::query::{IndexId, Plan};

/// A figure for display: two decimal places below ten, otherwise an integer in groups of three
/// digits.
fn figure(figure: f64) -> String {
    if figure > 0.0 && figure < 0.005 {
        return "<0.01".to_owned();
    }
    if figure < 9.995 {
        let text = format!("{figure:.2}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let digits = format!("{figure:.0}");
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(crate) fn rows(count: f64) -> String {
    let text = figure(count);
    if text == "1" { "1 row".to_owned() } else { format!("{text} rows") }
}

impl fmt::Display for IndexId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "i{}", self.0)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe().fmt(f)
    }
}

impl Description {
    /// The text, with the reasons for each order.
    pub fn explained(&self) -> impl fmt::Display + '_ {
        Text { described: self, explain: true }
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Text { described: self, explain: false }.fmt(f)
    }
}

struct Text<'a> {
    described: &'a Description,
    explain: bool,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Description { rules, indexes, relations, warnings } = self.described;
        for rule in rules {
            let stage = if rule.stage { ", a stage" } else { "" };
            writeln!(f, "{} ({}{stage})", rule.head, rule.place)?;
            for pipeline in &rule.pipelines {
                self.pipeline(f, "from", pipeline)?;
            }
            if let Some(groups) = &rule.groups {
                writeln!(f, "  groups become {groups}")?;
            }
            for pipeline in &rule.failures {
                self.pipeline(f, "failures, from", pipeline)?;
            }
        }
        section(f, "indexes", indexes, |f, index| {
            let fit =
                if index.fit.is_empty() { String::new() } else { format!("[{}]", index.fit.join(", ")) };
            let (by, of) = (index.by.join(", "), index.of.join(", "));
            let users = index.used_by.iter().map(|(head, times)| match times {
                1 => head.clone(),
                times => format!("{head} ({times} times)"),
            });
            let users: Vec<String> = users.collect();
            let IndexDescription { index, relation, fan_out, .. } = index;
            let fan_out = figure(*fan_out);
            writeln!(
                f,
                "  {index} = {relation}{fit} by ({by}) for ({of}), {fan_out} a key: {}",
                users.join(", ")
            )
        })?;
        section(f, "relations", relations, |f, relation| {
            let RelationDescription { name, keep, level, rows: count, counted } = relation;
            if keep == "not computed" {
                return writeln!(f, "  {name}: {keep}");
            }
            let about = if *counted { "" } else { "about " };
            writeln!(f, "  {name}: {keep}, level {level}, {about}{}", rows(*count))
        })?;
        section(f, "warnings", warnings, |f, warning| writeln!(f, "  {warning}"))
    }
}

impl Text<'_> {
    fn pipeline(
        &self,
        f: &mut fmt::Formatter<'_>,
        from: &str,
        pipeline: &PipelineDescription,
    ) -> fmt::Result {
        let PipelineDescription { begins, rows: count, cost, full, steps, end, instead } = pipeline;
        let full = if *full { "; all rows this way" } else { "" };
        let cost = figure(*cost);
        writeln!(f, "  {from} {begins}: {}, {cost} touched{full}", rows(*count))?;
        for step in steps {
            write!(f, "    {}", step.does)?;
            if let (Some(index), Some(bindings)) = (&step.index, step.bindings) {
                write!(f, " by {index}: {}", figure(bindings))?;
            }
            if let (Some(because), true) = (&step.because, self.explain) {
                write!(f, " (because {because})")?;
            }
            f.write_str("\n")?;
        }
        writeln!(f, "    -> {end}")?;
        if let (Some(instead), true) = (instead, self.explain) {
            writeln!(f, "    with {} second: {cost} would be {}", instead.atom, figure(instead.cost))?;
        }
        Ok(())
    }
}

fn section<T>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    entries: &[T],
    write: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    if entries.is_empty() {
        return Ok(());
    }
    writeln!(f, "{title}")?;
    entries.iter().try_for_each(|entry| write(f, entry))
}
