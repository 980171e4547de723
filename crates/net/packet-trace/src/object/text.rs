//! An answer about an object as text, which fits a screen, and as JSON, which has everything.

use std::fmt::Write as _;

use nlog_explain::Origin;
use serde_json::{Value as Json, json};

use super::{ObjectAnswer, Shown};

/// The most items of a kind that the text shows.
const SHOWN: usize = 8;
/// The most characters of the value of a field in the text.
const VALUE: usize = 120;

impl ObjectAnswer {
    /// The answer in sentences.
    pub fn text(&self) -> String {
        let mut out = format!("{} {}{}", self.kind, self.id, since(self.own.origin.as_ref()));
        if !self.doc.is_empty() {
            let _ = write!(out, ": {}", self.doc);
        }
        let fields = self.fields.iter().map(|(name, value)| format!("    {name}: {}", cut(value)));
        let lines = fields
            .take(SHOWN)
            .chain(more(self.fields.len()).map(|more| format!("    and {more} more fields")));
        let mut lines: Vec<String> = lines.collect();
        lines.extend(self.whereabouts());
        if !self.numbers.is_empty() {
            lines.push(format!("It has these numbers: {}.", list(&self.numbers)));
        }
        if !self.reported.is_empty() {
            lines.push(format!("Switches report rows about it: {}.", list(&counts(&self.reported))));
        }
        if !self.referrers.is_empty() {
            lines.push(format!("These objects refer to it: {}.", list(&self.referrers)));
        }
        lines.extend(self.flow_lines());
        lines.extend(self.faults());
        if let Some(example) = &self.example {
            let tables = list(&counts(&self.tables));
            lines.push(format!(
                "Tables of rules with rows about it: {tables}; `weft explain '{example}'` says why rows exist."
            ));
        }
        if self.is_part {
            lines
                .push("note: the network is large, and only the objects around it were looked at".to_owned());
        }
        out.push('\n');
        out + &lines.join("\n")
    }

    fn whereabouts(&self) -> Vec<String> {
        // Some kinds have ids of ports and no interfaces, so nothing is lacking.
        let is_nowhere = self.homes.is_empty() && self.places.is_empty();
        if !self.has_interface || is_nowhere && self.lacks.is_empty() {
            return Vec::new();
        }
        let lives = match self.homes.as_slice() {
            [] => "It is not attached to any host".to_owned(),
            homes => format!("It lives on host {}", homes.join(" and ")),
        };
        let places = told(&self.places);
        let places = if places.is_empty() { String::new() } else { format!(": {}", list(&places)) };
        vec![format!("{lives}{places}.")]
    }

    fn flow_lines(&self) -> Vec<String> {
        let sum = |stages: &[(String, usize)]| stages.iter().map(|(_, count)| count).sum::<usize>();
        let mut lines = Vec::new();
        if !self.flows.is_empty() {
            let stages = list(&counts(&self.flows));
            lines.push(format!("The rules say {} for it: {stages}.", flows(sum(&self.flows))));
        }
        for (host, stages) in &self.on_hosts {
            let by_stage =
                if stages.is_empty() { String::new() } else { format!(": {}", list(&counts(stages))) };
            let flows = flows(sum(stages));
            lines.push(if *host == self.id {
                format!("Its switch is to have {flows}{by_stage}.")
            } else {
                format!("In the switch of {host}, {flows} name it{by_stage}.")
            });
        }
        lines
    }

    fn faults(&self) -> Vec<String> {
        let shown = |faults: &[String], what: &str| -> Vec<String> {
            let lines = faults.iter().take(SHOWN).map(|fault| format!("{what}: {fault}"));
            lines.chain(more(faults.len()).map(|more| format!("and {more} more"))).collect()
        };
        if self.problems.is_empty() && self.lacks.is_empty() {
            return vec!["It has no problem, and the rules know of nothing that it lacks.".to_owned()];
        }
        [shown(&self.problems, "problem"), shown(&self.lacks, "lacks")].concat()
    }

    /// The answer as one object.
    pub fn json(&self) -> Json {
        let pairs = |pairs: &[(String, String)]| -> Json {
            pairs
                .iter()
                .map(|(name, value)| (name.clone(), json!(value)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let numbers = |pairs: &[(String, usize)]| -> Json {
            pairs
                .iter()
                .map(|(name, count)| (name.clone(), json!(count)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let on_hosts: serde_json::Map<String, Json> =
            self.on_hosts.iter().map(|(host, stages)| (host.clone(), numbers(stages))).collect();
        let mut object = json!({
            "kind": self.kind,
            "id": self.id,
            "doc": self.doc,
            "fields": pairs(&self.fields),
            "nodes": self.homes,
            "places": self.places.iter().map(shown).collect::<Vec<_>>(),
            "numbers": self.numbers,
            "reported": numbers(&self.reported),
            "referrers": self.referrers,
            "flows": numbers(&self.flows),
            "flows_on_hosts": on_hosts,
            "problems": self.problems,
            "lacks": self.lacks,
            "tables": numbers(&self.tables),
            "is_part": self.is_part,
        });
        Origin::add_to(self.own.origin.as_ref(), "transaction", &mut object);
        object
    }
}

/// How many items are not shown, if some are not.
fn more(all: usize) -> Option<usize> {
    all.checked_sub(SHOWN).filter(|more| *more > 0)
}

/// Items of a sentence.
fn list(items: &[String]) -> String {
    let shown = items.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    more(items.len()).map_or(shown.clone(), |more| format!("{shown}, and {more} more"))
}

fn shown(one: &Shown) -> Json {
    let mut object = json!({"text": one.text});
    Origin::add_to(one.origin.as_ref(), "transaction", &mut object);
    object
}

fn told(rows: &[Shown]) -> Vec<String> {
    rows.iter().map(|one| format!("{}{}", one.text, since(one.origin.as_ref()))).collect()
}

fn since(origin: Option<&Origin>) -> String {
    origin.map_or(String::new(), |origin| format!(" (since {origin})"))
}

fn counts(pairs: &[(String, usize)]) -> Vec<String> {
    pairs.iter().map(|(name, count)| format!("{name} {count}")).collect()
}

fn flows(number: usize) -> String {
    if number == 1 { "1 flow".to_owned() } else { format!("{number} flows") }
}

fn cut(value: &str) -> String {
    if value.chars().count() <= VALUE {
        return value.to_owned();
    }
    value.chars().take(VALUE).chain([' ', '…']).collect()
}
