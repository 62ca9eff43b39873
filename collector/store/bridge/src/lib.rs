//! The object_store crate behind the C interface of bridge.h, which documents each function.

mod call;
mod failure;
mod names;
mod open;
mod parquet_file;

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void, CString};
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::future::FutureExt;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, GetRange, ObjectMeta, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions,
    PutPayload,
};
use tokio::runtime::{Builder, Runtime};

use call::{guarded, text, texts};
use failure::*;
use open::Opened;

const SHA256_KEY: &str = "sha256";

type Reader = unsafe extern "C" fn(*mut c_void, u64, *mut u8, usize) -> c_int;
type Visitor = unsafe extern "C" fn(*mut c_void, *const c_char, usize, u64, c_int, *const c_char, usize) -> c_int;

pub struct Store {
    opened: Opened,
    // Dropped last, so that connections end before the threads that serve them.
    threads: Arc<Threads>,
}

/// The threads that serve stores. The system's resolver of names cannot be cancelled and hangs while no name server
/// answers, so their end does not wait for it.
struct Threads(ManuallyDrop<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        // SAFETY: it is taken only here, and nothing uses it afterwards.
        unsafe { ManuallyDrop::take(&mut self.0) }.shutdown_timeout(Duration::from_millis(100));
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Call {
    timeout_ms: u64,
    cancelled: *const AtomicU8,
}

/// The threads exist as long as a store is open, so an idle sidecar has none.
fn threads() -> Result<Arc<Threads>, Failure> {
    static SHARED: Mutex<Weak<Threads>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(threads) = shared.upgrade() {
        return Ok(threads);
    }
    // An error means that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let built = Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(4)
        .thread_name("strobe-store")
        .enable_all()
        .build()
        .map_err(|e| Failure::new(INTERNAL, format!("cannot start threads: {e}")))?;
    let threads = Arc::new(Threads(ManuallyDrop::new(built)));
    *shared = Arc::downgrade(&threads);
    Ok(threads)
}

impl Store {
    fn run<T>(&self, call: Call, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let cancelled = async {
            loop {
                // SAFETY: bridge.h: null, or valid for the call.
                if unsafe { call.cancelled.as_ref() }.is_some_and(|flag| flag.load(Ordering::Relaxed) != 0) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        self.threads.0.block_on(async {
            tokio::select! {
                biased;
                result = work => result,
                () = cancelled => Err(Failure::new(CANCELLED, "cancelled")),
                () = tokio::time::sleep(Duration::from_millis(call.timeout_ms)) =>
                    Err(Failure::new(TIMEOUT, format!("no answer within {} ms", call.timeout_ms))),
            }
        })
    }
}

unsafe fn path(raw: *const c_char) -> Result<Path, Failure> {
    Path::parse(text(raw)?).map_err(|e| Failure::new(BAD_CONFIG, e.to_string()))
}

/// Copies the bytes, because a request that was abandoned may hold them for a while.
unsafe fn payload(reader: Reader, context: *mut c_void, offset: u64, size: usize) -> Result<PutPayload, Failure> {
    let mut bytes = vec![0u8; size];
    if size > 0 && reader(context, offset, bytes.as_mut_ptr(), size) != 0 {
        return Err(Failure::new(READER, "the bytes could not be read"));
    }
    Ok(PutPayload::from(bytes))
}

unsafe fn attributes(sha256: *const c_char) -> Result<Attributes, Failure> {
    let mut attributes = Attributes::new();
    let sha256 = text(sha256)?;
    if !sha256.is_empty() {
        attributes.insert(Attribute::Metadata(SHA256_KEY.into()), sha256.to_owned().into());
    }
    Ok(attributes)
}

/// The requirements are those of bridge.h, here and in all functions below.
#[no_mangle]
pub unsafe extern "C" fn strobe_store_open(
    scheme: *const c_char,
    bucket: *const c_char,
    options: *const *const c_char,
    options_size: usize,
    store: *mut *mut Store,
    error: *mut ErrorOut,
) -> c_int {
    guarded(error, || {
        let flat = texts(options, options_size)?;
        let options: HashMap<_, _> = flat.chunks_exact(2).map(|kv| (kv[0].to_owned(), kv[1].to_owned())).collect();
        let threads = threads()?;
        let entered = threads.0.enter();
        let opened = open::open(text(scheme)?, text(bucket)?, options)?;
        drop(entered);
        *store = Box::into_raw(Box::new(Store { opened, threads }));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn strobe_store_close(store: *mut Store) {
    if !store.is_null() {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(store))));
    }
}

#[no_mangle]
pub unsafe extern "C" fn strobe_store_free_text(text: *mut c_char) {
    if !text.is_null() {
        drop(CString::from_raw(text));
    }
}

#[no_mangle]
pub unsafe extern "C" fn strobe_store_put(
    store: *mut Store,
    call: Call,
    key: *const c_char,
    sha256: *const c_char,
    create_only: c_int,
    reader: Reader,
    context: *mut c_void,
    size: u64,
    error: *mut ErrorOut,
) -> c_int {
    guarded(error, || {
        let store = &*store;
        let path = path(key)?;
        let payload = payload(reader, context, 0, size as usize)?;
        let options = PutOptions {
            mode: if create_only != 0 { PutMode::Create } else { PutMode::Overwrite },
            attributes: attributes(sha256)?,
            ..Default::default()
        };
        store.run(call, async {
            store.opened.objects.put_opts(&path, payload, options).await?;
            Ok(())
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn strobe_store_stat(
    store: *mut Store,
    call: Call,
    key: *const c_char,
    bytes: *mut u64,
    sha256: *mut c_char,
    version: *mut *mut c_char,
    error: *mut ErrorOut,
) -> c_int {
    guarded(error, || {
        let store = &*store;
        let path = path(key)?;
        let options = GetOptions { head: true, ..Default::default() };
        let found = store.run(call, async { Ok(store.opened.objects.get_opts(&path, options).await?) })?;
        *bytes = found.meta.size;
        *version = found.meta.e_tag.as_deref().map_or(std::ptr::null_mut(), owned_text);
        *sha256 = 0;
        if let Some(value) = found.attributes.get(&Attribute::Metadata(SHA256_KEY.into())) {
            if value.len() == 64 {
                std::ptr::copy_nonoverlapping(value.as_ptr().cast(), sha256, 64);
                *sha256.add(64) = 0;
            }
        }
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn strobe_store_read(
    store: *mut Store,
    call: Call,
    key: *const c_char,
    version: *const c_char,
    offset: u64,
    into: *mut u8,
    size: usize,
    got: *mut usize,
    error: *mut ErrorOut,
) -> c_int {
    guarded(error, || {
        let store = &*store;
        let path = path(key)?;
        let version = text(version)?;
        let options = GetOptions {
            range: Some(GetRange::Bounded(offset..offset + size as u64)),
            if_match: (!version.is_empty()).then(|| version.to_owned()),
            ..Default::default()
        };
        *got = store.run(call, async {
            let found = store.opened.objects.get_opts(&path, options).await?; // Some stores ignore the condition.
            if !version.is_empty() && found.meta.e_tag.as_deref().is_some_and(|tag| tag != version) {
                return Err(Failure::new(EXISTS, "the object has another ETag"));
            }
            let mut stream = found.into_stream();
            let mut filled = 0;
            while let Some(chunk) = stream.next().await {
                let chunk = chunk?;
                if chunk.len() > size - filled {
                    return Err(Failure::new(OTHER, "the store sent more than was asked for"));
                }
                std::ptr::copy_nonoverlapping(chunk.as_ptr(), into.add(filled), chunk.len());
                filled += chunk.len();
            }
            Ok(filled)
        })?;
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn strobe_store_list(
    store: *mut Store,
    call: Call,
    prefix: *const c_char,
    shallow: c_int,
    visitor: Visitor,
    context: *mut c_void,
    error: *mut ErrorOut,
) -> c_int {
    guarded(error, || {
        let store = &*store;
        let prefix = path(prefix)?;
        let prefix = Some(&prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let visit = |path: &Path, bytes: u64, is_prefix: c_int, version: &str| {
            let key = names::decode(path.as_ref());
            let version = (version.as_ptr().cast(), version.len());
            visitor(context, key.as_ptr().cast(), key.len(), bytes, is_prefix, version.0, version.1) != 0
        };
        let visit_object =
            |object: &ObjectMeta| visit(&object.location, object.size, 0, object.e_tag.as_deref().unwrap_or_default());
        store.run(call, async {
            if shallow != 0 {
                let found = store.opened.objects.list_with_delimiter(prefix).await?;
                if !found.common_prefixes.iter().any(|path| visit(path, 0, 1, "")) {
                    found.objects.iter().any(visit_object);
                }
                return Ok(());
            }
            let mut objects = store.opened.objects.list(prefix);
            while let Some(object) = objects.next().await {
                if visit_object(&object?) {
                    break;
                }
            }
            Ok(())
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn strobe_store_delete(
    store: *mut Store,
    call: Call,
    keys: *const *const c_char,
    keys_size: usize,
    error: *mut ErrorOut,
) -> c_int {
    guarded(error, || {
        let store = &*store;
        let paths = names::paths(&texts(keys, keys_size)?, store.opened.drops_last_slash);
        store.run(call, async {
            let deleted_one = |result: object_store::Result<Path>| match result {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(Failure::from(error)),
            };
            let mut results = store.opened.objects.delete_stream(stream::iter(paths.plain.into_iter().map(Ok)).boxed());
            while let Some(result) = results.next().await {
                deleted_one(result)?;
            }
            let odd = stream::iter(paths.odd).map(|path| async move {
                // The crate panics when it looks for the odd name of an object that S3 did not delete.
                let result = AssertUnwindSafe(store.opened.objects.delete(&path)).catch_unwind().await;
                let refused = |_| Failure::new(DENIED, format!("the store refuses to delete {path}"));
                deleted_one(result.map_err(refused)?.map(|()| path.clone()))
            });
            odd.buffer_unordered(10).try_collect::<()>().await
        })?;
        paths.refused.map_or(Ok(()), Err)
    })
}

#[no_mangle]
pub unsafe extern "C" fn strobe_store_upload_begin(
    store: *mut Store,
    call: Call,
    key: *const c_char,
    sha256: *const c_char,
    upload_id: *mut *mut c_char,
    error: *mut ErrorOut,
) -> c_int {
    guarded(error, || {
        let store = &*store;
        let path = path(key)?;
        let mut options = PutMultipartOptions::default();
        if store.opened.upload_metadata {
            options.attributes = attributes(sha256)?;
        }
        let id = store.run(call, async { Ok(store.opened.uploads.create_multipart_opts(&path, options).await?) })?;
        *upload_id = owned_text(&id);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn strobe_store_upload_part(
    store: *mut Store,
    call: Call,
    key: *const c_char,
    upload_id: *const c_char,
    index: usize,
    reader: Reader,
    context: *mut c_void,
    offset: u64,
    size: usize,
    part_id: *mut *mut c_char,
    error: *mut ErrorOut,
) -> c_int {
    guarded(error, || {
        let store = &*store;
        let path = path(key)?;
        let id = text(upload_id)?.to_owned();
        let payload = payload(reader, context, offset, size)?;
        let part = store.run(call, async { Ok(store.opened.uploads.put_part(&path, &id, index, payload).await?) })?;
        *part_id = owned_text(&part.content_id);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn strobe_store_upload_commit(
    store: *mut Store,
    call: Call,
    key: *const c_char,
    upload_id: *const c_char,
    part_ids: *const *const c_char,
    part_ids_size: usize,
    error: *mut ErrorOut,
) -> c_int {
    guarded(error, || {
        let store = &*store;
        let path = path(key)?;
        let id = text(upload_id)?.to_owned();
        let parts: Vec<_> = texts(part_ids, part_ids_size)?
            .into_iter()
            .map(|content_id| object_store::multipart::PartId { content_id: content_id.to_owned() })
            .collect();
        store.run(call, async {
            let conditional = store.opened.commits.complete_multipart(&path, &id, parts.clone()).await;
            match conditional.map_err(Failure::from) {
                Err(failure) if failure.is_unsupported() => {
                    store.opened.uploads.complete_multipart(&path, &id, parts).await?;
                    Ok(())
                }
                other => other.map(|_| ()),
            }
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn strobe_store_upload_abort(
    store: *mut Store,
    call: Call,
    key: *const c_char,
    upload_id: *const c_char,
    error: *mut ErrorOut,
) -> c_int {
    guarded(error, || {
        let store = &*store;
        let path = path(key)?;
        let id = text(upload_id)?.to_owned();
        store.run(call, async { Ok(store.opened.uploads.abort_multipart(&path, &id).await?) })
    })
}
