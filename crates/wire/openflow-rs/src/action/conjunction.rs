//! `conjunction(ID, K/N)`: makes the flow one clause of a conjunctive match.

use super::*;
use crate::field::text::int;

/// Makes the flow one clause of a conjunctive match: for packets that match flows of all clauses, the flow that
/// matches `conj_id` applies. Only other conjunctions and notes may accompany it (ovs-actions(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conjunction {
    id: u32,
    clause: u8,
    clauses: u8,
}

/// The maximum number of clauses of a conjunction.
const CLAUSES_MAX: u8 = 64;

impl Conjunction {
    /// Clause number `clause`, from 1, of the `clauses` that conjunction `id` has.
    ///
    /// Conjunctions have 2 to 64 clauses; none is returned for other numbers.
    pub fn new(id: u32, clause: u8, clauses: u8) -> Option<Conjunction> {
        let fits = (2..=CLAUSES_MAX).contains(&clauses) && (1..=clauses).contains(&clause);
        fits.then_some(Conjunction { id, clause, clauses })
    }

    /// The value of `conj_id`.
    pub fn id(self) -> u32 {
        self.id
    }

    /// The clause number, from 1.
    pub fn clause(self) -> u8 {
        self.clause
    }

    /// The number of clauses.
    pub fn clauses(self) -> u8 {
        self.clauses
    }
}

impl Body for Conjunction {
    const NAMES: &'static [&'static str] = &["conjunction"];
    const WIRE: &'static [Wire] = &[Wire::Nx(34)];
    const LITERALS: &'static [ActionInfo] = &[ActionInfo::new(
        "conjunction",
        "Makes the flow one clause of a conjunctive match. Only other conjunctions and `note` may accompany it.",
        &[
            Parameter::number("id", u32::MAX as u64, "The value that `conj_id` matches."),
            Parameter::number("clause", CLAUSES_MAX as u64, "The clause number, from 1."),
            Parameter::number("clauses", CLAUSES_MAX as u64, "The number of clauses, 2 to 64."),
        ],
        &[("conjunction(7, 1, 2)", "conjunction(7,1/2)")],
        |given| {
            let (clause, clauses) = (given.number("clause")?, given.number("clauses")?);
            match Conjunction::new(given.number("id")?, clause, clauses) {
                Some(conjunction) => Ok(conjunction.into()),
                None => Err(Refusal::values(
                    format!("clause {clause} of {clauses} does not exist"),
                    "number 2 to 64 clauses from 1",
                )),
            }
        },
    )
    .within(&[Context::Flow])];

    fn decode(_: Wire, body: &mut Reader<'_>, _: u8) -> Result<Self, DecodeError> {
        let at = body.clone();
        let (clause, clauses, id) = (body.u8()?, body.u8()?, body.u32()?);
        let conjunction = Conjunction::new(id, clause.saturating_add(1), clauses);
        conjunction.ok_or_else(|| at.fault(Fault::Unknown(u64::from(clause) << 8 | u64::from(clauses))))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Wire::Nx(34).put(out, |out| {
            out.extend_from_slice(&[self.clause - 1, self.clauses]);
            out.extend_from_slice(&self.id.to_be_bytes());
        });
    }

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conjunction({},{}/{})", self.id, self.clause, self.clauses)
    }

    fn parse(call: Call<'_>) -> Result<Action, ParseError> {
        let expected = "clause of a conjunction: conjunction(ID, K/N), K from 1, N from 2 to 64";
        let form = || ParseError::value(call.text, expected);
        let (id, rest) = call.arg.split_once(',').ok_or_else(form)?;
        let (clause, clauses) = rest.split_once('/').ok_or_else(form)?;
        let (clause, clauses) = (int(clause.trim(), expected)?, int(clauses.trim(), expected)?);
        Ok(Conjunction::new(int(id.trim(), expected)?, clause, clauses).ok_or_else(form)?.into())
    }
}

#[cfg(test)]
#[test]
fn vectors() {
    testing::check([
        ("conjunction(7,1/3)", "ffff 0010 00002320 0022 00 03 00000007"),
        ("conjunction(4294967295,64/64)", "ffff 0010 00002320 0022 3f 40 ffffffff"),
    ]);
    testing::check_spellings([("conjunction(7, 1/3)", "conjunction(7,1/3)")]);
    testing::check_refused([
        "conjunction(7,0/3)",
        "conjunction(7,1/1)",
        "conjunction(7,1/65)",
        "conjunction(7,3/2)",
        "conjunction(7)",
    ]);
    testing::check_malformed([
        "ffff 0010 00002320 0022 03 03 00000007",
        "ffff 0010 00002320 0022 00 01 00000007",
        "ffff 0010 00002320 0022 ff 40 00000007",
    ]);
}
