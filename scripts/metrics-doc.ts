/**
 * Writes docs/metrics.md from src/trainer/metrics.ts: `node --conditions=source scripts/metrics-doc.ts`. A test compares the result with the committed
 * file.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { EVALUATION_METRICS, type MetricDefinition, RUBRIC_PREFIX, STEP_METRICS } from '../src/trainer/metrics.ts';

const INTRODUCTION = `# Metrics of a training run

<!-- Written by scripts/metrics-doc.ts from src/trainer/metrics.ts. Do not edit. -->

\`metrics.jsonl\` in a run's folder holds one JSON object per line: one per training step (\`"kind": "step"\`) and one per evaluation (\`"kind": "evaluation"\`).
\`step\` is the number of steps done at the time, so the evaluation at step 0 is the one before training. \`time\` is when the line was written. All other
keys are metrics of the tables below.

- A metric is null or absent, never 0, if it was not measured or was not a finite number.
- Failed rollouts have no reward and are excluded from means; \`rollouts_failed\` counts them.
- A token is **sampled** if the policy wrote it, **trained** if it has a loss, and **forwarded** if it is part of a trained sequence, like prompts and observations.
- Log-probs are natural logarithms. π is the policy being trained, π_old the one that sampled.
- \`${RUBRIC_PREFIX}<name>\` is a metric of the environment's rubric, averaged over finished rollouts, in lines of both kinds.
- A resumed run repeats the steps after its checkpoint. It drops their old lines first, so each step appears once.
`;

/** The whole document. */
export function metricsDoc(): string {
  return [INTRODUCTION, '## Steps', '', ...tableLines(STEP_METRICS), '', '## Evaluations', '', ...tableLines(EVALUATION_METRICS), ''].join('\n');
}

function tableLines(metrics: readonly MetricDefinition[]): string[] {
  return [
    '| metric | unit | what it is |',
    '|---|---|---|',
    ...metrics.map(
      ({ name, unit, definition }) => `| \`${name}\` | ${unit === 'number' ? '' : unit} | ${definition.replaceAll('|', String.raw`\|`)} |`,
    ),
  ];
}

if (process.argv[1] === import.meta.filename) writeFileSync(join(import.meta.dirname, '../docs/metrics.md'), metricsDoc());
