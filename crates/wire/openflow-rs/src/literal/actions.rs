//! Action lists with holes.

use super::arguments::Bound;
use super::field::{self, bits_of, misfit};
use super::{
    Accepts, ActionTerm, Argument, Arguments, Call, Context, FillError, Kind, Parameter, Part, Problem,
    Refusal, TemplateError, Term, Value, Wanted, Wants,
};
use crate::action::DEPTH_MAX;
use crate::{Actions, MatchError, PortNo, Subfield};

/// An action list with holes, checked; see [`actions`].
#[derive(Clone, Debug)]
pub struct ActionsTemplate {
    /// In the order a switch keeps actions and instructions.
    pieces: Vec<Piece>,
}

/// One action of a template.
#[derive(Clone, Debug)]
enum Piece {
    /// Without holes: built once.
    Built(Part),
    /// With holes: built from its arguments every time.
    Open(Open),
}

#[derive(Clone, Debug)]
struct Open {
    /// The name in literals.
    name: &'static str,
    parameters: &'static [Parameter],
    build: fn(&Arguments<'_>) -> Result<Part, Refusal>,
    path: Vec<usize>,
    /// The index of the parameter, and the argument.
    slots: Vec<(usize, Slot)>,
}

#[derive(Clone, Debug)]
enum Slot {
    /// Without holes.
    Bound(Bound),
    /// A value with a hole in it or in its mask.
    Value(ValueSlot),
    /// A nested action with holes.
    Piece(Piece),
}

/// A value, or a hole for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    Constant(Value),
    Hole(usize, Kind),
}

/// A value on its way to a parameter.
#[derive(Clone, Debug)]
struct ValueSlot {
    path: Vec<usize>,
    takes: Takes,
    value: Operand,
    mask: Option<Operand>,
}

/// The constraint on a value.
#[derive(Clone, Copy, Debug)]
enum Takes {
    Number { what: &'static str, action: &'static str, max: u64 },
    Port,
    Address,
    Bits(Subfield),
}

/// Checks an action list and builds its constant parts.
///
/// # Errors
/// All errors in it, in the order of the terms.
pub fn actions(terms: &[ActionTerm]) -> Result<ActionsTemplate, Vec<TemplateError>> {
    let mut builder = Builder { errors: Vec::new() };
    let mut pieces: Vec<(u8, Piece)> = Vec::new();
    for (place, term) in terms.iter().enumerate() {
        let Some(piece) = builder.piece(Context::Flow, term, &[place]) else { continue };
        let stage = match piece.sample() {
            Some(Part::Action(action)) => action.stage(),
            _ => 0,
        };
        if stage > 0 && pieces.iter().any(|(other, _)| *other == stage) {
            builder.refuse_place(
                place,
                format!("`{}` is given twice, but a flow can contain it only once", term.name),
            );
        }
        pieces.push((stage, piece));
    }
    builder.check_company(terms);
    if !builder.errors.is_empty() {
        return Err(builder.errors);
    }
    // Stable: actions keep their order, instructions follow them.
    pieces.sort_by_key(|(stage, _)| *stage);
    Ok(ActionsTemplate { pieces: pieces.into_iter().map(|(_, piece)| piece).collect() })
}

impl ActionsTemplate {
    /// The list with `values` in its holes.
    ///
    /// # Errors
    /// A value does not fit. The other errors are mistakes of the caller: a hole without a value, or with one of another
    /// type than the hole was made with.
    pub fn fill(&self, values: &[Value]) -> Result<Actions, FillError> {
        let mut actions = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            if let Part::Action(action) = piece.fill(values)? {
                actions.push(action);
            }
        }
        Ok(Actions(actions))
    }

    /// Whether the list has no holes.
    pub fn is_constant(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, Piece::Built(_)))
    }
}

impl Piece {
    fn fill(&self, values: &[Value]) -> Result<Part, FillError> {
        match self {
            Piece::Built(part) => Ok(part.clone()),
            Piece::Open(open) => {
                let mut given = Vec::with_capacity(open.slots.len());
                for (index, slot) in &open.slots {
                    let bound = match slot {
                        Slot::Bound(bound) => bound.clone(),
                        Slot::Value(slot) => slot.bind(values)?,
                        Slot::Piece(piece) => Bound::Part(piece.fill(values)?),
                    };
                    given.push((*index, bound));
                }
                open.build(&given).map_err(|refusal| {
                    let (message, _) = explain(open.name, &refusal);
                    FillError { path: open.path.clone(), message }
                })
            }
        }
    }

    /// The action for some values; `None` if the values do not fit it.
    fn sample(&self) -> Option<Part> {
        match self {
            Piece::Built(part) => Some(part.clone()),
            Piece::Open(open) => open.sample().ok(),
        }
    }
}

impl Open {
    fn build(&self, given: &[(usize, Bound)]) -> Result<Part, Refusal> {
        (self.build)(&Arguments { parameters: self.parameters, given })
    }

    /// Builds with zeros in the holes, to find errors that do not depend on the values.
    fn sample(&self) -> Result<Part, Refusal> {
        let given = self.slots.iter().filter_map(|(index, slot)| {
            let bound = match slot {
                Slot::Bound(bound) => bound.clone(),
                Slot::Value(slot) => slot.sample(),
                Slot::Piece(piece) => Bound::Part(piece.sample()?),
            };
            Some((*index, bound))
        });
        let given: Vec<_> = given.collect();
        self.build(&given)
    }
}

impl Operand {
    /// The operand of a term; `None` for terms that are not values.
    pub(super) fn of(term: &Term) -> Option<Operand> {
        match term {
            Term::Constant(value) => Some(Operand::Constant(*value)),
            Term::Hole(number, kind) => Some(Operand::Hole(*number, *kind)),
            _ => None,
        }
    }

    pub(super) fn kind(self) -> Kind {
        match self {
            Operand::Constant(value) => value.kind(),
            Operand::Hole(_, kind) => kind,
        }
    }

    pub(super) fn is_hole(self) -> bool {
        matches!(self, Operand::Hole(..))
    }

    pub(super) fn value(self, values: &[Value]) -> Result<Value, String> {
        match self {
            Operand::Constant(value) => Ok(value),
            Operand::Hole(number, kind) => match values.get(number) {
                Some(value) if value.kind() == kind => Ok(*value),
                Some(value) => Err(format!("value {number} is {value}, not of type {kind}")),
                None => Err(format!("value {number} is missing")),
            },
        }
    }
}

impl ValueSlot {
    fn has_hole(&self) -> bool {
        self.value.is_hole() || self.mask.is_some_and(Operand::is_hole)
    }

    fn bind(&self, values: &[Value]) -> Result<Bound, FillError> {
        let bound = self.value.value(values).and_then(|value| {
            let mask = self.mask.map(|mask| mask.value(values)).transpose()?;
            self.takes.bind(value, mask)
        });
        bound.map_err(|message| FillError { path: self.path.clone(), message })
    }

    fn sample(&self) -> Bound {
        let constant = |operand| match operand {
            Operand::Constant(value) => Some(value),
            Operand::Hole(..) => None,
        };
        if let (Some(value), None) = (constant(self.value), self.mask)
            && let Ok(bound) = self.takes.bind(value, None)
        {
            return bound;
        }
        match self.takes {
            Takes::Number { .. } | Takes::Port => Bound::Number(0, self.mask.map(|_| 0)),
            Takes::Address => Bound::Address(std::net::Ipv4Addr::UNSPECIFIED.into()),
            Takes::Bits(to) => Bound::Assignment(to, 0, self.mask.map(|_| 1)),
        }
    }
}

impl Takes {
    fn bind(self, value: Value, mask: Option<Value>) -> Result<Bound, String> {
        let number = |what, action, max: u64, value| match value {
            Value::Int(n) if u64::try_from(n).is_ok_and(|n| n <= max) => Ok(n as u64),
            _ if max.wrapping_add(1) & max == 0 => {
                let bits = max.trailing_ones();
                Err(format!("{value} does not fit `{what}` of `{action}`, which has {bits} bits"))
            }
            _ => Err(format!("{value} does not fit `{what}` of `{action}`: it is 0 to {max}")),
        };
        match self {
            Takes::Number { what, action, max } => {
                let mask = mask.map(|mask| number(what, action, max, mask)).transpose()?;
                Ok(Bound::Number(number(what, action, max, value)?, mask))
            }
            Takes::Port => match value {
                Value::Int(n) if is_output(n) => Ok(Bound::Number(n as u64, None)),
                _ => Err(format!(
                    "{value} is not a port number: ports are 0 to {}, or a reserved port such as 65534 (LOCAL)",
                    PortNo::MAX - 1
                )),
            },
            Takes::Address => match value {
                Value::Ip(ip) => Ok(Bound::Address(ip)),
                _ => Err(format!("{value} is no address")),
            },
            Takes::Bits(to) => {
                let bits = |value| bits_of(to, value).ok_or_else(|| misfit(value, &field::written(to), to));
                let (field, bits_set, _) = bits(value)?;
                let mask = match mask {
                    None => None,
                    Some(mask) => {
                        let fits = bits_of(to, mask).filter(|(of, ..)| *of == field);
                        let (_, bits, _) = fits.ok_or_else(|| misfit(mask, &field::written(field), field))?;
                        Some(bits)
                    }
                };
                Ok(Bound::Assignment(field, bits_set, mask))
            }
        }
    }
}

/// Whether packets can be sent to this port number: an ordinary port, or a reserved port that is a destination.
fn is_output(n: i64) -> bool {
    u16::try_from(n).is_ok_and(|n| {
        let port = PortNo(n);
        n < PortNo::MAX || (port >= PortNo::IN_PORT && port <= PortNo::LOCAL && port != PortNo::TABLE)
    })
}

/// The message and remedy of a builder's error.
fn explain(action: &str, refusal: &Refusal) -> (String, String) {
    match refusal {
        Refusal::Field(MatchError::Prerequisite { field, needs }) => {
            let message = format!("`{action}`: {field} needs {needs} in the learned flow");
            (message, "match that by value before it, as in match(eth_type, 0x800)".to_owned())
        }
        Refusal::Field(error) => {
            let remedy = if certain(error) { "see ovs-actions(7)" } else { "give a value that fits" };
            (format!("`{action}`: {error}"), remedy.to_owned())
        }
        Refusal::Values(message, remedy) | Refusal::Arguments(message, remedy) => {
            (format!("`{action}`: {message}"), remedy.clone())
        }
    }
}

/// Gathers errors while terms become pieces.
struct Builder {
    errors: Vec<TemplateError>,
}

impl Builder {
    /// An error of the term at `path`, whose own path starts there.
    fn refuse(&mut self, path: &[usize], error: TemplateError) {
        let path = path.iter().copied().chain(error.path).collect();
        self.errors.push(TemplateError { path, ..error });
    }

    fn refuse_place(&mut self, place: usize, message: String) {
        let error = TemplateError::new(Problem::Argument, message, "remove it or move it");
        self.errors.push(error.name().at(place));
    }

    /// Checks the two actions that restrict the rest of the list: a meter comes first and only once; only conjunctions
    /// and notes may accompany a conjunction.
    fn check_company(&mut self, terms: &[ActionTerm]) {
        for (place, term) in terms.iter().enumerate() {
            let alone = terms.iter().all(|other| matches!(other.name.as_str(), "conjunction" | "note"));
            if term.name == "meter" && place > 0 {
                self.refuse_place(
                    place,
                    "`meter` must be the first action in the list and may occur only once".to_owned(),
                );
            }
            if term.name == "conjunction" && !alone {
                self.refuse_place(
                    place,
                    "`conjunction` can be combined only with other conjunctions and `note`".to_owned(),
                );
            }
        }
    }

    fn piece(&mut self, context: Context, term: &ActionTerm, path: &[usize]) -> Option<Piece> {
        if path.len() > DEPTH_MAX.into() {
            let error =
                TemplateError::new(Problem::Argument, "actions are nested too deeply", "reduce the nesting");
            self.refuse(path, error);
            return None;
        }
        let mut call = match Call::new(context, &term.name) {
            Ok(call) => call,
            Err(error) => {
                self.refuse(path, error);
                return None;
            }
        };
        let before = self.errors.len();
        let mut slots = Vec::with_capacity(term.arguments.len());
        for (place, argument) in term.arguments.iter().enumerate() {
            let here = [path, &[place]].concat();
            slots.extend(self.slot(&mut call, argument, &here));
        }
        if self.errors.len() == before
            && let Err(error) = call.finish()
        {
            self.refuse(path, error);
        }
        if self.errors.len() > before {
            return None;
        }
        let info = call.info();
        let open = Open {
            name: info.name,
            parameters: info.parameters,
            build: info.build,
            path: path.to_vec(),
            slots,
        };
        let closed = open.slots.iter().all(|(_, slot)| matches!(slot, Slot::Bound(_)));
        match open.sample() {
            Ok(part) if closed => Some(Piece::Built(part)),
            Err(refusal) if closed || is_certain(&refusal) => {
                let (message, remedy) = explain(info.name, &refusal);
                self.refuse(path, TemplateError::new(problem(&refusal), message, remedy));
                None
            }
            _ => Some(Piece::Open(open)),
        }
    }

    fn slot(&mut self, call: &mut Call, argument: &Argument, path: &[usize]) -> Option<(usize, Slot)> {
        let shape = argument.term.shape();
        let (index, wants) = match call.place(argument.name.as_deref(), shape) {
            Ok(placed) => placed,
            Err(error) => {
                self.refuse(path, error);
                return None;
            }
        };
        let parameter = &call.info().parameters[index];
        let slot = match (wants, &argument.term) {
            (Wants::Field, _) => Slot::Bound(Bound::Field(call.field(parameter.name)?)),
            (Wants::Flag, _) => Slot::Bound(Bound::Flag),
            (Wants::Text, Term::Text(text)) => Slot::Bound(Bound::Text(text.clone())),
            (Wants::Action(context), Term::Action(action)) => self.nested(context, action, path)?,
            (Wants::Action(context), Term::Name(name)) => {
                self.nested(context, &ActionTerm::call(name, []), path)?
            }
            (Wants::Value(wanted), term) => self.value(call, parameter, wanted, term, path)?,
            (_, _) => {
                let message = format!("`{}` of `{}` is something else", parameter.name, call.info().name);
                let usage = call.info().usage();
                self.refuse(path, TemplateError::new(Problem::Argument, message, format!("write {usage}")));
                return None;
            }
        };
        Some((index, slot))
    }

    fn nested(&mut self, context: Context, action: &ActionTerm, path: &[usize]) -> Option<Slot> {
        Some(match self.piece(context, action, path)? {
            Piece::Built(part) => Slot::Bound(Bound::Part(part)),
            open @ Piece::Open(_) => Slot::Piece(open),
        })
    }

    fn value(
        &mut self,
        call: &Call,
        parameter: &'static Parameter,
        wanted: Wanted,
        term: &Term,
        path: &[usize],
    ) -> Option<Slot> {
        let (value, mask) =
            match operands(term, wanted, &format!("`{}` of `{}`", parameter.name, call.info().name)) {
                Ok(operands) => operands,
                Err(error) => {
                    self.refuse(path, error);
                    return None;
                }
            };
        let takes = match parameter.accepts {
            Accepts::Number { what, max, .. } => Takes::Number { what, action: call.info().name, max },
            Accepts::Port => Takes::Port,
            Accepts::Address => Takes::Address,
            Accepts::ValueOf { field, .. } => Takes::Bits(call.field(field)?),
            _ => return None,
        };
        let slot = ValueSlot { path: path.to_vec(), takes, value, mask };
        if slot.has_hole() {
            return Some(Slot::Value(slot));
        }
        match slot.bind(&[]) {
            Ok(bound) => Some(Slot::Bound(bound)),
            Err(error) => {
                let error = TemplateError::new(Problem::Range, error.message, "give a value that fits");
                self.refuse(path, error);
                None
            }
        }
    }
}

/// Value and mask of a term, if they are of the types wanted.
pub(super) fn operands(
    term: &Term,
    wanted: Wanted,
    what: &str,
) -> Result<(Operand, Option<Operand>), TemplateError> {
    let kinds: Vec<String> = wanted.kinds.iter().map(ToString::to_string).collect();
    let kinds = kinds.join(" or ");
    let typed = |term: &Term, kinds_allowed: &[Kind]| {
        let operand = Operand::of(term);
        operand.filter(|operand| kinds_allowed.contains(&operand.kind())).ok_or_else(|| {
            let given = match (operand, term) {
                (Some(operand), _) => operand.kind().to_string(),
                (None, Term::Text(_)) => "a string".to_owned(),
                (None, Term::Name(name)) => format!("the name `{name}`"),
                (None, _) => "something else".to_owned(),
            };
            let message = format!("{what} is of type {kinds}, not {given}");
            TemplateError::new(Problem::Type, message, format!("give a value of type {kinds}"))
        })
    };
    let Term::Masked(value, mask) = term else { return Ok((typed(term, wanted.kinds)?, None)) };
    if !wanted.masked {
        let message = format!("{what} takes no mask");
        return Err(TemplateError::new(Problem::Argument, message, "give the value alone"));
    }
    let plain: Vec<Kind> =
        wanted.kinds.iter().copied().filter(|k| !matches!(k, Kind::Net | Kind::Text)).collect();
    let value = typed(value, &plain).map_err(|error| error.at(0))?;
    let mask = typed(mask, &plain).map_err(|error| error.at(1))?;
    if value.kind() != mask.kind() {
        let message =
            format!("{what} has a value of type {} and a mask of type {}", value.kind(), mask.kind());
        return Err(TemplateError::new(Problem::Type, message, "use the same type for both").at(1));
    }
    Ok((value, Some(mask)))
}

/// Whether the refusal holds for all values.
fn is_certain(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Field(error) => certain(error),
        Refusal::Arguments(..) => true,
        Refusal::Values(..) => false,
    }
}

pub(super) fn certain(error: &MatchError) -> bool {
    matches!(
        error,
        MatchError::NotMaskable { .. }
            | MatchError::ReadOnly { .. }
            | MatchError::BadBits { .. }
            | MatchError::NotMatchable { .. }
            // A literal reports missing prerequisites itself.
            | MatchError::Prerequisite { .. }
    )
}

fn problem(refusal: &Refusal) -> Problem {
    match refusal {
        Refusal::Field(MatchError::ReadOnly { .. }) => Problem::ReadOnly,
        Refusal::Field(MatchError::Prerequisite { .. }) => Problem::Prerequisite,
        Refusal::Field(error) if certain(error) => Problem::Argument,
        Refusal::Field(_) | Refusal::Values(..) => Problem::Range,
        Refusal::Arguments(..) => Problem::Argument,
    }
}
