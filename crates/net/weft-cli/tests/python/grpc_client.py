"""gRPC of Python, which is built on gRPC's C library: reflection, health, and a call by reflection.

Argument: the URL of the API over TCP, or the path of its unix socket.
"""

import sys

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

SERVICE = "weft.v1.Controller"
address = sys.argv[1]
is_unix = address.startswith("/")
# Over a unix socket the library sends the path of the socket, percent-encoded, as `:authority`, which HTTP/2 refuses.
HELPS = [("grpc.default_authority", "localhost")]


def channel(options):
    target = f"unix:{address}" if is_unix else address.removeprefix("http://")
    return grpc.insecure_channel(target, options=[("grpc.enable_http_proxy", 0), *options])


def check(options):
    with channel(options) as there:
        return health_pb2_grpc.HealthStub(there).Check(health_pb2.HealthCheckRequest(), timeout=20).status


if is_unix:
    try:
        check([])
    except grpc.RpcError as error:
        # 1 is PROTOCOL_ERROR.
        assert "RST_STREAM with error code 1" in error.debug_error_string(), error
        print("without the option:", error.debug_error_string())
    else:
        print("the option is no longer needed")
else:
    assert check([]) == health_pb2.HealthCheckResponse.SERVING
assert check(HELPS) == health_pb2.HealthCheckResponse.SERVING

with channel(HELPS) as there:
    described = ProtoReflectionDescriptorDatabase(there)
    services = described.get_services()
    assert SERVICE in services and "grpc.health.v1.Health" in services, services
    pool = descriptor_pool.DescriptorPool(described)
    method = pool.FindServiceByName(SERVICE).FindMethodByName("Status")
    request, answer = (message_factory.GetMessageClass(each) for each in (method.input_type, method.output_type))
    ask = there.unary_unary(
        f"/{SERVICE}/Status", request_serializer=request.SerializeToString, response_deserializer=answer.FromString
    )
    status = json_format.MessageToDict(ask(request(), timeout=20))
    assert status["rules"] == ["builtin"], status
    print(f"{len(services)} services over {'a unix socket' if is_unix else 'TCP'}")
