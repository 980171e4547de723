//! An object in its reader's words: what it is, where it lives, which numbers and flows the rules gave it, what is wrong with it, and what it
//! lacks to work. Kinds are known by their declarations and by the tables that rules and Rust share.

mod gather;
mod text;

use nlog::Program;
use nlog_data::{Row, TableId};
use nlog_explain::{OnDemand, Origin, ShowsInputs};
use openflow_rs::FlowEntry;
use openflow_rs::nearest;
use pipeline::Names;
use switch_model::{FlowRow, Flows, Kind as _, RowError};

/// An object that is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedObject {
    /// Its kind.
    pub kind: String,
    /// Its id.
    pub id: String,
}

/// What an answer about an object is made from.
pub struct ObjectExplainer<'a> {
    /// The rows.
    pub state: &'a OnDemand,
    /// The transaction that inserted a row of an input table; none if it is not known.
    pub origin: &'a dyn Fn(TableId, &Row) -> Option<u64>,
    /// The flows that the switch of a host is to have.
    pub flows: &'a dyn Fn(&str) -> Result<Vec<FlowEntry>, String>,
    /// Whether rows of input tables were left out.
    pub is_part: bool,
}

/// What is known of an object.
#[derive(Debug)]
pub struct ObjectAnswer {
    kind: String,
    id: String,
    /// The first sentence of the kind's documentation.
    doc: String,
    /// The fields that say something: name and value.
    fields: Vec<(String, String)>,
    /// Its own row.
    own: Shown,
    /// Whether it is something with an interface on a host.
    has_interface: bool,
    /// The hosts where it lives.
    homes: Vec<String>,
    /// What hosts report of its interface, and the port whose interface it shares.
    places: Vec<Shown>,
    /// The numbers that hooks gave to it.
    numbers: Vec<String>,
    /// How many rows of each table switches reported of it.
    reported: Vec<(String, usize)>,
    /// The objects that refer to it, as `kind id`.
    referrers: Vec<String>,
    /// The flows that rules say for it, by stage.
    flows: Vec<(String, usize)>,
    /// The flows of a host that name it, by stage; all of them, if it is the host.
    on_hosts: Vec<(String, Vec<(String, usize)>)>,
    /// What the rules say is wrong with it.
    problems: Vec<String>,
    /// What it needs to work and does not have.
    lacks: Vec<String>,
    /// Other tables with rows about it, and how many.
    tables: Vec<(String, usize)>,
    /// A pattern of the rows of the first of them.
    example: Option<String>,
    is_part: bool,
}

/// A row of an input table, in words.
#[derive(Debug)]
struct Shown {
    text: String,
    input: (TableId, Row),
    origin: Option<Origin>,
}

impl ShowsInputs for ObjectAnswer {
    fn for_each_input(&mut self, visit: &mut dyn FnMut(TableId, &Row, &mut Option<Origin>)) {
        let shown = std::iter::once(&mut self.own).chain(&mut self.places);
        shown.for_each(|one| visit(one.input.0, &one.input.1, &mut one.origin));
    }
}

impl AskedObject {
    /// Reads `KIND/ID`; none if the text is no such name, but a row, for example.
    pub fn read(text: &str) -> Option<AskedObject> {
        let (kind, id) = text.split_once('/').filter(|(kind, id)| !kind.is_empty() && !id.is_empty())?;
        let is_name = kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        is_name.then(|| AskedObject { kind: kind.to_owned(), id: id.to_owned() })
    }

    /// The table of its kind.
    ///
    /// # Errors
    /// The program has no such kind.
    fn table(&self, program: &Program) -> Result<TableId, String> {
        if let Some(kind) = program.objects.iter().find(|kind| kind.name == self.kind) {
            return Ok(kind.table);
        }
        let kinds = || program.objects.iter().map(|kind| &*kind.name);
        let remedy = match nearest(&self.kind, kinds()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("there are {}", kinds().collect::<Vec<_>>().join(", ")),
        };
        Err(format!("there is no kind {:?}; {remedy}", self.kind))
    }
}

/// The flows that rules derive for the switch of a host.
///
/// # Errors
/// The program has no flows for switches, or a flow cannot be read.
pub fn derived_flows(state: &OnDemand, host: &str) -> Result<Vec<FlowEntry>, String> {
    let table = Flows::TABLE.find(&state.program().schema).map_err(|misfit| misfit.to_string())?;
    let table = table.ok_or_else(|| format!("the program has no {}", Flows::TABLE))?;
    let rows = state.matching(table, &[Some(host.into()), None, None, None, None]).into_iter();
    let entry = |row: &Row| {
        let FlowRow { table, priority, matches, actions, .. } = FlowRow::read(row)?;
        Ok(FlowEntry::new(table, priority, matches.get(), actions.get()))
    };
    let flows: Result<_, RowError> = rows.map(entry).collect();
    flows.map_err(|error| error.to_string())
}

impl ObjectExplainer<'_> {
    /// What is known of an object.
    ///
    /// # Errors
    /// There is no such object or kind, or the flows cannot be read.
    pub fn explain(&self, asked: &AskedObject) -> Result<ObjectAnswer, String> {
        let program = self.state.program();
        let table = asked.table(program)?;
        let AskedObject { kind, id } = asked;
        let mut columns = vec![None; program.schema.table(table).columns.len()];
        columns[0] = Some(id.as_str().into());
        let Some(row) = self.state.matching(table, &columns).into_iter().next().cloned() else {
            return Err(format!("there is no {kind} {id:?}; `weft get {kind}` lists those that there are"));
        };
        gather::Gathering::new(self, asked, (table, row), &Names::of(program))?.answer()
    }
}
