//! Bodies of requests: JSON of a known type, within limits of size and time.

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::App;
use crate::fault::Fault;
use crate::openai::options::Options;

/// A body that is JSON for `T`. Keys that `T` does not have are ignored.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, app: &App) -> Result<Self, Fault> {
        let kind = request.headers().get(CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or_default());
        if let Some(kind) = kind.filter(|kind| !is_json(kind)) {
            let message =
                format!("the body is {kind:?}, and only application/json is read: set Content-Type");
            return Err(Fault::refused(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                message,
            ));
        }
        let bytes = read(request.into_body(), app).await?;
        parse(&bytes).map(Self)
    }
}

fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.starts_with("application/") && kind.ends_with("+json")
}

async fn read(body: Body, app: &App) -> Result<Vec<u8>, Fault> {
    let limits = app.limits();
    let too_large = || {
        let message = format!("the body is larger than {} bytes", limits.body_bytes);
        Fault::refused(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    };
    // Whoever says so beforehand need not send it.
    if body.size_hint().lower() > limits.body_bytes as u64 {
        return Err(too_large());
    }
    let read = timeout(limits.body_time, Limited::new(body, limits.body_bytes).collect());
    match read.await {
        Ok(Ok(body)) => Ok(body.to_bytes().into()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Fault::body("incomplete_body", "the body ended before its end")),
        Err(_) => {
            let message = format!("the body took longer than {:?}", limits.body_time);
            Err(Fault::refused(StatusCode::REQUEST_TIMEOUT, "body_timeout", message))
        }
    }
}

/// Reads JSON, and names the place that is wrong.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    // What is flattened into a type has no place of its own: it is looked for alone.
    place::<T>(bytes).map_err(|fault| match &fault.param {
        None => place::<Options>(bytes).err().filter(|own| own.param.is_some()).unwrap_or(fault),
        Some(_) => fault,
    })
}

fn place<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (path, error) = (error.path().to_string(), error.into_inner());
        let said = plain(&error.to_string());
        if !error.is_data() {
            return Fault::body("invalid_json", format!("the body cannot be read: {said}"));
        }
        if path == "." {
            return Fault::body("invalid_type", format!("the body cannot be read: {said}"));
        }
        let fault = Fault::body("invalid_type", format!("{path}: {said}"));
        Fault { param: Some(path), ..fault }
    })?;
    json.end().map_err(|error| Fault::body("invalid_json", format!("the body cannot be read: {error}")))?;
    Ok(parsed)
}

/// What serde says, without names of types that only this program has.
fn plain(said: &str) -> String {
    if said.starts_with("data did not match any variant") {
        return "it has a type that is not read here; /docs says which are".to_owned();
    }
    let kinds = [
        ("f64", "a number"),
        ("i64", "a whole number"),
        ("u32", "a whole number from 0"),
        ("usize", "a whole number from 0"),
    ];
    kinds.iter().fold(said.to_owned(), |said, (name, kind)| {
        said.replace(&format!("expected {name}"), &format!("expected {kind}"))
    })
}
