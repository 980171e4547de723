//! The program as files, with documentation, comments and the layout of rule files.

use std::collections::BTreeSet;

use super::random::Random;
use super::vocabulary::{Class, KINDS, LIMITS, STAGES};
use super::{LINES, Program, Role, Rule, Table, data};

/// The maximum length of lines, as far as names allow.
const WIDTH: usize = 110;
/// Longer lists of columns have a line for each column.
const WIDE: usize = 4;

/// A written program.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    /// Path below the program's folder, and text.
    pub(crate) files: Vec<(String, String)>,
    /// The program in one file.
    pub(crate) whole: String,
    /// A transaction that fills the inputs, a line of JSON.
    pub(crate) transaction: String,
    /// Edits of one line each.
    pub(crate) edits: Vec<Edit>,
}

/// A change of one line in one file.
#[derive(Debug, Clone)]
pub(crate) struct Edit {
    /// A description of the change.
    pub(crate) what: String,
    /// The path of the file.
    pub(crate) path: String,
    /// The old text, which occurs once in the program.
    pub(crate) from: String,
    /// What stands there afterwards.
    pub(crate) to: String,
}

impl Program {
    /// Writes the program, with enough lines of comments to be as long as NVP's.
    pub(crate) fn text(&self) -> Text {
        let bare: usize = self.write(&[]).iter().map(|(_, text)| text.lines().count()).sum();
        let missing = LINES.saturating_sub(bare);
        let rules = self.rules.len();
        let remarks: Vec<usize> =
            (0..rules).map(|rule| missing / rules + usize::from(rule < missing % rules)).collect();
        let files = self.write(&remarks);
        let is_import = |line: &&str| !line.starts_with("import ");
        let whole = files
            .iter()
            .flat_map(|(_, text)| text.lines().filter(is_import).chain([""]))
            .flat_map(|line| [line, "\n"])
            .collect();
        let edits = vec![self.body_edit(), self.declaration_edit(false), self.declaration_edit(true)];
        Text { files, whole, transaction: data::transaction(self), edits }
    }

    fn write(&self, remarks: &[usize]) -> Vec<(String, String)> {
        let mut random = Random::new(self.seed ^ 0x7465_7874);
        let mut files = Vec::new();
        for (number, file) in self.files.iter().enumerate() {
            let mut out = Vec::new();
            let mut imports = BTreeSet::new();
            let tables: Vec<usize> =
                (0..self.tables.len()).filter(|at| self.tables[*at].file == number).collect();
            let mut strays: Vec<usize> = Vec::new();
            for (at, rule) in self.rules.iter().enumerate().filter(|(_, rule)| rule.file == number) {
                imports.insert(self.tables[rule.table].file);
                imports.extend(rule.body.reads().iter().map(|table| self.tables[*table].file));
                imports.insert(self.constants());
                strays.extend((self.tables[rule.table].file != number).then_some(at));
            }
            imports.remove(&number);
            self.heading(file.subject, &tables, &imports, &mut out);
            if number == self.constants() {
                constants(&mut out);
            }
            for table in tables {
                document(&self.tables[table], &mut random, &mut out);
                out.push(declaration(&self.tables[table], None));
                out.push(String::new());
                for (at, rule) in self.rules.iter().enumerate().filter(|(_, rule)| rule.table == table) {
                    if rule.file == number {
                        self.rule(rule, remarks.get(at).copied(), &mut random, &mut out);
                    }
                }
            }
            for at in strays {
                self.rule(&self.rules[at], remarks.get(at).copied(), &mut random, &mut out);
            }
            while out.last().is_some_and(String::is_empty) {
                out.pop();
            }
            out.push(String::new());
            files.push((file.path.clone(), out.join("\n")));
        }
        files
    }

    /// The file with the constants.
    fn constants(&self) -> usize {
        self.files.iter().position(|file| file.subject == "constants").unwrap_or(0)
    }

    fn heading(&self, subject: &str, tables: &[usize], imports: &BTreeSet<usize>, out: &mut Vec<String>) {
        let title = subject.replace('_', " ");
        out.push(format!(
            "# The rules about {title}: what is wanted, what is there, and what follows from both."
        ));
        out.push("#".to_owned());
        let names: Vec<&str> = tables.iter().map(|at| self.tables[*at].name.as_str()).collect();
        if !names.is_empty() {
            wrap("#", &format!("Declares: {}.", names.join(", ")), out);
        }
        out.push(String::new());
        for import in imports {
            out.push(format!("import \"../{}\";", self.files[*import].path));
        }
        if !imports.is_empty() {
            out.push(String::new());
        }
    }

    fn rule(&self, rule: &Rule, remarks: Option<usize>, random: &mut Random, out: &mut Vec<String>) {
        let body = rule.body.body(&self.tables);
        let head = &self.tables[rule.table].name;
        let reads: Vec<&str> = rule.body.reads().iter().map(|at| self.tables[*at].name.as_str()).collect();
        let last = reads.last().copied().unwrap_or("nothing");
        if let Some(count) = remarks {
            let mut pool: Vec<usize> = (0..REMARKS.len()).collect();
            random.shuffle(&mut pool);
            for remark in pool.into_iter().cycle().take(count) {
                let text = REMARKS[remark].replace("{head}", head).replace("{first}", reads[0]);
                out.push(format!("# {}", text.replace("{last}", last)));
            }
        }
        write_rule(head, &rule.head, &body, out);
        out.push(String::new());
    }

    // Edits.

    /// Changes a number in a condition.
    fn body_edit(&self) -> Edit {
        let files = self.write(&[]);
        let middle = self.rules.len() / 2;
        for rule in &self.rules[middle..] {
            let items = rule.body.body(&self.tables);
            let number = |item: &&String| {
                item.rsplit_once(" < ").is_some_and(|(_, right)| right.chars().all(|c| c.is_ascii_digit()))
            };
            let Some(item) = items.iter().find(number) else { continue };
            let at = items.iter().position(|other| other == item).unwrap_or(0);
            // Together with the item before it, the place is unique.
            let end = if at + 1 == items.len() { ";" } else { "," };
            let from = format!("    {},\n    {item}{end}", items[at.saturating_sub(1)]);
            let (path, text) = &files[rule.file];
            if at > 0 && text.matches(&from).count() == 1 {
                let to = format!("    {},\n    {item}1{end}", items[at - 1]);
                let what = format!("a condition of a rule for {}", self.tables[rule.table].name);
                return Edit { what, path: path.clone(), from, to };
            }
        }
        unreachable!("some rule in the second half compares with a number")
    }

    /// Renames the last column of a table: a typical one, or the one that is read most.
    fn declaration_edit(&self, most: bool) -> Edit {
        let by_name: BTreeSet<usize> =
            self.rules.iter().flat_map(|rule| rule.body.reads_by_name().collect::<Vec<_>>()).collect();
        let readers = |at: usize| self.rules.iter().filter(|rule| rule.body.reads().contains(&at)).count();
        let mut tables: Vec<(usize, usize)> = (0..self.tables.len())
            .filter(|at| self.tables[*at].role == Role::Internal && !by_name.contains(at))
            .map(|at| (readers(at), at))
            .collect();
        tables.sort_unstable();
        let (readers, at) = if most { tables[tables.len() - 1] } else { tables[tables.len() / 2] };
        let table = &self.tables[at];
        let what = format!("the declaration of {}, which {readers} rules read", table.name);
        let path = self.files[table.file].path.clone();
        Edit { what, path, from: declaration(table, None), to: declaration(table, Some("renamed")) }
    }
}

fn write_rule(table: &str, head: &[String], body: &[String], out: &mut Vec<String>) {
    let single = format!("{table}({}) :-", head.join(", "));
    if single.len() <= WIDTH && head.len() <= WIDE {
        out.push(single);
    } else {
        out.push(format!("{table}("));
        for term in head {
            out.push(format!("        {term},"));
        }
        let last = out.len() - 1;
        out[last].pop();
        out.push("    ) :-".to_owned());
    }
    for (at, item) in body.iter().enumerate() {
        let end = if at + 1 == body.len() { ";" } else { "," };
        if item.len() + 5 <= WIDTH {
            out.push(format!("    {item}{end}"));
            continue;
        }
        // Breaks lines at the commas of its terms, or before its operators.
        let mut line = "    ".to_owned();
        for word in item.split(' ') {
            if line.len() + 1 + word.len() > WIDTH {
                out.push(std::mem::replace(&mut line, "        ".to_owned()).trim_end().to_owned());
            }
            line.push_str(word);
            line.push(' ');
        }
        out.push(format!("{}{end}", line.trim_end()));
    }
}

/// A table's declaration, with another name for its last column if one is given.
fn declaration(table: &Table, rename: Option<&str>) -> String {
    let role = match table.role {
        Role::Input => "input table",
        Role::Internal => "table",
        Role::Output => "output table",
    };
    let last = table.columns.len() - 1;
    let columns: Vec<String> = table
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let name = rename.filter(|_| at == last).unwrap_or(&column.name);
            format!("{name}: {}", KINDS[column.kind].ty())
        })
        .collect();
    let key = match &table.unique {
        Some(unique) if table.keyed => {
            let names: Vec<&str> = unique.iter().map(|column| table.columns[*column].name.as_str()).collect();
            format!(" key({})", names.join(", "))
        }
        _ => String::new(),
    };
    let single = format!("{role} {}({}){key};", table.name, columns.join(", "));
    if single.len() <= WIDTH && columns.len() <= WIDE {
        return single;
    }
    format!("{role} {}(\n    {},\n){key};", table.name, columns.join(",\n    "))
}

fn document(table: &Table, random: &mut Random, out: &mut Vec<String>) {
    let subject = &table.columns[0];
    let mut text = format!("Each row: the {} `{}`", KINDS[subject.kind].what, subject.name);
    for column in &table.columns[1..] {
        let class = KINDS[column.kind].class;
        text += match class {
            Class::Entity => ", together with the ",
            Class::Match | Class::Actions => ", with the ",
            _ => ", for which the ",
        };
        text += &format!("{} is `{}`", KINDS[column.kind].what, column.name);
    }
    text.push('.');
    wrap("##", &text, out);
    if table.keyed && random.percent(40) {
        out.push(
            "## One row for each key: whoever derives a second one has found a mistake in the rules."
                .to_owned(),
        );
    }
    if table.role == Role::Input {
        out.push(
            "## Written by the controller alone, in the transaction of the change that it stands for."
                .to_owned(),
        );
    }
}

fn constants(out: &mut Vec<String>) {
    for (number, stage) in STAGES.iter().enumerate() {
        out.push(format!("## The stage {} of the pipeline.", stage.to_lowercase()));
        out.push(format!("const {stage} = {};", number * 4));
    }
    out.push(String::new());
    for (name, value, what) in LIMITS {
        out.push(format!("## {what}"));
        out.push(format!("const {name} = {value};"));
    }
    out.push(String::new());
}

fn wrap(sign: &str, text: &str, out: &mut Vec<String>) {
    let mut line = sign.to_owned();
    for word in text.split(' ') {
        if line.len() + 1 + word.len() > WIDTH && line.len() > sign.len() {
            out.push(std::mem::replace(&mut line, sign.to_owned()));
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push(line);
}

/// The texts of comments. `{head}` is the rule's table, `{first}` and `{last}` are tables that it
/// reads.
const REMARKS: [&str; 24] = [
    "Everything begins with {first}; the rest only adds to it.",
    "Read as: there is such a row for every row of {first}.",
    "Only what {last} has something to say about counts.",
    "The order of these atoms is for readers; the planner has its own.",
    "Until {last} has the row there is nothing here, and nothing is sent.",
    "A row goes as soon as one of its reasons goes, in the same transaction.",
    "Kept apart from {first}, since other rules want it without this.",
    "The name of the table says whose it is; the columns say what for.",
    "While something moves, both places are in {first} for a moment.",
    "The same fact twice is the same row, so that reports may repeat themselves.",
    "What {last} does not know yet is not an error, but not known yet.",
    "This does not look at locations: one image serves all nodes.",
    "Numbers come from the allocator, never from here.",
    "Order matters nowhere, which is why there is none to get wrong.",
    "If {first} grows, so does this, by as many rows.",
    "Whoever changes this changes flows of every node that has such a port.",
    "Seen in production: rows of {last} came a second later than their ports.",
    "Nothing else fills {head} for this case.",
    "The other cases are told apart by their conditions, not by order.",
    "An operator who wonders why a row is missing looks at {last} first.",
    "The test of this rule has a node more than it needs, to catch a lost join.",
    "This was two rules once; the second only repeated the first.",
    "Identifiers are texts for people; packets carry their labels.",
    "See {first} for what happens when it is deleted while in use.",
];
