"""python3 prepare_ultrarag.py TREE WORK EXAMPLES PORT QUESTIONS_JSONL

Makes WORK ready for `ultrarag run examples/search_o1.yaml`: a copy of TREE (OpenBMB/UltraRAG at 76c1614), the pipeline of EXAMPLES (examples/ of this
package) as it stands, built by UltraRAG itself, and parameters that name the questions and the servers at PORT.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import yaml

PIPELINE = "examples/search_o1.yaml"


def build(work):
    command = [sys.executable, "-c", "from ultrarag.client import main; main()", "build", PIPELINE]
    # Its servers are started by the name `python`.
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    env = {**os.environ, "PYTHONPATH": str(work / "src"), "PATH": path}
    subprocess.run(command, cwd=work, env=env, check=True, stdout=sys.stderr)


def set_parameters(path, port, questions):
    parameters = yaml.safe_load(path.read_text(encoding="utf-8"))
    parameters["benchmark"]["benchmark"].update(path=str(questions), limit=-1, name="bench")
    parameters["evaluation"]["save_path"] = "output/bench.json"
    parameters["generation"].update(base_url=f"http://127.0.0.1:{port}/v1", model_name="instant")
    parameters["retriever"]["retriever_url"] = f"http://127.0.0.1:{port}"
    parameters["prompt"] = {
        "template": "prompt/search_o1_reasoning.jinja",
        "reasoning_indoc_template": "prompt/search_o1_refinement.jinja",
    }
    path.write_text(yaml.safe_dump(parameters, allow_unicode=True), encoding="utf-8")


def main(tree, work, examples, port, questions):
    work, examples = pathlib.Path(work), pathlib.Path(examples)
    shutil.copytree(tree, work, ignore=shutil.ignore_patterns(".git", "ui"))
    shutil.copy(examples / "search_o1.yaml", work / PIPELINE)
    # A parameter of the document that the server of that commit does not list.
    with open(work / "servers/prompt/parameter.yaml", "a", encoding="utf-8") as file:
        file.write("\nreasoning_indoc_template: prompt/qa_boxed.jinja\n")
    build(work)
    for name in ("reasoning", "refinement"):
        shutil.copy(examples / f"prompt/search_o1_{name}.jinja", work / f"prompt/search_o1_{name}.jinja")
    set_parameters(work / "examples/parameter/search_o1_parameter.yaml", port, pathlib.Path(questions).resolve())


main(*sys.argv[1:])
