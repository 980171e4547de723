//! The problem of a certificate that expires: afterwards, nobody can connect over TLS.

use std::time::{Duration, SystemTime};

use weft_client::pb;
use weft_core::times::to_the_second;

/// How long before its certificate expires a controller says so.
const NOTICE: Duration = Duration::from_hours(30 * 24);

/// The problem of a controller whose certificate is valid until then, if it is one by now.
pub(super) fn expiry(not_after: SystemTime, now: SystemTime) -> Option<pb::Problem> {
    let left = not_after.duration_since(now).unwrap_or_default();
    if left > NOTICE {
        return None;
    }
    let (at, days) = (to_the_second(not_after), left.as_secs() / 86_400);
    let what = if left.is_zero() {
        format!("has expired at {at}: neither clients nor switches accept it")
    } else {
        format!("expires at {at}, in {days} days")
    };
    let text = format!(
        "the certificate of the controller {what}; renew it, as `weft pki renew controller` does: new files are read without a restart"
    );
    let object = Some(pb::ObjectRef { kind: "controller".to_owned(), id: "certificate".to_owned() });
    Some(pb::Problem { object, text, code: "certificate-expires".to_owned(), since: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_expires_within_a_month_is_a_problem() {
        let (now, day) = (SystemTime::UNIX_EPOCH + Duration::from_hours(500_000), Duration::from_hours(24));
        let text = |not_after| expiry(not_after, now).map(|problem| problem.text).unwrap_or_default();
        assert_eq!(text(now + day * 31), "");
        assert!(
            text(now + day * 29).contains("expires at 2027-02-13T08:00:00Z, in 29 days; renew it"),
            "{}",
            text(now + day * 29)
        );
        assert!(
            text(now - day).contains("has expired at 2027-01-14T08:00:00Z: neither clients"),
            "{}",
            text(now - day)
        );
    }
}
