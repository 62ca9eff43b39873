//! What the functions of the C interface share.

use std::ffi::{c_char, c_int, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::failure::{ErrorOut, Failure, BAD_CONFIG, INTERNAL};

/// Runs a call's work, which must not unwind into C.
pub fn guarded(error: *mut ErrorOut, work: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::new(INTERNAL, "the storage library panicked; this is a defect"),
    };
    // SAFETY: bridge.h.
    unsafe { failure.write_to(error) }
}

/// # Safety
/// `raw` is a C string that lives as long as the call.
pub unsafe fn text<'a>(raw: *const c_char) -> Result<&'a str, Failure> {
    CStr::from_ptr(raw).to_str().map_err(|_| Failure::new(BAD_CONFIG, "text is not UTF-8"))
}

/// # Safety
/// `raw` points to `size` C strings that live as long as the call. It may be null if `size` is 0.
pub unsafe fn texts<'a>(raw: *const *const c_char, size: usize) -> Result<Vec<&'a str>, Failure> {
    if size == 0 {
        return Ok(Vec::new());
    }
    std::slice::from_raw_parts(raw, size).iter().map(|one| text(*one)).collect()
}
