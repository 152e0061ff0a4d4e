/** The table `[algorithm.teacher]` of a training configuration: on-policy distillation. */
import { choice, count, flag, number, numberOrNull, positive, share, table, textOrNull } from './config-table.ts';
import { nullable } from './json-schema.ts';

export const teacherTable = table(
  'On-policy distillation: a teacher gives log-probs of the tokens that the policy sampled, and these train the policy (docs/distillation.md). Its vocabulary must be that of the policy.',
  {
    kind: choice(
      ['embedded', 'server', 'tinker', 'self', 'start'],
      'Where the log-probs come from. embedded: a model or an adapter that the embedded engine runs in this process. server: vLLM or vf-serve policy at base_url. tinker: a service that speaks the Tinker API (docs/tinker.md). self: the policy that is trained, as it is before the update, with `privileged` in its prompt. start: the policy at the start of the run, with `privileged` in its prompt.',
    ),
    path: textOrNull('embedded: the directory of the teacher, or a bundled model by name. Default: model.path, with an adapter of its own.'),
    adapter: textOrNull("embedded: a PEFT directory on it, of this base and the engine's ranks. Default: none."),
    base_url: textOrNull(
      'server: its URL, up to and with /v1. tinker: the URL of the service, without /api/v1; default: that of [backend] with backend.kind = "tinker", otherwise the hosted Tinker.',
    ),
    model: textOrNull(
      "server: the server's name of the model or the adapter. Default: its only model. tinker: the service's name of a base, or tinker://MODEL/sampler_weights/NAME.",
    ),
    api_key_var: textOrNull(
      'server, tinker: environment variable that holds the API key. Default: none; tinker: TINKER_API_KEY, and backend.api_key_var where the URL is that of [backend].',
    ),
    as: choice(
      ['advantage', 'kl'],
      "advantage: coefficient · (log π_teacher − log π_student) of each sampled token is its advantage, the reverse KL estimated on the student's own tokens. kl: the teacher takes the place of the reference in the KL penalty that [algorithm.kl] sets, in the loss or in the reward.",
    ),
    coefficient: positive('advantage: factor of the difference of log-probs.', 1),
    beta: number(
      "advantage: 1 is the reverse KL. Below 1, the generalised Jensen-Shannon divergence of GKD (TRL's `beta`) takes its place, whose advantage is (1 − beta) · log(beta · π_teacher / π_student + 1 − beta). 0, the forward KL, is refused: its weight π_teacher / π_student has no bound on the student's own tokens.",
      1,
      { exclusiveMinimum: 0, maximum: 1 },
    ),
    discount: {
      ...share(
        'advantage: the advantage of a token also counts those of later tokens of its sequence, each times this to the power of its distance in sampled tokens. 0: each token by itself.',
        0,
      ),
      exclusiveMaximum: 1,
    },
    clamp: numberOrNull('advantage: the difference of log-probs of a token is clamped to ± this, in nats. Null: unbounded.', null),
    with_reward: flag(
      "Adds to the advantage that the reward gives. False: the teacher takes its place, and rewards are only measured. What the credit leaves out, such as a group with equal rewards, then has the teacher's advantage alone.",
      false,
    ),
    privileged: textOrNull(
      "A text that stands before the question in the teacher's prompt, and not in the student's. {answer} stands for the answer of the row, {info.NAME} for a text, a number or a list of texts of its info, such as a column of golden passages; a row without the value is not scored. Needed by self and start.",
    ),
    max_concurrent: count('server, tinker: concurrent requests.', 32),
    max_retries: count('server: retries of a request after a transient failure. tinker: left out; requests are repeated for five minutes.', 3, 0),
    timeout_s: positive('server: deadline of one attempt at a request. tinker: the time for which the result of a request is awaited.', 120),
  },
);

export const teacher = { ...nullable(teacherTable), default: null } as const;
