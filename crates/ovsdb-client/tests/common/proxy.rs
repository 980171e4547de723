//! A man in the middle: relays messages between a client and a real server, refuses methods that an older server
//! would not know, records what passes, and cuts connections.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ovsdb_client::framing::Decoder;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

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
    let (mut from_client, mut from_server) = (Decoder::default(), Decoder::default());
    let (mut client_chunk, mut server_chunk) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut client_chunk) => {
                let length = read.unwrap_or(0);
                if length == 0 { return }
                from_client.feed(&client_chunk[..length]);
                while let Some(message) = from_client.next_message().unwrap() {
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
            read = server.read(&mut server_chunk) => {
                let length = read.unwrap_or(0);
                if length == 0 { return }
                from_server.feed(&server_chunk[..length]);
                while let Some(message) = from_server.next_message().unwrap() {
                    recorded.lock().unwrap().push(message);
                }
                client.write_all(&server_chunk[..length]).await.unwrap();
            }
        }
    }
}
