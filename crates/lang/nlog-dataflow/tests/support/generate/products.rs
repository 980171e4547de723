//! Programs whose rows have very many derivations, and the number of these derivations.
//!
//! A body is a chain, a star or a tree of atoms over two tables with two columns. The head uses few of its variables.
//! There are so few rows that every engine finishes quickly if it sums counts early, and never finishes otherwise.

use std::collections::{BTreeMap, BTreeSet};

use super::Random;

/// An atom: its table and its two variables.
type Atom = (&'static str, usize, usize);

/// A program and rows for it.
#[derive(Debug, Clone)]
pub(crate) struct Products {
    atoms: Vec<Atom>,
    /// The variables in the head.
    head: Vec<usize>,
    /// An aggregate over a variable, in addition to the head's plain columns.
    aggregate: Option<(&'static str, usize)>,
    /// Two variables that a condition orders.
    ordered: Option<(usize, usize)>,
    /// Whether the engine must check a key of the head.
    keyed: bool,
    /// Whether another rule reads the rows of the head and multiplies them again.
    read: bool,
    /// By table, its rows in order of arrival.
    rows: BTreeMap<&'static str, Vec<(i64, i64)>>,
}

const TABLES: [&str; 2] = ["e", "f"];

impl Products {
    pub(crate) fn random(random: &mut Random) -> Self {
        let count = 5 + random.below(5) as usize;
        let shape = random.below(3);
        let atoms: Vec<Atom> = (0..count)
            .map(|at| {
                let table = *random.pick(&TABLES);
                let (a, b) = match shape {
                    // h, x1; h, x2; …
                    0 => (0, at + 1),
                    // x0, x1; x1, x2; …
                    1 => (at, at + 1),
                    _ => (random.below(at as u64 + 1) as usize, at + 1),
                };
                if random.chance(20) { (table, b, a) } else { (table, a, b) }
            })
            .collect();
        let variable = |random: &mut Random| random.below(count as u64 + 1) as usize;
        let mut head: Vec<usize> = (0..random.below(5) / 2).map(|_| variable(random)).collect();
        head.dedup();
        let aggregate = random.chance(25).then(|| (*random.pick(&["count", "sum", "max"]), variable(random)));
        let ordered = random.chance(25).then(|| (variable(random), variable(random)));
        // The more variables the engines must remember, the fewer values suffice to keep them busy.
        let remembered = head.len() + usize::from(aggregate.is_some()) + 2 * usize::from(ordered.is_some());
        let values = [24, 20, 8, 6].get(remembered).copied().unwrap_or(4);
        let mut rows = BTreeMap::new();
        for table in TABLES {
            let mut of_table = Vec::new();
            for pair in (0..values).flat_map(|a| (0..values).map(move |b| (a, b))) {
                if random.chance(85) {
                    of_table.push(pair);
                }
            }
            random.shuffle(&mut of_table);
            rows.insert(table, of_table);
        }
        let keyed = random.chance(20) && aggregate.is_none();
        Products { atoms, head, aggregate, ordered, keyed, read: random.chance(40), rows }
    }

    /// The program.
    pub(crate) fn text(&self) -> String {
        let columns = self.head.len() + 1;
        let declared: Vec<String> = (0..columns).map(|at| format!("c{at}: int")).collect();
        let key: Vec<String> = (0..columns).map(|at| format!("c{at}")).collect();
        let key = if self.keyed { format!(" key({})", key.join(", ")) } else { String::new() };
        let mut terms: Vec<String> = self.head.iter().map(|variable| format!("x{variable}")).collect();
        terms.push(self.aggregate.map_or("7".to_owned(), |(name, variable)| format!("{name}(x{variable})")));
        let mut body: Vec<String> =
            self.atoms.iter().map(|(table, a, b)| format!("{table}(x{a}, x{b})")).collect();
        body.extend(self.ordered.map(|(a, b)| format!("x{a} <= x{b}")));
        let mut text = format!(
            "input table e(a: int, b: int);\ninput table f(a: int, b: int);\noutput table r({}){key};\nr({}) :- {};\n",
            declared.join(", "),
            terms.join(", "),
            body.join(", ")
        );
        if self.read {
            let ignored = vec!["_"; columns - 1].join(", ");
            let comma = if columns > 1 { ", " } else { "" };
            text += &format!(
                "output table s(n: int);\ns(count(c)) :- r({ignored}{comma}c), e(x, y), f(y, z), e(z, w), x == w;\n"
            );
        }
        text
    }

    /// Inserts the rows in `count` transactions, then deletes all of them in one transaction fewer, but at least one.
    pub(crate) fn transactions(&self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let parts = |rows: &[(i64, i64)], part: usize, of: usize| -> Vec<(i64, i64)> {
            rows.iter().skip(part).step_by(of).copied().collect()
        };
        for (member, count) in [("insert", count), ("delete", count.saturating_sub(1).max(1))] {
            for part in 0..count {
                let of_table = |(table, rows): (&&str, &Vec<(i64, i64)>)| {
                    let rows: Vec<String> =
                        parts(rows, part, count).iter().map(|(a, b)| format!("[{a},{b}]")).collect();
                    format!("\"{table}\": [{}]", rows.join(","))
                };
                let tables: Vec<String> = self.rows.iter().map(of_table).collect();
                lines.push(format!("{{\"{member}\": {{{}}}}}", tables.join(", ")));
            }
        }
        lines
    }

    /// The number of ways to derive the head's row with the most ways, after all insertions and without conditions.
    pub(crate) fn most_ways(&self) -> u128 {
        let mut ways: BTreeMap<BTreeMap<usize, i64>, u128> = BTreeMap::from([(BTreeMap::new(), 1)]);
        for (at, (table, a, b)) in self.atoms.iter().enumerate() {
            let later: BTreeSet<usize> = self.atoms[at + 1..].iter().flat_map(|(_, a, b)| [*a, *b]).collect();
            let mut next: BTreeMap<BTreeMap<usize, i64>, u128> = BTreeMap::new();
            for (binding, count) in &ways {
                for (of_a, of_b) in &self.rows[table] {
                    let fits = |variable: &usize, value: &i64| {
                        binding.get(variable).is_none_or(|known| known == value)
                    };
                    if fits(a, of_a) && fits(b, of_b) {
                        let mut binding = binding.clone();
                        binding.extend([(*a, *of_a), (*b, *of_b)]);
                        binding
                            .retain(|variable, _| later.contains(variable) || self.head.contains(variable));
                        *next.entry(binding).or_default() += count;
                    }
                }
            }
            ways = next;
        }
        ways.into_values().max().unwrap_or(0)
    }
}
