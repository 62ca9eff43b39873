//! Names of objects as they are in the bucket.
//!
//! The crate's paths cannot hold every name. A slash at the end of a name is dropped, so that a folder's own object
//! "RUN/" looks like a file "RUN", and a single name with "//" makes a whole page of a listing fail. Therefore names in
//! the answers to listings are written in hexadecimal before the crate reads them, and are decoded afterwards.

use async_trait::async_trait;
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use object_store::path::{Path, PathPart};

use crate::failure::{Failure, BAD_CONFIG};

/// Makes the clients of a store.
#[derive(Debug)]
pub struct WholeNames;

impl HttpConnector for WholeNames {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service(ReqwestConnector::default().connect(options)?)))
    }
}

#[derive(Debug)]
struct Service(HttpClient);

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // S3 and GCS, and Azure.
        let query = request.uri().query().unwrap_or_default();
        let lists = query.split('&').any(|part| part == "list-type=2" || part == "comp=list");
        let answer = self.0.execute(request).await?;
        if !lists || !answer.status().is_success() {
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        let body = body.bytes().await?;
        let encoded = match std::str::from_utf8(&body) {
            Ok(xml) => encode(xml).into(),
            Err(_) => body.into(),
        };
        Ok(HttpResponse::from_parts(parts, encoded))
    }
}

/// Writes the text of each element that has an object's name in hexadecimal.
fn encode(xml: &str) -> String {
    let mut encoded = String::with_capacity(2 * xml.len());
    let mut rest = xml;
    while let Some((begin, end)) = rest.find('<').and_then(|at| Some((at, at + rest[at..].find('>')? + 1))) {
        encoded.push_str(&rest[..end]);
        let tag = &rest[begin + 1..end - 1];
        rest = &rest[end..];
        let (element, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let Some(size) = rest.find('<') else { break };
        if !matches!(element, "Key" | "Name" | "Prefix") || !rest[size..].starts_with(&format!("</{element}>")) {
            continue;
        }
        // Azure encodes a name that XML cannot hold. No request can name such an object, which a control character tells.
        let mark = if attributes.is_empty() { "" } else { "\u{1}" };
        for byte in [mark, &unescape(&rest[..size])].concat().bytes() {
            encoded.push_str(&format!("{byte:02x}"));
        }
        rest = &rest[size..];
    }
    encoded + rest
}

/// The text that `encode` has written. Other texts stay as they are.
pub fn decode(hex: &str) -> Vec<u8> {
    let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let decoded: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(digits).collect();
    decoded.filter(|_| hex.len() % 2 == 0).unwrap_or_else(|| hex.into())
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let named = rest.find(';').and_then(|end| Some((character(&rest[1..end])?, end + 1)));
        let (c, size) = named.unwrap_or(('&', 1));
        plain.push(c);
        rest = &rest[size..];
    }
    plain + rest
}

/// The character that XML calls so.
fn character(name: &str) -> Option<char> {
    let code = match name {
        "amp" => return Some('&'),
        "lt" => return Some('<'),
        "gt" => return Some('>'),
        "quot" => return Some('"'),
        "apos" => return Some('\''),
        _ => name.strip_prefix('#')?,
    };
    let number = match code.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => code.parse(),
    };
    char::from_u32(number.ok()?).filter(|c| *c != '\0')
}

/// How objects are called in requests.
pub struct Paths {
    pub plain: Vec<Path>,
    /// The crate would change or refuse these names.
    pub odd: Vec<Path>,
    /// Names that cannot be paths, such as "a/../b".
    pub refused: Option<Failure>,
}

pub fn paths(names: &[&str], drops_last_slash: bool) -> Paths {
    let mut paths = Paths { plain: Vec::new(), odd: Vec::new(), refused: None };
    for name in names {
        match Path::parse(name) {
            Ok(path) if path.as_ref() == *name => paths.plain.push(path),
            _ => match odd_path(name, drops_last_slash) {
                Some(path) => paths.odd.push(path),
                None => {
                    let why = format!("no request can name {name:?}; objects that have other names are deleted");
                    paths.refused = Some(Failure::new(BAD_CONFIG, why));
                }
            },
        }
    }
    paths
}

fn odd_path(name: &str, drops_last_slash: bool) -> Option<Path> {
    let mut path = Path::ROOT;
    for part in name.split('/') {
        path = path.join(PathPart::parse(part).ok()?);
    }
    if path.as_ref() != name {
        return None; // It begins with a slash.
    }
    let twice = drops_last_slash && name.ends_with('/');
    Some(if twice { path.join(PathPart::default()) } else { path })
}
