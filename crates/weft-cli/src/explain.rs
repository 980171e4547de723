//! `weft explain` and `weft why-not`: why a row is present or missing after some transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use nlog::Program;
use nlog::diagnostic::Severity;
use nlog::program::{Pattern, Place};
use nlog_data::json::to_json;
use nlog_data::{ColumnDelta, Evaluator, Role, Row, TableId, Tables};
use nlog_dataflow::{Dataflow, Options};
use nlog_reference::{Obstacle, ObstacleKind, OnDemand, WhyNot, explanation};
use packet_trace::{AskedFlow, UNKNOWN};
use serde_json::{Value as Json, json};

use crate::eval::{Begin, Run, Running, Source};
use crate::exit::Failure;
use crate::program::{compile, load, show};

/// The arguments of both commands.
#[derive(Args)]
struct Question {
    /// `.nlog` files or folders, which form one program (`builtin` is the built-in rules), and then a row, written as in a
    /// rule; `_` and `..` match any value: 'location("p1", ..)'
    // One list, since options may stand between programs and row.
    #[arg(required = true, value_name = "PROGRAM")]
    programs: Vec<PathBuf>,
    #[command(flatten)]
    source: Source,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Arguments of `weft explain`.
#[derive(Args)]
#[command(
    override_usage = "weft explain [OPTIONS] <PROGRAM>... <ATOM>",
    after_help = "If several rules derive a row, the rule with the lowest fingerprint is shown, with its first binding.\n\
                        Of each rule, at most 1,000 bindings are counted.\n\
                        The exit status is 1 if no row matches; `weft why-not` explains why."
)]
pub(crate) struct Explain {
    #[command(flatten)]
    question: Question,
    /// Maximum number of rows to explain if several match
    #[arg(long, default_value_t = 10, value_name = "N")]
    rows: usize,
    /// Instead of a row, take a flow of this host as `ovs-ofctl dump-flows` prints it, or its cookie: 'cookie=0x1f'
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
}

/// Arguments of `weft why-not`.
#[derive(Args)]
#[command(
    override_usage = "weft why-not [OPTIONS] <PROGRAM>... <ATOM>",
    after_help = "The atoms of each rule are tried in order of how many of their columns are known.\n\
                        The exit status is 1 if a row matches; `weft explain` explains why."
)]
pub(crate) struct WhyNotCommand {
    #[command(flatten)]
    question: Question,
}

impl Explain {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Case { state, origins, pattern, flow, refused } = self.question.case(self.host.as_deref())?;
        let mut rows = matching(&state, &pattern);
        if let Some(flow) = &flow {
            rows.retain(|row| flow.admits(&state, row));
        }
        if let (true, Some(host)) = (rows.is_empty(), &self.host) {
            return Err(Failure::Rejected(format!(
                "no rule derives such a flow for {host}: it is not the controller's, or the network was another one then"
            )));
        }
        if rows.is_empty() {
            let asked = explanation::pattern(state.program(), &pattern);
            return Err(Failure::Rejected(format!("no row matches {asked}; `weft why-not` explains why")));
        }
        let mut explainer = Explainer { state: &state, origins: &origins, told: BTreeSet::new() };
        let trees: Vec<Tree> =
            rows.iter().take(self.rows).map(|row| explainer.tree(pattern.table, row)).collect();
        let mut out = std::io::stdout().lock();
        if self.question.json {
            let rows_json: Vec<Json> = trees.iter().map(|tree| tree.json(state.program())).collect();
            let object = json!({"rows": rows_json, "more": rows.len() - trees.len()});
            writeln!(out, "{object}").map_err(Failure::output)?;
        } else {
            let mut lines = Vec::new();
            for tree in &trees {
                tree.text(state.program(), "", &mut lines);
            }
            if rows.len() > trees.len() {
                lines.push(format!("and {} more matching rows; --rows shows more", rows.len() - trees.len()));
            }
            writeln!(out, "{}", lines.join("\n")).map_err(Failure::output)?;
        }
        refused
    }
}

impl WhyNotCommand {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Case { state, pattern, refused, .. } = self.question.case(None)?;
        let program = state.program();
        if let Some(row) = matching(&state, &pattern).first() {
            let row = explanation::atom(program, pattern.table, row);
            return Err(Failure::Rejected(format!("{row} exists; `weft explain` explains why")));
        }
        let answer = state.why_not(&pattern);
        let mut out = std::io::stdout().lock();
        let text = if self.question.json {
            why_not_json(program, &answer).to_string()
        } else {
            explanation::why_not(program, &answer).join("\n")
        };
        writeln!(out, "{text}").map_err(Failure::output)?;
        refused
    }
}

/// A state, and a question about it.
struct Case {
    state: OnDemand,
    /// For each row of an input table, the transaction that inserted it, itself or through a hook.
    origins: Origins,
    pattern: Pattern,
    /// The flow, if the question is about one.
    flow: Option<AskedFlow>,
    /// An error if some transactions were refused. The refusals have been reported already.
    refused: Result<(), Failure>,
}

impl Question {
    /// Reads the program, the input rows and the question.
    fn case(&self, host: Option<&str>) -> Result<Case, Failure> {
        let Some((atom, programs)) = self.programs.split_last().filter(|(_, programs)| !programs.is_empty())
        else {
            let why = "give a program and a row, such as: rules 'location(\"p1\", ..)'";
            return Err(Failure::Usage(why.to_owned()));
        };
        let atom = atom.to_string_lossy();
        let (program, pattern, flow) = match host {
            None => {
                let (program, pattern) = compile_with_atom(programs, &atom)?;
                (program, pattern, None)
            }
            Some(host) => {
                let program = compile(programs)?;
                let flow = AskedFlow::read(&program, host, &atom).map_err(Failure::Usage)?;
                (program, flow.pattern.clone(), Some(flow))
            }
        };
        let (origins, refused) = input_rows(&program, &self.source, None)?;
        let state = OnDemand::new(program, origins.keys().cloned());
        Ok(Case { state, origins, pattern, flow, refused })
    }
}

/// The rows of input tables, those of hooks included, each with the transaction that inserted it.
type Origins = BTreeMap<(TableId, Row), u64>;

/// Runs transactions, up to this one, and returns the resulting rows of the input tables, with an error if some transactions
/// were refused; the refusals have been reported already.
pub(crate) fn input_rows(
    program: &Arc<Program>,
    source: &Source,
    until: Option<u64>,
) -> Result<(Origins, Result<(), Failure>), Failure> {
    input_rows_after(None, program, source, until)
}

/// The same after a saved state, whose rows are from transactions that are not known.
pub(crate) fn input_rows_after(
    begin: Option<Begin>,
    program: &Arc<Program>,
    source: &Source,
    until: Option<u64>,
) -> Result<(Origins, Result<(), Failure>), Failure> {
    if let Some(rows) = begin
        .as_ref()
        .filter(|_| source.is_empty() && until.is_none())
        .and_then(|begin| begin.rows_of(program))
    {
        return Ok((rows.map(|row| (row, UNKNOWN)).collect(), Ok(())));
    }
    let Inputs { run, origins, .. } = Inputs::read(begin, program, source, until)?;
    Ok((origins, run.finish()))
}

/// Transactions that have run, and the evaluator that ran them, which can run more.
pub(crate) struct Inputs {
    pub(crate) run: Run,
    pub(crate) running: Running,
    pub(crate) origins: Origins,
}

impl Inputs {
    /// Runs transactions, up to this one, after a saved state if there is one. The dataflow engine runs them: there may be many, and only it is fast.
    pub(crate) fn read(
        begin: Option<Begin>,
        program: &Arc<Program>,
        source: &Source,
        until: Option<u64>,
    ) -> Result<Inputs, Failure> {
        let make = |program, observe| -> Result<Box<dyn Evaluator>, String> {
            let options = Options { workers: 1, observe, attribute: false, ..Options::default() };
            Ok(Box::new(Dataflow::new(program, options).map_err(|error| error.to_string())?))
        };
        let tables = program.schema.iter().filter(|(_, table)| table.role == Role::Input);
        let observe = Tables::These(tables.map(|(id, _)| id).collect());
        let evaluator = nlog_hooks::start(program, observe, make).map_err(Failure::Outside)?;
        let mut running = Running::Fixed(evaluator);
        let mut origins = Origins::new();
        let mut run = Run::new(source, Arc::clone(program));
        run.until = until;
        if let Some(begin) = begin {
            run.progress = begin.progress;
            let evaluator = running.evaluator();
            begin.load(evaluator)?;
            for (id, _) in program.schema.iter().filter(|(_, table)| table.role == Role::Input) {
                let rows = evaluator.contents(id).map_err(|error| Failure::Outside(error.to_string()))?;
                origins.extend(rows.into_iter().map(|row| ((id, row), UNKNOWN)));
            }
        }
        let nowhere: Option<&mut Vec<u8>> = None;
        run.transactions(source.open()?, &mut running, nowhere, &mut |txn, delta: &ColumnDelta| {
            follow(&mut origins, txn, delta);
        })?;
        Ok(Inputs { run, running, origins })
    }
}

/// Applies what a transaction changed in the rows of input tables.
pub(crate) fn follow(origins: &mut Origins, txn: u64, delta: &ColumnDelta) {
    for (&table, changes) in &delta.to_rows().tables {
        for row in &changes.delete {
            origins.remove(&(table, row.clone()));
        }
        origins.extend(changes.insert.iter().map(|row| ((table, row.clone()), txn)));
    }
}

/// Compiles the program and the pattern of the row.
fn compile_with_atom(programs: &[PathBuf], atom: &str) -> Result<(Arc<Program>, Pattern), Failure> {
    let sources = load(programs)?;
    let (sources, compilation, pattern) = nlog::compile_with_atom(&sources, atom);
    let errors = compilation.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    show(errors, &sources);
    let program = compilation.program.ok_or(Failure::Reported)?;
    let pattern = pattern.ok_or_else(|| {
        Failure::Usage(format!("{atom:?} is not a row; write one such as location(\"p1\", ..)"))
    })?;
    Ok((program, pattern))
}

fn matching(state: &OnDemand, pattern: &Pattern) -> Vec<Row> {
    state.matching(pattern.table, &pattern.columns).into_iter().cloned().collect()
}

/// A row and its origin.
struct Tree {
    table: TableId,
    row: Row,
    reason: Reason,
}

enum Reason {
    /// It was inserted into an input table by this transaction.
    Transaction(Option<u64>),
    /// A rule derives it.
    Rule {
        place: Place,
        from: Vec<Tree>,
        more_rows: usize,
        other_ways: usize,
        /// Whether there are more rows or ways than are counted.
        more: bool,
    },
    /// It was explained above.
    Told,
}

struct Explainer<'a> {
    state: &'a OnDemand,
    origins: &'a Origins,
    told: BTreeSet<(TableId, Row)>,
}

impl Explainer<'_> {
    /// A program has no recursion, so this terminates.
    fn tree(&mut self, table: TableId, row: &Row) -> Tree {
        let program = self.state.program();
        let name = (table, row.clone());
        let reason = if program.schema.table(table).role == Role::Input {
            Reason::Transaction(self.origins.get(&name).copied())
        } else if !self.told.insert(name) {
            Reason::Told
        } else {
            let ways = self.state.derivations(table, row, explanation::WAYS);
            let more = ways.iter().any(|way| way.more);
            let mut bodies = ways.iter().map(|way| (way.rule, explanation::Body::of(program, way)));
            match bodies.next() {
                None => Reason::Told,
                Some((rule, body)) => Reason::Rule {
                    place: program.rule(rule).place.clone(),
                    from: body.rows.iter().map(|(table, row)| self.tree(*table, row)).collect(),
                    more_rows: body.more_rows,
                    other_ways: bodies.map(|(_, other)| other.other_ways + 1).sum::<usize>()
                        + body.other_ways,
                    more,
                },
            }
        };
        Tree { table, row: row.clone(), reason }
    }
}

impl Tree {
    fn text(&self, program: &Program, indent: &str, lines: &mut Vec<String>) {
        let row = explanation::atom(program, self.table, &self.row);
        match &self.reason {
            Reason::Transaction(Some(txn)) => {
                let hook = program.hook_of(self.table);
                let hook = hook.map(|wiring| format!("hook {}, ", wiring.text(&program.schema)));
                lines.push(format!("{indent}{row}  {}transaction {txn}", hook.unwrap_or_default()));
            }
            Reason::Transaction(None) => lines.push(format!("{indent}{row}")),
            Reason::Told => lines.push(format!("{indent}{row}  as above")),
            Reason::Rule { place, from, more_rows, other_ways, more } => {
                let at_least = explanation::at_least(*more);
                let others = match other_ways {
                    0 => String::new(),
                    1 => format!(", and {at_least}one other way"),
                    others => format!(", and {at_least}{others} other ways"),
                };
                lines.push(format!("{indent}{row}  {place}{others}"));
                let deeper = format!("{indent}    ");
                for tree in from {
                    tree.text(program, &deeper, lines);
                }
                if *more_rows > 0 {
                    lines.push(format!("{deeper}and {at_least}{more_rows} more rows"));
                }
            }
        }
    }

    fn json(&self, program: &Program) -> Json {
        let mut object = row_json(program, self.table, &self.row);
        match &self.reason {
            Reason::Transaction(txn) => {
                object["txn"] = json!(txn);
                if let Some(wiring) = program.hook_of(self.table) {
                    object["hook"] = json!(wiring.text(&program.schema));
                }
            }
            Reason::Told => object["told"] = json!(true),
            Reason::Rule { place, from, more_rows, other_ways, more } => {
                if *more {
                    object["more"] = json!(true);
                }
                object["more_rows"] = json!(more_rows);
                object["rule"] = place_json(place);
                object["from"] = from.iter().map(|tree| tree.json(program)).collect();
                object["other_ways"] = json!(other_ways);
            }
        }
        object
    }
}

fn row_json(program: &Program, table: TableId, row: &Row) -> Json {
    json!({"table": program.schema.table(table).name, "row": row.iter().map(to_json).collect::<Vec<_>>()})
}

fn place_json(place: &Place) -> Json {
    json!({"file": *place.file, "line": place.line, "column": place.column})
}

fn why_not_json(program: &Program, answer: &WhyNot) -> Json {
    let table = answer.pattern.table;
    let wanted: Vec<Option<Json>> =
        answer.pattern.columns.iter().map(|value| value.as_ref().map(to_json)).collect();
    let nearest: Vec<Json> = answer.nearest.iter().map(|row| row.iter().map(to_json).collect()).collect();
    let obstacles: Vec<Json> =
        answer.obstacles.iter().map(|obstacle| obstacle_json(program, answer, obstacle)).collect();
    let unfit: Vec<Json> = answer.unfit.iter().map(|rule| place_json(&program.rule(*rule).place)).collect();
    json!({
        "table": program.schema.table(table).name,
        "row": wanted,
        "rows": answer.rows,
        "nearest": nearest,
        "rules": obstacles,
        "other_rules": unfit,
    })
}

fn obstacle_json(program: &Program, answer: &WhyNot, obstacle: &Obstacle) -> Json {
    let named = |values: &[(String, nlog_data::Value)]| -> Json {
        Json::Object(values.iter().map(|(name, value)| (name.clone(), to_json(value))).collect())
    };
    let found: Vec<Json> = obstacle.found.iter().map(|(table, row)| row_json(program, *table, row)).collect();
    let what = match &obstacle.kind {
        ObstacleKind::NoRow { place, why_not, .. } => {
            json!({"kind": "no-row", "atom": place_json(place), "why_not": why_not_json(program, why_not)})
        }
        ObstacleKind::False { condition, values } => {
            json!({"kind": "false", "condition": condition, "values": named(values)})
        }
        ObstacleKind::NoResult { call, values, found } => {
            let found = found.as_ref().map(to_json);
            json!({"kind": "no-result", "call": call, "values": named(values), "found": found})
        }
        ObstacleKind::Head { column, found } => {
            let column = &program.schema.table(answer.pattern.table).columns[*column].name;
            json!({"kind": "head", "column": column, "found": to_json(found)})
        }
        ObstacleKind::Aggregate { derived } => {
            let derived: Vec<Json> = derived.iter().map(|row| row.iter().map(to_json).collect()).collect();
            json!({"kind": "aggregate", "derived": derived})
        }
        ObstacleKind::Overridden { by } => {
            json!({"kind": "overridden", "by": by.iter().map(to_json).collect::<Vec<_>>()})
        }
        ObstacleKind::None => json!({"kind": "none"}),
    };
    let mut object = json!({
        "rule": place_json(&program.rule(obstacle.rule).place),
        "found": found,
        "variables": named(&obstacle.variables),
        "others": obstacle.others,
        "obstacle": what,
    });
    if obstacle.cut {
        object["more"] = json!(true);
    }
    object
}
