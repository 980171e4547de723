//! Listings and tables of counters: their objects, and the counters that they read.

use nlog_data::{Role, TableId, Type};

use super::declarations::{Columns, Declarations, Table, quoted, unknown_column};
use super::suggest;
use crate::diagnostic::{Code, Report, Reports};
use crate::program::{Count, Counted, Counter, Listing, Reading};
use crate::syntax::ast::{self, Ident, ListingWord};

/// Names that columns of answers have on their own.
const OF_ANSWERS: [&str; 2] = ["node", "reached"];

/// Checks all listings and tables of counters. The result has the numbers of declarations.
pub(super) fn check(declarations: &Declarations<'_>, reports: &mut Reports) -> Vec<Listing> {
    let tables = declarations.tables.iter().zip(0..);
    let listings = tables.filter_map(|(table, number)| {
        let listing = table.listing?;
        // Everything else depends on what a syntax error hides.
        let columns = table.columns.as_ref().filter(|_| !listing.broken)?;
        let reads = Checker { declarations, table, columns }.check(listing, reports);
        let otherwise = listing.otherwise.as_ref().map(|(text, _)| text.clone()).unwrap_or_default();
        Some(Listing { table: TableId(number), reads, otherwise })
    });
    listings.collect()
}

impl Listing {
    /// With the numbers of the program in place of those of declarations.
    pub(super) fn renumbered(self, number: &impl Fn(TableId) -> TableId) -> Listing {
        let reads = self.reads.map(|reads| Reading { on: reads.on.map(number), ..reads });
        Listing { table: number(self.table), reads, ..self }
    }
}

struct Checker<'a, 'd> {
    declarations: &'a Declarations<'d>,
    table: &'a Table<'d>,
    columns: &'a Columns<'d>,
}

impl Checker<'_, '_> {
    fn check(&self, listing: &ast::Listing, reports: &mut Reports) -> Option<Reading> {
        let name = &self.table.name.name;
        let mut report = |span, message: String, help: &str| {
            reports.push(Report::new(Code::Object, span, message, help));
        };
        match (listing.word, &listing.reads) {
            (ListingWord::Neither, reads) => {
                let span = reads.as_ref().map(|reads| reads.span);
                let span = span.or(listing.otherwise.as_ref().map(|(_, span)| *span));
                let message =
                    format!("table `{name}` answers no question, so it has neither `reads` nor `else`");
                let help = "write `listing table` if its rows are the answer, `counter table` if hosts count";
                report(span.unwrap_or(self.table.name.span), message, help);
                return None;
            }
            (ListingWord::Listing, Some(reads)) => {
                let help = "write `counter table`";
                report(reads.span, format!("`{name}` is a listing, whose rows are the answer"), help);
            }
            (ListingWord::Counter, None) => {
                let message = format!("the table of counters `{name}` names no counters");
                report(self.table.name.span, message, HELP);
            }
            _ => {}
        }
        let owner = self.columns.iter().next();
        if owner.is_none_or(|owner| owner.ty.as_ref().is_some_and(|ty| ty.kinds().is_none())) {
            let message = format!("the first column of `{name}` must be one reference");
            let help =
                "a row is of one object: listing table routing_table(router: ref router, destination: net);";
            report(self.table.name.span, message, help);
        }
        listing.reads.as_ref().and_then(|reads| self.reading(reads, reports))
    }

    fn reading(&self, reads: &ast::Reading, reports: &mut Reports) -> Option<Reading> {
        let columns: Vec<Option<usize>> =
            reads.columns.iter().map(|name| self.column(name, reports)).collect();
        let columns: Option<Vec<usize>> = columns.into_iter().collect();
        let (host, counter, counted) = match reads.what.name.as_str() {
            "meter" => {
                let [host, meter] = self.of_types(reads, columns?, [Type::String, Type::Int], reports)?;
                (Some(host), Counter::Meter { meter }, &OF_METER[..])
            }
            "flow" => {
                let types = [Type::Int, Type::Int, Type::Match];
                let [table, priority, matching] = self.of_types(reads, columns?, types, reports)?;
                (None, Counter::Flow { table, priority, matching }, &OF_FLOW[..])
            }
            "learned" => {
                let types = [Type::Int, Type::Match, Type::Int];
                let [table, matching, cookie] = self.of_types(reads, columns?, types, reports)?;
                (None, Counter::Learned { table, matching, cookie }, &OF_LEARNED[..])
            }
            other => {
                let message = format!("nothing called `{other}` counts");
                let help = "`meter(node, meter)`, `flow(table_id, priority, match)` and `learned(table_id, match, cookie)` do";
                reports.push(Report::new(Code::Object, reads.what.span, message, help));
                return None;
            }
        };
        let hosts = reads.on.as_ref().map(|name| self.hosts(name, reads, reports));
        let counts = reads.counts.iter().map(|count| self.count(count, counter, counted, reports));
        let counts: Vec<Option<Count>> = counts.collect();
        let on = match hosts {
            Some(hosts) => Some(hosts?),
            None => None,
        };
        Some(Reading { host, counter, on, counts: counts.into_iter().collect::<Option<_>>()? })
    }

    fn column(&self, name: &Ident, reports: &mut Reports) -> Option<usize> {
        let found = self.columns.find(&name.name);
        if found.is_none() {
            let table = &self.table.name.name;
            reports
                .push_unknown(&format!("{table}.{}", name.name), unknown_column(name, table, self.columns));
        }
        found
    }

    /// These columns, if there are as many as types and they have them.
    fn of_types<const N: usize>(
        &self,
        reads: &ast::Reading,
        columns: Vec<usize>,
        types: [Type; N],
        reports: &mut Reports,
    ) -> Option<[usize; N]> {
        let what = &reads.what.name;
        let Ok(columns) = <[usize; N]>::try_from(columns) else {
            let named = types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let message = format!("`{what}` takes {N} columns");
            reports.push(Report::new(Code::Object, reads.span, message, format!("their types are {named}")));
            return None;
        };
        let mut fits = true;
        for (name, (at, wanted)) in reads.columns.iter().zip(columns.iter().zip(&types)) {
            let ty = self.columns[*at].ty.as_ref();
            if ty.is_some_and(|ty| ty.base() != wanted && !(*wanted == Type::String && ty.kinds().is_some()))
            {
                let message = format!("column `{}` does not name a {what} here", name.name);
                reports.push(Report::new(
                    Code::Object,
                    name.span,
                    message,
                    format!("its type must be {wanted}"),
                ));
                fits = false;
            }
        }
        fits.then_some(columns)
    }

    /// The table after `on`; `None` after a mistake.
    fn hosts(&self, name: &Ident, reads: &ast::Reading, reports: &mut Reports) -> Option<TableId> {
        let Some(number) = self.declarations.table(&name.name) else {
            if self.declarations.excuses(&name.name) {
                return None;
            }
            let names = self.declarations.tables.iter().map(|table| table.name.name.as_str());
            let near = suggest::nearest(&name.name, names).map(|near| format!("did you mean `{near}`?"));
            let help = near.unwrap_or_else(|| "declare the table, or leave `on` out".to_owned());
            let message = format!("unknown table `{}`", name.name);
            reports.push_unknown(&name.name, Report::new(Code::UnknownTable, name.span, message, help));
            return None;
        };
        let table = &self.declarations.tables[number];
        let is_output = table.role == Role::Output;
        let types = table.columns.as_ref().map(|columns| columns.iter().map(|column| column.ty.as_ref()));
        let fits = |ty: Option<&Type>| ty.is_none_or(|ty| *ty.base() == Type::String || ty.kinds().is_some());
        let fits = types.is_none_or(|mut types| types.len() == 2 && types.all(fits));
        if !is_output || !fits || reads.what.name == "meter" {
            let help = "a counter without a host is read on the hosts of such a table: output table learning_host(host: string, switch: string);";
            let message =
                format!("`{}` does not say on which hosts to read the counters of an object", name.name);
            reports.push(Report::new(Code::Object, name.span, message, help));
            return None;
        }
        u32::try_from(number).ok().map(TableId)
    }

    fn count(
        &self,
        count: &ast::Count,
        counter: Counter,
        counted: &[(&str, Counted)],
        reports: &mut Reports,
    ) -> Option<Count> {
        let limit = match &count.limit {
            Some(name) => Some(self.column(name, reports)?),
            None => None,
        };
        let mut mistake = |name: &Ident, message: String, help: String| {
            reports.push(Report::new(Code::Object, name.span, message, help));
            None
        };
        let answered = |at: usize| !counter.has(at);
        let taken = self.columns.find(&count.name.name).is_some_and(answered);
        if taken || OF_ANSWERS.contains(&count.name.name.as_str()) {
            let message = format!("an answer has a column `{}` already", count.name.name);
            return mistake(&count.name, message, "give the count another name".to_owned());
        }
        if let (Some(at), Some(name)) = (limit, &count.limit)
            && (!answered(at) || self.columns[at].ty.as_ref().is_some_and(|ty| *ty.base() != Type::Int))
        {
            let message = format!("column `{}` is no greatest value of a count", name.name);
            return mistake(name, message, "it must be an int that answers have".to_owned());
        }
        let Some((_, of)) = counted.iter().find(|(name, _)| *name == count.counted.name) else {
            let names = quoted(counted.iter().map(|(name, _)| *name));
            let message = format!("no `{}` is counted here", count.counted.name);
            return mistake(&count.counted, message, format!("these are: {names}"));
        };
        Some(Count { name: count.name.name.clone(), counted: *of, limit })
    }
}

const HELP: &str = "for example: counter table drops(port: ref switch_port, node: string, meter: int) \
                    reads meter(node, meter) as (packets: packets, dropped: dropped);";
const OF_METER: [(&str, Counted); 3] =
    [("packets", Counted::Packets), ("bytes", Counted::Bytes), ("dropped", Counted::Dropped)];
const OF_FLOW: [(&str, Counted); 2] = [("packets", Counted::Packets), ("bytes", Counted::Bytes)];
const OF_LEARNED: [(&str, Counted); 2] = [("entries", Counted::Entries), ("eth_dst", Counted::EthDst)];
