//! Every example of every function, and properties of the whole table.

use nlog_data::function::{Example, Function, Multiplicity, Shape, functions, hash_values, lookup};
use nlog_data::{FailureCode, Results, Tuples, Type, Value, literal};

/// Whether a value has the shape. For examples only, where an empty set has no type.
fn fits(shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (Shape::Is(ty), value) => ty.admits(value),
        (Shape::Any(_), _) | (Shape::OptOf(_), Value::None) => true,
        (Shape::OptOf(of), value) => fits(of, value),
        (Shape::SetOf(of), Value::Set(values)) | (Shape::ListOf(of), Value::List(values)) => {
            values.iter().all(|value| fits(of, value))
        }
        _ => false,
    }
}

/// The expected result of an example.
fn expected(function: &Function, example: &Example) -> Result<Results, FailureCode> {
    let text = &*example.result;
    match text {
        "error overflow" => return Err(FailureCode::Overflow),
        "error range" => return Err(FailureCode::Range),
        "none" if function.multiplicity == Multiplicity::Many => {
            return Ok(Results::Many(Tuples::new(function.results.len(), Vec::new())));
        }
        "none" if function.multiplicity == Multiplicity::AtMostOne => return Ok(Results::None),
        _ => {}
    }
    let read = |text: &str| {
        literal::parse_list(text).unwrap_or_else(|error| panic!("{function:?}: {text}: {error}"))
    };
    if function.multiplicity == Multiplicity::Many {
        let inside = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).expect("tuples");
        let values = inside.split(") (").flat_map(read).collect();
        return Ok(Results::Many(Tuples::new(function.results.len(), values)));
    }
    match read(text).as_slice() {
        [value] => Ok(Results::One(value.clone())),
        _ => panic!("{function:?}: {text} is not one value"),
    }
}

#[test]
fn every_example_gives_what_it_says() {
    let mut wrong = Vec::new();
    for function in functions() {
        for example in &function.examples {
            let arguments = literal::parse_list(&example.arguments)
                .unwrap_or_else(|error| panic!("{function:?}: {}: {error}", example.arguments));
            assert!(
                arguments.len() == function.parameters.len()
                    || function.variadic && arguments.len() > function.parameters.len(),
                "{function:?}: {}",
                example.arguments
            );
            let expected = expected(function, example);
            let actual = (function.evaluate)(&arguments);
            if actual.as_ref().map_err(|failure| failure.code) != expected.as_ref().map_err(|code| *code) {
                wrong.push(format!(
                    "{} of ({}) is {actual:?}, not {}",
                    function.signature(),
                    example.arguments,
                    example.result
                ));
            }
            for (parameter, argument) in function.parameters.iter().zip(&arguments) {
                assert!(fits(&parameter.shape, argument), "{function:?}: {}", example.arguments);
            }
            if let Ok(Results::One(value)) = &actual {
                assert!(fits(&function.results[0].shape, value), "{function:?}");
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn examples_show_what_the_signature_promises() {
    for function in functions() {
        let least = if function.parameters.is_empty() { 1 } else { 2 };
        assert!(function.examples.len() >= least, "{function:?} has too few examples");
        assert!(!function.doc.is_empty(), "{function:?} has no documentation");
        let fails = function.examples.iter().any(|example| example.result.starts_with("error"));
        assert!(!fails || function.may_fail, "{function:?} fails, but says it does not");
        let none = function.examples.iter().any(|example| example.result == "none");
        if function.multiplicity == Multiplicity::AtMostOne {
            assert!(none, "{function:?} never shows that it can give none");
        }
    }
}

#[test]
fn no_two_functions_take_the_same_arguments() {
    for pair in functions().windows(2) {
        if pair[0].name == pair[1].name {
            for function in functions().iter().filter(|function| function.name == pair[0].name) {
                let same = lookup(&function.name)
                    .iter()
                    .filter(|other| {
                        let shapes =
                            |f: &Function| f.parameters.iter().map(|p| p.shape.clone()).collect::<Vec<_>>();
                        shapes(other) == shapes(function)
                    })
                    .count();
                assert_eq!(same, 1, "{function:?}");
            }
        }
    }
}

#[test]
fn lookup_finds_all_of_a_name_and_nothing_else() {
    let signatures = |name| lookup(name).iter().map(|f| f.signature()).collect::<Vec<_>>();
    assert_eq!(signatures("flow_expr_match_reg1"), ["flow_expr_match_reg1(value: int) -> match: match"]);
    assert_eq!(signatures("element_at"), ["element_at(list: list<T>) -> (rank: int, x: T)"]);
    assert_eq!(signatures("hash"), ["hash(value: T, …) -> n: int"]);
    assert!(lookup("").is_empty());
    assert!(lookup("zzz").is_empty());
    assert_eq!(lookup("&").len(), 3);
}

#[test]
fn result_types_follow_the_arguments() {
    let types = |name: &str, arguments: &[Type]| {
        let found: Vec<_> =
            lookup(name).iter().filter_map(|function| function.result_types(arguments)).collect();
        found
    };
    let list = Type::list(Type::String);
    assert_eq!(types("element_at", std::slice::from_ref(&list)), [vec![Type::Int, Type::String]]);
    assert_eq!(types("contains", &[list.clone(), Type::String]), [vec![Type::Bool]]);
    assert!(types("contains", &[list.clone(), Type::Int]).is_empty());
    assert!(types("==", &[Type::Int, Type::String]).is_empty());
    assert_eq!(types("hash", &[Type::Int, list, Type::String]), [vec![Type::Int]]);
    assert!(types("hash", &[]).is_empty());
    assert_eq!(types("+", &[Type::Int, Type::Int]), [vec![Type::Int]]);
    assert!(types("+", &[Type::Int]).is_empty());
}

#[test]
fn arguments_of_wrong_types_are_refused_without_harm() {
    for function in functions().iter().filter(|function| !function.variadic) {
        for arguments in
            [vec![], vec![Value::Set([].into()); function.parameters.len()], vec![Value::Int(1); 5]]
        {
            let parameters = &function.parameters;
            // The checker ensures the number of arguments; functions ignore excess arguments.
            let right = parameters.len() <= arguments.len()
                && parameters.iter().zip(&arguments).all(|(parameter, value)| fits(&parameter.shape, value));
            let result = (function.evaluate)(&arguments);
            assert!(right || result.is_err(), "{} of {arguments:?}: {result:?}", function.name);
        }
    }
}

#[test]
fn a_value_that_does_not_fit_is_named_with_function_field_and_width() {
    let message = |name: &str, arguments: &str| {
        let arguments = literal::parse_list(arguments).expect("literals");
        let function = lookup(name).iter().find(|function| {
            let parameters = &function.parameters;
            parameters.len() == arguments.len()
                && parameters.iter().zip(&arguments).all(|(parameter, value)| fits(&parameter.shape, value))
        });
        (function.expect("a function").evaluate)(&arguments).expect_err("a failure").message.to_string()
    };
    assert_eq!(message("match_reg1", "4294967296"), "match_reg1: 4294967296 does not fit in reg1 (32 bits)");
    assert_eq!(message("set_metadata", "-1"), "set_metadata: -1 does not fit in metadata (64 bits)");
    assert_eq!(message("match_reg4", r#"ip"::1""#), "match_reg4: ::1 does not fit in reg4 (32 bits)");
    assert_eq!(message("+", "9223372036854775807, 1"), "9223372036854775807 + 1 overflows int");
    assert_eq!(message("-", "-9223372036854775808"), "-(-9223372036854775808) overflows int");
    assert_eq!(message("/", "7, 0"), "7 / 0: division by zero");
}

/// Expected values computed from the description above by another program.
#[test]
fn records_and_absent_values_are_hashed_as_described() {
    let record = Value::record([Value::Int(1), Value::None]);
    assert_eq!(hash_values(&[Value::None, record]), 8603254287189919841);
}
