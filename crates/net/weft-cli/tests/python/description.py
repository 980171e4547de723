"""The description of the API is OpenAPI 3.1, and each schema of a kind is JSON Schema of draft 2020-12.

Argument: the URL of the API.
"""

import copy
import sys

import httpx
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from openapi_spec_validator.validation.exceptions import OpenAPIValidationError

api = httpx.Client(base_url=sys.argv[1], trust_env=False)


def get(path):
    answer = api.get(path)
    assert answer.status_code == 200, f"{path}: {answer.status_code}: {answer.text}"
    return answer.json()


def faults(description):
    """What the validator finds, or that it cannot read the description."""
    try:
        return [error.message for error in OpenAPIV31SpecValidator(description).iter_errors()]
    except OpenAPIValidationError as error:
        return [str(error)]


description = get("/v1/openapi.json")
found = faults(description)
assert not found, "the description has faults:\n" + "\n".join(found)

# The validator would notice.
operations = [
    operation
    for item in description["paths"].values()
    for method, operation in item.items()
    if method != "parameters"
]


def with_answer_undescribed(planted):
    del planted["paths"]["/v1/status"]["get"]["responses"]["200"]["description"]


def with_parameter_nowhere(planted):
    planted["paths"]["/v1/status"]["get"]["parameters"][0]["in"] = "nowhere"


def with_name_twice(planted):
    planted["paths"]["/v1/status"]["get"]["operationId"] = "apply"


def with_undeclared_parameter(planted):
    planted["paths"]["/v1/things/{thing}"] = {"get": planted["paths"]["/v1/status"]["get"]}


def with_default_of_other_type(planted):
    planted["components"]["schemas"]["receipt"]["properties"]["dry_run"]["default"] = "yes"


plants = [with_answer_undescribed, with_parameter_nowhere, with_name_twice, with_undeclared_parameter, with_default_of_other_type]
for plant in plants:
    planted = copy.deepcopy(description)
    plant(planted)
    assert faults(planted), f"nobody notices a description {plant.__name__}"

kinds = get("/v1/schema")["kinds"]
assert len(kinds) > 10, kinds
for kind in kinds:
    schema = get(f"/v1/schema/{kind['kind']}")
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"], schema["$schema"]
    Draft202012Validator.check_schema(schema)
    # It is a schema of something: it refuses what is no object, and takes what is read.
    validator = Draft202012Validator(schema)
    assert list(validator.iter_errors(7)), kind
    listed = get(kind["path"])["items"]
    for item in listed:
        validator.validate(item)

print(f"{len(description['paths'])} paths, {len(operations)} operations, {len(kinds)} kinds")
