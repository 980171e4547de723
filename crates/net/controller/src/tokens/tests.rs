//! Tokens that are made, expire and go.

use std::fs;

use mutual_tls::Role;

use super::*;

const HOUR: Duration = Duration::from_hours(1);

/// A folder with a file of one token, and the token.
fn one(role: Role) -> (tempfile::TempDir, PathBuf, Granted) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.toml");
    let mut file = TokenFile::default();
    let now = SystemTime::now();
    let granted = file.create("ci", &role, now, now + HOUR).unwrap();
    file.write(&path).unwrap();
    (folder, path, granted)
}

#[test]
fn a_token_is_known_by_its_text_and_the_file_has_no_text() {
    let (_folder, path, granted) = one(Role::Viewer);
    let tokens = Tokens::open(&path).unwrap();
    let now = SystemTime::now();
    let bearer = tokens.bearer(&granted.text, now).unwrap();
    assert_eq!(bearer.identity, Identity { name: "ci".to_owned(), role: Some(Role::Viewer) });
    let secret = granted.text.rsplit('_').next().unwrap();
    assert_eq!(secret.len(), 64);
    assert!(!fs::read_to_string(&path).unwrap().contains(secret));
    for text in ["", "weft_", &granted.text[..granted.text.len() - 1], &granted.text[5..]] {
        assert_eq!(tokens.bearer(text, now), Err(BadToken::Unknown), "{text}");
    }
    let other = granted.text.replace(secret, &"0".repeat(64));
    assert_eq!(tokens.bearer(&other, now), Err(BadToken::Unknown));
    assert_eq!(tokens.bearer(&granted.text, now + HOUR), Err(BadToken::Expired));
    assert!(tokens.is_good(&bearer.id, now) && !tokens.is_good(&bearer.id, now + HOUR));
}

#[test]
fn a_changed_file_counts_and_a_broken_one_does_not() {
    let (_folder, path, granted) = one(Role::Operator);
    let tokens = Tokens::open(&path).unwrap();
    let now = SystemTime::now();
    let look = || tokens.known.lock().unwrap().look(&path);
    fs::write(&path, "token = 1").unwrap();
    look();
    assert!(tokens.bearer(&granted.text, now).is_ok());
    let fault = tokens.known.lock().unwrap().fault.clone().unwrap();
    assert!(fault.contains("tokens.toml: ") && fault.ends_with("`weft token` writes this file"), "{fault}");
    let mut file = TokenFile::default();
    let other = file.create("other", &Role::Viewer, now, now + HOUR).unwrap();
    file.write(&path).unwrap();
    look();
    assert_eq!(tokens.bearer(&granted.text, now), Err(BadToken::Unknown));
    assert!(tokens.bearer(&other.text, now).is_ok());
}

#[test]
fn all_tokens_of_a_name_can_be_revoked_or_one_by_its_id() {
    let mut file = TokenFile::default();
    let now = SystemTime::now();
    let mut create = |name| file.create(name, &Role::Viewer, now, now + HOUR).unwrap().token;
    let [a, b, c] = ["ci", "ci", "alice"].map(&mut create);
    assert_ne!(a.id, b.id);
    assert_eq!(file.revoke("nobody"), []);
    assert_eq!(file.revoke(&c.id), [c]);
    assert_eq!(file.revoke("ci"), [a, b]);
    assert_eq!(file.tokens(), []);
}

#[test]
fn a_file_with_a_fault_is_refused_by_the_token() {
    let (_folder, path, granted) = one(Role::Viewer);
    let text = fs::read_to_string(&path).unwrap();
    let id = &granted.token.id;
    for (from, to, fault) in [
        (
            "\"viewer\"",
            "\"root\"",
            format!("token {id} has the role \"root\" instead of operator, viewer or tenant:TENANT"),
        ),
        (&*granted.token.expires, "soon", format!("token {id} expires at \"soon\", which is no time in UTC")),
        ("hash = \"", "hash = \"0", format!("token {id} has a hash of 65 characters")),
        ("name = ", "mane = ", "unknown field `mane`".to_owned()),
    ] {
        fs::write(&path, text.replace(from, to)).unwrap();
        let error = TokenFile::read(&path).unwrap_err().to_string();
        assert!(error.contains(&fault), "{error}");
    }
    fs::remove_file(&path).unwrap();
    let error = TokenFile::read(&path).unwrap_err().to_string();
    assert!(error.starts_with("cannot read the tokens in "), "{error}");
}
