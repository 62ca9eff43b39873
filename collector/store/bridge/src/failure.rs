//! Converts the crate's errors to the codes of bridge.h.

use std::error::Error as StdError;
use std::ffi::{c_char, c_int, CString};

use object_store::client::{HttpError, HttpErrorKind};
use object_store::Error;

pub const NOT_FOUND: c_int = 1;
pub const EXISTS: c_int = 2;
pub const DENIED: c_int = 3;
pub const UNAUTHENTICATED: c_int = 4;
pub const UNSUPPORTED: c_int = 5;
pub const BAD_CONFIG: c_int = 6;
pub const NETWORK: c_int = 7;
pub const TIMEOUT: c_int = 8;
pub const CANCELLED: c_int = 9;
pub const READER: c_int = 10;
pub const OTHER: c_int = 11;
pub const INTERNAL: c_int = 12;

#[repr(C)]
pub struct ErrorOut {
    code: c_int,
    http_status: c_int,
    message: *mut c_char,
}

#[derive(Debug)]
pub struct Failure {
    code: c_int,
    http_status: c_int,
    message: String,
}

impl Failure {
    pub fn new(code: c_int, message: impl Into<String>) -> Self {
        Failure { code, http_status: 0, message: message.into() }
    }
    pub fn is_unsupported(&self) -> bool {
        self.code == UNSUPPORTED || self.http_status == 501
    }

    /// # Safety
    /// `out` is null or points to an ErrorOut.
    pub unsafe fn write_to(self, out: *mut ErrorOut) -> c_int {
        let code = self.code;
        if !out.is_null() {
            *out = ErrorOut { code, http_status: self.http_status, message: owned_text(&self.message) };
        }
        code
    }
}

/// Returns a new C string. The text is cut at a NUL.
pub fn owned_text(text: &str) -> *mut c_char {
    let clean = text.split('\0').next().unwrap_or_default();
    CString::new(clean).map(CString::into_raw).unwrap_or(std::ptr::null_mut())
}

/// The crate reports the HTTP status only in its text: "... status code: 403 Forbidden: <body>".
fn status_in(text: &str) -> c_int {
    const MARK: &str = "status code: ";
    text.find(MARK)
        .and_then(|at| text.get(at + MARK.len()..at + MARK.len() + 3))
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}

fn network_failure(error: &Error) -> bool {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(current) = next {
        if let Some(http) = current.downcast_ref::<HttpError>() {
            return http.kind() != HttpErrorKind::Unknown;
        }
        next = current.source();
    }
    false
}

/// The messages of the whole chain of errors. A message that another one contains is left out.
fn words(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = source.source();
    }
    text
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = words(&error);
        let http_status = status_in(&message);
        let code = match &error {
            Error::NotFound { .. } => NOT_FOUND,
            Error::AlreadyExists { .. } | Error::Precondition { .. } => EXISTS,
            Error::PermissionDenied { .. } => DENIED,
            Error::Unauthenticated { .. } => UNAUTHENTICATED,
            Error::NotSupported { .. } | Error::NotImplemented { .. } => UNSUPPORTED,
            Error::UnknownConfigurationKey { .. } | Error::InvalidPath { .. } => BAD_CONFIG,
            error if network_failure(error) => NETWORK,
            _ => match http_status {
                404 => NOT_FOUND,
                409 | 412 => EXISTS,
                403 => DENIED,
                401 => UNAUTHENTICATED,
                _ => OTHER,
            },
        };
        Failure { code, http_status, message }
    }
}
