//! A way to the controller on which requests lose a header: as if the controller ignored it.

use std::io;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

/// Listens at a path, and passes on what comes without this header. Ends with the runtime.
pub(crate) fn strip(listen: &Path, to: PathBuf, header: &'static str) {
    let listener = UnixListener::bind(listen).unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let to = to.clone();
            tokio::spawn(async move {
                // While there is no controller, clients lose their connection as they would without a proxy.
                if let Ok(controller) = UnixStream::connect(to).await {
                    let (mut answers, requests) = controller.into_split();
                    let (from, mut back) = client.into_split();
                    tokio::select! {
                        _ = pass(from, requests, header) => {}
                        _ = tokio::io::copy(&mut answers, &mut back) => {}
                    }
                }
            });
        }
    });
}

/// Passes on requests of HTTP/1 whose bodies have a length.
async fn pass(from: OwnedReadHalf, mut to: OwnedWriteHalf, header: &str) -> io::Result<()> {
    let mut from = BufReader::new(from);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if from.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            if !name.eq_ignore_ascii_case(header) {
                head += &line;
            }
            if line == "\r\n" {
                break;
            }
        }
        to.write_all(head.as_bytes()).await?;
        tokio::io::copy(&mut (&mut from).take(length), &mut to).await?;
    }
}
