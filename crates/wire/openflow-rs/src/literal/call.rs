//! The kind of each argument of an action, asked one by one.

use super::error::remedy;
use super::field::{self, Wanted};
use super::{Accepts, ActionInfo, Context, Kind, Parameter, Problem, TemplateError};
use crate::{Field, Subfield};

/// The shape of an argument before its meaning is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape<'a> {
    /// A bare name: a field, a flag, an action without arguments, or a variable.
    Name(&'a str),
    /// A name with bits: `reg5[0..15]`, first and last.
    Bits(&'a str, u16, u16),
    /// A name with parentheses: an action, or a function of the rule language.
    Call(&'a str),
    /// Text in quotes.
    Text,
    /// Any other expression.
    Value,
}

/// The kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wants {
    /// A value of one of these types.
    Value(Wanted),
    /// A field: give [`Term::Name`](super::Term::Name) or [`Term::Bits`](super::Term::Bits).
    Field,
    /// A flag: give [`Term::Name`](super::Term::Name).
    Flag,
    /// An action of this context: check it with another [`Call`] and pass it as [`Term::Action`](super::Term::Action).
    Action(Context),
    /// Constant text.
    Text,
}

/// Accepts a value of any type; used where the parameter is unknown.
const ANY: &[Kind] = &[Kind::Int, Kind::Mac, Kind::Ip, Kind::Net, Kind::Text];
const INT: &[Kind] = &[Kind::Int];
const IP: &[Kind] = &[Kind::Ip];

/// The arguments of one action, followed from the first to the last.
///
/// ```
/// use openflow_rs::literal::{Call, Context, Kind, Shape, Wants};
///
/// // set(reg15, label): what can `label` be?
/// let mut set = Call::new(Context::Flow, "set")?;
/// assert_eq!(set.argument(None, Shape::Name("reg15"))?, Wants::Field);
/// let Wants::Value(wanted) = set.argument(None, Shape::Name("label"))? else { unreachable!() };
/// assert_eq!(wanted.kinds, [Kind::Int, Kind::Ip]);
/// assert!(wanted.masked);
/// set.finish()?;
/// # Ok::<(), openflow_rs::literal::TemplateError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Call {
    info: &'static ActionInfo,
    context: Context,
    /// How often each parameter has been given.
    given: Vec<usize>,
    fields: Vec<(&'static str, Subfield)>,
    arguments: usize,
}

impl Call {
    /// A call of the action with this name in this context.
    ///
    /// # Errors
    /// [`Problem::UnknownAction`].
    pub fn new(context: Context, name: &str) -> Result<Call, TemplateError> {
        let info = ActionInfo::find(context, name)?;
        Ok(Call { info, context, given: vec![0; info.parameters.len()], fields: Vec::new(), arguments: 0 })
    }

    /// The action's row of the table.
    pub fn info(&self) -> &'static ActionInfo {
        self.info
    }

    /// The kind of the next argument. `name` is the parameter's, as in `zone: 5`.
    ///
    /// # Errors
    /// No parameter accepts the argument. The path is the argument's position. After an error the call can continue with
    /// the next argument.
    pub fn argument(&mut self, name: Option<&str>, shape: Shape<'_>) -> Result<Wants, TemplateError> {
        let place = self.arguments;
        self.arguments += 1;
        let wants = self.place(name, shape).map(|(_, wants)| wants);
        wants.map_err(|error| error.at(place))
    }

    /// The index of the parameter and the kind of argument that it wants.
    pub(super) fn place(
        &mut self,
        name: Option<&str>,
        shape: Shape<'_>,
    ) -> Result<(usize, Wants), TemplateError> {
        let index = match name {
            Some(name) => self.named(name)?,
            None => self.unnamed(shape)?,
        };
        let parameter = &self.info.parameters[index];
        if self.given[index] > 0 && !parameter.repeated {
            let message = format!("`{}` is given twice", parameter.name);
            let remedy = format!("remove one of them: {}", self.usage());
            return Err(TemplateError::new(Problem::Argument, message, remedy));
        }
        self.given[index] += 1;
        self.wants(parameter, shape).map(|wants| (index, wants))
    }

    /// Checks that no required argument is missing.
    ///
    /// # Errors
    /// [`Problem::Argument`] names the first missing argument.
    pub fn finish(&self) -> Result<(), TemplateError> {
        let mut missing =
            self.info.parameters.iter().zip(&self.given).filter(|(p, n)| p.required && **n == 0);
        match missing.next() {
            None => Ok(()),
            Some((parameter, _)) => {
                let message = format!("`{}` is missing its argument `{}`", self.info.name, parameter.name);
                Err(TemplateError::new(Problem::Argument, message, format!("write {}", self.usage())).name())
            }
        }
    }

    /// The syntax of the action.
    fn usage(&self) -> String {
        self.info.usage()
    }

    fn named(&self, name: &str) -> Result<usize, TemplateError> {
        let parameters = self.info.parameters;
        let usable = |p: &Parameter| !matches!(p.accepts, Accepts::Flag | Accepts::Actions(_));
        if let Some(index) = parameters.iter().position(|p| p.name == name) {
            if usable(&parameters[index]) {
                return Ok(index);
            }
            let message = format!("`{name}` of `{}` takes no value", self.info.name);
            return Err(
                TemplateError::new(Problem::Argument, message, format!("write {}", self.usage())).name()
            );
        }
        let names = parameters.iter().filter(|p| usable(p)).map(|p| p.name);
        let message = format!("`{}` has no argument `{name}`", self.info.name);
        let remedy = remedy(name, names, &format!("write {}", self.usage()));
        Err(TemplateError::new(Problem::Argument, message, remedy).name())
    }

    /// The parameter of an argument without a name: first the required positional parameters, in order; then flags and
    /// nested actions, by the argument's shape; then the other positional parameters.
    fn unnamed(&self, shape: Shape<'_>) -> Result<usize, TemplateError> {
        let parameters = self.info.parameters;
        let by_place = |required: bool| {
            parameters.iter().zip(&self.given).position(|(p, n)| {
                let plain = !matches!(p.accepts, Accepts::Flag | Accepts::Actions(_));
                plain && p.positional && p.required == required && (*n == 0 || p.repeated)
            })
        };
        if let Some(index) = by_place(true) {
            return Ok(index);
        }
        if let Shape::Name(name) = shape
            && let Some(index) = parameters.iter().position(|p| p.name == name && p.accepts == Accepts::Flag)
        {
            return Ok(index);
        }
        let actions = parameters.iter().position(|p| matches!(p.accepts, Accepts::Actions(_)));
        if let (Some(index), Shape::Call(_)) = (actions, shape) {
            return Ok(index);
        }
        if let (Some(index), Shape::Name(name)) = (actions, shape)
            && let Accepts::Actions(context) = parameters[index].accepts
        {
            return self.flag_or_action(context, name).map(|()| index);
        }
        if let Some(index) = by_place(false) {
            return Ok(index);
        }
        let what = match shape {
            Shape::Name(name) => format!("`{}` has no flag `{name}`", self.info.name),
            _ => format!("`{}` takes no further positional argument", self.info.name),
        };
        let flags = parameters.iter().filter(|p| p.accepts == Accepts::Flag).map(|p| p.name);
        let write = format!("write {}", self.usage());
        let remedy = match shape {
            Shape::Name(name) => remedy(name, flags, &write),
            _ => write,
        };
        Err(TemplateError::new(Problem::Argument, what, remedy))
    }

    /// Whether a bare name is an action of the context; if it is not, it may be a misspelt flag.
    fn flag_or_action(&self, context: Context, name: &str) -> Result<(), TemplateError> {
        let Err(error) = ActionInfo::find(context, name) else { return Ok(()) };
        let flags = self.info.parameters.iter().filter(|p| p.accepts == Accepts::Flag).map(|p| p.name);
        match crate::nearest(name, flags) {
            None => Err(error),
            Some(flag) => {
                let message = format!("`{}` has no flag `{name}`", self.info.name);
                Err(TemplateError::new(Problem::Argument, message, format!("did you mean `{flag}`?")))
            }
        }
    }

    fn wants(&mut self, parameter: &'static Parameter, shape: Shape<'_>) -> Result<Wants, TemplateError> {
        match parameter.accepts {
            Accepts::Number { masked, .. } => Ok(Wants::Value(Wanted { kinds: INT, masked })),
            Accepts::Port => Ok(Wants::Value(Wanted { kinds: INT, masked: false })),
            Accepts::Address => Ok(Wants::Value(Wanted { kinds: IP, masked: false })),
            Accepts::ValueOf { field, masked } => {
                let known = self.fields.iter().find(|(name, _)| *name == field);
                let named =
                    self.info.parameters.iter().zip(&self.given).any(|(p, n)| p.name == field && *n > 0);
                if known.is_none() && named {
                    // The field's own error has already been reported.
                    return Ok(Wants::Value(Wanted { kinds: ANY, masked }));
                }
                let Some((_, of)) = known else {
                    let message = format!("the field `{field}` must come before `{}`", parameter.name);
                    return Err(TemplateError::new(
                        Problem::Argument,
                        message,
                        format!("write {}", self.usage()),
                    ));
                };
                let kinds = match field::kinds(*of) {
                    // An action writes one value: neither a range of addresses nor a combination of set and cleared
                    // flags.
                    [Kind::Ip, Kind::Net] => IP,
                    [Kind::Int, Kind::Text] => INT,
                    kinds => kinds,
                };
                Ok(Wants::Value(Wanted { kinds, masked: masked && of.field().info().maskable }))
            }
            Accepts::Field { written } => {
                let (name, bits) = match shape {
                    Shape::Name(name) => (name, None),
                    Shape::Bits(name, first, last) => (name, Some((first, last))),
                    _ => {
                        let message = format!("`{}` of `{}` must be a field", parameter.name, self.info.name);
                        let remedy = "name a field or bits of one, as in reg5[0..15]";
                        return Err(TemplateError::new(Problem::Argument, message, remedy));
                    }
                };
                let of = field::subfield(field::action_field(name)?, bits)?;
                if written {
                    self.check_writable(of.field())?;
                }
                self.fields.push((parameter.name, of));
                Ok(Wants::Field)
            }
            Accepts::Flag => Ok(Wants::Flag),
            Accepts::Actions(context) => Ok(Wants::Action(context)),
            Accepts::Text { .. } if shape == Shape::Text => Ok(Wants::Text),
            Accepts::Text { what } => {
                let message = format!("`{}` of `{}` must be a {what}", parameter.name, self.info.name);
                Err(TemplateError::new(Problem::Argument, message, "write a string"))
            }
        }
    }

    /// The connection's mark and label are written within `exec`, all other fields outside of it.
    fn check_writable(&self, field: Field) -> Result<(), TemplateError> {
        let of_connection = matches!(field, Field::CtMark | Field::CtLabel);
        let inside = self.context == Context::Exec;
        let refuse = |message: String, remedy: &str| {
            Err(TemplateError::new(Problem::ReadOnly, message, remedy).name())
        };
        if !field.info().writable {
            return refuse(format!("{field} cannot be written"), "write another field, such as a register");
        }
        if field == Field::InPortOxm {
            return refuse(format!("{field} cannot be written"), "write in_port");
        }
        if of_connection && !inside {
            let remedy = format!("write it within ct(commit, exec(set({field}, …)))");
            return refuse(format!("{field} belongs to the connection, not to the packet"), &remedy);
        }
        if inside && !of_connection {
            return refuse(
                format!("{field} is not a field of the connection"),
                "exec can write only ct_mark and ct_label",
            );
        }
        Ok(())
    }

    /// The field given for a parameter.
    pub(super) fn field(&self, parameter: &str) -> Option<Subfield> {
        self.fields.iter().rev().find(|(name, _)| *name == parameter).map(|(_, field)| *field)
    }
}

impl ActionInfo {
    /// The syntax of the action: `resubmit(table, [port: …], [ct])`, with optional arguments in brackets.
    pub fn usage(&self) -> String {
        let parts = self.parameters.iter().map(|p| {
            let form = match p.accepts {
                Accepts::Actions(_) => format!("{}…", p.name),
                Accepts::Flag => p.name.to_owned(),
                _ if p.positional => p.name.to_owned(),
                _ => format!("{}: …", p.name),
            };
            if p.required { form } else { format!("[{form}]") }
        });
        let parts: Vec<String> = parts.collect();
        if parts.is_empty() { self.name.to_owned() } else { format!("{}({})", self.name, parts.join(", ")) }
    }
}
