//! A controller that is stopped answers every request that it has: with the result of the transaction, which then is on disk, or with the
//! refusal that it is stopping, and then nothing of it is.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use test_random::{Random, seeds};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use weft_client::{Client, ClientError};

use crate::support::Folder;
use crate::support::controller::{Controller, DEADLINE};

/// Clients, each with one request on its way after another.
const CLIENTS: u64 = 100;

/// Creates switches until the controller refuses because it stops. Returns those that were created.
async fn create(mut client: Client, number: u64) -> Vec<String> {
    let mut created = Vec::new();
    for round in 0.. {
        let id = format!("s{number}-{round}");
        let text = format!("{{kind: switch, id: {id}}}");
        match client.apply([("switch.yaml".to_owned(), text)], "test").await {
            Ok(_) => created.push(id),
            Err(error) => {
                // The refusal, or there was nobody any more to send the request to.
                let is_known =
                    matches!(error, ClientError::Stopping { .. } | ClientError::Unreachable { .. });
                assert!(is_known, "client {number} does not know what became of {id}: {error}");
                break;
            }
        }
    }
    created
}

#[test]
fn a_stop_leaves_no_accepted_request_without_its_answer() {
    let runtime = Runtime::new().unwrap();
    for seed in seeds!("a_stop_leaves_no_accepted_request_without_its_answer", 3) {
        let mut random = Random::new(seed);
        let folder = Folder::new();
        let mut controller = Controller::start(&folder);
        let (clients, enough) = runtime.block_on(async {
            let mut clients = JoinSet::new();
            let mut watcher = controller.client(&folder).await;
            for number in 0..CLIENTS {
                let client = Client::connect(&Controller::endpoint(&folder)).await.unwrap();
                clients.spawn(create(client, number));
            }
            let enough = 100 + random.below(400);
            let deadline = Instant::now() + DEADLINE;
            while watcher.status().await.unwrap().last_txn < enough {
                assert!(Instant::now() < deadline, "{}", Controller::log(&folder));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            (clients, enough)
        });
        controller.terminate();
        let created: BTreeSet<String> = runtime.block_on(clients.join_all()).into_iter().flatten().collect();
        assert!(created.len() as u64 >= enough);

        let mut controller = Controller::start(&folder);
        let mut client = runtime.block_on(controller.client(&folder));
        let status = runtime.block_on(client.status()).unwrap();
        assert_eq!(
            status.objects.get("switch").copied().unwrap_or_default(),
            created.len() as u64,
            "what was answered is there, and nothing else"
        );
        controller.terminate();
    }
}
