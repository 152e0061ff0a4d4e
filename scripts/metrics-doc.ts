/** Writes docs/metrics.md from src/trainer/records/metrics.ts: `node --conditions=vf-search-source scripts/metrics-doc.ts`. A test checks that it is current. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CREDIT_PREFIX } from '../src/trainer/credit.ts';
import {
  EVALUATION_METRICS,
  LOSS_PREFIX,
  type MetricDefinition,
  RUBRIC_PREFIX,
  SOURCE_PREFIX,
  STEP_METRICS,
  STOP_PREFIX,
  TASK_PREFIX,
  VALIDATION_METRICS,
} from '../src/trainer/records/metrics.ts';

const INTRODUCTION = `# Metrics of a training run

<!-- Written by scripts/metrics-doc.ts from src/trainer/records/metrics.ts. Do not edit. -->

\`metrics.jsonl\` in the folder of a run holds one JSON object per line: one for each training step (\`"kind": "step"\`), one for each evaluation
(\`"kind": "evaluation"\`) and one for each validation on held-out demonstrations (\`"kind": "validation"\`). \`step\` is the number of finished steps, so an evaluation at 0 precedes training. \`time\` is the time at which the line was written. Everything
else is a metric in the tables below; no other name is ever written.

- A metric that was not measured, or was not finite, is null or absent, never 0.
- Failed rollouts have no reward and no mean includes them; \`rollouts_failed\` counts them.
- A token is **sampled** if the policy wrote it, **trained** if it has a loss, **forwarded** if it is part of a trained sequence, prompts and observations included.
- Log-probs are natural logarithms. π is the trained policy, π_old the denominator of the ratio: by default the policy that sampled.
- \`${RUBRIC_PREFIX}<name>\` is a metric of the environment's rubric: its mean over finished rollouts, in lines of steps and evaluations.
- \`${TASK_PREFIX}<task>\` is the mean reward of the finished rollouts of a task, in lines of steps and evaluations, where rows have tasks, as in a group of environments. If a source plays several roles, \`${TASK_PREFIX}<role>/<task>\`, or \`${TASK_PREFIX}<role>\` for rows without a task.
- \`${STOP_PREFIX}<condition>\` is the number of rollouts that ended in this way, failed ones included, in lines of steps and evaluations: the environment stopped (\`completed\`), its turns were used up (\`max_turns_reached\`), the window was full (\`prompt_too_long\`), ... A condition that ended none is absent. \`truncated\` is the share that a length limit cut short.
- \`${LOSS_PREFIX}<name>/<metric>\` is a metric of a loss other than the main one, such as \`${LOSS_PREFIX}sft/nll\` of supervised steps; \`${LOSS_PREFIX}<name>/loss\` is its share of \`loss\`. \`${LOSS_PREFIX}policy/<metric>\` is one of the main loss: the loss rpg has \`approx_kl/<role>\`, \`approx_kl_k1/<role>\`, \`ratio_mean/<role>\` and \`ratio_max/<role>\` there where rollouts have roles.
- \`${SOURCE_PREFIX}<name>\` is a metric of a source of trajectories that an environment or a module brings, and \`${CREDIT_PREFIX}<name>\` one of a credit.
- \`--tensorboard\` and \`--wandb PROJECT\` also write each metric for these viewers, as \`train/<metric>\`, \`eval/<metric>\` and \`validation/<metric>\` ([training-run.md](training-run.md#curves-plots-tensorboard-wandb)).
- A resumed run measures steps after its checkpoint again and drops their old lines first, so no step appears twice.
`;

/** The whole document. */
export function metricsDoc(): string {
  return [
    INTRODUCTION,
    '## Training steps',
    '',
    ...tableLines(STEP_METRICS),
    '',
    '## Evaluations',
    '',
    ...tableLines(EVALUATION_METRICS),
    '',
    '## Validations',
    '',
    ...tableLines(VALIDATION_METRICS),
    '',
  ].join('\n');
}

function tableLines(metrics: readonly MetricDefinition[]): string[] {
  return [
    '| metric | unit | definition |',
    '|---|---|---|',
    ...metrics.map(
      ({ name, unit, definition }) => `| \`${name}\` | ${unit === 'number' ? '' : unit} | ${definition.replaceAll('|', String.raw`\|`)} |`,
    ),
  ];
}

if (process.argv[1] === import.meta.filename) writeFileSync(join(import.meta.dirname, '../docs/metrics.md'), metricsDoc());
