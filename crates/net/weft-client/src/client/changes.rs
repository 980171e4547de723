//! The calls that change objects.

use objects::ObjectKey;
use tonic::{Code, Response, Status};

use super::{ANSWER_MAX, CHANGE_MAX, Client, ClientError, within};
use crate::pb::{self, change_response};

/// A change of objects, on its terms.
#[derive(Debug, Clone)]
pub enum Changes {
    /// Creates, replaces, prunes.
    Apply(pb::ApplyRequest),
    /// Deletes.
    Delete(pb::DeleteRequest),
    /// Changes fields.
    Set(pb::SetRequest),
    /// Brings objects back to what they were.
    Rollback(pb::RollbackRequest),
    /// Goes on with other rules.
    LoadRules(pb::LoadRulesRequest),
    /// Goes on with an earlier version of the rules.
    RollbackRules(pb::RollbackRulesRequest),
}

impl Changes {
    /// The terms on which it takes effect.
    pub fn terms(&mut self) -> &mut pb::Terms {
        let terms = match self {
            Changes::Apply(request) => &mut request.terms,
            Changes::Delete(request) => &mut request.terms,
            Changes::Set(request) => &mut request.terms,
            Changes::Rollback(request) => &mut request.terms,
            Changes::LoadRules(request) => &mut request.terms,
            Changes::RollbackRules(request) => &mut request.terms,
        };
        terms.get_or_insert_default()
    }
}

impl Client {
    /// Changes objects. One transaction.
    pub async fn change(&mut self, changes: Changes) -> Result<pb::Accepted, ClientError> {
        match changes {
            Changes::Apply(request) => self.apply_request(request).await,
            Changes::Delete(request) => self.delete_request(request).await,
            Changes::Set(request) => self.set(request).await,
            Changes::Rollback(request) => self.rollback(request).await,
            Changes::LoadRules(request) => {
                let response = within(CHANGE_MAX, self.inner.load_rules(request)).await;
                self.accepted(response.map_err(|status| self.failed(status))?)
            }
            Changes::RollbackRules(request) => {
                let response = within(CHANGE_MAX, self.inner.rollback_rules(request)).await;
                let response = response.map_err(|status| self.no_moment(status))?;
                self.accepted(response)
            }
        }
    }

    /// Creates, replaces and deletes the objects of files, given as pairs of name and text. One transaction.
    pub async fn apply(
        &mut self,
        documents: impl IntoIterator<Item = (String, String)>,
        by: &str,
    ) -> Result<pb::Accepted, ClientError> {
        let (documents, by) = (documents_of(documents), by.to_owned());
        self.apply_request(pb::ApplyRequest { documents, by, ..pb::ApplyRequest::default() }).await
    }

    /// Creates or replaces objects, each as JSON. One transaction.
    pub async fn apply_objects(
        &mut self,
        objects: Vec<String>,
        by: &str,
    ) -> Result<pb::Accepted, ClientError> {
        self.apply_request(pb::ApplyRequest { objects, by: by.to_owned(), ..pb::ApplyRequest::default() })
            .await
    }

    /// What a change has done, unless it was refused.
    fn accepted(&self, response: Response<pb::ChangeResponse>) -> Result<pb::Accepted, ClientError> {
        match response.into_inner().result {
            Some(change_response::Result::Accepted(accepted)) => Ok(accepted),
            Some(change_response::Result::Refusal(refusal)) => Err(ClientError::Refused(refusal)),
            None => Err(self.failed(Status::internal("the response is empty"))),
        }
    }

    async fn apply_request(&mut self, request: pb::ApplyRequest) -> Result<pb::Accepted, ClientError> {
        let response = within(CHANGE_MAX, self.inner.apply(request)).await;
        self.accepted(response.map_err(|status| self.failed(status))?)
    }

    /// Deletes objects. One transaction.
    pub async fn delete(&mut self, keys: &[ObjectKey], by: &str) -> Result<pb::Accepted, ClientError> {
        let object = |key: &ObjectKey| pb::ObjectRef { kind: key.kind.to_string(), id: key.id.to_string() };
        let (objects, by) = (keys.iter().map(object).collect(), by.to_owned());
        self.delete_request(pb::DeleteRequest { objects, by, ..pb::DeleteRequest::default() }).await
    }

    async fn delete_request(&mut self, request: pb::DeleteRequest) -> Result<pb::Accepted, ClientError> {
        let response = within(CHANGE_MAX, self.inner.delete(request)).await;
        self.accepted(response.map_err(|status| self.failed(status))?)
    }

    /// The transactions that changed objects.
    pub async fn history(&mut self, request: pb::HistoryRequest) -> Result<pb::HistoryResponse, ClientError> {
        let response = within(ANSWER_MAX, self.inner.history(request)).await;
        response.map(Response::into_inner).map_err(|status| self.failed(status))
    }

    /// The last versions of the rules, the newest first.
    pub async fn rules_history(&mut self) -> Result<Vec<pb::RulesVersion>, ClientError> {
        let response = within(ANSWER_MAX, self.inner.rules_history(pb::RulesHistoryRequest {})).await;
        response.map(|response| response.into_inner().versions).map_err(|status| self.failed(status))
    }

    /// The failure of a request that may name a moment that is not there.
    fn no_moment(&self, status: Status) -> ClientError {
        match status.code() {
            Code::OutOfRange | Code::Aborted => ClientError::NotFound(status.message().to_owned()),
            _ => self.failed(status),
        }
    }

    async fn rollback(&mut self, request: pb::RollbackRequest) -> Result<pb::Accepted, ClientError> {
        let response = within(CHANGE_MAX, self.inner.rollback(request)).await;
        self.accepted(response.map_err(|status| self.no_moment(status))?)
    }

    async fn set(&mut self, request: pb::SetRequest) -> Result<pb::Accepted, ClientError> {
        let response = within(CHANGE_MAX, self.inner.set(request)).await;
        self.accepted(response.map_err(|status| self.failed(status))?)
    }
}

/// Files, given as pairs of name and text, as messages.
pub fn documents_of(documents: impl IntoIterator<Item = (String, String)>) -> Vec<pb::Document> {
    documents.into_iter().map(|(name, text)| pb::Document { name, text, object: None }).collect()
}
