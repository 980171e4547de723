//! Internal functions for `[a, b]` and `{a, b}` with elements that are not constant.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use nlog_data::Value;
use nlog_data::function::{Evaluate, Function, Multiplicity, Parameter, Results, Shape};

/// The list of its arguments.
pub(super) fn list() -> Arc<Function> {
    static LIST: LazyLock<Arc<Function>> = LazyLock::new(|| {
        let evaluate = |values: &[Value]| Ok(Results::One(Value::list(values.iter().cloned())));
        sequence("[]", Shape::ListOf, "The list of these values.", Box::new(evaluate))
    });
    LIST.clone()
}

/// The set of its arguments.
pub(super) fn set() -> Arc<Function> {
    static SET: LazyLock<Arc<Function>> = LazyLock::new(|| {
        let evaluate = |values: &[Value]| Ok(Results::One(Value::set(values.iter().cloned())));
        sequence("{}", Shape::SetOf, "The set of these values.", Box::new(evaluate))
    });
    SET.clone()
}

fn sequence(
    name: &'static str,
    of: impl Fn(Box<Shape>) -> Shape,
    doc: &'static str,
    evaluate: Box<Evaluate>,
) -> Arc<Function> {
    let column = |name, shape| Parameter { name: Cow::Borrowed(name), shape };
    Arc::new(Function {
        name: Cow::Borrowed(name),
        parameters: vec![column("value", Shape::Any(0))],
        variadic: true,
        results: vec![column("all", of(Box::new(Shape::Any(0))))],
        multiplicity: Multiplicity::One,
        may_fail: false,
        doc: Cow::Borrowed(doc),
        examples: Vec::new(),
        definition: Cow::Borrowed(""),
        evaluate,
    })
}
