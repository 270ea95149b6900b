"""Bodies of requests and responses of the session."""

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from service.api.schemas.resources import Answer
from service.auth.permissions import Permission


class SessionRequest(BaseModel):
    """An API key to sign in with."""

    model_config = ConfigDict(extra="forbid")

    key: SecretStr = Field(description="The key, as `regard keys create` printed it.", examples=["rgd_..."])


class SessionAnswer(Answer):
    """The caller's permission, and whether a key is needed."""

    required: bool = Field(description="Whether this service asks for a key.")
    permission: Permission | None = Field(description="What the caller may do; null for one without a valid key.")
    key_id: str | None = Field(description="The public part of the key; null where none is used.")
    name: str | None = Field(description="What the key is called.")
