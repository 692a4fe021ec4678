//! `/v1/models`: what is served.

use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::App;
use crate::fault::Fault;
use crate::models::Served;

/// All models.
#[derive(Serialize, ToSchema)]
pub struct ModelList {
    /// `list`.
    object: &'static str,
    /// The models; where a request names none, the first one answers.
    data: Vec<ModelCard>,
}

/// A model.
#[derive(Serialize, ToSchema)]
pub struct ModelCard {
    /// Its name.
    id: String,
    /// `model`.
    object: &'static str,
    /// When it began to be served, in seconds since 1970.
    created: u64,
    /// `glassformer`.
    owned_by: &'static str,
    /// What it can be asked.
    abilities: Vec<&'static str>,
    /// How many tokens it reads at once, where there is a limit.
    max_model_len: Option<usize>,
}

impl ModelCard {
    fn of(served: &Served, app: &App) -> Self {
        Self {
            id: served.name().to_owned(),
            object: "model",
            created: app.began(),
            owned_by: "glassformer",
            abilities: served.abilities().into_iter().map(crate::Ability::word).collect(),
            max_model_len: served.longest(),
        }
    }
}

/// The models that are served
#[utoipa::path(get, path = "/v1/models", tag = "OpenAI", responses((status = 200, body = ModelList)))]
pub async fn list(State(app): State<App>) -> Json<ModelList> {
    let data = app.models().all().iter().map(|served| ModelCard::of(served, &app)).collect();
    Json(ModelList { object: "list", data })
}

/// One model
#[utoipa::path(get, path = "/v1/models/{model}", tag = "OpenAI", params(("model" = String, Path, description = "Its name")),
    responses((status = 200, body = ModelCard), (status = 404, description = "There is no such model")))]
pub async fn one(State(app): State<App>, Path(name): Path<String>) -> Result<Json<ModelCard>, Fault> {
    Ok(Json(ModelCard::of(app.models().named(&name)?, &app)))
}
