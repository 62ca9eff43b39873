//! Creates the crate's stores from a scheme, a bucket and options.

use std::collections::HashMap;
use std::sync::Arc;

use http::header::{HeaderMap, HeaderValue, IF_NONE_MATCH};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::multipart::MultipartStore;
use object_store::{Certificate, ClientOptions, ObjectStore, RetryConfig};

use crate::failure::{Failure, BAD_CONFIG};
use crate::names::WholeNames;

pub struct Opened {
    pub objects: Arc<dyn ObjectStore>,
    pub uploads: Arc<dyn MultipartStore>,
    /// The store, except that every request is refused if the object exists. The crate
    /// supports this condition for single-request writes but not for completing an upload.
    pub commits: Arc<dyn MultipartStore>,
    /// True if a multipart upload can have metadata.
    pub upload_metadata: bool,
    /// True if the crate leaves out a slash at the end of a path when it makes a URL of it.
    pub drops_last_slash: bool,
}

fn bad(why: impl std::fmt::Display) -> Failure {
    Failure::new(BAD_CONFIG, why.to_string())
}

fn client_options(ca_bundle: Option<&str>) -> Result<ClientOptions, Failure> {
    // The caller limits the time of each call. These timeouts only detect dead connections.
    let mut options = ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(std::time::Duration::from_secs(5))
        .with_pool_idle_timeout(std::time::Duration::from_secs(20));
    if let Some(path) = ca_bundle {
        let pem = std::fs::read(path).map_err(|e| bad(format!("cannot read the CA bundle {path}: {e}")))?;
        let certificates = Certificate::from_pem_bundle(&pem)
            .map_err(|e| bad(format!("the CA bundle {path} is not a PEM file: {e}")))?;
        if certificates.is_empty() {
            return Err(bad(format!("the CA bundle {path} has no certificate")));
        }
        for certificate in certificates {
            options = options.with_root_certificate(certificate);
        }
    }
    Ok(options)
}

fn refuse_existing(name: http::header::HeaderName, value: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(name, HeaderValue::from_static(value));
    headers
}

/// Disables the crate's retries, because the caller retries and must see each failure.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..Default::default() }
}

macro_rules! configured {
    ($builder:expr, $key:ty, $options:expr, $client:expr) => {{
        let mut builder =
            $builder.with_client_options($client).with_retry(no_retries()).with_http_connector(WholeNames);
        for (key, value) in $options {
            let parsed: $key = key.parse().map_err(|_| bad(format!("unknown storage option \"{key}\"")))?;
            builder = builder.with_config(parsed, value);
        }
        builder
    }};
}

pub fn open(scheme: &str, bucket: &str, mut options: HashMap<String, String>) -> Result<Opened, Failure> {
    let ca_bundle = options.remove("ca_bundle");
    let ca_bundle = ca_bundle.as_deref();
    match scheme {
        "s3" => {
            let build = |client| -> Result<_, Failure> {
                configured!(AmazonS3Builder::from_env(), AmazonS3ConfigKey, &options, client)
                    .with_bucket_name(bucket)
                    .build()
                    .map_err(bad)
            };
            let store = Arc::new(build(client_options(ca_bundle)?)?);
            let commits = build(client_options(ca_bundle)?.with_default_headers(refuse_existing(IF_NONE_MATCH, "*")))?;
            Ok(Opened {
                objects: store.clone(),
                uploads: store,
                commits: Arc::new(commits),
                upload_metadata: true,
                drops_last_slash: false,
            })
        }
        "gs" => {
            let build = |client| -> Result<_, Failure> {
                configured!(GoogleCloudStorageBuilder::from_env(), GoogleConfigKey, &options, client)
                    .with_bucket_name(bucket)
                    .build()
                    .map_err(bad)
            };
            let store = Arc::new(build(client_options(ca_bundle)?)?);
            let never = refuse_existing(http::header::HeaderName::from_static("x-goog-if-generation-match"), "0");
            let commits = build(client_options(ca_bundle)?.with_default_headers(never))?;
            Ok(Opened {
                objects: store.clone(),
                uploads: store,
                commits: Arc::new(commits),
                upload_metadata: true,
                drops_last_slash: false,
            })
        }
        "az" => {
            let store = Arc::new(
                configured!(MicrosoftAzureBuilder::from_env(), AzureConfigKey, &options, client_options(ca_bundle)?)
                    .with_container_name(bucket)
                    .build()
                    .map_err(bad)?,
            );
            // A shared key signs the condition, which the crate does not support here.
            Ok(Opened {
                objects: store.clone(),
                uploads: store.clone(),
                commits: store,
                upload_metadata: false,
                drops_last_slash: true,
            })
        }
        _ => Err(bad(format!("unknown scheme {scheme}://"))),
    }
}
