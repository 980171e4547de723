//! Every path, with its methods and the call of gRPC that does the same.

use axum::Router;
use axum::routing::{get, post};

use weft_core::api_names::{COUNTERS, FLOWS, HISTORY, LOGICAL_FLOWS, TUNNELS};

use super::{objects, openapi, questions};
use crate::access::DIAGNOSTICS;
use crate::requests::HTTP_APPLY;

/// A path that takes no parameters besides those in it.
pub(super) struct Listed {
    pub(super) name: &'static str,
    /// The call of gRPC that does the same.
    pub(super) call: &'static str,
    pub(super) summary: &'static str,
}

/// What is as it was: `GET /v1/history`, `POST /v1/rollback?to=TXN`.
pub(super) const PAST: [Listed; 2] = [
    listed(HISTORY, "History", "The transactions that changed objects, the newest first"),
    listed(
        "rollback",
        "Rollback",
        "Brings all objects back to what they were after a transaction, in a new transaction",
    ),
];

/// The rules: `GET /v1/rules`, `POST /v1/rules`, `POST /v1/rules/rollback`.
pub(super) const RULES: [Listed; 3] = [
    listed("rules", "RulesHistory", "The last versions of the rules, the newest first: that which runs"),
    listed(
        "rules",
        "LoadRules",
        "Goes on with other rules, in one transaction: switches get the difference. `files` has the texts of all files by name, and \
         `packages` what they were read from",
    ),
    listed("rules", "RollbackRules", "Goes on with an earlier version of the rules, in one transaction"),
];

/// All that is recorded: `GET /v1/snapshot`, a file.
pub(super) const SNAPSHOT: Listed = listed(
    "snapshot",
    "TakeSnapshot",
    "All that the controller has recorded, as one file that `weft replay` and `weft snapshot` read",
);

/// What is of the controller's machine: `GET /v1/diagnostics`.
pub(super) const OF_MACHINE: Listed = listed(
    DIAGNOSTICS,
    "ReadDiagnostics",
    "The configuration in force, without secrets, and the last lines of the log, for operators alone",
);

const fn listed(name: &'static str, call: &'static str, summary: &'static str) -> Listed {
    Listed { name, call, summary }
}

/// What can be listed of an object whatever the rules declare: `/v1/KINDS/ID/NAME`. The listings of the rules are beside these.
pub(super) const LISTINGS: [Listed; 4] = [
    listed(FLOWS, "ListFlows", "The flows, groups and ports that the switch of a transport node should have"),
    listed(LOGICAL_FLOWS, "ListLogicalFlows", "The universal flows of a datapath and of its ports"),
    listed(COUNTERS, "CountFlows", "What hosts have counted and dropped of packets of an object"),
    listed(TUNNELS, "ListTunnels", "What probes have measured of the tunnels of a transport node"),
];

/// What can be listed of the whole network: `/v1/network/NAME`. The listings of the rules are beside these, about all objects.
pub(super) const OF_NETWORK: [Listed; 2] = [
    listed(COUNTERS, "CountFlows", "What hosts have dropped, by cause"),
    listed(TUNNELS, "ListTunnels", "What probes have measured of all tunnels"),
];

/// What the rules declare: `GET /v1/listings`.
pub(super) const DECLARED: Listed =
    listed("listings", "ListListings", "The listings and the tables of counters that the rules declare");

/// Questions whose parameters are in their bodies: `POST /v1/NAME`.
pub(super) const QUESTIONS: [Listed; 3] = [
    listed("trace", "Trace", "The way of a packet, and why it ends where it ends"),
    listed("explain", "Explain", "Why rows or flows exist, or what there is to know of an object"),
    listed("why-not", "WhyNot", "Why a row or a flow does not exist"),
];

pub(super) fn router() -> Router {
    Router::new()
        .route("/v1/openapi.json", get(openapi::document))
        .route("/v1/schema", get(openapi::kinds))
        .route("/v1/schema/{kind}", get(openapi::schema))
        .route("/v1/status", get(questions::status))
        .route(HTTP_APPLY, post(objects::apply))
        .route("/v1/trace", post(questions::trace))
        .route("/v1/explain", post(questions::explain))
        .route("/v1/why-not", post(questions::why_not))
        .route("/v1/listings", get(questions::listings))
        .route("/v1/snapshot", get(questions::snapshot))
        .route("/v1/diagnostics", get(questions::diagnostics))
        .route("/v1/history", get(questions::history))
        .route("/v1/rollback", post(objects::rollback))
        .route("/v1/rules", get(questions::rules).post(objects::load_rules))
        .route("/v1/rules/rollback", post(objects::rollback_rules))
        .route("/v1/transactions", get(questions::transactions))
        .route("/v1/transactions/{txn}", get(questions::transaction))
        .route("/v1/network/{listing}", get(questions::of_network))
        .route("/v1/{kinds}", get(objects::list))
        .route(
            "/v1/{kinds}/{id}",
            get(objects::get).put(objects::put).patch(objects::patch).delete(objects::delete),
        )
        .route("/v1/{kinds}/{id}/history", get(questions::history_of))
        .route("/v1/{kinds}/{id}/{listing}", get(questions::listing))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weft_core::api_names::{AT_TOP, OF_OBJECTS};

    use super::*;

    #[test]
    fn what_has_a_path_has_a_name_that_the_rules_cannot_take() {
        let names = |listed: &[Listed]| listed.iter().map(|listed| listed.name).collect::<BTreeSet<_>>();
        let of_objects = BTreeSet::from(OF_OBJECTS);
        assert_eq!(&names(&LISTINGS) | &names(&PAST[..1]), of_objects);
        assert!(names(&OF_NETWORK).is_subset(&of_objects));
        let others = ["apply", "network", "openapi.json", "schema", "status", "transactions"].into();
        let at_top = &(&names(&QUESTIONS) | &names(&PAST))
            | &(&names(&[DECLARED, SNAPSHOT, OF_MACHINE]) | &names(&RULES));
        assert_eq!(&at_top | &others, AT_TOP.into());
    }

    #[test]
    fn whoever_may_read_may_ask_every_question() {
        let paths = QUESTIONS.map(|question| format!("/v1/{}", question.name));
        assert_eq!(paths, crate::access::QUESTIONS.map(|(path, _)| path));
    }
}
