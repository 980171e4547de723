//! Mistakes in which people confuse names: variables of the same type, tables with the same column types, source and
//! destination.

use std::collections::BTreeMap;
use std::ops::Range;

use nlog::Sources;
use nlog::index::{Index, Symbol, SymbolKind};
use nlog_data::{Role, Type};

/// Pairs of fields that can be swapped without a type error.
const FIELDS: [(&str, &str); 12] = [
    ("eth_src", "eth_dst"),
    ("ip_src", "ip_dst"),
    ("nw_src", "nw_dst"),
    ("ipv6_src", "ipv6_dst"),
    ("arp_spa", "arp_tpa"),
    ("arp_sha", "arp_tha"),
    ("nd_sll", "nd_tll"),
    ("tcp_src", "tcp_dst"),
    ("udp_src", "udp_dst"),
    ("tp_src", "tp_dst"),
    ("tun_src", "tun_dst"),
    ("tun_ipv6_src", "tun_ipv6_dst"),
];

/// The names in a program's files, with their types.
#[derive(Default)]
pub(crate) struct Names {
    sources: Sources,
    index: Index,
    /// For each table the next one with the same column types, if any; inputs apart from tables that rules fill.
    siblings: BTreeMap<String, Sibling>,
    /// The names that the program gives to fields, each with its width in bits, in name order.
    fields: Vec<(String, u16)>,
    /// The named priorities, each with its value.
    priorities: BTreeMap<String, u16>,
}

/// Tables with the same column types as another.
#[derive(Default)]
struct Sibling {
    /// The table to read in its place.
    any: Option<String>,
    /// The table to fill in its place.
    derived: Option<String>,
}

impl Names {
    /// The names of a program; empty if it does not compile.
    pub(crate) fn of<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<Names> {
        let sources = Sources::from_texts(texts);
        let (compilation, index) = nlog::compile_indexed(&sources);
        let program = compilation.program?;
        let tables = program.schema.iter().filter(|(_, table)| table.role != Role::Hidden);
        let mut tables: Vec<(&str, Role, Vec<&Type>)> = tables
            .map(|(_, table)| {
                (&*table.name, table.role, table.columns.iter().map(|column| &column.ty).collect())
            })
            .collect();
        tables.sort_by_key(|(name, ..)| *name);
        let mut siblings = BTreeMap::new();
        for (name, _, columns) in &tables {
            let next = |wanted: &dyn Fn(Role) -> bool| {
                let alike =
                    tables.iter().filter(|(other, role, of)| other != name && of == columns && wanted(*role));
                let alike: Vec<&str> = alike.map(|(other, ..)| *other).collect();
                following(&alike, name).map(str::to_owned)
            };
            // No rule reads a table that forbids its rows.
            let sibling = Sibling {
                any: next(&|role| role != Role::Forbid),
                derived: next(&|role| role != Role::Input),
            };
            siblings.insert((*name).to_owned(), sibling);
        }
        let fields = program.fields.iter().map(|named| (named.name.clone(), named.field.bits())).collect();
        let priorities = program.priorities.iter().map(|named| (named.name.clone(), named.least)).collect();
        Some(Names { sources, index, siblings, fields, priorities })
    }

    /// The mistaken names in place of those in a range of a file.
    pub(crate) fn mistaken(&self, file: &str, range: Range<usize>) -> Vec<(Range<usize>, String)> {
        let number = self.sources.files().iter().position(|known| *known.name == *file);
        let Some(number) = number else { return Vec::new() };
        let within = |symbol: &&Symbol| {
            range.start <= symbol.span.start as usize && symbol.span.end as usize <= range.end
        };
        let symbols: Vec<&Symbol> = self.index.symbols(number as u32).filter(within).collect();
        let mistaken = symbols.iter().filter_map(|symbol| {
            let at = symbol.span.start as usize..symbol.span.end as usize;
            let other = match symbol.kind {
                SymbolKind::Variable | SymbolKind::Parameter => same_type(symbol, &symbols)?,
                SymbolKind::Table => {
                    let sibling = self.siblings.get(&symbol.name)?;
                    let head = at.start == range.start;
                    if head { sibling.derived.clone()? } else { sibling.any.clone()? }
                }
                SymbolKind::OpenFlowField => other_field(&symbol.name)?.to_owned(),
                SymbolKind::PacketField => self.same_width(&symbol.name)?,
                _ => return None,
            };
            Some((at, other))
        });
        mistaken.collect()
    }

    /// The value of the priority with this name.
    pub(crate) fn priority(&self, name: &str) -> Option<u16> {
        self.priorities.get(name).copied()
    }

    /// Another named field of the same width: the next one.
    fn same_width(&self, name: &str) -> Option<String> {
        let (_, width) = self.fields.iter().find(|(known, _)| known == name)?;
        let alike = self.fields.iter().filter(|(other, bits)| other != name && bits == width);
        let alike: Vec<&str> = alike.map(|(other, _)| other.as_str()).collect();
        following(&alike, name).map(str::to_owned)
    }
}

/// Another variable of the same type: of all of them in the order of their names, the next one.
fn same_type(symbol: &Symbol, symbols: &[&Symbol]) -> Option<String> {
    let alike = |other: &&&Symbol| {
        other.kind == symbol.kind && other.ty.is_some() && other.ty == symbol.ty && other.name != symbol.name
    };
    let mut names: Vec<&str> = symbols.iter().filter(alike).map(|other| &*other.name).collect();
    names.sort_unstable();
    following(&names, &symbol.name).map(str::to_owned)
}

/// The first name after this one, or the first of all.
fn following<'a>(names: &[&'a str], name: &str) -> Option<&'a str> {
    names.iter().find(|other| **other > name).or(names.first()).copied()
}

fn other_field(name: &str) -> Option<&'static str> {
    FIELDS.iter().find_map(|(one, other)| match name {
        _ if name == *one => Some(*other),
        _ if name == *other => Some(*one),
        _ => None,
    })
}
