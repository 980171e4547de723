//! Names of fields: a program that uses them means the same as one that writes the fields of Open vSwitch.

use std::sync::Arc;

use nlog::{Program, Sources, compile};
use nlog_data::{Evaluator, Row, Tables, Transaction, Value};
use nlog_reference::Reference;
use proptest::prelude::*;
use proptest::sample::select;

/// Fields that overlap no other one here, with their widths.
const FIELDS: [(&str, u16); 6] =
    [("reg0", 32), ("reg1", 32), ("metadata", 64), ("xreg2", 64), ("xxreg2", 128), ("eth_src", 48)];

/// Some bits of one of [`FIELDS`], the whole of it if there are none, with a name.
#[derive(Debug, Clone)]
struct Named {
    at: usize,
    bits: Option<(u16, u16)>,
}

impl Named {
    fn field(&self) -> &'static str {
        FIELDS[self.at].0
    }

    fn width(&self) -> u16 {
        self.bits.map_or(FIELDS[self.at].1, |(first, last)| last - first + 1)
    }

    fn declaration(&self) -> String {
        let bits = self.bits.map(|(first, last)| format!("[{first}..{last}]")).unwrap_or_default();
        format!("field field{} = {}{bits};\n", self.at, self.field())
    }

    /// Bits of it, by its name or by that of Open vSwitch's field. `None` for all of it.
    fn written(&self, part: Option<(u16, u16)>, by_name: bool) -> String {
        let range = |first: u16, last: u16| format!("[{first}..{last}]");
        let bits = match part {
            Some((first, last)) if by_name => range(first, last),
            None if by_name => String::new(),
            part => {
                let start = self.bits.map_or(0, |(first, _)| first);
                match part.or(self.bits.map(|_| (0, self.width() - 1))) {
                    Some((first, last)) => range(start + first, start + last),
                    None => String::new(),
                }
            }
        };
        let name = if by_name { format!("field{}", self.at) } else { self.field().to_owned() };
        name + &bits
    }
}

/// A use of a named field, or of some bits of it.
#[derive(Debug, Clone)]
struct Use {
    named: usize,
    part: Option<(u16, u16)>,
    value: &'static str,
    mask: Option<u8>,
}

/// What a rule does with fields.
#[derive(Debug, Clone)]
struct Uses {
    matched: Vec<Use>,
    set: Vec<Use>,
    moved: Vec<(Use, Use)>,
}

impl Use {
    /// Its lowest bits, this many.
    fn cut(&self, width: u16) -> Use {
        let first = self.part.map_or(0, |(first, _)| first);
        Use { part: Some((first, first + width - 1)), ..self.clone() }
    }
}

fn bits(width: u16) -> impl Strategy<Value = Option<(u16, u16)>> {
    let range = (0..width).prop_flat_map(move |first| (Just(first), first..width));
    prop::option::of(range)
}

fn any_named() -> impl Strategy<Value = Vec<Named>> {
    let each = (0..FIELDS.len()).map(|at| bits(FIELDS[at].1).prop_map(move |bits| Named { at, bits }));
    each.collect::<Vec<_>>().prop_map(|mut named| {
        // As a whole, a field of addresses takes no numbers.
        for of in named.iter_mut().filter(|of| of.field() == "eth_src") {
            of.bits = of.bits.map_or(Some((0, 46)), |(first, last)| Some((first, last.min(first + 46))));
        }
        named
    })
}

fn any_use(named: Vec<Named>) -> impl Strategy<Value = Use> {
    (0..named.len()).prop_flat_map(move |at| {
        let width = named[at].width();
        let parts = (bits(width), select(&["n", "m", "n + m", "0", "1"][..]), prop::option::of(0..4u8));
        parts.prop_map(move |(part, value, mask)| {
            let width = part.map_or(width, |(first, last)| last - first + 1);
            // A constant that does not fit is a mistake.
            Use { named: at, part, value, mask: mask.filter(|_| width > 1) }
        })
    })
}

/// The program with these uses, by name or not.
fn text(named: &[Named], Uses { matched, set, moved }: &Uses, by_name: bool) -> String {
    let mut text =
        "input table i(n: int, m: int);\noutput table flow(match: match, actions: actions);\n".to_owned();
    if by_name {
        text += &named.iter().map(Named::declaration).collect::<String>();
    }
    let written = |of: &Use| named[of.named].written(of.part, by_name);
    let value = |of: &Use| of.mask.map_or(of.value.to_owned(), |mask| format!("({})/{mask}", of.value));
    let mut once = std::collections::BTreeSet::new();
    let matched = matched.iter().filter(|of| once.insert(of.named));
    let terms: Vec<String> = matched.map(|of| format!("{}: {}", written(of), value(of))).collect();
    let sets = set.iter().map(|of| format!("set({}, {})", written(of), value(of)));
    let width = |of: &Use| of.part.map_or(named[of.named].width(), |(first, last)| last - first + 1);
    let moves = moved.iter().map(|(from, to)| {
        let width = width(from).min(width(to));
        format!("move({}, {})", written(&from.cut(width)), written(&to.cut(width)))
    });
    let outputs = set.iter().map(|of| format!("output_field({})", written(of)));
    let actions: Vec<String> = sets.chain(moves).chain(outputs).collect();
    text + &format!("flow(match{{{}}}, actions[{}]) :- i(n, m);\n", terms.join(", "), actions.join(", "))
}

fn program(text: &str) -> Result<Arc<Program>, Vec<String>> {
    let compilation = compile(&Sources::from_texts([("test.nlog", text)]));
    // Where a mistake is depends on the length of names.
    let said = || {
        compilation.diagnostics.iter().map(|said| format!("{} {}", said.code.name(), said.message)).collect()
    };
    compilation.program.clone().ok_or_else(said)
}

fn rows(program: Arc<Program>, input: &[Row]) -> Result<Vec<Row>, String> {
    let schema = Arc::clone(&program.schema);
    let mut reference = Reference::new(program, Tables::All);
    let mut transaction = Transaction::default();
    transaction.insert.insert(schema.find("i").expect("an input"), input.to_vec());
    reference.commit(&transaction).map_err(|error| error.to_string())?;
    Ok(reference.contents(schema.find("flow").expect("a table")).expect("contents"))
}

/// Uses of fields, each in a place of its own, since a match names no bit twice.
fn any_program() -> impl Strategy<Value = (Vec<Named>, Uses)> {
    any_named().prop_flat_map(|named| {
        let matched = prop::collection::vec(any_use(named.clone()), 0..3);
        let set = prop::collection::vec(any_use(named.clone()), 0..4);
        let moved = prop::collection::vec((any_use(named.clone()), any_use(named.clone())), 0..2);
        let uses = (matched, set, moved).prop_map(|(matched, set, moved)| Uses { matched, set, moved });
        (Just(named), uses)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_name_of_a_field_means_the_field(
        (named, uses) in any_program(),
        input in prop::collection::vec((0..5i64, select(&[0, 1, 7, 255, 1 << 20, 1 << 40, -1][..])), 0..3),
    ) {
        let by_name = text(&named, &uses, true);
        let bare = text(&named, &uses, false);
        let input: Vec<Row> =
            input.into_iter().map(|(n, m)| vec![Value::Int(n), Value::Int(m)]).collect();
        match (program(&by_name), program(&bare)) {
            (Ok(by_name_program), Ok(bare_program)) => {
                prop_assert_eq!(rows(by_name_program, &input), rows(bare_program, &input), "{}{}", by_name, bare);
            }
            (Err(_), Err(_)) => {}
            (one, other) => prop_assert!(false, "{by_name}{:?}\n{bare}{:?}", one.err(), other.err()),
        }
    }
}
