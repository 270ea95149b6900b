"""The models of this server."""

from fastapi import APIRouter, Response

from service.api.dependencies import ServicesDep, in_change_thread
from service.api.problems import problem_responses
from service.api.schemas.resources import MigrationAnswer, ModelListed, ModelsAnswer
from service.api.services import Services
from service.errors import DiskFull, Problem, ReadOnlyCollection, UnknownModel
from service.search.model_views import ModelView, ViewState

router = APIRouter(tags=["models"])


@router.get(
    "/models", operation_id="list_models", summary="Which models can be asked", responses=problem_responses(Problem)
)
def list_models(services: ServicesDep) -> ModelsAnswer:
    """Names, digests, the part of the store that each can search, and the progress of a new detector."""
    progress = services.storage.regions.progress()
    return ModelsAnswer(
        models=[model_listed(services, model, state) for model, state in services.collection.pictures.view_states()],
        collection=services.collection.pictures.collection_id(),
        migration=None if progress is None else MigrationAnswer(**vars(progress), message=str(progress)),
    )


@router.post(
    "/models/{name}/build",
    operation_id="build_view",
    summary="Have a model's view built",
    status_code=202,
    responses=problem_responses(UnknownModel, ReadOnlyCollection, DiskFull, Problem),
)
@in_change_thread
def build_view(name: str, response: Response, services: ServicesDep) -> ModelListed:
    """A worker builds and maintains the view from now on; `GET /models` has its progress."""
    model = services.models.named(name)
    state = services.collection.pictures.build_view(model, services.clock())
    services.wake()
    response.headers["Location"] = "/models"
    return model_listed(services, model, state)


def model_listed(services: Services, model: ModelView, state: ViewState) -> ModelListed:
    """A model with the state of its view."""
    return ModelListed(
        name=model.name,
        digest=model.header.digest,
        default=model is services.models.default,
        loaded=model.loaded,
        calibrated=model.header.calibration is not None,
        state=state.state,
        pictures=state.pictures,
        captions=state.captions,
        missing_pictures=state.missing_pictures,
        missing_captions=state.missing_captions,
    )
