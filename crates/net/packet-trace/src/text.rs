//! A trace for people: the verdict first, then the way.

use std::fmt::Write as _;

use crate::{
    Cause, Delivery, Drop, FlowView, Hop, Leaf, Line, LookupView, Nearest, Responded, Response, Trace,
};

/// The most deliveries and drops of copies that are shown unless everything is.
const COPIES: usize = 5;
/// The most hosts whose part of the way is shown unless everything is.
const HOSTS: usize = 4;
/// The most objects behind a flow that are shown unless everything is.
const LEAVES: usize = 4;
/// The most characters of a sentence that are shown unless everything is.
const SENTENCE: usize = 90;
/// What stands before the first finding.
const CAUSE: &str = "cause: ";
/// The width of the column with the names of stages.
const STAGE: usize = 17;

/// The trace as text. With `verbose` every table, flow, action and object, otherwise what fits on a screen.
pub fn text(trace: &Trace, verbose: bool) -> String {
    let mut out = Writer { out: String::new(), verbose };
    out.verdict(trace);
    if let Some(warning) = crate::live::warning(trace) {
        out.line(0, &warning);
    }
    out.line(0, &format!("packet: {}", trace.packet));
    for note in &trace.notes {
        out.line(0, &format!("note: {note}"));
    }
    let roots = (0..trace.hops.len()).filter(|hop| trace.hops[*hop].before.is_none());
    let mut shown = 0;
    for root in roots {
        out.hop(trace, root, 0, &mut shown);
    }
    if let Some(more @ 1..) = trace.hops.len().checked_sub(shown) {
        out.line(0, &format!("and {more} more hosts; --verbose shows them"));
    }
    for line in crate::live::lines(trace, verbose) {
        out.line(0, &line);
    }
    out.out
}

/// The verdict in one line.
pub fn verdict(trace: &Trace) -> String {
    let places: Vec<String> = trace.delivered.iter().take(COPIES).map(place).collect();
    let more = trace.delivered.len().saturating_sub(COPIES);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let places = places.join(", ") + &more;
    if trace.is_delivered() {
        return match trace.not_in_force.as_slice() {
            [] => format!("delivered to {places}"),
            why => format!("delivered by the rules to {places}, but {}", why.join(", and ")),
        };
    }
    match (&trace.to, trace.delivered.is_empty() || trace.vain, trace.main_drop()) {
        (Some(to), false, _) => format!("not delivered to {to}, but to {places}"),
        (_, _, Some(drop)) => format!("dropped{}", where_and_why(drop)),
        (_, _, None) => "dropped: no flow sends it anywhere".to_owned(),
    }
}

fn place(one: &Delivery) -> String {
    match &one.host {
        Some(host) => format!("{} on {host}", one.port),
        None => one.port.clone(),
    }
}

fn where_and_why(drop: &Drop) -> String {
    let mut on = if drop.host.is_empty() { String::new() } else { format!(" on {}", drop.host) };
    if let Cause::Flow(lookup) | Cause::Missing(lookup, _) | Cause::Problem(lookup, _) = &drop.cause
        && let Some(datapath) = &lookup.datapath
    {
        let _ = write!(on, " in {datapath}");
    }
    match &drop.cause {
        Cause::Flow(lookup) => format!("{on} by stage {} {}", lookup.table, named(lookup)),
        Cause::Missing(lookup, _) => {
            format!("{on} in stage {} {}: no flow matches", lookup.table, lookup.stage)
        }
        Cause::Problem(lookup, why) => format!("{on} in stage {} {}: {why}", lookup.table, named(lookup)),
        Cause::NoRow { what, .. } => format!(": {what}"),
        Cause::Fault(why) => format!("{on}: {why}"),
    }
}

/// A stage, and the priority of the flow there.
pub(crate) fn named(lookup: &LookupView) -> String {
    lookup
        .priority_name()
        .map_or_else(|| lookup.stage.clone(), |priority| format!("{}, {priority}", lookup.stage))
}

struct Writer {
    out: String,
    verbose: bool,
}

impl Writer {
    fn line(&mut self, indent: usize, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", 4 * indent);
    }

    fn verdict(&mut self, trace: &Trace) {
        self.line(0, &verdict(trace));
        let with_changes = if self.verbose { usize::MAX } else { usize::from(trace.is_delivered()) };
        for one in trace.delivered.iter().take(with_changes) {
            for (field, before, after) in &one.changes {
                self.line(1, &format!("{field}: {before} -> {after}"));
            }
        }
        let main = trace.main_drop().filter(|_| !trace.is_delivered());
        self.causes(trace);
        if let Some(drop) = main {
            self.reasons(drop, !trace.findings.is_empty() && !trace.rules_blamed);
        }
        self.responses(&trace.responses);
        if trace.vain && !trace.delivered.is_empty() {
            let heard: Vec<String> = trace.delivered.iter().take(COPIES).map(place).collect();
            self.line(0, &format!("the question reaches {}", heard.join(", ")));
        }
        let others = trace.dropped.iter().filter(|drop| !main.is_some_and(|main| std::ptr::eq(main, *drop)));
        let others: Vec<&Drop> = others.collect();
        let shown = if self.verbose { usize::MAX } else { COPIES };
        let what = if trace.is_delivered() { "a copy is dropped" } else { "dropped" };
        for drop in others.iter().take(shown) {
            self.line(0, &format!("{what}{}", where_and_why(drop)));
            if self.verbose {
                self.reasons(drop, false);
            }
        }
        if let Some(more @ 1..) = others.len().checked_sub(shown) {
            self.line(0, &format!("and {more} more copies are dropped; --verbose shows them"));
        }
    }

    /// What is behind the verdict in objects and reports.
    fn causes(&mut self, trace: &Trace) {
        for (number, finding) in trace.findings.iter().enumerate() {
            let head = if number == 0 { CAUSE } else { "" };
            self.line(0, &format!("{head:0$}{finding}", CAUSE.len()));
        }
        // A problem may be the cause itself, in other words.
        let told = |problem: &&String| {
            let why = problem.rsplit_once(": ").map_or(&problem[..], |(_, why)| why);
            trace.findings.iter().any(|finding| finding.contains(why))
        };
        let verbose = self.verbose;
        for problem in trace.problems.iter().filter(|problem| verbose || !told(problem)) {
            self.line(0, &format!("problem: {problem}"));
        }
    }

    /// What responders answer, or why they do not.
    fn responses(&mut self, responses: &[Response]) {
        let shown = if self.verbose { usize::MAX } else { COPIES };
        for response in responses.iter().take(shown) {
            self.line(0, &response.text());
            self.asked_by(response);
        }
        if let Some(more @ 1..) = responses.len().checked_sub(shown) {
            self.line(0, &format!("and {more} more copies come to a responder; --verbose shows them"));
        }
    }

    /// The flow that hands a packet over, or does not. Its actions are long, and few people read them.
    fn asked_by(&mut self, response: &Response) {
        let Response { at, because, responded, .. } = response;
        let stage = format!("stage {} {}", at.table, named(at));
        let Some(flow) = &at.flow else { return };
        if self.verbose {
            self.line(1, &format!("{stage}:"));
            return self.flow(2, flow, because);
        }
        if *responded == Responded::NotAsked && !flow.sentence.is_empty() {
            self.line(1, &flow.sentence);
        }
        let rule = flow.rule.as_ref().map_or(String::new(), |rule| format!(", rule {rule}"));
        self.line(1, &format!("{stage}{rule}"));
        let objects = because.iter().filter(|leaf| leaf.object.is_some()).take(LEAVES);
        let objects: Vec<&str> = objects.map(|leaf| &*leaf.what).collect();
        if !objects.is_empty() {
            self.line(1, &format!("because of {}", objects.join(", ")));
        }
    }

    /// The flow behind a drop, or the missing one. What is `found` needs no more than that.
    fn reasons(&mut self, drop: &Drop, found: bool) {
        let brief = found && !self.verbose;
        match &drop.cause {
            Cause::Flow(lookup) | Cause::Problem(lookup, _) => {
                if let Some(flow) = &lookup.flow {
                    self.flow(1, flow, &drop.because);
                }
                let shown = if brief { 1 } else { drop.written.len() };
                for (asked, lookup, because) in drop.written.iter().take(shown) {
                    self.line(
                        1,
                        &format!("{asked} was decided in stage {} {}:", lookup.table, named(lookup)),
                    );
                    if let Some(flow) = &lookup.flow {
                        self.flow(2, flow, because);
                    }
                }
            }
            Cause::Missing(lookup, nearest) => {
                self.line(1, &lookup.stage_doc);
                let shown = if brief { 1 } else { nearest.len() };
                for near in nearest.iter().take(shown) {
                    self.near(near);
                }
            }
            Cause::NoRow { .. } if brief => {}
            Cause::NoRow { why_not, .. } => {
                for line in why_not {
                    self.line(1, line);
                }
            }
            Cause::Fault(_) => {}
        }
    }

    fn flow(&mut self, indent: usize, flow: &FlowView, because: &[Leaf]) {
        if !flow.sentence.is_empty() {
            self.line(indent, &flow.sentence);
        }
        self.line(indent, &format!("{} -> {}", any(&flow.matching), flow.actions));
        if let Some(rule) = &flow.rule {
            self.line(indent, &format!("rule {rule}"));
        }
        self.leaves(indent, because);
    }

    fn near(&mut self, near: &Nearest) {
        let unmet: Vec<String> =
            near.unmet.iter().map(|(asked, found)| format!("{asked}, and the packet has {found}")).collect();
        self.line(1, &format!("the nearest flow asks for {}", unmet.join("; for ")));
        self.flow(2, &near.flow, &near.because);
    }

    fn leaves(&mut self, indent: usize, because: &[Leaf]) {
        let shown = if self.verbose { usize::MAX } else { LEAVES };
        for leaf in because.iter().take(shown) {
            let what = if self.verbose { &leaf.row } else { &leaf.what };
            let by = leaf.origin.as_ref().map_or(String::new(), |origin| format!(" ({origin})"));
            self.line(indent, &format!("because of {what}{by}"));
        }
        if let Some(more @ 1..) = because.len().checked_sub(shown) {
            self.line(indent, &format!("and of {more} more; --verbose shows them"));
        }
    }

    /// A hop, and the hops that come from it.
    fn hop(&mut self, trace: &Trace, number: usize, depth: usize, shown: &mut usize) {
        if !self.verbose && *shown >= HOSTS {
            return;
        }
        *shown += 1;
        let hop: &Hop = &trace.hops[number];
        let ends_here = trace.main_drop().is_none_or(|drop| drop.host == hop.host);
        if trace.is_delivered() || ends_here || self.verbose {
            self.line(depth, &format!("on {}:", hop.host));
            self.lines(hop, depth + 1);
        } else {
            self.line(depth, &format!("on {}: {}", hop.host, passed(hop)));
        }
        let next = (0..trace.hops.len()).filter(|next| trace.hops[*next].before == Some(number));
        for next in next {
            self.hop(trace, next, depth + 1, shown);
        }
    }

    fn lines(&mut self, hop: &Hop, depth: usize) {
        let is_lookup = |line: &Line| matches!(line, Line::Lookup(_));
        let last = hop.lines.iter().rposition(is_lookup);
        for (number, line) in hop.lines.iter().enumerate() {
            match line {
                Line::Lookup(lookup) if self.verbose || lookup.telling || Some(number) == last => {
                    self.lookup(depth, lookup);
                }
                Line::Lookup(_) => {}
                Line::Bucket(id) => self.line(depth, &format!("copy by bucket {id}")),
                Line::Sent(port) => self.line(depth, &format!("leaves by {port}")),
                Line::Problem(text) => self.line(depth, &format!(">> {text}")),
                Line::Note(text) if self.verbose => self.line(depth + 1, &format!("-> {text}")),
                Line::Note(_) => {}
                Line::Action(action) if self.verbose => self.line(depth + 1, action),
                Line::Action(_) => {}
            }
        }
    }

    fn lookup(&mut self, depth: usize, lookup: &LookupView) {
        let head = format!("{:2} {:STAGE$}", lookup.table, lookup.stage);
        let Some(flow) = &lookup.flow else {
            return self.line(depth, &format!("{head} {}", without_flow(lookup)));
        };
        let rule = flow.rule.as_deref().map_or("learned".to_owned(), |rule| format!("[{}]", short(rule)));
        let name = flow.priority_name.as_deref().unwrap_or_default();
        if self.verbose {
            self.line(depth, &format!("{head} {name}: {}", flow.sentence));
            if let Some(by) = &lookup.decided_by {
                self.line(depth + 1, &format!("by {by}"));
            }
            self.line(depth + 1, &flow.text);
            let placed = flow.placed_by.as_deref().map_or(String::new(), |by| format!(", placed by {by}"));
            return self
                .line(depth + 1, &format!("rule {}{placed}", flow.rule.as_deref().unwrap_or("learned")));
        }
        let by = lookup.decided_by.as_ref().map_or(String::new(), |by| format!(", by {by}"));
        self.line(depth, &format!("{head} {} {rule}{by}", cut(&flow.sentence)));
    }
}

/// The stages of a host that a packet has passed, in a line.
fn passed(hop: &Hop) -> String {
    let step = |line: &Line| match line {
        Line::Lookup(lookup) if lookup.flow.is_none() => {
            Some(format!("{}: {}", lookup.stage, without_flow(lookup)))
        }
        Line::Lookup(lookup) if lookup.telling => Some(lookup.stage.clone()),
        Line::Sent(port) => Some(format!("leaves by {port}")),
        Line::Problem(text) => Some(text.clone()),
        _ => None,
    };
    hop.lines.iter().filter_map(step).collect::<Vec<_>>().join(", ")
}

/// What a look-up without a flow means for the packet.
fn without_flow(lookup: &LookupView) -> &'static str {
    if lookup.ends { "no flow matches" } else { "no entry (goes on)" }
}

fn any(matching: &str) -> &str {
    if matching.is_empty() { "any packet" } else { matching }
}

/// The file's name without its folders, and the line.
fn short(rule: &str) -> &str {
    rule.rsplit_once('/').map_or(rule, |(_, name)| name)
}

/// The first sentence, cut at a word if it is long.
fn cut(sentence: &str) -> String {
    let first = sentence.find(". ").map_or(sentence, |end| &sentence[..=end]);
    if first.chars().count() <= SENTENCE {
        return first.to_owned();
    }
    let start: String = first.chars().take(SENTENCE).collect();
    let words = start.rsplit_once(' ').map_or(&*start, |(words, _)| words);
    format!("{words} …")
}
