//! Failures of the driver itself, its end, and wrong endpoints, on the fake switch.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use ovs_driver::{Channel, Config, Dial, Endpoint, Event, InMemoryNetwork};
use peer_connection::{Dialling, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::support::driven::Driven;
use crate::support::setting::{Setting, adding, config, desired, eventually, patient, some_flows};

/// Dials in memory, but panics the first few times that one endpoint is dialled.
struct Panicking {
    network: InMemoryNetwork,
    endpoint: Endpoint,
    dials: AtomicUsize,
}

const PANICS: usize = 3;

impl Dial for Panicking {
    fn dial<'a>(&'a self, endpoint: &'a Endpoint) -> Dialling<'a> {
        let is_faulty = *endpoint == self.endpoint && self.dials.fetch_add(1, Ordering::Relaxed) < PANICS;
        assert!(!is_faulty, "no more sockets for {endpoint}");
        self.network.dial(endpoint)
    }
}

#[tokio::test(start_paused = true)]
async fn a_driver_whose_task_panics_is_started_again_and_the_switch_reaches_sync() {
    let Config { openflow, ovsdb, .. } = config();
    for endpoint in [openflow, ovsdb] {
        let setting = Setting::new();
        let dialler = Panicking {
            network: setting.network.clone(),
            endpoint: endpoint.clone(),
            dials: AtomicUsize::new(0),
        };
        let mut driven = Driven::start_on(Arc::new(dialler), config(), patient());
        driven.handle.set_desired(desired(&some_flows(5)));
        for _ in 0..PANICS {
            let why = driven
                .wait("a failure", |event| match event {
                    Event::Failed { why, .. } => Some(why.clone()),
                    _ => None,
                })
                .await;
            assert!(why.contains("connection of the driver ended: panic: no more sockets for"), "{why}");
        }
        eventually("the flows", || setting.fake.flows() == some_flows(5)).await;
        driven.handle.push(1, adding(&["table=9, actions=drop"]));
        driven.confirmed(1).await;
    }
}

/// A stream that counts itself while it is open.
struct Counted {
    stream: Stream,
    open: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Dials in memory and counts open streams.
#[derive(Clone)]
struct Counting {
    network: InMemoryNetwork,
    open: Arc<AtomicUsize>,
}

impl Dial for Counting {
    fn dial<'a>(&'a self, endpoint: &'a Endpoint) -> Dialling<'a> {
        Box::pin(async move {
            let stream = self.network.dial(endpoint).await?;
            self.open.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(Counted { stream, open: self.open.clone() }) as Stream)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_was_ended_has_closed_both_connections() {
    let setting = Setting::new();
    // It accepts connections and says nothing.
    let mut database = setting.network.listen(config().ovsdb);
    let dialler = Counting { network: setting.network.clone(), open: Arc::default() };
    let mut driven = Driven::start_on(Arc::new(dialler.clone()), config(), patient());
    driven.handle.set_desired(desired(&some_flows(5)));
    let _stream = database.accept().await.unwrap();
    driven.wait("OpenFlow", |event| matches!(event, Event::Connected { .. }).then_some(())).await;
    assert_eq!(dialler.open.load(Ordering::Relaxed), 2);
    driven.handle.end().await;
    assert_eq!(dialler.open.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_answers_as_another_bridge_gets_nothing() {
    let setting = Setting::new();
    let other = Config { datapath_id: Some(0x17), ..config() };
    let mut driven = Driven::start_on(Arc::new(setting.network.clone()), other, patient());
    driven.handle.set_desired(desired(&some_flows(5)));
    let why = driven.disconnected(Channel::OpenFlow).await;
    let says = "unix:br-int.mgmt: answers as the bridge with datapath id 000000000000fa4e, but br-int in the database at \
                unix:no-database has datapath id 0000000000000017; nothing is sent to either: correct `openflow` or \
                `ovsdb`";
    assert!(why.starts_with(says), "{why}");
    // It is asked again whether it is another one by now.
    eventually("further connections", || setting.fake.counts().connections > 3).await;
    let counts = setting.fake.counts();
    assert_eq!((counts.flow_mods, counts.dumps, setting.fake.options().len()), (0, 0, 0));
    assert!(!driven.seen.iter().any(|event| matches!(event, Event::Connected { .. })), "{:?}", driven.seen);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_gets_nothing_before_the_database_has_said_which_bridge_it_is() {
    let setting = Setting::new();
    let unknown = Config { datapath_id: None, ..config() };
    let mut driven = Driven::start_on(Arc::new(setting.network.clone()), unknown, patient());
    driven.handle.set_desired(desired(&some_flows(5)));
    let why = driven.disconnected(Channel::OpenFlow).await;
    assert!(
        why.contains("not used before the database at unix:no-database has said the datapath id"),
        "{why}"
    );
    let counts = setting.fake.counts();
    assert_eq!((counts.flow_mods, counts.dumps, setting.fake.options().len()), (0, 0, 0));
}
