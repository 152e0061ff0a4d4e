"""Writes test/golden/distillation.json: losses of distillation and their gradients, computed by TRL's own functions in torch's float64.

    scripts/interop/install.sh trl
    ~/.cache/vf-search/interop/trl/venv/bin/python test/golden/producers/distillation.py

It shares no code with the port. Two kinds of cases:

- divergence: whole distributions over a small vocabulary. `loss` and `gradient` (by the student's logits) are those of GKDTrainer.generalized_jsd_loss, summed over the
  tokens. The port sees one sampled token at a time; the expectation of its policy gradient over all tokens of the vocabulary must be this gradient.
- sampled: tokens with their log-probs alone. `loss` and `gradient` (by the student's log-prob of each token) are those of SDFT's sampled-token loss, which is the
  advantage log p_teacher - log p_student times -log p_student.
"""

import json
import pathlib
import platform

import torch
import trl
from trl.experimental.gkd import GKDTrainer
from trl.experimental.sdft.loss_utils import compute_sampled_token_self_distillation_loss

torch.set_default_dtype(torch.float64)
torch.manual_seed(41)


def divergence(tokens: int, vocabulary: int, spread: float, beta: float) -> dict:
    student = (spread * torch.randn(tokens, vocabulary)).requires_grad_()
    teacher = spread * torch.randn(tokens, vocabulary)
    loss = GKDTrainer.generalized_jsd_loss(student[None], teacher[None], beta=beta, reduction="sum")
    loss.backward()
    return {
        "beta": beta,
        "student_logits": student.detach().tolist(),
        "teacher_logits": teacher.tolist(),
        "loss": loss.item(),
        "gradient": student.grad.tolist(),
    }


def sampled(tokens: int, vocabulary: int, spread: float) -> dict:
    student = (spread * torch.randn(1, tokens, vocabulary)).requires_grad_()
    teacher = spread * torch.randn(1, tokens, vocabulary)
    ids = torch.randint(vocabulary, (1, tokens))
    loss = compute_sampled_token_self_distillation_loss(student, teacher, ids, distillation_alpha=1.0)
    student_log_probs = torch.log_softmax(student, -1).gather(-1, ids[..., None])[0, :, 0]
    teacher_log_probs = torch.log_softmax(teacher, -1).gather(-1, ids[..., None])[0, :, 0]
    loss.sum().backward()
    # The logits' gradient of a loss that reads one log-prob is (onehot - p) times its derivative by that log-prob.
    probability = student_log_probs.detach().exp()
    own = student.grad[0].gather(-1, ids[0][:, None])[:, 0]
    return {
        "student_log_probs": student_log_probs.detach().tolist(),
        "teacher_log_probs": teacher_log_probs.tolist(),
        "loss": loss[0].tolist(),
        "gradient": (own / (1 - probability)).tolist(),
    }


cases = {
    "divergence": [divergence(6, 7, spread, beta) for spread in (0.5, 2.0, 6.0) for beta in (0.1, 0.5, 0.9, 1.0)],
    "sampled": [sampled(8, 11, spread) for spread in (0.5, 2.0, 4.0)],
}
stamp = {"script": "test/golden/producers/distillation.py", "trl": trl.__version__, "torch": torch.__version__, "python": platform.python_version()}
path = pathlib.Path(__file__).parent.parent / "distillation.json"
path.write_text(json.dumps({"made_by": stamp, **cases}, indent=1) + "\n")
print(path, [round(case["loss"], 4) for case in cases["divergence"]])
