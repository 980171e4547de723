//! The call that follows receipts: those on disk, those in memory, and what is new of them.

use std::time::SystemTime;

use tonic::{Request, Response, Status};

use super::messages::{receipt_message, update_message};
use super::{Api, account, stopping, tenant};
use weft_client::WholeReceipts;
use weft_client::pb;

use crate::answers::{PartSender, Results, parts};
use crate::aside::Aside;
use crate::listener::Account;
use crate::receipts::{LIMITS, Page, Reader};
use crate::watchers::{Wanted, Watch};

/// Receipts that precede those in memory.
struct Earlier {
    reader: Reader,
    reading: Aside,
    account: Account,
    /// The first transaction that was not read yet, if there may be one.
    next: Option<u64>,
    /// The first one that is in memory, or is not there yet.
    before: u64,
}

impl Earlier {
    /// The next receipts on disk.
    async fn page(&mut self) -> Result<Vec<pb::Receipt>, Status> {
        let Some(from) = self.next.take() else { return Ok(Vec::new()) };
        let (reader, before, now) = (self.reader.clone(), self.before, SystemTime::now());
        let place = self.reading.place(&self.account).await?;
        let Page { receipts, next } =
            place.work(move |cancel| reader.page(from, before, now, cancel)).await?;
        self.next = next;
        Ok(receipts)
    }
}

impl Api {
    pub(super) async fn receipts_of(
        &self,
        request: Request<pb::WatchReceiptsRequest>,
    ) -> Result<Response<Results<pb::Receipt>>, Status> {
        let account = account(request.extensions());
        if let Some(tenant) = tenant(request.extensions()) {
            self.of_tenants.check(&tenant, request.get_ref())?;
        }
        account.room().await?;
        let pb::WatchReceiptsRequest { from_txn: from, strict, only, differences } = request.into_inner();
        let wanted = match from {
            None => Wanted::New,
            Some(txn) if only => Wanted::Only(txn),
            Some(txn) => Wanted::From(txn),
        };
        let watch = self.engine.watch(wanted).await.map_err(stopping)?;
        let watch = watch.map_err(|error| Status::resource_exhausted(error.to_string()))?;
        let mut earlier = self.earlier(&watch, wanted, account.clone());
        let first = earlier.page().await?;
        if let Some(from) = from.filter(|_| strict) {
            let found = first.first().map(|first| first.txn);
            let found = found.or_else(|| watch.kept.first().map(|first| first.txn));
            if found != Some(from) {
                return Err(not_kept(from, watch.last_txn));
            }
        }
        let (sender, parts) = parts(account);
        tokio::spawn(send_receipts(first, earlier, watch, differences, sender));
        Ok(Response::new(Box::pin(parts)))
    }

    /// The wanted receipts that are not in memory.
    fn earlier(&self, watch: &Watch, wanted: Wanted, account: Account) -> Earlier {
        let in_memory = watch.kept.first().map_or(watch.last_txn.saturating_add(1), |first| first.txn);
        let (next, before) = match wanted {
            Wanted::New => (None, 0),
            Wanted::From(from) => (Some(from), in_memory),
            Wanted::Only(txn) => (Some(txn), in_memory.min(txn.saturating_add(1))),
        };
        let next = next.filter(|from| *from < before);
        Earlier { reader: self.receipts.clone(), reading: self.reading.clone(), account, next, before }
    }
}

fn not_kept(txn: u64, last: u64) -> Status {
    if txn > last {
        return Status::not_found(format!(
            "there is no receipt of transaction {txn} yet; the last transaction is {last}"
        ));
    }
    let (hours, bytes) = (LIMITS.age.as_secs() / 3600, LIMITS.bytes / 1_000_000);
    Status::not_found(format!(
        "the receipt of transaction {txn} is not kept: receipts are kept for {hours} hours, and at most {bytes} MB of them; \
         `weft history` shows what older transactions changed"
    ))
}

/// Sends receipts to a watcher until the watcher disconnects or falls behind, or the controller ends.
async fn send_receipts(
    mut first: Vec<pb::Receipt>,
    mut earlier: Earlier,
    mut watch: Watch,
    differences: bool,
    sender: PartSender<pb::Receipt>,
) {
    while !first.is_empty() || earlier.next.is_some() {
        for receipt in first {
            if sender.send(Ok(receipt)).await.is_none() {
                return;
            }
        }
        first = match earlier.page().await {
            Ok(page) => page,
            Err(error) => return sender.send(Err(error)).await.unwrap_or(()),
        };
    }
    let mut whole = (!differences).then(WholeReceipts::default);
    let kept = std::mem::take(&mut watch.kept);
    let mut kept = kept.into_iter();
    loop {
        let message = if let Some(receipt) = kept.next() {
            receipt_message(&receipt)
        } else {
            let update = tokio::select! {
                () = sender.closed() => return,
                update = watch.next() => update,
            };
            match update {
                Some(Ok(update)) => update_message(&update),
                Some(Err(error)) => {
                    return sender.send(Err(Status::data_loss(error.to_string()))).await.unwrap_or(());
                }
                None => return,
            }
        };
        let message = match &mut whole {
            Some(whole) => whole.add(message),
            None => message,
        };
        if sender.send(Ok(message)).await.is_none() {
            return;
        }
    }
}
