//! A controller that starts: it serves connections, and requests wait for its state.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};

use controller::Parts;
use nlog_data::Evaluator;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use weft_client::Client;
use weft_core::Rules;

use crate::support::drivers::Switches;
use crate::support::running::{apply, parts, start, start_with, within};
use crate::support::web::Web;
use crate::support::{RULES, reference, rules};

/// What a client of HTTP/2 says first: the preface and empty settings (RFC 9113, 3.4 and 6.5).
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The type of a frame of settings.
const SETTINGS: u8 = 4;

async fn channel(socket: &Path) -> Channel {
    Endpoint::from_shared(format!("unix:{}", socket.display())).unwrap().connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_wait_for_a_controller_that_starts_and_their_connections_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let first = start(folder.path()).await;
    apply(&mut first.client().await, "{kind: switch, id: blue}").await.unwrap();
    first.stop().await;

    // Its state takes as long to restore as the test wants.
    let (release, released) = mpsc::channel::<()>();
    let (switches, released) = (Switches::default(), Mutex::new(released));
    let slow = move |rules: &Rules| {
        let _ = released.lock().unwrap().recv();
        Ok(reference(rules) as Box<dyn Evaluator>)
    };
    let parts = Parts { evaluator: Arc::new(slow), ..parts(folder.path(), rules(RULES), &switches) };
    let starting = tokio::spawn(start_with(parts, switches));

    let socket = folder.path().join("weft.sock");
    let mut stream = within(async {
        loop {
            match UnixStream::connect(&socket).await {
                Ok(stream) => return stream,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    stream.write_all(HELLO).await.unwrap();
    let mut frame = [0; 9];
    within(stream.read_exact(&mut frame)).await.unwrap();
    assert_eq!(frame[3], SETTINGS, "somebody is there");

    let mut client = Client::connect(&format!("unix:{}", socket.display())).await.unwrap();
    let mut asked = Box::pin(client.get_with_states("switch", Some("blue")));
    assert!(asked.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // Whether it lives and serves is known before.
    let mut web = Web::connect(&socket).await;
    let live = web.ask("GET", "/livez", &[], "").await;
    assert_eq!((live.status.as_u16(), live.text.as_str()), (200, "ok\n"));
    let ready = web.ask("GET", "/readyz", &[], "").await;
    let restoring = "starting: the state is restored from the journal\n";
    assert_eq!((ready.status.as_u16(), ready.text.as_str()), (503, restoring));
    assert_eq!(ready.header("cache-control"), "no-store");
    let mut health = HealthClient::new(channel(&socket).await);
    let is_ready = |service: &str| HealthCheckRequest { service: service.to_owned() };
    for service in ["", "weft.v1.Controller"] {
        let answer = within(health.check(is_ready(service))).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::NotServing, "{service}");
    }
    let mut followed = within(health.watch(is_ready(""))).await.unwrap().into_inner();
    release.send(()).unwrap();
    assert_eq!(within(asked).await.unwrap().len(), 1, "the answer knows the state");
    let started = within(starting).await.unwrap();
    within(async {
        // The first message is the state of before.
        while followed.message().await.unwrap().unwrap().status() != ServingStatus::Serving {}
    })
    .await;
    let ready = started.web().await.ask("GET", "/readyz", &[], "").await;
    assert_eq!((ready.status.as_u16(), ready.text.as_str()), (200, "ok\n"));
    started.stop().await;
}
