//! Makes a [`Function`] of a Rust closure: signature and evaluation both follow from the closure's types, so they
//! cannot differ.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use openflow_rs::{Actions, MacAddr, Match};
use packet_filter::PacketFilter;

use super::{Evaluate, Example, Failure, Function, Multiplicity, Parameter, Results, Shape, Tuples};
use crate::{InterfaceAddress, Packed, Type, Value};

/// A Rust type that an argument can be read as.
pub(super) trait Argument: Sized + 'static {
    fn shape() -> Shape;
    /// Reads the value; none if it is of another type.
    fn read(value: &Value) -> Option<Self>;
}

/// A Rust type that becomes one result value.
pub(super) trait Give: 'static {
    fn shape() -> Shape;
    fn value(self) -> Value;
}

macro_rules! scalar {
    ($($rust:ty => $ty:ident;)*) => {$(
        impl Argument for $rust {
            fn shape() -> Shape {
                Shape::Is(Type::$ty)
            }

            fn read(value: &Value) -> Option<Self> {
                match value {
                    Value::$ty(value) => Some(value.clone()),
                    _ => None,
                }
            }
        }

        impl Give for $rust {
            fn shape() -> Shape {
                Shape::Is(Type::$ty)
            }

            fn value(self) -> Value {
                Value::$ty(self)
            }
        }
    )*};
}

scalar! {
    bool => Bool;
    i64 => Int;
    Arc<str> => String;
    MacAddr => Mac;
    IpAddr => Ip;
    IpNet => Net;
    InterfaceAddress => InterfaceAddress;
    Arc<PacketFilter> => PacketFilter;
    Packed<Match> => Match;
    Packed<Actions> => Actions;
}

macro_rules! gives {
    ($($rust:ty => $ty:ident;)*) => {$(
        impl Give for $rust {
            fn shape() -> Shape {
                Shape::Is(Type::$ty)
            }

            fn value(self) -> Value {
                Value::from(self)
            }
        }
    )*};
}

gives! {
    String => String;
    Match => Match;
    Actions => Actions;
}

/// A list whose elements all have one type.
impl<T: Argument> Argument for Vec<T> {
    fn shape() -> Shape {
        Shape::ListOf(Box::new(T::shape()))
    }

    fn read(value: &Value) -> Option<Self> {
        let Value::List(values) = value else { return None };
        values.iter().map(T::read).collect()
    }
}

/// A value of any type; all of them in one call have the same type `T`.
pub(super) struct Any(pub(super) Value);

impl Argument for Any {
    fn shape() -> Shape {
        Shape::Any(0)
    }

    fn read(value: &Value) -> Option<Self> {
        Some(Any(value.clone()))
    }
}

impl Give for Any {
    fn shape() -> Shape {
        Shape::Any(0)
    }

    fn value(self) -> Value {
        self.0
    }
}

/// An optional `T`.
pub(super) struct AnyOpt(pub(super) Option<Value>);

impl Argument for AnyOpt {
    fn shape() -> Shape {
        Shape::OptOf(Box::new(Shape::Any(0)))
    }

    fn read(value: &Value) -> Option<Self> {
        Some(AnyOpt(match value {
            Value::None => None,
            value => Some(value.clone()),
        }))
    }
}

impl Give for AnyOpt {
    fn shape() -> Shape {
        <Self as Argument>::shape()
    }

    fn value(self) -> Value {
        self.0.unwrap_or(Value::None)
    }
}

/// A set of `T`.
pub(super) struct AnySet(pub(super) Arc<[Value]>);

impl Argument for AnySet {
    fn shape() -> Shape {
        Shape::SetOf(Box::new(Shape::Any(0)))
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Set(values) => Some(AnySet(values.clone())),
            _ => None,
        }
    }
}

impl Give for AnySet {
    fn shape() -> Shape {
        <Self as Argument>::shape()
    }

    fn value(self) -> Value {
        Value::Set(self.0)
    }
}

/// A list of `T`.
pub(super) struct AnyList(pub(super) Arc<[Value]>);

impl Argument for AnyList {
    fn shape() -> Shape {
        Shape::ListOf(Box::new(Shape::Any(0)))
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::List(values) => Some(AnyList(values.clone())),
            _ => None,
        }
    }
}

impl Give for AnyList {
    fn shape() -> Shape {
        <Self as Argument>::shape()
    }

    fn value(self) -> Value {
        Value::List(self.0)
    }
}

/// A type that a closure can return.
pub(super) trait Outcome {
    const MULTIPLICITY: Multiplicity;
    const MAY_FAIL: bool;
    fn shapes() -> Vec<Shape>;
    fn results(self) -> Result<Results, Failure>;
}

impl<T: Give> Outcome for T {
    const MULTIPLICITY: Multiplicity = Multiplicity::One;
    const MAY_FAIL: bool = false;

    fn shapes() -> Vec<Shape> {
        vec![T::shape()]
    }

    fn results(self) -> Result<Results, Failure> {
        Ok(Results::One(self.value()))
    }
}

impl<T: Give> Outcome for Option<T> {
    const MULTIPLICITY: Multiplicity = Multiplicity::AtMostOne;
    const MAY_FAIL: bool = false;

    fn shapes() -> Vec<Shape> {
        vec![T::shape()]
    }

    fn results(self) -> Result<Results, Failure> {
        Ok(self.map_or(Results::None, |value| Results::One(value.value())))
    }
}

impl<T: Give> Outcome for Vec<T> {
    const MULTIPLICITY: Multiplicity = Multiplicity::Many;
    const MAY_FAIL: bool = false;

    fn shapes() -> Vec<Shape> {
        vec![T::shape()]
    }

    fn results(self) -> Result<Results, Failure> {
        Ok(Results::Many(Tuples::new(1, self.into_iter().map(Give::value).collect())))
    }
}

impl<T: Give, U: Give> Outcome for Vec<(T, U)> {
    const MULTIPLICITY: Multiplicity = Multiplicity::Many;
    const MAY_FAIL: bool = false;

    fn shapes() -> Vec<Shape> {
        vec![T::shape(), U::shape()]
    }

    fn results(self) -> Result<Results, Failure> {
        let values = self.into_iter().flat_map(|(a, b)| [a.value(), b.value()]);
        Ok(Results::Many(Tuples::new(2, values.collect())))
    }
}

impl<T: Outcome> Outcome for Result<T, Failure> {
    const MULTIPLICITY: Multiplicity = T::MULTIPLICITY;
    const MAY_FAIL: bool = true;

    fn shapes() -> Vec<Shape> {
        T::shapes()
    }

    fn results(self) -> Result<Results, Failure> {
        self.and_then(T::results)
    }
}

/// The name and documentation of a function.
pub(super) struct Entry {
    name: Cow<'static, str>,
    parameters: Vec<Cow<'static, str>>,
    results: Vec<Cow<'static, str>>,
    doc: Cow<'static, str>,
    examples: Vec<Example>,
}

/// Begins an entry: `"name(a, b) -> c"` without the types, which come from the closure.
pub(super) fn entry(head: &str, doc: impl Into<Cow<'static, str>>) -> Entry {
    let (call, results) = head.split_once(" -> ").unwrap_or((head, ""));
    let (name, parameters) = call.split_once('(').unwrap_or((call, ""));
    let names = |list: &str| {
        list.trim_matches(['(', ')'])
            .split(", ")
            .filter(|name| !name.is_empty())
            .map(|name| Cow::Owned(name.to_string()))
            .collect()
    };
    Entry {
        name: Cow::Owned(name.to_string()),
        parameters: names(parameters),
        results: names(results),
        doc: doc.into(),
        examples: Vec::new(),
    }
}

impl Entry {
    /// Adds a test vector.
    pub(super) fn example(
        mut self,
        arguments: impl Into<Cow<'static, str>>,
        result: impl Into<Cow<'static, str>>,
    ) -> Entry {
        self.examples.push(Example { arguments: arguments.into(), result: result.into() });
        self
    }

    /// Adds test vectors.
    pub(super) fn examples(self, examples: Vec<(String, String)>) -> Entry {
        examples.into_iter().fold(self, |entry, (arguments, result)| entry.example(arguments, result))
    }

    pub(super) fn nullary<R: Outcome>(self, f: impl Fn() -> R + Send + Sync + 'static) -> Function {
        self.finish::<R>(vec![], Box::new(move |_| f().results()))
    }

    pub(super) fn unary<A: Argument, R: Outcome>(
        self,
        f: impl Fn(A) -> R + Send + Sync + 'static,
    ) -> Function {
        let misfit = self.misfit();
        let evaluate = move |arguments: &[Value]| match arguments {
            [a] => f(A::read(a).ok_or_else(&misfit)?).results(),
            _ => Err(misfit()),
        };
        self.finish::<R>(vec![A::shape()], Box::new(evaluate))
    }

    pub(super) fn binary<A: Argument, B: Argument, R: Outcome>(
        self,
        f: impl Fn(A, B) -> R + Send + Sync + 'static,
    ) -> Function {
        let misfit = self.misfit();
        let evaluate = move |arguments: &[Value]| match arguments {
            [a, b] => f(A::read(a).ok_or_else(&misfit)?, B::read(b).ok_or_else(&misfit)?).results(),
            _ => Err(misfit()),
        };
        self.finish::<R>(vec![A::shape(), B::shape()], Box::new(evaluate))
    }

    pub(super) fn ternary<A: Argument, B: Argument, C: Argument, R: Outcome>(
        self,
        f: impl Fn(A, B, C) -> R + Send + Sync + 'static,
    ) -> Function {
        let misfit = self.misfit();
        let evaluate = move |arguments: &[Value]| match arguments {
            [a, b, c] => {
                let (a, b, c) = (A::read(a), B::read(b), C::read(c));
                f(a.ok_or_else(&misfit)?, b.ok_or_else(&misfit)?, c.ok_or_else(&misfit)?).results()
            }
            _ => Err(misfit()),
        };
        self.finish::<R>(vec![A::shape(), B::shape(), C::shape()], Box::new(evaluate))
    }

    pub(super) fn quaternary<A: Argument, B: Argument, C: Argument, D: Argument, R: Outcome>(
        self,
        f: impl Fn(A, B, C, D) -> R + Send + Sync + 'static,
    ) -> Function {
        let misfit = self.misfit();
        let evaluate = move |arguments: &[Value]| match arguments {
            [a, b, c, d] => {
                let (a, b, c, d) = (A::read(a), B::read(b), C::read(c), D::read(d));
                let (a, b) = (a.ok_or_else(&misfit)?, b.ok_or_else(&misfit)?);
                f(a, b, c.ok_or_else(&misfit)?, d.ok_or_else(&misfit)?).results()
            }
            _ => Err(misfit()),
        };
        self.finish::<R>(vec![A::shape(), B::shape(), C::shape(), D::shape()], Box::new(evaluate))
    }

    /// One or more arguments of any types.
    pub(super) fn variadic<R: Outcome>(self, f: impl Fn(&[Value]) -> R + Send + Sync + 'static) -> Function {
        let evaluate = move |arguments: &[Value]| f(arguments).results();
        Function { variadic: true, ..self.finish::<R>(vec![Shape::Any(0)], Box::new(evaluate)) }
    }

    /// The failure for arguments of wrong types. The checker rejects such calls; one that slips through causes a
    /// failure and no harm.
    fn misfit(&self) -> impl Fn() -> Failure + use<> {
        let message: Arc<str> =
            format!("{}: an argument does not have the type of its parameter", self.name).into();
        move || Failure::range(message.clone())
    }

    fn finish<R: Outcome>(self, shapes: Vec<Shape>, evaluate: Box<Evaluate>) -> Function {
        let results = R::shapes();
        debug_assert_eq!(self.parameters.len(), shapes.len(), "parameters of {}", self.name);
        debug_assert_eq!(self.results.len(), results.len(), "results of {}", self.name);
        let columns = |names: Vec<Cow<'static, str>>, shapes: Vec<Shape>| {
            names.into_iter().zip(shapes).map(|(name, shape)| Parameter { name, shape }).collect()
        };
        Function {
            parameters: columns(self.parameters, shapes),
            variadic: false,
            results: columns(self.results, results),
            multiplicity: R::MULTIPLICITY,
            may_fail: R::MAY_FAIL,
            name: self.name,
            doc: self.doc,
            examples: self.examples,
            definition: Cow::Borrowed(""),
            evaluate,
        }
    }
}
