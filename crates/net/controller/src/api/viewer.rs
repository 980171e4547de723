//! Who reads objects: somebody who may see all, or a tenant, to whom objects of others do not exist, also in texts about its own.

use objects::named_in;
use serde_json::{Map, Value as Json};
use tonic::Extensions;
use weft_client::pb;
use weft_core::core::hidden_text;
use weft_core::status::Seen;

use super::tenant;
use crate::engine::Engine;

/// The reader of objects.
#[derive(Clone)]
pub(super) struct Viewer {
    engine: Engine,
    /// The tenant whose objects alone the reader sees.
    tenant: Option<String>,
}

impl Viewer {
    /// The caller with these extensions.
    pub(super) fn of(engine: &Engine, extensions: &Extensions) -> Viewer {
        Viewer { engine: engine.clone(), tenant: tenant(extensions) }
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Whether it sees some objects only.
    pub(super) fn is_limited(&self) -> bool {
        self.tenant.is_some()
    }

    /// Whether it sees an object.
    pub(super) fn sees(&self, seen: &Seen) -> bool {
        self.tenant.as_deref().is_none_or(|tenant| seen.tenant() == Some(tenant))
    }

    /// Whether there is an object that it sees, by kind and id.
    pub(super) fn has(&self, kind: &str, id: &str) -> bool {
        // A controller that ends tells no names.
        let object = self.engine.object(kind, id).ok().flatten();
        object.is_some_and(|(seen, _)| self.sees(&seen))
    }

    /// A text about an object that it sees, without names of others.
    pub(super) fn told(&self, text: &str) -> String {
        let Some(tenant) = &self.tenant else { return text.to_owned() };
        // A controller that ends tells no names.
        let is_hidden = |kind: &str, id: &str| {
            let object = self.engine.object(kind, id);
            object.map_or(true, |object| object.is_some_and(|(seen, _)| !self.sees(&seen)))
        };
        if named_in(text).iter().any(|key| is_hidden(&key.kind, &key.id)) {
            hidden_text(tenant)
        } else {
            text.to_owned()
        }
    }

    /// The state of an object that it sees.
    pub(super) fn state(&self, seen: &Seen) -> pb::ObjectState {
        let objects::Revision { created, changed } = seen.object().revision();
        let problems = seen.problems().iter().map(|problem| self.told(&problem.text)).collect();
        let columns = Json::Object(self.columns(seen)).to_string();
        pb::ObjectState { problems, columns, created, changed }
    }

    fn columns(&self, seen: &Seen) -> Map<String, Json> {
        let mut columns = seen.state();
        if self.is_limited() {
            columns.values_mut().for_each(|value| self.tell_within(value));
        }
        columns
    }

    fn tell_within(&self, value: &mut Json) {
        match value {
            Json::String(text) => *text = self.told(text),
            Json::Array(items) => items.iter_mut().for_each(|item| self.tell_within(item)),
            Json::Object(members) => members.values_mut().for_each(|member| self.tell_within(member)),
            _ => {}
        }
    }
}
