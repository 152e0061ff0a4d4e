"""Writes test/golden/retrieval/qdrant.json: a search of the contract's passages, as Qdrant's own client has it.

    python3 -m venv /tmp/qdrant && /tmp/qdrant/bin/pip install qdrant-client==1.20.0
    /tmp/qdrant/bin/python test/golden/producers/qdrant.py

No Qdrant server could be had from PyPI, npm or Debian. The client has the models of the server's REST API, generated from its OpenAPI document, and a local mode with the
same searches: the request is one that the model of `POST /collections/{name}/points/query/batch` accepts, with unknown fields refused, and the answer is what the local
mode finds, written by the model of the answer, as the server writes it.
"""

import json
import pathlib
import platform
from importlib.metadata import version

from qdrant_client import QdrantClient, models

ROOT = pathlib.Path(__file__).parents[3]
PASSAGES = [
    ("0", '"Kinzer"\nThe mayor of Kinzer is Purorka.', [1.0, 0.0, 0.0, 0.5]),
    ("1", '"Kinzer"\nThe river of Kinzer is Zumardle.', [0.0, 1.0, 0.0, 0.5]),
    ("2", '"Zürich"\nZürich lies on a lake; 苏黎世.', [0.0, 0.0, 1.0, 0.5]),
]
# As the client of this package writes it: two queries, the two best points of each.
REQUEST = {
    "searches": [
        {"query": [0.0, 1.0, 0.0, 0.25], "limit": 2, "with_payload": True},
        {"query": [0.0, 0.0, 1.0, 0.25], "limit": 2, "with_payload": True},
    ]
}

accepted = models.QueryRequestBatch.model_validate(REQUEST)
for model in (models.QueryRequestBatch, models.QueryRequest):
    assert model.model_config.get("extra") == "forbid", model
client = QdrantClient(":memory:")
client.create_collection("wiki", vectors_config=models.VectorParams(size=4, distance=models.Distance.COSINE))
client.upsert(
    "wiki",
    [models.PointStruct(id=100 + i, vector=vector, payload={"id": name, "contents": contents}) for i, (name, contents, vector) in enumerate(PASSAGES)],
)
found = client.query_batch_points("wiki", requests=accepted.searches)
# The model of this route's answer in 1.20.
answer = json.loads(models.InlineResponse20023(result=found, status="ok", time=0.001).model_dump_json(exclude_none=True))
golden = {
    "producer": "test/golden/producers/qdrant.py",
    "versions": {"python": platform.python_version(), "qdrant-client": version("qdrant-client")},
    "request": REQUEST,
    "answer": answer,
}
(ROOT / "test/golden/retrieval/qdrant.json").write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")
