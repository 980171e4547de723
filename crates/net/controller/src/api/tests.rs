use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use weft_client::pb::controller_server::ControllerServer;
use weft_client::{Client, ClientError};

use super::*;
use crate::config::Settings;
use crate::running_rules::RunningRules;

#[tokio::test]
async fn a_stopping_controller_is_told_from_none() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    // The engine thread has ended, but the API has not.
    let (engine, requests) = Engine::new(built_in(), settings());
    drop(requests);
    let service = ControllerServer::new(api(engine));
    let server = tokio::spawn(
        Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener)),
    );
    let mut client = Client::connect(&endpoint).await.unwrap();
    let error = client.status().await.unwrap_err();
    assert!(matches!(error, ClientError::Stopping { .. }), "{error}");
    assert!(error.to_string().contains("is stopping"), "{error}");
    server.abort();
}

#[test]
fn the_description_is_made_once_for_each_rules() {
    let running = built_in();
    let (engine, _requests) = Engine::new(running.clone(), settings());
    let api = api(engine);
    assert_eq!(api.description(|_| "{}".into()), "{}");
    assert_eq!(api.description(|_| unreachable!("it was made")), "{}");
    running.set(&built_in().get());
    assert_eq!(api.description(|_| "[]".into()), "[]");
}

fn api(engine: Engine) -> Api {
    Api::new(
        engine,
        "journal.jsonl".into(),
        Arc::new(|rules| crate::evaluator(rules, 1)),
        None,
        None,
        Diagnostics::default(),
    )
}

fn settings() -> Settings {
    crate::Config::default().settings()
}

fn built_in() -> RunningRules {
    RunningRules::new(Arc::new(Rules::built_in().unwrap()))
}
