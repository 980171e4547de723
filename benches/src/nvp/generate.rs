//! Tables and rules, layer by layer: a rule reads only tables that are complete, so nothing depends on itself.

use super::draft::{Draft, Term, Variable};
use super::random::Random;
use super::vocabulary::{
    ASPECTS, Class, ENTITIES, KINDS, LOGICAL, OF_EACH, OUTPUTS as OUTPUT_FILES, PHYSICAL, SOURCES, STAGES,
    named,
};
use super::{Column, File, INPUTS, OUTPUTS, Program, RULES, Role, Rule, TABLES, Table};

mod styles;

/// Tables of flows, filled by rules of many files.
const UNIVERSAL: usize = 15;
const DRIVER: usize = 25;
/// Rules of each of these.
const FLOW_RULES: usize = 6;
/// The styles of derived tables; tables with one rule make up the rest.
const SPLIT: usize = 160;
const UNITED_PAIRS: usize = 42;
const UNITED_TRIPLES: usize = 28;
const PROJECTED: usize = 60;
const AGGREGATED: usize = 90;
const PAIRED: usize = 26;
/// The maximum rows of a table.
const MOST_ROWS: usize = 120;

/// Columns of an atom and the bound variables that they are joined on.
type Given = Vec<(usize, usize)>;

/// How a table comes about.
#[derive(Debug, Clone, Copy)]
enum Style {
    LookUp,
    Project,
    Aggregate,
    Pair,
    /// Two rules for two cases.
    Split,
    /// One rule for each of this many alternatives.
    Unite(usize),
}

struct Generator {
    random: Random,
    program: Program,
    /// Where the physical half begins.
    physical: usize,
    /// The rules of flow tables that remain to be written, by file.
    flows: Vec<Vec<usize>>,
    /// The number of flow rules of each table.
    entries: Vec<usize>,
    /// Names that are taken.
    names: std::collections::HashSet<String>,
}

impl Program {
    /// The program of this seed.
    pub(crate) fn generate(seed: u64) -> Program {
        let program = Program { seed, files: Vec::new(), tables: Vec::new(), rules: Vec::new() };
        let mut generator = Generator {
            random: Random::new(seed),
            program,
            physical: 0,
            flows: Vec::new(),
            entries: Vec::new(),
            names: std::collections::HashSet::new(),
        };
        generator.run();
        generator.program
    }
}

impl Generator {
    fn run(&mut self) {
        self.files();
        self.inputs();
        self.flow_tables();
        let mut styles = self.styles();
        let (logical, physical, output) = (11, self.physical, self.physical + PHYSICAL.len() + 1);
        let own_outputs = OUTPUTS - DRIVER;
        let internal = styles.split_off(own_outputs);
        let files = LOGICAL.len() + PHYSICAL.len();
        for at in 0..files {
            let file = if at < LOGICAL.len() { logical + at } else { physical + at - LOGICAL.len() };
            let (from, to) = (internal.len() * at / files, internal.len() * (at + 1) / files);
            for style in &internal[from..to] {
                self.table(file, *style, Role::Internal);
            }
            self.flow_rules(file);
        }
        for at in 0..OUTPUT_FILES.len() {
            let count = OUTPUT_FILES.len();
            for style in &styles[own_outputs * at / count..own_outputs * (at + 1) / count] {
                self.table(output + at, *style, Role::Output);
            }
            self.flow_rules(output + at);
        }
        self.read_the_rest();
        assert_eq!(self.program.tables.len(), TABLES);
        assert_eq!(self.program.rules.len(), RULES);
    }

    fn files(&mut self) {
        let mut add = |folder: &str, subjects: &[&'static str]| {
            for subject in subjects {
                let path = format!("{folder}/{subject}.nlog");
                self.program.files.push(File { path, subject });
            }
        };
        add("interface", &SOURCES);
        add("interface", &["constants", "universal"]);
        add("logical", &LOGICAL);
        add("physical", &PHYSICAL);
        add("interface", &["driver"]);
        add("output", &OUTPUT_FILES);
        self.physical = SOURCES.len() + 2 + LOGICAL.len();
        self.flows = vec![Vec::new(); self.program.files.len()];
    }

    fn name(&mut self, subject: &str, words: &[&str]) -> String {
        let base = [&[subject], words].concat().join("_");
        let mut name = base.clone();
        for number in 2.. {
            if self.names.insert(name.clone()) {
                break;
            }
            name = format!("{base}_{number}");
        }
        name
    }

    fn push(&mut self, table: Table) -> usize {
        self.program.tables.push(table);
        self.entries.push(0);
        self.program.tables.len() - 1
    }

    fn inputs(&mut self) {
        for number in 0..INPUTS {
            let file = number * SOURCES.len() / INPUTS;
            // Every entity is described by several inputs.
            let mut keys = vec![number % ENTITIES];
            if self.random.percent(30) {
                let second = self.random.below(ENTITIES);
                keys.extend((second != keys[0]).then_some(second));
            }
            let mut columns: Vec<Column> = keys.iter().map(|kind| column_of(*kind)).collect();
            let wanted = columns.len() + 2 + self.random.below(6);
            while columns.len() < wanted {
                // What is computed is no fact.
                let kind = self.random.below(named("expr"));
                if columns.iter().all(|column| column.kind != kind) {
                    columns.push(column_of(kind));
                }
            }
            let aspect = *self.random.pick(&ASPECTS);
            let entity = KINDS[keys[0]].name;
            let subject = SOURCES[file].split('_').next_back().unwrap_or("config");
            let name = self.name(subject, &[entity, aspect]);
            let rows = OF_EACH.pow(keys.len() as u32);
            let unique = Some((0..keys.len()).collect());
            self.push(Table {
                name,
                role: Role::Input,
                columns,
                unique,
                keyed: true,
                rows,
                depth: 0,
                file,
                readable: file,
                read: false,
            });
        }
    }

    /// Declares the tables of flows, and chooses the files for their rules.
    fn flow_tables(&mut self) {
        let universal = SOURCES.len() + 1;
        let driver = self.physical + PHYSICAL.len();
        let (ldp, lport, router, hv, gw) =
            (named("ldp"), named("lport"), named("router"), named("hv"), named("gw"));
        for number in 0..UNIVERSAL + DRIVER {
            let logical = number < UNIVERSAL;
            let scope = if logical {
                *self.random.pick(&[ldp, lport, router])
            } else {
                *self.random.pick(&[hv, hv, gw])
            };
            let prefix = if logical { "universal" } else { "of" };
            let stage = STAGES[number % STAGES.len()].to_lowercase();
            let name = self.name(prefix, &[KINDS[scope].name, &stage]);
            let mut columns = vec![column_of(scope)];
            columns.push(Column { name: "table_id".into(), kind: named("level"), detail: 0 });
            columns.push(Column { name: "priority".into(), kind: named("level"), detail: 0 });
            columns.push(Column { name: "expr".into(), kind: named("expr"), detail: u32::MAX });
            columns.push(Column { name: "actions".into(), kind: named("actions"), detail: u32::MAX });
            let file = if logical { universal } else { driver };
            let at = self.push(Table {
                name,
                role: if logical { Role::Internal } else { Role::Output },
                columns,
                unique: None,
                keyed: false,
                rows: 0,
                depth: 1,
                file,
                readable: if logical { self.physical } else { usize::MAX },
                read: false,
            });
            for _ in 0..FLOW_RULES {
                let file = if logical {
                    universal + 1 + self.random.below(LOGICAL.len())
                } else if self.random.percent(65) {
                    self.physical + self.random.below(PHYSICAL.len())
                } else {
                    driver + 1 + self.random.below(OUTPUT_FILES.len())
                };
                self.flows[file].push(at);
            }
        }
    }

    fn styles(&mut self) -> Vec<Style> {
        let mut styles = vec![Style::Split; SPLIT];
        styles.extend([Style::Unite(2); UNITED_PAIRS]);
        styles.extend([Style::Unite(3); UNITED_TRIPLES]);
        styles.extend([Style::Project; PROJECTED]);
        styles.extend([Style::Aggregate; AGGREGATED]);
        styles.extend([Style::Pair; PAIRED]);
        styles.resize(TABLES - INPUTS - UNIVERSAL - DRIVER, Style::LookUp);
        self.random.shuffle(&mut styles);
        styles
    }

    // Choosing tables.

    fn visible(&self, at: usize, file: usize) -> bool {
        let table = &self.program.tables[at];
        table.role != Role::Output && table.readable <= file
    }

    /// The first table of a rule.
    fn base(&mut self, file: usize, fits: impl Fn(&Table) -> bool) -> Option<usize> {
        let cap = 3 + file / 4;
        let mut best: Option<(usize, usize)> = None;
        for _ in 0..80 {
            let count = self.program.tables.len();
            let at = if self.random.percent(60) {
                count - 1 - self.random.below(count.min(60))
            } else {
                self.random.below(count)
            };
            let table = &self.program.tables[at];
            if !self.visible(at, file) || table.rows > MOST_ROWS || !fits(table) {
                continue;
            }
            let score = 4 * usize::from(!table.read)
                + 2 * usize::from(table.depth < cap)
                + 2 * usize::from(table.columns.len() > 2)
                + self.random.below(3);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, at));
            }
        }
        let rest = || {
            (0..self.program.tables.len())
                .find(|at| self.visible(*at, file) && fits(&self.program.tables[*at]))
        };
        best.map(|(_, at)| at).or_else(rest)
    }

    /// Adds an atom whose key is bound: at most one row for each binding.
    fn look_up(&mut self, draft: &mut Draft, file: usize) -> bool {
        let cap = 3 + file / 4;
        let mut best: Option<(usize, usize, Given)> = None;
        for _ in 0..60 {
            let at = self.random.below(self.program.tables.len());
            let table = &self.program.tables[at];
            if !self.visible(at, file) || draft.reads().contains(&at) {
                continue;
            }
            let Some(given) = keys_bound(table, draft) else { continue };
            let score = 5 * usize::from(!table.read)
                + 2 * usize::from(table.depth < cap)
                + 2 * usize::from(table.columns.len() > given.len())
                + usize::from(table.role == Role::Input);
            if best.as_ref().is_none_or(|(most, ..)| score > *most) {
                best = Some((score, at, given));
            }
        }
        let Some((_, at, mut given)) = best else { return false };
        // Sometimes two columns of one kind are made equal.
        for (index, column) in self.program.tables[at].columns.iter().enumerate() {
            let bound = draft.of_kind(column.kind);
            let free = given.iter().all(|(of, _)| *of != index);
            if free && column.kind < ENTITIES && !bound.is_empty() && self.random.percent(2) {
                given.push((index, bound[0]));
            }
        }
        self.program.tables[at].read = true;
        draft.atom(at, &self.program.tables[at], &given, &mut self.random);
        true
    }

    /// Adds a rule's first atom and as many of the wanted others as possible. Returns the first atom's table and
    /// variables.
    fn begin(&mut self, file: usize, fits: impl Fn(&Table) -> bool) -> Option<(usize, Vec<usize>, Draft)> {
        let at = self.base(file, fits)?;
        let mut draft = Draft::default();
        self.program.tables[at].read = true;
        let variables = draft.atom(at, &self.program.tables[at], &[], &mut self.random);
        let wanted = 1 + self.random.weighted(&[10, 26, 26, 18, 12, 8]);
        while draft.atoms() < wanted && self.look_up(&mut draft, file) {}
        if self.random.percent(12)
            && let Some(condition) = draft.condition(&mut self.random)
        {
            draft.text(condition);
        }
        Some((at, variables, draft))
    }

    fn stage(&mut self) -> &'static str {
        STAGES[self.random.below(STAGES.len())]
    }

    /// The head of a rule that keeps the columns that identify a row of its first table: its terms, and the number of
    /// key columns.
    fn head(&mut self, first: &Table, variables: &[usize], draft: &mut Draft) -> (Vec<Term>, Option<usize>) {
        let keys: Vec<usize> = match &first.unique {
            Some(unique) => unique.iter().map(|column| variables[*column]).collect(),
            None => variables.iter().copied().filter(|at| draft.variables[*at].kind < ENTITIES).collect(),
        };
        let mut terms: Vec<Term> = keys.iter().map(|at| term(*at, draft)).collect();
        let count = first.unique.is_some().then_some(terms.len());
        let mut others: Vec<usize> = (0..draft.variables.len()).filter(|at| !keys.contains(at)).collect();
        self.random.shuffle(&mut others);
        for at in others.into_iter().take(1 + self.random.below(6)) {
            terms.push(term(at, draft));
        }
        let stage = self.stage();
        if self.random.percent(50)
            && let Some((text, column)) = draft.computed(&mut self.random, stage)
        {
            terms.push(self.bind(text, column, draft));
        }
        distinct_names(&mut terms);
        (terms, count)
    }

    /// Adds a computed column, directly in the head or as a variable of the body.
    fn bind(&mut self, text: String, column: Column, draft: &mut Draft) -> Term {
        let taken = draft.variables.iter().any(|variable| variable.name == column.name);
        let long = text.len() > 24;
        if taken || (!long && self.random.percent(50)) {
            return (text, column);
        }
        draft.text(format!("{} = {text}", column.name));
        (column.name.clone(), column)
    }

    // Tables.

    fn table(&mut self, file: usize, style: Style, role: Role) {
        let made = match style {
            Style::LookUp => None,
            Style::Project => self.project(file, role),
            Style::Aggregate => self.aggregate(file, role),
            Style::Pair => self.pair(file, role),
            Style::Split => {
                self.split(file, role);
                Some(())
            }
            Style::Unite(count) => {
                self.unite(file, role, count);
                Some(())
            }
        };
        if made.is_none() {
            self.one(file, role);
        }
    }

    fn add(&mut self, file: usize, role: Role, terms: &[Term], key: Option<usize>, first: &Table) -> usize {
        let subject = self.program.files[file].subject;
        let aspect = *self.random.pick(&ASPECTS);
        let entity = terms.first().map_or("row", |(_, column)| KINDS[column.kind].name);
        let prefix = if role == Role::Output { format!("out_{subject}") } else { subject.to_owned() };
        let name = self.name(&prefix, &[entity, aspect]);
        let columns = terms.iter().map(|(_, column)| column.clone()).collect();
        let keyed = key.is_some_and(|key| key < terms.len()) && self.random.percent(80);
        let unique = key.map(|key| (0..key).collect());
        let depth = first.depth + 1;
        let table = Table {
            name,
            role,
            columns,
            unique,
            keyed,
            rows: first.rows,
            depth,
            file,
            readable: file,
            read: false,
        };
        self.push(table)
    }

    fn rule(&mut self, table: usize, file: usize, terms: Vec<Term>, body: Draft) {
        let depth = body.reads().iter().map(|at| self.program.tables[*at].depth).max().unwrap_or(0) + 1;
        let sure = body.reads().iter().all(|at| self.program.tables[*at].keyed);
        let alone = self.program.rules.iter().all(|rule| rule.table != table);
        let filled = &mut self.program.tables[table];
        // For outputs, only keys that follow from other keys are declared.
        filled.keyed &= filled.role != Role::Output || (sure && alone);
        let head = terms.into_iter().map(|(text, _)| text).collect();
        self.program.tables[table].depth = self.program.tables[table].depth.max(depth);
        self.program.rules.push(Rule { table, file, head, body });
    }

    /// Makes rules that bind a matching entity read the tables that no rule reads yet.
    fn read_the_rest(&mut self) {
        let unread: Vec<usize> = (0..self.program.tables.len())
            .filter(|at| self.program.tables[*at].role != Role::Output && !self.program.tables[*at].read)
            .collect();
        for at in unread {
            let table = self.program.tables[at].clone();
            let start = self.random.below(self.program.rules.len());
            let count = self.program.rules.len();
            for step in 0..2 * count {
                let number = (start + step) % count;
                let rule = &mut self.program.rules[number];
                let later = rule.file > table.file && rule.file >= table.readable;
                // Long bodies only if there is no alternative.
                if !later || rule.body.atoms() > if step < count { 5 } else { 8 } {
                    continue;
                }
                let Some(given) = keys_bound(&table, &rule.body).or_else(|| entity_bound(&table, &rule.body))
                else {
                    continue;
                };
                rule.body.atom(at, &table, &given, &mut self.random);
                self.program.tables[at].read = true;
                break;
            }
        }
    }
}

/// A column named after its kind.
fn column_of(kind: usize) -> Column {
    Column { name: KINDS[kind].name.to_owned(), kind, detail: 0 }
}

fn entities_of(table: &Table) -> usize {
    table.columns.iter().filter(|column| column.kind < ENTITIES).count()
}

/// A variable as a column of a head.
fn term(variable: usize, draft: &mut Draft) -> Term {
    let text = draft.mention(variable);
    let Variable { kind, detail, .. } = draft.variables[variable];
    (text.clone(), Column { name: text, kind, detail })
}

fn distinct_names(terms: &mut [Term]) {
    let mut seen: Vec<String> = Vec::new();
    for (_, column) in terms {
        while seen.contains(&column.name) {
            column.name = format!("own_{}", column.name);
        }
        seen.push(column.name.clone());
    }
}

/// For each column of the table's key, a bound variable of its kind, all distinct.
fn keys_bound(table: &Table, draft: &Draft) -> Option<Given> {
    let mut given = Given::new();
    for &column in table.unique.as_ref()? {
        let kind = table.columns[column].kind;
        let free = |variable: &usize| given.iter().all(|(_, taken)| taken != variable);
        let variable = draft.of_kind(kind).into_iter().find(free).filter(|_| kind < ENTITIES)?;
        given.push((column, variable));
    }
    Some(given)
}

/// A column that names a bound entity.
fn entity_bound(table: &Table, draft: &Draft) -> Option<Given> {
    table.columns.iter().enumerate().find_map(|(index, column)| {
        let variable = draft.of_kind(column.kind).first().copied().filter(|_| column.kind < ENTITIES)?;
        Some(vec![(index, variable)])
    })
}
