/** Judges the runs of `npm run prove:copy` and writes its page: copy.md, copy.json and copy.svg. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compareGroups } from '../../src/reports/plot/training-plots.ts';
import { type CopyProof, PRESET, SECONDS } from './copy-proofs.ts';
import { beforeAndAfter, stepsOf } from './judge-seeds.ts';
import { announceVerdicts, type ProvenRun, provenance, type Verdict, verdictLines, worst } from './training-proof.ts';

const NAME = 'copy';

export interface CopyRun extends ProvenRun {
  readonly proof: CopyProof;
}

/** `quick`: few steps on a machine that may be busy; `isStrict`: the time counts. */
export function judgeCopyRun(run: CopyRun, { quick, isStrict }: { readonly quick: boolean; readonly isStrict: boolean }): Verdict[] {
  const { label, proof, isControl, seconds } = run;
  const [before, after] = beforeAndAfter(run, proof.metric);
  const moved = `${label}: right answers on held-out questions ${before.toFixed(3)} → ${after.toFixed(3)}`;
  const difference = worst(run.rows, 'log_prob_difference_max');
  const equal = { ok: difference === 0, text: `${label}: largest |Δ log-prob| of a token, trainer to sampler, ${difference}; must be 0` };
  if (isControl) return [{ ok: after <= before, text: `${moved}; must not rise` }, equal];
  const end = quick ? proof.quickEnd : proof.end;
  const time = { ok: seconds <= SECONDS, text: `${label}: ${seconds.toFixed(1)} s from command to result; at most ${SECONDS} s` };
  return [
    { ok: before <= proof.start && after >= end, text: `${moved}; from at most ${proof.start} to at least ${end}` },
    ...(isStrict ? [time] : []),
    equal,
  ];
}

/** Writes the page, prints the verdicts and sets the exit code. */
export function reportCopy({
  output,
  runs,
  verdicts,
}: {
  readonly output: string;
  readonly runs: readonly CopyRun[];
  readonly verdicts: readonly Verdict[];
}): void {
  mkdirSync(output, { recursive: true });
  const about = provenance('prove:copy');
  const groups = [...Map.groupBy(runs, ({ proof }) => proof)];
  const plotted = groups.map(([proof, own]) => ({
    title: `${proof.name}: mean reward, held-out rows (faint: training batches)`,
    runs: own.map((run) => ({ label: run.label.replace(`${proof.name}, `, ''), rows: run.rows, control: run.isControl })),
    goals: [
      { value: proof.end, label: 'goal' },
      { value: proof.start, label: 'start at most' },
    ],
  }));
  writeFileSync(
    join(output, `${NAME}.svg`),
    compareGroups(plotted, { heading: 'nano-copy in environments that it has never seen, GRPO with LoRA in Node alone' }),
  );
  const record = { ...about, node: process.versions.node, runs: runs.map(copyRecord), verdicts };
  writeFileSync(join(output, `${NAME}.json`), `${JSON.stringify(record, null, 2)}\n`);
  writeFileSync(join(output, `${NAME}.md`), markdown(groups, verdicts, about));
  announceVerdicts(verdicts);
}

function copyRecord(run: CopyRun): object {
  const { label, seconds, cpuSeconds, peakMemoryBytes, proof } = run;
  const [before, after] = beforeAndAfter(run, proof.metric);
  return {
    label,
    before,
    after,
    steps: stepsOf(run),
    seconds: Number(seconds.toFixed(1)),
    cpu_seconds: cpuSeconds,
    peak_memory_bytes: peakMemoryBytes,
  };
}

function markdown(
  groups: readonly (readonly [CopyProof, readonly CopyRun[]])[],
  verdicts: readonly Verdict[],
  about: ReturnType<typeof provenance>,
): string {
  return [
    '# A laptop model learns in environments that it has never seen',
    '',
    `Written by \`${about.command}\` on ${about.machine}: \`npx vf-train ENVIRONMENT --preset ${PRESET}\` with Node alone, from \`models/nano-copy\`. Right answers are the share of sampled rollouts on held-out`,
    'questions whose answer is exact, before the first step and after the last. Every seed of the first two environments has a world of its own, of names that pre-training cannot contain',
    '(`scripts/proof/strange-world.ts`). Seconds are those of the whole command, on a machine that may be busy with other work; CPU seconds are those of all its threads.',
    '',
    `![Held-out reward by step](${NAME}.svg)`,
    ...groups.flatMap(([proof, own]) => [
      '',
      `## ${proof.name}`,
      '',
      `${proof.about.charAt(0).toUpperCase()}${proof.about.slice(1)}.`,
      '',
      '| run | right answers | steps | seconds | CPU seconds |',
      '|---|---|---|---|---|',
      ...own.map((run) => {
        const moved = beforeAndAfter(run, proof.metric).map((value) => value.toFixed(3));
        const cells = [
          run.label.replace(`${proof.name}, `, ''),
          moved.join(' → '),
          stepsOf(run),
          run.seconds.toFixed(0),
          run.cpuSeconds?.toFixed(0) ?? 'not measured',
        ];
        return `| ${cells.join(' | ')} |`;
      }),
    ]),
    '',
    '## Verdicts',
    '',
    ...verdictLines(verdicts),
    '',
  ].join('\n');
}
