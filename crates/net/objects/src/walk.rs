//! Finds values inside objects: references, and values that no two objects can share.

use std::ops::Range;
use std::sync::Arc;

use nlog_data::{Meaning, Type, Unique, Value};

use crate::Object;
use crate::field::Step;
use crate::print::{Unnamed, as_mapping, pair, text_of, without_name};

/// A reference to an object of one of several kinds.
#[derive(Clone, Copy)]
pub(crate) struct Reference<'a, 'p> {
    /// The path of the reference. It has no step for an element of a set, which has no number.
    pub(crate) path: &'p [Step<'a>],
    /// The names of the kinds.
    pub(crate) kinds: &'a [String],
    /// The id.
    pub(crate) id: &'a Arc<str>,
}

/// Visits the references of an object, in declared order.
pub(crate) fn references<'a>(object: &'a Object, mut each: impl FnMut(Reference<'a, '_>)) {
    for at in &object.kind().referring {
        references_in(object, *at, &mut each);
    }
}

/// Visits the references of an object at these positions, in declared order.
pub(crate) fn references_at<'a>(
    object: &'a Object,
    at: &Range<usize>,
    mut each: impl FnMut(Reference<'a, '_>),
) {
    let mut positions = 0..;
    references(object, |reference| {
        if positions.next().is_some_and(|position| at.contains(&position)) {
            each(reference);
        }
    });
}

/// Of the references of two objects of one kind, in declared order, those that may not be references of both: without the longest
/// common beginning and end. Where one member of a list of ten thousand changes, that is all there is to look at.
pub(crate) fn changed_references(before: &Object, after: &Object) -> [Range<usize>; 2] {
    let [of_before, of_after] = [before, after].map(|object| {
        let mut all: Vec<(&[String], &Arc<str>)> = Vec::new();
        references(object, |reference| all.push((reference.kinds, reference.id)));
        all
    });
    let begin = of_before.iter().zip(&of_after).take_while(|(one, other)| one == other).count();
    let (rest_before, rest_after) = (&of_before[begin..], &of_after[begin..]);
    let ends = rest_before.iter().rev().zip(rest_after.iter().rev());
    let end = ends.take_while(|(one, other)| one == other).count();
    [begin..of_before.len() - end, begin..of_after.len() - end]
}

/// Visits the references of one field of an object; none if it has no such field.
pub(crate) fn references_in<'a>(object: &'a Object, at: usize, mut each: impl FnMut(Reference<'a, '_>)) {
    let (field, value) = (object.kind().declared().fields.get(at), object.values().get(at));
    let Some((field, value)) = field.zip(value) else { return };
    visit(&field.ty, value, &mut vec![Step::Member(&field.name)], &mut each);
}

fn visit<'a>(
    ty: &'a Type,
    value: &'a Value,
    path: &mut Vec<Step<'a>>,
    each: &mut impl FnMut(Reference<'a, '_>),
) {
    descend(ty, value, path, &mut |ty, value, path| {
        let Type::Constrained(of) = ty else { return true };
        match (&of.meaning, value) {
            (Meaning::Reference(kinds), Value::String(id)) => each(Reference { path, kinds, id }),
            (Meaning::Mapping, Value::Set(pairs)) => {
                for element in pairs.iter() {
                    visit_pair(pair(of), element, path, each);
                }
            }
            _ => return true,
        }
        false
    });
}

/// Visits a value and those inside it, in declared order, each with its path. `enters` says whether to go on inside a value. The path
/// has no step for an element of a set, which has no number.
pub(crate) fn descend<'a>(
    ty: &'a Type,
    value: &'a Value,
    path: &mut Vec<Step<'a>>,
    enters: &mut impl FnMut(&'a Type, &'a Value, &mut Vec<Step<'a>>) -> bool,
) {
    if !enters(ty, value, path) {
        return;
    }
    match (ty, value) {
        (Type::Constrained(of), value) => match without_name(ty, value) {
            Some((ty, value)) => descend(ty, value, path, enters),
            None => descend(&of.base, value, path, enters),
        },
        (_, Value::None) => {}
        (Type::Opt(of), value) => descend(of, value, path, enters),
        (Type::Set(of), Value::Set(values)) => {
            values.iter().for_each(|value| descend(of, value, path, enters));
        }
        (Type::List(of), Value::List(values)) => {
            for (index, value) in values.iter().enumerate() {
                path.push(Step::Element(index));
                descend(of, value, path, enters);
                path.pop();
            }
        }
        (Type::Record(of), Value::Record(values)) => {
            for ((name, ty), value) in of.fields.iter().zip(values.iter()) {
                path.push(Step::Member(name));
                descend(ty, value, path, enters);
                path.pop();
            }
        }
        _ => {}
    }
}

fn visit_pair<'a>(
    types: Option<(&'a Type, &'a Type)>,
    element: &'a Value,
    path: &mut Vec<Step<'a>>,
    each: &mut impl FnMut(Reference<'a, '_>),
) {
    if let (Some((key_type, value_type)), Value::Record(values)) = (types, element)
        && let [key, value] = &**values
    {
        visit(key_type, key, path, each);
        path.push(Step::Key(key));
        visit(value_type, value, path, each);
        path.pop();
    }
}

/// Values of an object that no other object can have together.
pub(crate) struct Claim<'a, 'c> {
    /// The index of its declaration among those of the kind.
    pub(crate) index: usize,
    /// Its declaration.
    pub(crate) unique: &'a Unique,
    /// A value for each path of the declaration.
    pub(crate) values: &'c [&'a Value],
    /// The path of the last value.
    pub(crate) path: &'c [Step<'a>],
}

impl Claim<'_, '_> {
    /// The values with the names of their fields: `mac 02:00:00:00:00:01 on switch blue`.
    pub(crate) fn describe(&self) -> String {
        let name = |text: &str| text.rsplit('.').next().unwrap_or_default().to_owned();
        let mut named = (self.unique.paths.iter().zip(self.values))
            .map(|(path, value)| format!("{} {}", name(&path.text), text_of(value)));
        let last = named.next_back().unwrap_or_default();
        named.fold(last, |text, scope| format!("{text} on {scope}"))
    }
}

/// Visits the values of an object that no other object can have.
pub(crate) fn claims<'a>(object: &'a Object, mut each: impl FnMut(&Claim<'a, '_>)) {
    for (index, unique) in object.kind().declared().uniques.iter().enumerate() {
        let mut search = Search {
            object,
            index,
            unique,
            starts: (0..unique.paths.len()).map(|path| start(unique, path)).collect(),
            trails: vec![Trail::default(); unique.paths.len()],
            values: Vec::new(),
            each: &mut each,
        };
        search.next(0);
    }
}

/// The earlier path with the longest common beginning, and the number of steps of that.
fn start(unique: &Unique, path: usize) -> (usize, usize) {
    let common = |other: usize| {
        let (own, other) = (&unique.paths[path].steps, &unique.paths[other].steps);
        own.iter().zip(other).take_while(|(a, b)| a == b).count()
    };
    (0..path).map(|other| (other, common(other))).max_by_key(|(_, steps)| *steps).unwrap_or_default()
}

/// Finds the values of the paths of a declaration. Paths that begin alike go through the same elements of lists and
/// sets: `addresses.mac` and `addresses.ips` find addresses of one element at a time.
struct Search<'a, 'f> {
    object: &'a Object,
    index: usize,
    unique: &'a Unique,
    /// For each path: where it branches off.
    starts: Vec<(usize, usize)>,
    trails: Vec<Trail<'a>>,
    values: Vec<&'a Value>,
    each: &'f mut dyn FnMut(&Claim<'a, '_>),
}

/// The way of a path through an object.
#[derive(Clone, Default)]
struct Trail<'a> {
    /// The value after each step.
    stations: Vec<Station<'a>>,
    /// The path as messages have it.
    path: Vec<Step<'a>>,
}

/// A value on the way of a path. It is no list, set, mapping or absent value.
#[derive(Clone, Copy)]
struct Station<'a> {
    ty: &'a Type,
    value: &'a Value,
    /// The length of the path to it, as messages have it.
    length: usize,
    /// Whether it is the pair of a key and a value.
    is_pair: bool,
}

impl<'a> Search<'a, '_> {
    /// Finds values of a path and those after it.
    fn next(&mut self, path: usize) {
        let Some((other, steps)) = self.starts.get(path).copied() else {
            let paths = self.trails.last().map_or(&[][..], |trail| &trail.path);
            let claim = Claim { index: self.index, unique: self.unique, values: &self.values, path: paths };
            return (self.each)(&claim);
        };
        let shared = match steps.checked_sub(1).and_then(|at| self.trails[other].stations.get(at)) {
            None => Trail::default(),
            Some(station) => Trail {
                stations: self.trails[other].stations[..steps].to_vec(),
                path: self.trails[other].path[..station.length].to_vec(),
            },
        };
        self.trails[path] = shared;
        self.step(path);
    }

    /// Takes the next step of a path.
    fn step(&mut self, path: usize) {
        let trail = &mut self.trails[path];
        let last = trail.stations.last().copied();
        let Some(field) = self.unique.paths[path].steps.get(trail.stations.len()).copied() else {
            let Some(station) = last else { return };
            self.values.push(station.value);
            self.next(path + 1);
            self.values.pop();
            return;
        };
        let found = match last {
            None => {
                let declared = self.object.kind().declared().fields.get(field);
                declared.map(|field| (&*field.name, &field.ty)).zip(self.object.values().get(field))
            }
            Some(Station { ty, value, .. }) => match (ty.base(), value) {
                (Type::Record(of), Value::Record(values)) => {
                    of.fields.get(field).map(|(name, ty)| (&**name, ty)).zip(values.get(field))
                }
                _ => None,
            },
        };
        let Some(((name, ty), value)) = found else { return };
        let is_unnamed = |of: &Type| of.alternatives().is_some() && Unnamed::of(ty).is_some();
        if last.is_some_and(|station| station.is_pair || is_unnamed(station.ty)) {
            // The key is in the path already, and such an alternative can be given without its name.
            self.enter(path, ty, value, false);
        } else {
            self.with(path, Step::Member(name), |search| search.enter(path, ty, value, false));
        }
    }

    fn with(&mut self, path: usize, step: Step<'a>, go: impl FnOnce(&mut Self)) {
        self.trails[path].path.push(step);
        go(self);
        self.trails[path].path.pop();
    }

    /// Goes on with each value inside a value.
    fn enter(&mut self, path: usize, ty: &'a Type, value: &'a Value, is_pair: bool) {
        match (ty.base(), value) {
            (_, Value::None) => {}
            (Type::Opt(of), value) => self.enter(path, of, value, is_pair),
            (Type::Set(of), Value::Set(values)) => {
                let is_mapping = as_mapping(ty).is_some();
                for element in values.iter() {
                    match element {
                        Value::Record(pair) if is_mapping && !pair.is_empty() => {
                            self.with(path, Step::Key(&pair[0]), |search| {
                                search.enter(path, of, element, true);
                            });
                        }
                        _ => self.enter(path, of, element, false),
                    }
                }
            }
            (Type::List(of), Value::List(values)) => {
                for (index, element) in values.iter().enumerate() {
                    self.with(path, Step::Element(index), |search| search.enter(path, of, element, false));
                }
            }
            _ => {
                let length = self.trails[path].path.len();
                self.trails[path].stations.push(Station { ty, value, length, is_pair });
                self.step(path);
                self.trails[path].stations.pop();
            }
        }
    }
}
