"""Asks 'rscert serve' with NVIDIA's tritonclient, over HTTP and gRPC.

Arguments: HOST:PORT of HTTP, HOST:PORT of gRPC, MODEL, and IMAGES, an IDX file of digits. Sends the same images in six
forms of request. Prints one JSON document with the classes and votes of the answers to each form, and the certified radii.
"""

import gzip
import json
import queue
import sys

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

address, grpc_address, model, images = sys.argv[1:]
with gzip.open(images) as file:
    digits = np.frombuffer(file.read()[16:], np.uint8).reshape(-1, 1, 28, 28)[:8]

client = triton.InferenceServerClient(address)
assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(model)
assert client.get_server_metadata()["name"] == "rscert"
metadata = client.get_model_metadata(model)
assert metadata["inputs"] == [{"name": "input", "datatype": "UINT8", "shape": [-1, 1, 28, 28]}], metadata


def ask(data, datatype, binary, **options):
    """Returns the server's response to data."""
    tensor = triton.InferInput("input", list(data.shape), datatype)
    tensor.set_data_from_numpy(data, binary_data=binary)
    return client.infer(model, [tensor], request_id="q", **options)


result = {"classes": [], "votes": []}
for data, datatype in ((digits, "UINT8"), (digits.astype(np.float32) / np.float32(255), "FP32")):
    for binary in (True, False):
        outputs = [triton.InferRequestedOutput(name, binary_data=binary) for name in ("class", "votes")]
        answer = ask(data, datatype, binary, outputs=outputs)
        assert answer.get_response()["id"] == "q"
        result["classes"].append(answer.as_numpy("class").tolist())
        result["votes"].append(answer.as_numpy("votes").sum(axis=1).tolist())

certified = ask(digits[:2], "UINT8", True, parameters={"certify": 0.1})
result["radii"] = certified.as_numpy("radius").tolist()
for text, radius in zip(certified.as_numpy("certificate"), result["radii"]):
    assert json.loads(text)["radius"] == radius

try:
    ask(digits[:, :, :14], "UINT8", True)
    raise AssertionError("a wrong shape was answered")
except InferenceServerException as error:
    assert "want [n,1,28,28]" in error.message(), error

# The same by gRPC, whose client has no JSON form and gives messages instead of dictionaries.
client = triton_grpc.InferenceServerClient(grpc_address)
assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(model, "1")
assert client.get_server_metadata().name == "rscert"
metadata = client.get_model_metadata(model)
assert (metadata.inputs[0].datatype, list(metadata.inputs[0].shape)) == ("UINT8", [-1, 1, 28, 28]), metadata


def ask_grpc(data, datatype, **options):
    """Returns the answers to data, by gRPC."""
    tensor = triton_grpc.InferInput("input", list(data.shape), datatype)
    tensor.set_data_from_numpy(data)
    return client.infer(model, [tensor], request_id="q", **options)


for data, datatype in ((digits, "UINT8"), (digits.astype(np.float32) / np.float32(255), "FP32")):
    outputs = [triton_grpc.InferRequestedOutput(name) for name in ("class", "votes")]
    answer = ask_grpc(data, datatype, outputs=outputs)
    assert answer.get_response().id == "q" and len(answer.get_response().outputs) == 2
    assert answer.get_response().parameters["law"].string_param == "gaussian", answer.get_response()
    result["classes"].append(answer.as_numpy("class").tolist())
    result["votes"].append(answer.as_numpy("votes").sum(axis=1).tolist())

certified = ask_grpc(digits[:2], "UINT8", parameters={"certify": 0.1})
radii = certified.as_numpy("radius").tolist()
result["radii"] += radii
for text, radius in zip(certified.as_numpy("certificate"), radii):
    assert json.loads(text)["radius"] == radius

answers = queue.Queue()
tensor = triton_grpc.InferInput("input", [2, 1, 28, 28], "UINT8")
tensor.set_data_from_numpy(digits[:2])
client.async_infer(model, [tensor], callback=lambda result, error: answers.put((result, error)))
answer, error = answers.get(timeout=60)
assert error is None and answer.as_numpy("class").shape == (2,), error

for code, text, wrong in (
    ("INVALID_ARGUMENT", "want [n,1,28,28]", lambda: ask_grpc(digits[:, :, :14], "UINT8")),
    ("NOT_FOUND", "unknown model", lambda: client.get_model_metadata("other")),
    ("UNIMPLEMENTED", "gzip", lambda: ask_grpc(digits, "UINT8", compression_algorithm="gzip")),
    ("UNIMPLEMENTED", "", lambda: client.get_model_config(model)),
):
    try:
        wrong()
        raise AssertionError(f"{code} was answered")
    except InferenceServerException as error:
        assert code in error.status() and text in error.message(), error
print(json.dumps(result))
