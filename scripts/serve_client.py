"""Asks 'rscert serve' with NVIDIA's tritonclient. Arguments: HOST:PORT MODEL IMAGES, an IDX file of digits.

Sends the same images in four forms of request. Prints one JSON document with the classes and votes of the answers to
each form, and the certified radii.
"""

import gzip
import json
import sys

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

address, model, images = sys.argv[1:]
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
print(json.dumps(result))
