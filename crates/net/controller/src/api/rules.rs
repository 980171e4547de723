//! The calls about the rules that run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tonic::{Request, Response, Status};
use weft_client::pb::{self, change_response};
use weft_core::core::{PreparedRows, Refusal, RulesTransition};
use weft_core::machine::Change;
use weft_core::peer::Origin;
use weft_core::record::RulesText;
use weft_core::rules::Rules;
use weft_core::rules_versions::RulesVersion;

use super::changes::{core_terms, key_of};
use super::messages::refused;
use super::{Api, account, origin, stopping};
use crate::journal::folder_of;
use crate::listener::Account;
use crate::prepared_rules;

/// The most files of a program, and the most bytes of all together. The built-in rules have a hundred files and a third of a megabyte.
const FILES_MAX: usize = 10_000;
const BYTES_MAX: usize = 16 << 20;
/// The longest that the rows of other rules may take: as long as clients wait for a change.
const PREPARE_TIME: Duration = Duration::from_mins(30);

impl Api {
    pub(super) async fn load_these_rules(
        &self,
        request: Request<pb::LoadRulesRequest>,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let key = key_of(request.terms.as_ref(), &request)?;
        let pb::LoadRulesRequest { files, packages, by, terms } = request;
        let (origin, account) = (origin(by, &extensions, key)?, account(&extensions));
        let bytes: usize = files.iter().map(|file| file.name.len() + file.text.len()).sum();
        if files.len() > FILES_MAX || bytes > BYTES_MAX {
            return Err(Status::invalid_argument(format!(
                "the rules have {} files with {bytes} bytes; the most are {FILES_MAX} files with {BYTES_MAX} bytes",
                files.len()
            )));
        }
        let count = files.len();
        let files: BTreeMap<Arc<str>, String> =
            files.into_iter().map(|pb::RulesFile { name, text }| (name.into(), text)).collect();
        if files.len() < count {
            return Err(Status::invalid_argument("two files of the rules have the same name"));
        }
        self.load(RulesText { packages, files }, terms, origin, &account).await
    }

    pub(super) async fn load_former_rules(
        &self,
        request: Request<pb::RollbackRulesRequest>,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let key = key_of(request.terms.as_ref(), &request)?;
        let pb::RollbackRulesRequest { to, by, terms } = request;
        let (origin, account) = (origin(by, &extensions, key)?, account(&extensions));
        let versions = self.engine.rules_versions().await.map_err(stopping)?;
        let found = match to {
            Some(to) => versions.all().iter().find(|version| version.txn == to),
            None => versions.all().iter().rev().nth(1),
        };
        let found = found.ok_or_else(|| {
            let which = to.map_or_else(
                || "no version before the one that runs".to_owned(),
                |to| format!("no version of transaction {to}"),
            );
            Status::out_of_range(format!("{which} is kept; `weft rules history` lists those that are"))
        })?;
        self.load((*found.text).clone(), terms, origin, &account).await
    }

    /// Goes on with the rules of a text. If the engine cannot be edited to them, their rows are derived beside its thread.
    async fn load(
        &self,
        text: RulesText,
        terms: Option<pb::Terms>,
        origin: Origin,
        account: &Account,
    ) -> Result<Response<pb::ChangeResponse>, Status> {
        let place = self.aside.place(account).await?;
        match place.work(move |_| Ok(Rules::of_text(&text))).await? {
            Ok(rules) => {
                let (rules, terms) = (Arc::new(rules), terms.as_ref());
                let change = async |transition| {
                    let change = Change::Rules { rules: rules.clone(), transition };
                    self.engine.change(change, core_terms(terms), origin.clone()).await.map_err(stopping)
                };
                // What changes rules also deletes what the former ones made.
                let both = vec![rules.clone(), self.rules()];
                let mut result = change(RulesTransition::Edit).await?;
                if matches!(result, Err(Refusal::NotByEdit)) {
                    let prepared = self.prepare(&rules, account).await?.map(Box::new);
                    result = change(RulesTransition::Replace(prepared)).await?;
                }
                self.answer(result, both, terms, account).await
            }
            Err(error) => {
                let refusal = refused(&Refusal::NewRules(error.to_string()));
                let result = Some(change_response::Result::Refusal(refusal));
                Ok(Response::new(pb::ChangeResponse { result }))
            }
        }
    }

    /// Derives the rows of other rules from the present state. Returns none for rules that cannot run: the engine's thread says why.
    async fn prepare(&self, rules: &Arc<Rules>, account: &Account) -> Result<Option<PreparedRows>, Status> {
        if rules.version() == self.rules().version() {
            return Ok(None);
        }
        let place = self.snapshots.place(account).await?;
        let state = self.engine.state_for_rules().await.map_err(stopping)?;
        let (rules, make, journal) = (rules.clone(), self.make.clone(), self.journal.clone());
        place
            .work_within(PREPARE_TIME, move |cancel| {
                let folder = folder_of(&journal);
                Ok(prepared_rules::prepare(folder, state, &rules, &make, cancel))
            })
            .await
    }

    pub(super) async fn versions(&self) -> Result<pb::RulesHistoryResponse, Status> {
        let versions = self.engine.rules_versions().await.map_err(stopping)?;
        let mut versions: Vec<pb::RulesVersion> = versions.all().iter().rev().map(message).collect();
        if versions.is_empty() {
            let rules = self.rules();
            versions.push(pb::RulesVersion {
                packages: rules.packages().to_vec(),
                fingerprint: rules.version().unwrap_or_default(),
                configured: true,
                ..pb::RulesVersion::default()
            });
        }
        Ok(pb::RulesHistoryResponse { versions })
    }
}

fn message(version: &RulesVersion) -> pb::RulesVersion {
    let RulesVersion { txn, at, by, instead_of, text } = version;
    pb::RulesVersion {
        txn: *txn,
        at: at.clone(),
        by: by.clone(),
        packages: text.packages.clone(),
        fingerprint: text.fingerprint(),
        configured: instead_of.is_none(),
    }
}
