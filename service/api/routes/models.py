"""The models of this server."""

from fastapi import APIRouter

from service.api.dependencies import ServicesDep as Using
from service.api.problems import problem_responses as problems
from service.api.schemas.resources import ModelListed, ModelsAnswer
from service.api.services import Services
from service.errors import Problem, UnknownModel, ViewNotBuilt
from service.search.model_views import Served, not_built

router = APIRouter(tags=["models"])


@router.get("/models", operation_id="list_models", summary="Which models can be asked", responses=problems(Problem))
def list_models(services: Using) -> ModelsAnswer:
    """Names, digests, and how much of the store each can search."""
    return ModelsAnswer(models=[listed(services, served) for served in services.models])


@router.post(
    "/models/{name}/build",
    operation_id="build_view",
    summary="Have a model's view built",
    status_code=202,
    responses=problems(UnknownModel, ViewNotBuilt, Problem),
)
def build_view(name: str, services: Using) -> ModelListed:
    """202 where a worker builds this view anyway; 409 says what to do where the settings leave it out."""
    served = services.models.named(name)
    if not served.built:
        raise not_built(served, served.state(services.catalog))
    return listed(services, served)


def listed(services: Services, served: Served) -> ModelListed:
    """A model with the state of its view."""
    state = served.state(services.catalog)
    return ModelListed(
        name=served.name,
        digest=served.matcher.digest,
        default=served is services.models.default,
        calibrated=served.matcher.calibration is not None,
        state=state.state,
        pictures=state.pictures,
        captions=state.captions,
        missing_pictures=state.missing_pictures,
        missing_captions=state.missing_captions,
    )
