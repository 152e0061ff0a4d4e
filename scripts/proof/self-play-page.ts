/** Writes the page of `npm run prove:self-play`: self-play.md, self-play.json and self-play.svg. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compareRuns } from '../../src/reports/plot/training-plots.ts';
import { stepsOf } from './judge-seeds.ts';
import { ACCURACY, BARS, ends, executionShare, isControl, type SelfPlayRun } from './self-play-proofs.ts';
import { announceVerdicts, provenance, type Verdict, verdictLines, worst } from './training-proof.ts';

const NAME = 'self-play';

/** Writes the page, prints the verdicts and sets the exit code. */
export function reportSelfPlay({
  output,
  runs,
  verdicts,
}: {
  readonly output: string;
  readonly runs: readonly SelfPlayRun[];
  readonly verdicts: readonly Verdict[];
}): void {
  mkdirSync(output, { recursive: true });
  const about = provenance('prove:self-play');
  const shown = runs.map(({ label, rows, kind }) => ({ label, rows, control: isControl(kind) }));
  writeFileSync(
    join(output, `${NAME}.svg`),
    compareRuns(shown, { heading: 'Self-play over programs, Node alone', goals: [{ value: BARS.aim, label: 'aim' }] }),
  );
  const record = { ...about, node: process.versions.node, runs: runs.map(recordOf), verdicts };
  writeFileSync(join(output, `${NAME}.json`), `${JSON.stringify(record, null, 2)}\n`);
  writeFileSync(join(output, `${NAME}.md`), markdown(runs, verdicts, about));
  announceVerdicts(verdicts);
}

const PROPOSER = ['valid', 'statements', 'distinct', 'repeated', 'learnability', 'own_accuracy'] as const;

function evaluations({
  rows,
}: SelfPlayRun): { readonly step: number; readonly accuracy: number; readonly kinds: Readonly<Record<string, number>> }[] {
  return rows.flatMap(({ kind, step, values }) => {
    if (kind !== 'evaluation') return [];
    const kinds = Object.entries(values).filter(
      (entry): entry is [string, number] => /^reward\/.*code_/.test(entry[0]) && typeof entry[1] === 'number',
    );
    return [{ step, accuracy: values[ACCURACY] ?? NaN, kinds: Object.fromEntries(kinds) }];
  });
}

function recordOf(run: SelfPlayRun): object {
  const { label, kind, seconds, cpuSeconds, peakMemoryBytes, rows } = run;
  const steps = rows.filter((row) => row.kind === 'step');
  return {
    label,
    kind,
    seconds: Number(seconds.toFixed(1)),
    cpu_seconds: cpuSeconds,
    peak_memory_bytes: peakMemoryBytes,
    steps: stepsOf(run),
    held_out: evaluations(run),
    proposer: Object.fromEntries(PROPOSER.map((name) => [name, steps.map(({ values }) => values[`source/${name}`] ?? null)])),
    sampled_tokens: sampledTokens(run),
    execution_share: executionShare(run),
    log_prob_difference_max: worst(rows, 'log_prob_difference_max'),
  };
}

function sampledTokens({ rows }: SelfPlayRun): number {
  return rows.reduce((sum, { kind, values }) => sum + (kind === 'step' ? (values['sampled_tokens'] ?? 0) : 0), 0);
}

function markdown(runs: readonly SelfPlayRun[], verdicts: readonly Verdict[], { command, machine }: ReturnType<typeof provenance>): string {
  const at = [...new Set(runs.flatMap((run) => evaluations(run).map(({ step }) => step)))].toSorted((a, b) => a - b);
  const heads = ['run', ...at.map(String), 'tokens sampled', 'seconds', 'CPU seconds', 'MB'];
  const table = runs.map((run) => {
    const byStep = new Map(evaluations(run).map(({ step, accuracy }) => [step, accuracy.toFixed(3)]));
    const figures = [
      `${Math.round(sampledTokens(run) / 1000)}k`,
      run.seconds.toFixed(0),
      run.cpuSeconds?.toFixed(0) ?? '',
      Math.round((run.peakMemoryBytes ?? NaN) / 1e6),
    ];
    return `| ${[run.label, ...at.map((step) => byStep.get(step) ?? ''), ...figures].join(' | ')} |`;
  });
  const proposer = runs.map((run) => {
    const cells = PROPOSER.map((name) =>
      ends(run.rows, `source/${name}`)
        .map((value) => (Number.isNaN(value) ? '–' : value.toFixed(2)))
        .join(' → '),
    );
    return `| ${[run.label, ...cells].join(' | ')} |`;
  });
  return [
    '# One policy invents programs and solves them, on a laptop',
    '',
    `Written by \`${command}\` on ${machine}: \`npx vf-train self-play-code --preset laptop\` with Node alone, no Python, no GPU, no server. Held-out accuracy is that of 600 programs that`,
    'no run was trained on, two draws each at temperature 1. Seconds are those of the whole command without the startup of npx.',
    '',
    `![Held-out accuracy by step](${NAME}.svg)`,
    '',
    '## Held-out accuracy by step',
    '',
    `| ${heads.join(' | ')} |`,
    `|${heads.map(() => '---|').join('')}`,
    ...table,
    '',
    '## What the proposer does',
    '',
    'Means of the first three steps → of the last ten. Of given programs, all are valid.',
    '',
    `| run | ${PROPOSER.join(' | ')} |`,
    `|---|${PROPOSER.map(() => '---|').join('')}`,
    ...proposer,
    '',
    '- *negated*: advantages with the other sign.',
    '- *frozen*: the proposals of the base in place of those of the policy, sampled before. The solver learns as in the long run.',
    '- *grammar*: programs drawn from the grammar of mini-python (two to five statements, for code_f two or three) in place of proposals; the table has the tokens that were sampled.',
    '',
    '## Verdicts',
    '',
    ...verdictLines(verdicts),
    '',
  ].join('\n');
}
