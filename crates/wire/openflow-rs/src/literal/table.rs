//! Rows of the table of actions: name, parameters and result of an action.

use super::error::remedy;
use super::{Arguments, Part, Problem, Refusal, TemplateError};
use crate::action;

/// The context of an action; each context allows different actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Context {
    /// The action list of a flow.
    Flow,
    /// Within `clone`: actions, no instructions.
    Clone,
    /// Inside `write_actions`: actions that can be deferred to the end of the pipeline.
    ActionSet,
    /// Inside `ct`: translation and writing the connection's fields.
    Ct,
    /// Within `exec` of `ct`: writing the connection's mark and label.
    Exec,
    /// Inside `learn`: match and actions of the learned flow.
    Learn,
}

impl Context {
    fn place(self) -> &'static str {
        match self {
            Context::Flow => "in the action list of a flow",
            Context::Clone => "within `clone`",
            Context::ActionSet => "within `write_actions`",
            Context::Ct => "within `ct`",
            Context::Exec => "within `exec`",
            Context::Learn => "within `learn`",
        }
    }
}

/// The values that a parameter accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// A whole number from 0 to `max`; `what` names it in errors.
    Number {
        /// The noun for it, such as "table".
        what: &'static str,
        /// The greatest.
        max: u64,
        /// Whether `value/mask` is accepted too.
        masked: bool,
    },
    /// A port that packets can be sent to, by its number.
    Port,
    /// An IP address of either version.
    Address,
    /// A value for the field that another parameter names, or `value/mask` if the field takes masks.
    ValueOf {
        /// The other parameter.
        field: &'static str,
        /// Whether masks are accepted.
        masked: bool,
    },
    /// A field, or bits of one.
    Field {
        /// Whether the action writes it.
        written: bool,
    },
    /// The parameter's own name, alone.
    Flag,
    /// Actions allowed in that place.
    Actions(Context),
    /// Text in quotes; `what` names its form.
    Text {
        /// The noun for it.
        what: &'static str,
    },
}

/// A parameter of an action.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name. Arguments can be named, as in `zone: 5`.
    pub name: &'static str,
    /// The accepted values.
    pub accepts: Accepts,
    /// Whether it accepts arguments without a name. Flags and nested actions have no other form.
    pub positional: bool,
    /// Whether it must be given.
    pub required: bool,
    /// Whether it can be given more than once.
    pub repeated: bool,
    /// One sentence or less.
    pub doc: &'static str,
}

impl Parameter {
    const fn new(name: &'static str, accepts: Accepts, doc: &'static str) -> Parameter {
        Parameter { name, accepts, positional: true, required: true, repeated: false, doc }
    }

    /// A number from 0 to `max`.
    pub(crate) const fn number(name: &'static str, max: u64, doc: &'static str) -> Parameter {
        Parameter::new(name, Accepts::Number { what: name, max, masked: false }, doc)
    }

    /// A number from 0 to `max`, perhaps with a mask.
    pub(crate) const fn masked(name: &'static str, max: u64, doc: &'static str) -> Parameter {
        Parameter::new(name, Accepts::Number { what: name, max, masked: true }, doc)
    }

    /// A port that packets can be sent to.
    pub(crate) const fn port(name: &'static str, doc: &'static str) -> Parameter {
        Parameter::new(name, Accepts::Port, doc)
    }

    /// An IP address.
    pub(crate) const fn address(name: &'static str, doc: &'static str) -> Parameter {
        Parameter::new(name, Accepts::Address, doc)
    }

    /// A value of the field that another parameter names.
    pub(crate) const fn value_of(name: &'static str, field: &'static str, doc: &'static str) -> Parameter {
        Parameter::new(name, Accepts::ValueOf { field, masked: true }, doc)
    }

    /// A value of the field that another parameter names, without a mask.
    pub(crate) const fn whole_value_of(
        name: &'static str,
        field: &'static str,
        doc: &'static str,
    ) -> Parameter {
        Parameter::new(name, Accepts::ValueOf { field, masked: false }, doc)
    }

    /// A field that is read.
    pub(crate) const fn read(name: &'static str, doc: &'static str) -> Parameter {
        Parameter::new(name, Accepts::Field { written: false }, doc)
    }

    /// A field that is written.
    pub(crate) const fn written(name: &'static str, doc: &'static str) -> Parameter {
        Parameter::new(name, Accepts::Field { written: true }, doc)
    }

    /// A flag, optional.
    pub(crate) const fn flag(name: &'static str, doc: &'static str) -> Parameter {
        Parameter { required: false, ..Parameter::new(name, Accepts::Flag, doc) }
    }

    /// Any number of actions, possibly none.
    pub(crate) const fn actions(name: &'static str, context: Context, doc: &'static str) -> Parameter {
        let parameter = Parameter::new(name, Accepts::Actions(context), doc);
        Parameter { required: false, repeated: true, ..parameter }
    }

    /// Text of some form.
    pub(crate) const fn text(name: &'static str, what: &'static str, doc: &'static str) -> Parameter {
        Parameter::new(name, Accepts::Text { what }, doc)
    }

    /// The same parameter, given only by name, and optional.
    pub(crate) const fn named(self) -> Parameter {
        Parameter { positional: false, required: false, ..self }
    }

    /// The same parameter, required.
    pub(crate) const fn required(self) -> Parameter {
        Parameter { required: true, ..self }
    }

    /// The same parameter, optional.
    pub(crate) const fn optional(self) -> Parameter {
        Parameter { required: false, ..self }
    }
}

/// A row of the table of actions.
#[derive(Clone, Copy, Debug)]
pub struct ActionInfo {
    /// Its name in literals.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// The contexts that allow it.
    pub contexts: &'static [Context],
    /// Its parameters, positional ones in their order.
    pub parameters: &'static [Parameter],
    /// Each: the action as a rule writes it, and what Open vSwitch prints for it.
    pub examples: &'static [(&'static str, &'static str)],
    /// Builds the action from checked arguments.
    pub(crate) build: fn(&Arguments<'_>) -> Result<Part, Refusal>,
}

impl ActionInfo {
    /// An action that is allowed in a flow and within `clone`.
    pub(crate) const fn new(
        name: &'static str,
        doc: &'static str,
        parameters: &'static [Parameter],
        examples: &'static [(&'static str, &'static str)],
        build: fn(&Arguments<'_>) -> Result<Part, Refusal>,
    ) -> ActionInfo {
        ActionInfo { name, doc, contexts: &[Context::Flow, Context::Clone], parameters, examples, build }
    }

    /// The same action, allowed in these contexts.
    pub(crate) const fn within(self, contexts: &'static [Context]) -> ActionInfo {
        ActionInfo { contexts, ..self }
    }

    /// All actions of literals, including those of nested contexts, in the order of the list of actions.
    pub fn all() -> impl Iterator<Item = &'static ActionInfo> {
        action::LITERALS.iter().flat_map(|infos| infos.iter())
    }

    /// Whether an action of this name has actions among its arguments.
    pub fn nests(name: &str) -> bool {
        let takes_actions = |parameter: &Parameter| matches!(parameter.accepts, Accepts::Actions(_));
        ActionInfo::all().any(|info| info.name == name && info.parameters.iter().any(takes_actions))
    }

    /// The action with this name in this context.
    ///
    /// # Errors
    /// [`Problem::UnknownAction`].
    pub fn find(context: Context, name: &str) -> Result<&'static ActionInfo, TemplateError> {
        let here = || ActionInfo::all().filter(move |info| info.contexts.contains(&context));
        if let Some(info) = here().find(|info| info.name == name) {
            return Ok(info);
        }
        let elsewhere = ActionInfo::all().find(|info| info.name == name);
        if let Some(info) = elsewhere {
            let places: Vec<&str> = info.contexts.iter().map(|context| context.place()).collect();
            let message = format!("`{name}` cannot be used {}", context.place());
            let remedy = format!("it can be used {}", places.join(" or "));
            return Err(TemplateError::new(Problem::UnknownAction, message, remedy).name());
        }
        let names: Vec<&str> = here().map(|info| info.name).collect();
        let known = format!("the actions here are {}", names.join(", "));
        let remedy = remedy(name, names.into_iter(), &known);
        Err(TemplateError::new(Problem::UnknownAction, format!("`{name}` is not an action"), remedy).name())
    }

    /// Its parameter of this name.
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }
}
