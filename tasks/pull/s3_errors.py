"""What an S3 failure means for us: wrong configuration (say what to change), a changed source, or worth another try."""

from __future__ import annotations

from pivotrl_core.addresses import without_credentials
from pivotrl_core.errors import ConfigError, PivotRLError, TemporaryError
from tasks.pull.origin import SourceChangedError

_REMEDIES = {
    "NoSuchBucket": "the bucket does not exist there: check source.bucket and AWS_ENDPOINT_URL",
    "InvalidBucketName": "that is no bucket name: check source.bucket",
    "InvalidAccessKeyId": "the server does not know the access key: check AWS_ACCESS_KEY_ID",
    "SignatureDoesNotMatch": "the secret does not fit the access key: check AWS_SECRET_ACCESS_KEY",
    "ExpiredToken": "the session token has expired: get a new AWS_SESSION_TOKEN",
    "RequestTimeTooSkewed": "this machine's clock is wrong: set it",
    "AccessDenied": "the credentials may not list and read there: grant s3:ListBucket and s3:GetObject",
    "PermanentRedirect": "the bucket is in another region: set AWS_DEFAULT_REGION",
    "AuthorizationHeaderMalformed": "the bucket is in another region: set AWS_DEFAULT_REGION",
}
_CHANGED = {"NoSuchKey", "PreconditionFailed", "412", "InvalidRange"}
_TEMPORARY = {
    "Throttling",
    "ThrottlingException",
    "RequestTimeout",
    "RequestThrottled",
    "SlowDown",
    "TooManyRequests",
    "InternalError",
    "ServiceUnavailable",
}
_CONFIGURATION_ERRORS = {
    "NoCredentialsError": "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "PartialCredentialsError": "half of them is missing: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "ProfileNotFound": "AWS_PROFILE names a profile that is not there",
    "ParamValidationError": "that is no bucket name: check source.bucket",
}


def translate(error: Exception, place: str) -> PivotRLError:
    """One of our errors for one of boto3's, naming the place and what to do.

    Args:
        error: What boto3, urllib3 or the socket raised.
        place: Bucket and prefix as a URL.
    """
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        return _from_response(response, place, str(getattr(error, "operation_name", "")))
    remedy = _CONFIGURATION_ERRORS.get(type(error).__name__)
    if remedy:
        return ConfigError(f"{place}: {remedy}")
    found = without_credentials(str(error))
    return TemporaryError(f"{place}: {found}; if it stays so, check AWS_ENDPOINT_URL and the network")


def _from_response(response: dict[str, dict[str, object]], place: str, operation: str = "") -> PivotRLError:
    code = str(response.get("Error", {}).get("Code", ""))
    raw = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    status = int(raw) if isinstance(raw, int) else 0
    if code in _CHANGED or (code == "404" and operation == "HeadObject"):  # an answer to HEAD has no body to name it
        return SourceChangedError(f"{place}: an object changed or went away while it was pulled ({code}); pull again")
    if code in _TEMPORARY or status >= 500 or status in (408, 429):
        return TemporaryError(f"{place}: the server answered {status} {code}; try again later")
    default = (
        f"the server refused with {status} {code}: check source.bucket, source.prefix, credentials and AWS_ENDPOINT_URL"
    )
    return ConfigError(f"{place}: {_REMEDIES.get(code, default)}")
