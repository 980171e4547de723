//! The parameters of a request: those in its path and those of its query.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use nlog_data::quotation::{cut, quote_text};
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// The parameters in a path. Like that of axum, but what it refuses is a problem.
pub(super) struct Path<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        read.map(|axum::extract::Path(parameters)| Path(parameters))
            .map_err(|refused| Problem::bad_request(format!("the path: {}", refused.body_text())))
    }
}

/// The parameters, which are taken one after another. What is left in the end is unknown.
pub(super) struct Query {
    given: Vec<(String, String)>,
    known: BTreeSet<&'static str>,
}

impl Query {
    /// Those of a URL.
    pub(super) fn of(raw: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(raw.unwrap_or_default().as_bytes());
        Query { given: pairs.into_owned().collect(), known: BTreeSet::new() }
    }

    /// Every value of a parameter. Of a list, each is separated by a comma.
    pub(super) fn all(&mut self, name: &'static str) -> Vec<String> {
        let values = self.take(name).into_iter();
        values.flat_map(|value| value.split(',').map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    /// The one value of a parameter.
    pub(super) fn one(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        let mut values = self.take(name);
        match values.len() {
            0 | 1 => Ok(values.pop()),
            count => Err(Problem::bad_request(format!("`{name}` is given {count} times; give it once"))),
        }
    }

    /// Whether a parameter is `true`.
    pub(super) fn flag(&mut self, name: &'static str) -> Result<bool, Problem> {
        match self.one(name)?.as_deref() {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => Err(bad(name, other, "write `true` or `false`")),
        }
    }

    /// A number.
    pub(super) fn number<T: std::str::FromStr>(&mut self, name: &'static str) -> Result<Option<T>, Problem> {
        let read = |text: String| text.parse().map_err(|_| bad(name, &text, "write a number from 0 on"));
        self.one(name)?.map(read).transpose()
    }

    /// A span of time: `30s`, `500ms`, `2m`, or a number of seconds.
    pub(super) fn time(&mut self, name: &'static str) -> Result<Option<Duration>, Problem> {
        let read = |text: String| match text.parse().map(Duration::from_secs) {
            Ok(seconds) => Ok(seconds),
            Err(_) => humantime::parse_duration(&text)
                .map_err(|error| bad(name, &text, &format!("{error}; write it as 30s or 500ms"))),
        };
        self.one(name)?.map(read).transpose()
    }

    /// Refuses parameters that nobody has taken.
    pub(super) fn finish(self) -> Result<(), Problem> {
        let Some((name, _)) = self.given.first() else { return Ok(()) };
        let known: Vec<&str> = self.known.iter().copied().collect();
        let hint = match known.as_slice() {
            [] => "it takes none".to_owned(),
            known => format!("known are {}", known.join(", ")),
        };
        Err(Problem::bad_request(format!("unknown parameter {}; {hint}", quote_text(&cut(name)))))
    }

    fn take(&mut self, name: &'static str) -> Vec<String> {
        self.known.insert(name);
        let taken = self.given.extract_if(.., |(each, _)| each == name);
        taken.map(|(_, value)| value).collect()
    }
}

fn bad(name: &str, value: &str, remedy: &str) -> Problem {
    Problem::bad_request(format!("`{name}` is {}; {remedy}", quote_text(&cut(value))))
}
