//! The pipeline as text for a terminal and as a page of the book.

use std::fmt::Write as _;

use crate::model::{Entry, Form, Group, Outcome, Pipeline, Placed, Priority, Stage};

/// How to read the page.
const INTRODUCTION: &str = "\
A packet enters at stage 0. In each stage, the flow with the highest priority that matches decides. `resubmit(STAGE)` looks
the packet up in that stage and then continues with the next action; `drop` is an empty list of actions. A stage without a
matching flow drops the packet, too, or if it is a subroutine, returns.

In a match and in actions, names of fields are those below, and what stands in angle brackets is a value that rows
determine: `<label of port>` is the label of the port that the flow is about. `a|b` is one of several values. What stands in
square brackets is only in some of these matches. Where several cases are listed, a flow has the actions of the case that holds
on its host.
";

impl Pipeline {
    /// The page of the book.
    pub fn markdown(&self) -> String {
        let mut page = format!("# The pipeline\n\n{INTRODUCTION}\n");
        self.fields_and_forms(&mut page);
        for stage in &self.stages {
            stage.markdown(&mut page);
        }
        if !self.groups.is_empty() {
            page.push_str("## Groups\n\nA group sends a copy of the packet through each of its buckets.\n\n");
        }
        for group in &self.groups {
            group.markdown(&mut page);
        }
        page.truncate(page.trim_end().len());
        page.push('\n');
        page
    }

    fn fields_and_forms(&self, page: &mut String) {
        if !self.fields.is_empty() {
            page.push_str("## Fields\n\n| name | field | |\n|---|---|---|\n");
            for field in &self.fields {
                let _ = writeln!(page, "| `{}` | `{}` | {} |", field.name, field.bits, in_cell(&field.doc));
            }
            page.push('\n');
        }
        if !self.forms.is_empty() {
            page.push_str(
                "## Places\n\nWhich hosts have a flow depends on the table that its rule fills.\n\n",
            );
            for Form { table, doc } in &self.forms {
                let _ = writeln!(page, "- `{table}`: {}", row_sentence(doc));
            }
            page.push_str("- no table: the rule itself names the hosts.\n\n");
        }
    }
}

impl Stage {
    fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("{} {name}", self.number),
            None => self.number.to_string(),
        }
    }

    fn markdown(&self, page: &mut String) {
        let _ = write!(page, "## {}\n\n", self.title());
        if !self.doc.is_empty() {
            let _ = write!(page, "{}\n\n", self.doc);
        }
        if self.priorities.is_empty() {
            page.push_str("No rule adds flows to this stage.\n\n");
        }
        for priority in &self.priorities {
            let _ = write!(page, "### {}\n\n", priority.title());
            if !priority.doc.is_empty() {
                let _ = write!(page, "{}\n\n", priority.doc);
            }
            for entry in &priority.entries {
                entry.markdown(page);
            }
        }
    }
}

impl Priority {
    fn title(&self) -> String {
        let numbers = match (self.first, self.last) {
            (first, last) if first == last => first.to_string(),
            (0, u16::MAX) => "any priority".to_owned(),
            (first, last) => format!("{first} to {last}"),
        };
        match &self.name {
            Some(name) => format!("{numbers} {name}"),
            None => numbers,
        }
    }
}

impl Entry {
    fn match_text(&self) -> &str {
        if self.matching.is_empty() { "any packet" } else { &self.matching }
    }

    fn markdown(&self, page: &mut String) {
        let _ = write!(page, "- `{}`", self.match_text());
        markdown_outcomes(page, &self.outcomes);
        for rule in &self.rules {
            let _ = writeln!(page, "  - {}", rule.markdown());
        }
        page.push('\n');
    }
}

impl Group {
    fn markdown(&self, page: &mut String) {
        let _ = write!(page, "- group `{}`, bucket `{}`", self.group, self.bucket);
        markdown_outcomes(page, &self.outcomes);
        let _ = write!(page, "  - {}\n\n", self.rule.markdown());
    }
}

/// The actions after a match: on its line if there is one case, otherwise one line each.
fn markdown_outcomes(page: &mut String, outcomes: &[Outcome]) {
    match outcomes {
        [only] => {
            let _ = writeln!(page, " → `{}`", only.actions);
        }
        several => {
            page.push('\n');
            for outcome in several {
                let case = if outcome.case.is_empty() { String::new() } else { format!(" {}", outcome.case) };
                let _ = writeln!(page, "  - → `{}`{case}", outcome.actions);
            }
        }
    }
}

impl Placed {
    fn place(&self) -> String {
        let form = self.form.as_ref().map(|form| format!("{form}, ")).unwrap_or_default();
        format!("{form}{}:{}", self.file, self.line)
    }

    fn markdown(&self) -> String {
        let form = self.form.as_ref().map(|form| format!("`{form}`, ")).unwrap_or_default();
        let doc = if self.doc.is_empty() { String::new() } else { format!("{} ", self.doc) };
        format!("{doc}({form}{}:{})", self.file, self.line)
    }
}

/// The documentation of a table as a sentence about its rows.
fn row_sentence(doc: &str) -> String {
    doc.strip_prefix("Each row: ").unwrap_or(doc).to_owned()
}

fn in_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The pipeline for a terminal.
impl std::fmt::Display for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = self.fields.iter().map(|field| field.name.len()).max().unwrap_or_default();
        let bits = self.fields.iter().map(|field| field.bits.len()).max().unwrap_or_default();
        if !self.fields.is_empty() {
            writeln!(f, "fields:")?;
        }
        for field in &self.fields {
            writeln!(f, "    {:width$}  {:bits$}  {}", field.name, field.bits, field.doc)?;
        }
        if !self.forms.is_empty() {
            writeln!(f, "places:")?;
        }
        let width = self.forms.iter().map(|form| form.table.len()).max().unwrap_or_default();
        for form in &self.forms {
            writeln!(f, "    {:width$}  {}", form.table, row_sentence(&form.doc))?;
        }
        for stage in &self.stages {
            write_stage(f, stage)?;
        }
        for group in &self.groups {
            writeln!(f, "group {}, bucket {}", group.group, group.bucket)?;
            write_outcomes(f, &group.outcomes)?;
            write_rule(f, &group.rule)?;
        }
        Ok(())
    }
}

fn write_stage(f: &mut std::fmt::Formatter<'_>, stage: &Stage) -> std::fmt::Result {
    let colon = if stage.doc.is_empty() { "" } else { ": " };
    writeln!(f, "stage {}{colon}{}", stage.title(), stage.doc)?;
    for priority in &stage.priorities {
        let colon = if priority.doc.is_empty() { "" } else { ": " };
        writeln!(f, "  priority {}{colon}{}", priority.title(), priority.doc)?;
        for entry in &priority.entries {
            writeln!(f, "    {}", entry.match_text())?;
            write_outcomes(f, &entry.outcomes)?;
            for rule in &entry.rules {
                write_rule(f, rule)?;
            }
        }
    }
    Ok(())
}

fn write_outcomes(f: &mut std::fmt::Formatter<'_>, outcomes: &[Outcome]) -> std::fmt::Result {
    for outcome in outcomes {
        let case = if outcome.case.is_empty() { String::new() } else { format!("  # {}", outcome.case) };
        writeln!(f, "        -> {}{case}", outcome.actions)?;
    }
    Ok(())
}

fn write_rule(f: &mut std::fmt::Formatter<'_>, rule: &Placed) -> std::fmt::Result {
    let colon = if rule.doc.is_empty() { "" } else { ": " };
    writeln!(f, "        {}{colon}{}", rule.place(), rule.doc)
}
