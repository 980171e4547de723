//! Objects in columns, for people. The columns follow from the objects: which fields a kind has, and what rules say of it, is in their JSON.

use std::collections::BTreeSet;

use comfy_table::{Column, ColumnConstraint, Table, Width, presets};
use serde_norway::{Mapping, Value};
use weft_client::Seen;
use weft_core::shown;

use super::objects::unreadable;
use crate::exit::Failure;

/// The columns of a terminal that does not say how many it has, and of a file.
const WIDTH: usize = 120;
/// The most characters of a field and of what rules say, and those that problems have at least, unless the table is wide.
const FIELD_MAX: usize = 32;
const STATE_MAX: usize = 16;
const PROBLEMS_MAX: usize = 40;
/// The member that all kinds have, and which says less of an object than its fields do.
const LABELS: &str = "labels";
/// The spaces between two columns.
const GAP: u16 = 2;
/// The longest word of the column of events.
const EVENT: usize = "deleted".len();

/// An object, taken apart.
pub(super) struct Entry {
    kind: String,
    id: String,
    fields: Mapping,
    state: Mapping,
    problems: Vec<String>,
}

/// What a column shows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Event,
    Id,
    Field(String),
    State(String),
    Problems,
}

/// The columns of a table.
pub(super) struct Layout {
    /// With the width of each.
    columns: Vec<(Source, usize)>,
    /// Every field and state with a value in some object, whether a column has had room or not.
    known: BTreeSet<Source>,
    wide: bool,
    /// The columns of the terminal, and how many of them problems may take.
    limit: usize,
    problems_max: usize,
}

impl Entry {
    /// Reads an object.
    pub(super) fn read((object, state): &Seen) -> Result<Entry, Failure> {
        let mut fields: Mapping = serde_norway::from_str(object).map_err(unreadable)?;
        let mut take = |name: &str| fields.shift_remove(name).map(|value| text(&value)).unwrap_or_default();
        let (kind, id) = (take("kind"), take("id"));
        // A controller of another version may send none.
        let state_columns = serde_norway::from_str(&state.columns).unwrap_or_default();
        Ok(Entry { kind, id, fields, state: state_columns, problems: state.problems.clone() })
    }

    /// Its kind and id, as `weft explain` takes them.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.kind, self.id)
    }

    /// What a column shows of it.
    fn cell(&self, source: &Source, event: &str, problems_max: Option<usize>) -> String {
        let is_wide = problems_max.is_none();
        let found = |value: Option<&Value>| value.map_or_else(|| "-".to_owned(), text);
        let (text, most) = match source {
            Source::Event => (event.to_owned(), EVENT),
            Source::Id => return self.id.clone(),
            Source::Field(name) => (found(self.fields.get(name.as_str())), FIELD_MAX),
            Source::State(name) => (found(self.state.get(name.as_str())), STATE_MAX),
            Source::Problems => (self.problems(is_wide), problems_max.unwrap_or_default()),
        };
        if is_wide { text } else { cut(&text, most) }
    }

    /// All problems, or their number and the first one.
    fn problems(&self, is_wide: bool) -> String {
        match self.problems.as_slice() {
            [] => "-".to_owned(),
            [only] => shown(only).into_owned(),
            all if is_wide => all.iter().map(|each| shown(each)).collect::<Vec<_>>().join("; "),
            [first, ..] => format!("{}: {}", self.problems.len(), shown(first)),
        }
    }

    /// What has a value.
    fn filled(&self) -> impl Iterator<Item = Source> {
        self.sources().filter(|source| self.cell(source, "", None) != "-")
    }

    /// Everything that it has.
    fn sources(&self) -> impl Iterator<Item = Source> {
        let name = |name: &Value| name.as_str().unwrap_or_default().to_owned();
        let fields = self.fields.keys().map(move |key| Source::Field(name(key)));
        fields.chain(self.state.keys().map(move |key| Source::State(name(key))))
    }
}

impl Layout {
    /// The columns for these objects; with `event`, also one that says what happened.
    pub(super) fn of(entries: &[Entry], event: bool, wide: bool) -> Layout {
        let limit = terminal_width().unwrap_or(WIDTH);
        let (mut fields, states) = (merged(entries, true), merged(entries, false));
        fields.sort_by_key(|field| rank(entries, field));
        let known = entries.iter().flat_map(Entry::filled).collect();
        let all = event.then_some(Source::Event).into_iter().chain([Source::Id]);
        let all = all.chain(fields).chain(states).chain([Source::Problems]);
        let mut layout = Layout { columns: Vec::new(), known, wide, limit, problems_max: PROBLEMS_MAX };
        layout.columns = all.map(|source| (source.clone(), layout.width(entries, &source))).collect();
        if !wide {
            layout.fit(entries);
        }
        layout
    }

    /// The most characters of problems in a cell; none if there is no limit.
    fn problems_max(&self) -> Option<usize> {
        (!self.wide).then_some(self.problems_max)
    }

    /// The characters that a column takes.
    fn width(&self, entries: &[Entry], source: &Source) -> usize {
        let cells = entries.iter().map(|entry| entry.cell(source, "", self.problems_max()).chars().count());
        let event = if *source == Source::Event { EVENT } else { 0 };
        cells.chain([heading(source).chars().count(), event]).max().unwrap_or_default()
    }

    /// Keeps the columns for which there is room: what tells objects apart first.
    fn fit(&mut self, entries: &[Entry]) {
        let is_empty = |source: &Source| {
            rank(entries, source) > 0
                && entries.iter().all(|entry| entry.cell(source, "", Some(PROBLEMS_MAX)) == "-")
        };
        self.columns.retain(|(source, _)| !is_empty(source));
        let mut order: Vec<(u8, usize)> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, (source, _))| (rank(entries, source), index))
            .collect();
        order.sort_unstable();
        let (mut used, mut kept) = (0, BTreeSet::new());
        for (rank, index) in order {
            let width = self.columns[index].1 + usize::from(GAP);
            if rank == 0 || used + width <= self.limit + usize::from(GAP) {
                used += width;
                kept.insert(index);
            }
        }
        let mut index = 0;
        self.columns.retain(|_| {
            index += 1;
            kept.contains(&(index - 1))
        });
        // Problems take what is left.
        let left = (self.limit + usize::from(GAP)).saturating_sub(used);
        let width = self.width(entries, &Source::Problems);
        self.problems_max = PROBLEMS_MAX.max(width + left);
        let width = self.width(entries, &Source::Problems);
        if let Some(last) = self.columns.last_mut() {
            last.1 = width;
        }
    }

    /// Whether everything that the object has was considered for a column.
    pub(super) fn covers(&self, entry: &Entry) -> bool {
        entry.filled().all(|source| self.known.contains(&source))
    }

    /// The layout with columns for what this object has besides.
    pub(super) fn extended(mut self, entry: &Entry) -> Layout {
        let other = Layout::of(std::slice::from_ref(entry), true, self.wide);
        let problems = self.columns.pop();
        let mut used: usize = self.columns.iter().map(|(_, width)| width + usize::from(GAP)).sum();
        for (source, width) in other.columns {
            let has_room = self.wide || used + width + usize::from(GAP) + PROBLEMS_MAX <= self.limit;
            let is_there = self.columns.iter().any(|(there, _)| *there == source);
            let is_new = !is_there && !self.known.contains(&source);
            if is_new && has_room && source != Source::Problems {
                used += width + usize::from(GAP);
                self.columns.push((source, width));
            }
        }
        // Problems make room.
        self.problems_max = PROBLEMS_MAX.max(self.limit.saturating_sub(used));
        let most = self.problems_max().unwrap_or(usize::MAX);
        self.columns.extend(problems.map(|(source, width)| (source, width.min(most))));
        self.known.extend(other.known);
        self
    }

    /// The names of the columns, and a line for each object.
    pub(super) fn table(&self, entries: &[Entry], event: &str) -> String {
        let header: Vec<String> = self.columns.iter().map(|(source, _)| heading(source)).collect();
        let rows = entries.iter().map(|entry| self.row(entry, event));
        self.lines(std::iter::once(header).chain(rows))
    }

    /// The line of an object, below those that [`table`](Layout::table) gives.
    pub(super) fn line(&self, entry: &Entry, event: &str) -> String {
        self.lines([self.row(entry, event)])
    }

    fn row(&self, entry: &Entry, event: &str) -> Vec<String> {
        self.columns.iter().map(|(source, _)| entry.cell(source, event, self.problems_max())).collect()
    }

    fn lines(&self, rows: impl IntoIterator<Item = Vec<String>>) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.add_rows(rows);
        let widths = self.columns.iter().map(|(_, width)| u16::try_from(*width).unwrap_or(u16::MAX));
        for (column, width) in table.column_iter_mut().zip(widths) {
            let column: &mut Column = column.set_padding((0, GAP));
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width.saturating_add(GAP))));
        }
        table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }
}

/// The objects with problems first, and a last line with the count.
pub(super) fn to_text(mut entries: Vec<Entry>, wide: bool) -> String {
    problems_first(&mut entries);
    let layout = Layout::of(&entries, false, wide);
    layout.table(&entries, "") + &count(&entries)
}

/// Objects with problems first, each part in the order of ids that it has.
pub(super) fn problems_first(entries: &mut [Entry]) {
    entries.sort_by_key(|entry| entry.problems.is_empty());
}

/// How many objects there are, and how many have problems.
pub(super) fn count(entries: &[Entry]) -> String {
    let Some(first) = entries.first() else { return String::new() };
    let troubled = entries.iter().filter(|entry| !entry.problems.is_empty()).count();
    let troubled = if troubled == 0 { String::new() } else { format!(", {troubled} with problems") };
    format!("{} {}{troubled}\n", entries.len(), first.kind)
}

/// What objects have, each thing once, in the order of the declaration: what only some have comes where they have it.
fn merged(entries: &[Entry], is_field: bool) -> Vec<Source> {
    let mut all: Vec<Source> = Vec::new();
    for entry in entries {
        let mut place = 0;
        for source in entry.sources().filter(|source| matches!(source, Source::Field(_)) == is_field) {
            let known = all.iter().position(|known| *known == source);
            let index = known.unwrap_or(place);
            if known.is_none() {
                all.insert(index, source);
            }
            place = index + 1;
        }
    }
    all
}

/// The order in which columns get room, and fields come. What is 0 is always there. Whether something is on says less than what it is.
fn rank(entries: &[Entry], source: &Source) -> u8 {
    let all = |name: &str, holds: fn(Option<&Value>) -> bool| {
        entries.iter().all(|entry| holds(entry.fields.get(name)))
    };
    match source {
        Source::Event | Source::Id | Source::Problems => 0,
        Source::State(name) if entries.iter().all(|entry| is_plain(entry.state.get(name.as_str()))) => 1,
        // Reasons: `describe` has them in full.
        Source::State(_) => 4,
        Source::Field(name) if all(name, |value| value.and_then(Value::as_bool) == Some(false)) => 6,
        Source::Field(name) if all(name, |value| matches!(value, None | Some(Value::Bool(_)))) => 4,
        Source::Field(name) if all(name, is_plain) => 2,
        Source::Field(name) if name != LABELS => 3,
        Source::Field(_) => 5,
    }
}

fn heading(source: &Source) -> String {
    match source {
        Source::Event => "EVENT".to_owned(),
        Source::Id => "ID".to_owned(),
        Source::Field(name) | Source::State(name) => shown(name).to_uppercase(),
        Source::Problems => "PROBLEMS".to_owned(),
    }
}

/// Whether a value is no list and no mapping.
fn is_plain(value: Option<&Value>) -> bool {
    !matches!(value, Some(Value::Sequence(_) | Value::Mapping(_)))
}

/// A value in a cell. Lists and mappings are flat there: `-o yaml` prints them in full.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        // So that a script finds each column.
        Value::String(value) if value.is_empty() => "\"\"".to_owned(),
        Value::String(value) => shown(value).into_owned(),
        Value::Sequence(values) if values.is_empty() => "-".to_owned(),
        Value::Sequence(values) => values.iter().map(element).collect::<Vec<_>>().join(","),
        Value::Mapping(members) if members.is_empty() => "-".to_owned(),
        Value::Mapping(members) => members
            .iter()
            .map(|(key, value)| format!("{}={}", text(key), text(value)))
            .collect::<Vec<_>>()
            .join(","),
        Value::Tagged(tagged) => text(&tagged.value),
    }
}

/// An element of a list; of a record, its values alone.
fn element(value: &Value) -> String {
    match value {
        Value::Mapping(members) => {
            let values = members.values().map(text).filter(|text| text != "-");
            values.collect::<Vec<_>>().join(",")
        }
        value => text(value),
    }
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// The columns of the terminal, if standard output is one.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use weft_client::pb::ObjectState;

    use super::*;

    fn entry(object: &str, columns: &str, problems: &[&str]) -> Entry {
        let problems = problems.iter().map(|problem| (*problem).to_owned()).collect();
        let state = ObjectState { problems, columns: columns.to_owned(), ..ObjectState::default() };
        Entry::read(&(object.to_owned(), state)).unwrap()
    }

    fn doors() -> Vec<Entry> {
        let long = "the lock is broken, and nobody has found a locksmith yet";
        vec![
            entry(
                r#"{"kind":"door","id":"back","keys":[{"owner":"ada","days":["mo","tu"]}],"room":"hall","height":2}"#,
                r#"{"guard":"bob"}"#,
                &[],
            ),
            entry(
                r#"{"kind":"door","id":"front","keys":[],"floor":"é","room":"hall","height":3}"#,
                "{}",
                &[long, "other"],
            ),
            entry(
                r#"{"kind":"door","id":"odd\u001b","keys":[],"room":"attic\nroom","height":3}"#,
                "",
                &["a\nb"],
            ),
        ]
    }

    #[test]
    fn what_has_problems_comes_first_and_columns_come_from_the_objects() {
        assert_eq!(
            to_text(doors(), false),
            "ID         FLOOR  ROOM         HEIGHT  KEYS       GUARD  PROBLEMS\n\
             front      é      hall         3       -          -      2: the lock is broken, and nobody has found a locksmith yet\n\
             odd\\u{1b}  -      attic\\nroom  3       -          -      a\\nb\n\
             back       -      hall         2       ada,mo,tu  bob    -\n\
             3 door, 2 with problems\n"
        );
        let wide = to_text(doors(), true);
        assert!(wide.contains("the lock is broken, and nobody has found a locksmith yet; other\n"), "{wide}");
    }

    #[test]
    fn problems_take_the_room_that_is_left() {
        let problem = "p".repeat(2 * WIDTH);
        let text =
            to_text(vec![entry(r#"{"kind":"door","id":"a","room":"hall"}"#, "{}", &[&problem])], false);
        assert_eq!(text.lines().nth(1), Some(format!("a   hall  {}…", "p".repeat(WIDTH - 11)).as_str()));
    }

    #[test]
    fn what_is_off_everywhere_comes_last() {
        let door = |id: &str, locked: bool| {
            let door = format!(r#"{{"kind":"door","id":"{id}","red":false,"locked":{locked},"keys":["k"]}}"#);
            entry(&door, "{}", &[])
        };
        let columns = |doors: Vec<Entry>| to_text(doors, false).lines().next().unwrap_or_default().to_owned();
        assert_eq!(columns(vec![door("a", true), door("b", false)]), "ID  KEYS  LOCKED  RED    PROBLEMS");
        assert_eq!(columns(vec![door("b", false)]), "ID  KEYS  RED    LOCKED  PROBLEMS");
    }

    #[test]
    fn plain_fields_have_room_before_lists() {
        let long = "x".repeat(FIELD_MAX);
        let fields = ["a", "b", "c", "d"].map(|name| format!("\"{name}\":\"{long}\""));
        let lists = format!(r#"{{"kind":"k","id":"i","list":["{long}"],{}}}"#, fields.join(","));
        let text = to_text(
            vec![entry(&lists, r#"{"place":"hv1","note":"a very long note of the rules"}"#, &[])],
            false,
        );
        assert_eq!(
            text.lines().next(),
            Some(
                format!("ID  A{0}B{0}PLACE  NOTE              PROBLEMS", " ".repeat(FIELD_MAX + 1)).as_str()
            )
        );
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn later_lines_have_the_columns_of_the_first_ones() {
        let doors = doors();
        let layout = Layout::of(&doors[..2], true, false);
        assert!(layout.covers(&doors[2]));
        let labelled = entry(r#"{"kind":"door","id":"x","labels":{"a":"b"},"keys":[]}"#, "", &[]);
        assert!(!layout.covers(&labelled));
        let bare = entry(r#"{"kind":"door","id":"x","labels":{},"keys":[]}"#, "", &[]);
        assert!(
            !Layout::of(&[bare], true, false).covers(&labelled),
            "an empty column is left out, until it is filled"
        );
        assert_eq!(
            layout.table(&doors[..1], "listed") + &layout.line(&doors[1], "deleted"),
            "EVENT    ID     FLOOR  ROOM  HEIGHT  KEYS       GUARD  PROBLEMS\n\
             listed   back   -      hall  2       ada,mo,tu  bob    -\n\
             deleted  front  é      hall  3       -          -      2: the lock is broken, and nobody has found a locksmith yet\n"
        );
        let painted = entry(r#"{"kind":"door","id":"x","paint":"red"}"#, r#"{"smell":"none"}"#, &[]);
        assert!(!layout.covers(&painted));
        let layout = layout.extended(&painted);
        assert!(layout.covers(&painted));
        assert_eq!(
            layout.table(&[painted], "created"),
            "EVENT    ID     FLOOR  ROOM  HEIGHT  KEYS       GUARD  PAINT  SMELL  PROBLEMS\n\
             created  x      -      -     -       -          -      red    none   -\n"
        );
    }
}
