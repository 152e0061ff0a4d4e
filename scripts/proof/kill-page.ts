/** Writes the page of `npm run prove:self-play-vllm`: self-play-vllm.md and self-play-vllm.json. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Kill, type KilledRun, STEPS } from './kill-proofs.ts';
import { announceVerdicts, provenance, type Verdict, verdictLines } from './training-proof.ts';

const NAME = 'self-play-vllm';
/** Of one token, between trainer and server. */
const LOG_PROB_DIFFERENCE = 1e-4;
const UPDATES_PER_STEP = 2;

/** Writes the page, prints the verdicts and sets the exit code. */
export function reportKills(runs: readonly KilledRun[], output: string): void {
  mkdirSync(output, { recursive: true });
  const { command, machine } = provenance('prove:self-play-vllm');
  const verdicts = runs.flatMap(judge);
  writeFileSync(join(output, `${NAME}.json`), `${JSON.stringify({ command, machine, node: process.versions.node, runs, verdicts }, null, 2)}\n`);
  writeFileSync(join(output, `${NAME}.md`), markdown(runs, verdicts, { command, machine }));
  announceVerdicts(verdicts);
}

function judge(run: KilledRun): Verdict[] {
  const { victim, steps, lost, repeated, rollouts, optimizerSteps, logProbDifference, adapter, replayedAdapter, hasSameNumbers } = run;
  const isWhole = steps.join() === Array.from({ length: STEPS }, (_, i) => i + 1).join() && optimizerSteps === STEPS * UPDATES_PER_STEP;
  const isSame = adapter === replayedAdapter && hasSameNumbers;
  return [
    {
      ok: isWhole,
      text: `${victim}: each of ${STEPS} steps is in the metrics once, with ${optimizerSteps} updates; must be ${STEPS * UPDATES_PER_STEP}`,
    },
    {
      ok: lost === 0 && repeated === 0,
      text: `${victim}: of ${rollouts} rollouts, ${repeated} were sampled again after they had finished, and ${lost} recorded lines are lost; both must be 0`,
    },
    {
      ok: logProbDifference <= LOG_PROB_DIFFERENCE,
      text: `${victim}: largest |Δ log-prob| of a token, trainer to server, ${logProbDifference.toExponential(1)}; at most ${LOG_PROB_DIFFERENCE}`,
    },
    {
      ok: isSame,
      text: `${victim}: adapter ${adapter.slice(0, 12)}, and ${replayedAdapter.slice(0, 12)} of a run that trained on the same rollouts in one go; must be equal, and so must loss, norm of the gradient, ratios and rewards of every step`,
    },
  ];
}

function markdown(
  runs: readonly KilledRun[],
  verdicts: readonly Verdict[],
  { command, machine }: { readonly command: string; readonly machine: string },
): string {
  const kills = runs.flatMap(({ kills: each }) =>
    each.map(
      ({ victim, phase, step, recorded, events, seconds }) =>
        `| ${victim} | ${phase} | ${step} | ${recorded} | ${eventsText(events)} | ${seconds.toFixed(0)} |`,
    ),
  );
  const roles = runs.map(({ victim, kl, logProbDifference }) => {
    const cells = Object.values(kl).map((value) => value?.toExponential(1) ?? '–');
    return `| ${[victim, ...cells, logProbDifference.toExponential(1)].join(' | ')} |`;
  });
  return [
    '# Self-play through a real vLLM and PyTorch, killed in every phase',
    '',
    `Written by \`${command}\` on ${machine}: \`npx vf-train self-play-code --preset crsp\` with \`models/nano-coder\`, which proposes programs, solves them and grades the`,
    'thinking; vLLM samples, the PyTorch worker trains. In each run one process is killed with SIGKILL once in every phase of a step,',
    `in steps 2 to ${STEPS - 1} of ${STEPS}. A run whose trainer was`,
    'killed is continued with `-R`; a run whose worker or vLLM was killed goes on by itself.',
    '',
    '| killed | in phase | step | rollouts of the step on file | events until the step was done | seconds |',
    '|---|---|---|---|---|---|',
    ...kills,
    '',
    '`update` is forward, backward and the two optimiser steps. `step_repeated` samples the rollouts again that failed with the server, and only those. vLLM samples at random, so an undisturbed run is one that trains on the same rollouts: it takes the files of a killed run and',
    'trains from the first step to the last in one go.',
    '',
    '## KL by role',
    '',
    'Largest of a step, in nats, between the policy that sampled and the one in each of two updates; and the largest difference of a log-prob between trainer and server.',
    '',
    '| killed | propose | solve | critic | Δ log-prob |',
    '|---|---|---|---|---|',
    ...roles,
    '',
    '## Verdicts',
    '',
    ...verdictLines(verdicts),
    '',
  ].join('\n');
}

/** In short: `backend_lost, resumed from step 4`. */
function eventsText(events: Kill['events']): string {
  const short = events.map(({ kind, message }) => (kind === 'resumed' ? `resumed from step ${/step (\d+)/.exec(message)?.[1] ?? '0'}` : kind));
  return short.length === 0 ? 'none' : [...new Set(short)].join(', ');
}
