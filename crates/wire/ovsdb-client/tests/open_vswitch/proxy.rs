//! A man in the middle: relays messages between a client and a real server, refuses methods that an older server
//! would not know, records what passes, and cuts connections.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use ovsdb_client::framing::JsonCodec;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio_util::codec::Decoder;

pub(crate) struct Proxy {
    pub(crate) path: PathBuf,
    /// Every message that the server sent.
    pub(crate) from_server: Arc<Mutex<Vec<Value>>>,
    /// Every method that the client asked for.
    pub(crate) methods: Arc<Mutex<Vec<String>>>,
    cut: watch::Sender<u32>,
}

impl Proxy {
    pub(crate) fn start(listen: &Path, server: &Path, refused: &'static [&'static str]) -> Proxy {
        Proxy::start_with(listen, server, refused, |_| {})
    }

    /// Calls `before` with every message of the client before the server gets it.
    pub(crate) fn start_with(
        listen: &Path,
        server: &Path,
        refused: &'static [&'static str],
        before: impl FnMut(&Value) + Send + 'static,
    ) -> Proxy {
        let before = Arc::new(Mutex::new(before));
        let listener = UnixListener::bind(listen).unwrap();
        let (cut, _) = watch::channel(0);
        let proxy = Proxy {
            path: listen.to_owned(),
            from_server: Arc::default(),
            methods: Arc::default(),
            cut: cut.clone(),
        };
        let (server, recorded, methods) =
            (server.to_owned(), proxy.from_server.clone(), proxy.methods.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let mut cut = cut.subscribe();
                let server = UnixStream::connect(&server).await.unwrap();
                let relay = relay(client, server, refused, recorded.clone(), methods.clone(), before.clone());
                tokio::spawn(async move {
                    tokio::select! { () = relay => {}, _ = cut.changed() => {} }
                });
            }
        });
        proxy
    }

    /// Closes every connection.
    pub(crate) fn cut(&self) {
        self.cut.send_modify(|count| *count += 1);
    }
}

async fn relay(
    mut client: UnixStream,
    mut server: UnixStream,
    refused: &[&str],
    recorded: Arc<Mutex<Vec<Value>>>,
    methods: Arc<Mutex<Vec<String>>>,
    before: Arc<Mutex<impl FnMut(&Value)>>,
) {
    let (mut from_client, mut from_server) = (JsonCodec::default(), JsonCodec::default());
    let (mut client_bytes, mut server_bytes) = (BytesMut::new(), BytesMut::new());
    loop {
        tokio::select! {
            read = client.read_buf(&mut client_bytes) => {
                if read.unwrap_or(0) == 0 { return }
                while let Some(message) = from_client.decode(&mut client_bytes).unwrap() {
                    (before.lock().unwrap())(&message);
                    let method = message["method"].as_str().unwrap_or_default();
                    methods.lock().unwrap().push(method.to_owned());
                    if refused.contains(&method) {
                        let reply = json!({"id": message["id"], "error": "unknown method"});
                        client.write_all(reply.to_string().as_bytes()).await.unwrap();
                    } else {
                        server.write_all(message.to_string().as_bytes()).await.unwrap();
                    }
                }
            }
            read = server.read_buf(&mut server_bytes) => {
                let length = read.unwrap_or(0);
                if length == 0 { return }
                let received = server_bytes[server_bytes.len() - length..].to_vec();
                while let Some(message) = from_server.decode(&mut server_bytes).unwrap() {
                    recorded.lock().unwrap().push(message);
                }
                client.write_all(&received).await.unwrap();
            }
        }
    }
}
