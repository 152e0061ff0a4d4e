/** Agents that somebody already has learn with Node alone, unmodified: each over the API that it speaks, in worlds with names that no model has seen. */
import { createHash } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readRegularBytesSync } from '../../src/files/regular-file.ts';
import { compareGroups } from '../../src/reports/plot/training-plots.ts';
import { AGENT_PROOFS, agentArguments, type AgentProof, PRESET, SAME } from './agent-proofs.ts';
import { rewardGoals } from './learning-page.ts';
import type { Proof, ProofOptions } from './proof-options.ts';
import { tableLines, type Verdict, writePage } from './results-page.ts';
import { beforeAndAfter, judgeEqual, runRecord, stepsOf } from './run-figures.ts';
import { writeStrangeWorld } from './strange-world.ts';
import { type ProvenRun, setFlags, trainOnce } from './train-once.ts';

const METRIC = 'rubric/exactMatch';
/** A policy that always fails gives groups without differences: steps without an update, which would stop the run before its last evaluation. */
const NEGATED = ['algorithm.negate_advantages=true', 'guards.max_skipped_steps=1000'];

interface AgentRun extends ProvenRun {
  readonly proof: AgentProof;
  /** Only shown: no bar applies. */
  readonly isVariant: boolean;
}

export const AGENTS: Proof = {
  about: 'agents of the AI SDK, the OpenAI Agents SDK and LangGraph learn as they are, with Node alone',
  flags: ['quick', 'only', 'seeds', 'output', 'runs', 'set', 'strict-time'],
  parts: [...AGENT_PROOFS.map(({ name }) => name), SAME.name],
  prove: proveAgents,
};

async function proveAgents(options: ProofOptions): Promise<readonly Verdict[]> {
  const { quick, only, seeds } = options;
  const isChosen = ({ name }: { readonly name: string }) => only?.includes(name) ?? true;
  const runs: AgentRun[] = [];
  const verdicts: Verdict[] = [];
  for (const proof of AGENT_PROOFS.filter(isChosen)) {
    for (const seed of seeds) {
      runs.push(await play(proof, { label: `seed ${seed}`, seed }, options));
      if (seed === seeds[0] && proof.repeats === true)
        verdicts.push(
          judgeSame(`${proof.name}, seed ${seed} and its repeat`, runs.at(-1)!, await play(proof, { label: `seed ${seed} again`, seed }, options)),
        );
    }
    if (quick) continue;
    for (const seed of seeds)
      runs.push(await play(proof, { label: `negated advantages, seed ${seed}`, seed, isControl: true, settings: NEGATED }, options));
    for (const { label, settings } of proof.variants ?? [])
      runs.push(await play(proof, { label, seed: seeds[0]!, isVariant: true, settings }, options));
  }
  verdicts.unshift(...runs.flatMap((run) => judge(run, options)));
  if (isChosen(SAME)) for (const seed of seeds) verdicts.push(await judgeBothForms(seed, options));
  return writeAgentsPage(runs, verdicts, options);
}

interface Played {
  readonly label: string;
  readonly seed: number;
  readonly isControl?: boolean;
  readonly isVariant?: boolean;
  readonly settings?: readonly string[];
}

async function play(
  proof: AgentProof,
  { label, seed, isControl = false, isVariant = false, settings = [] }: Played,
  options: ProofOptions,
): Promise<AgentRun> {
  const steps = options.quick ? [`steps=${proof.quickSteps}`] : [];
  const run = await train(proof.module, { label: `${proof.name}, ${label}`, seed, isControl, settings: [...steps, ...settings] }, options);
  return { ...run, proof, isVariant };
}

async function train(
  module: string,
  { label, seed, isControl = false, settings = [] }: Played,
  { runs, settings: further }: ProofOptions,
): Promise<ProvenRun> {
  const world = mkdtempSync(join(tmpdir(), 'vf-strange-'));
  writeStrangeWorld(world, { seed, hops: 1 });
  const args = [...agentArguments(module, world), '--seed', String(seed), '-o', runs, ...setFlags([...settings, ...further])];
  return trainOnce({ label, isControl, args, nodeFlags: [] });
}

function judge(run: AgentRun, { quick, isStrict }: ProofOptions): Verdict[] {
  const { label, proof, isControl, isVariant, seconds } = run;
  const [before, after] = beforeAndAfter(run, METRIC);
  const moved = `${label}: right answers on held-out questions ${before.toFixed(3)} → ${after.toFixed(3)}`;
  if (isVariant) return [{ ok: true, text: `${moved}; shown for comparison` }, judgeEqual(run)];
  if (isControl) return [{ ok: after <= before, text: `${moved}; must not rise` }, judgeEqual(run)];
  const end = quick ? proof.quickEnd : proof.end;
  const time = { ok: seconds <= proof.seconds, text: `${label}: ${seconds.toFixed(1)} s from command to result; at most ${proof.seconds} s` };
  return [
    { ok: before <= proof.start && after >= end, text: `${moved}; from at most ${proof.start} to at least ${end}` },
    judgeBranches(run),
    ...(isStrict ? [time] : []),
    judgeEqual(run),
  ];
}

/** Branches of the rollouts that were trained. */
function branchesOf({ rows }: ProvenRun): number {
  return Math.max(1, ...rows.flatMap(({ kind, values }) => (kind === 'step' ? (values['branches_mean'] ?? []) : [])));
}

function judgeBranches(run: AgentRun): Verdict {
  const branches = branchesOf(run);
  const isRight = run.proof.branches === 'one' ? branches === 1 : branches > 1;
  const wanted = run.proof.branches === 'one' ? 'one, because nothing may fork' : 'more than one';
  return { ok: isRight, text: `${run.label}: at most ${branches.toFixed(2)} branches per rollout in the mean of a step; must be ${wanted}` };
}

function digest({ adapter }: ProvenRun): string {
  return createHash('sha256')
    .update(readRegularBytesSync(join(adapter!, 'adapter_model.safetensors')))
    .digest('hex')
    .slice(0, 16);
}

function judgeSame(text: string, a: ProvenRun, b: ProvenRun): Verdict {
  const [one, other] = [digest(a), digest(b)];
  return { ok: one === other, text: `${text}: adapters ${one} and ${other}; must be equal to the bit` };
}

async function judgeBothForms(seed: number, options: ProofOptions): Promise<Verdict> {
  const runs: ProvenRun[] = [];
  for (const form of ['tools', 'agent']) {
    const settings = [`environment.args.as="${form}"`, `steps=${SAME.steps}`, 'evaluation.every=0'];
    runs.push(await train(SAME.module, { label: `${SAME.name}, as ${form}, seed ${seed}`, seed, settings }, options));
  }
  return judgeSame(`a ToolEnv and the same loop as an agent over HTTP, seed ${seed}, ${SAME.steps} steps`, runs[0]!, runs[1]!);
}

function writeAgentsPage(runs: readonly AgentRun[], verdicts: readonly Verdict[], options: ProofOptions): readonly Verdict[] {
  const groups = [...Map.groupBy(runs, ({ proof }) => proof)];
  const ownLabel = ({ label, proof }: AgentRun) => label.replace(`${proof.name}, `, '');
  const cells = (run: AgentRun) => {
    const moved = beforeAndAfter(run, METRIC).map((value) => value.toFixed(3));
    return [
      ownLabel(run),
      moved.join(' → '),
      branchesOf(run).toFixed(2),
      stepsOf(run),
      run.seconds.toFixed(0),
      run.cpuSeconds?.toFixed(0) ?? 'not measured',
    ];
  };
  const plotted = groups.map(([proof, own]) => ({
    title: `${proof.name}: mean reward, held-out rows (faint: training batches)`,
    runs: own.map((run) => ({ label: ownLabel(run), rows: run.rows, control: run.isControl })),
    goals: rewardGoals(proof),
  }));
  return writePage(options, {
    name: 'agents',
    title: 'Agents learn as they are',
    intro: [
      `Every run is \`npx vf-train AGENT --preset ${PRESET}\` with Node alone, from \`nano-copy\`. The agents are those of \`scripts/proof/agents\`, written as the documentation of their packages has them, and ask the`,
      'policy as they would ask any other model. Right answers are the share of sampled rollouts on held-out questions whose answer is exact, before the first step and after the last. Every seed has a world of its',
      'own, of names that pre-training cannot contain. Branches are the largest mean of a step. Seconds are those of the whole command, on a machine that may be busy with other work.',
    ],
    plot:
      plotted.length === 0
        ? null
        : {
            svg: compareGroups(plotted, { heading: 'nano-copy behind unmodified agents, GRPO with LoRA in Node alone' }),
            alt: 'Held-out reward by step',
          },
    body: groups.flatMap(([{ name, about }, own], i) => [
      ...(i === 0 ? [] : ['']),
      `## ${name}`,
      '',
      `${about.charAt(0).toUpperCase()}${about.slice(1)}.`,
      '',
      ...tableLines(['run', 'right answers', 'branches', 'steps', 'seconds', 'CPU seconds'], own.map(cells)),
    ]),
    figures: { runs: runs.map((run) => runRecord(run, [METRIC])) },
    verdicts,
  });
}
