use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use weft_client::pb::controller_server::ControllerServer;
use weft_client::{Client, ClientError};

use super::*;

#[tokio::test]
async fn a_stopping_controller_is_told_from_none() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    // The engine thread has ended, but the API has not.
    let (engine, requests) = Engine::new();
    drop(requests);
    let rules = std::sync::Arc::new(weft_core::rules::Rules::built_in().unwrap());
    let service = ControllerServer::new(Api::new(engine, rules, "journal.jsonl".into()));
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
fn the_description_is_made_once() {
    let (engine, _requests) = Engine::new();
    let rules = std::sync::Arc::new(weft_core::rules::Rules::built_in().unwrap());
    let api = Api::new(engine, rules, "journal.jsonl".into());
    assert_eq!(api.description(|| "{}".into()), "{}");
    assert_eq!(api.description(|| unreachable!("it was made")), "{}");
}
