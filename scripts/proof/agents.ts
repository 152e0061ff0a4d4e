/** Agents that somebody already has learn with Node alone, unmodified: each over the API that it speaks, in worlds with names that no model has seen. */
import { createHash } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readRegularBytesSync } from '../../src/files/regular-file.ts';
import { AGENT_PROOFS, type AgentProof, PRESET, SAME } from './agent-proofs.ts';
import { rewardGoals } from './learning-page.ts';
import { type PartsPage, type ProofPart, writePart } from './parts-page.ts';
import type { Proof, ProofOptions } from './proof-options.ts';
import { tableLines, type Verdict } from './results-page.ts';
import { beforeAndAfter, judgeEqual, runRecord, stepsOf } from './run-figures.ts';
import { startSeconds } from './start-seconds.ts';
import { writeStrangeWorld } from './strange-world.ts';
import { type ProvenRun, setFlags, trainOnce } from './train-once.ts';

const METRIC = 'rubric/exactMatch';
const metricOf = ({ metric = METRIC }: AgentProof) => metric;
/** A policy that always fails gives groups without differences: steps without an update, which would stop the run before its last evaluation. */
const NEGATED = ['algorithm.negate_advantages=true', 'guards.max_skipped_steps=1000'];

const PAGE: PartsPage = {
  name: 'agents',
  title: 'Agents learn as they are',
  intro: [
    `Every run is \`npx vf-train AGENT --preset ${PRESET}\` with Node alone, from \`nano-copy\`. The agents are those of \`scripts/proof/agents\`, written as the documentation of their packages has them, and ask the`,
    'policy as they would ask any other model. Right answers are the share of sampled rollouts on held-out questions whose answer is exact, before the first step and after the last. Every seed has a world of its',
    'own, of names that pre-training cannot contain. Branches are the largest mean of a step. Seconds are those of the whole command; CPU seconds are those of its process, without those that it starts.',
  ],
  heading: 'nano-copy behind unmodified agents, GRPO with LoRA in Node alone',
  parts: [...AGENT_PROOFS.map(({ name }) => name), SAME.name],
};

export const AGENTS: Proof = {
  about: 'agents of the AI SDK, the OpenAI Agents SDK and LangGraph, and a Python script learn as they are, with Node alone',
  flags: ['quick', 'only', 'seeds', 'output', 'runs', 'set', 'strict-time', 'python'],
  parts: PAGE.parts,
  keepsParts: true,
  prove: proveAgents,
};

interface AgentRun extends ProvenRun {
  readonly proof: AgentProof;
  /** Only shown: no bar applies. */
  readonly isVariant: boolean;
  /** Seconds in which the run started its agents' processes; 0 for agents without a process. */
  readonly starting: number;
}

async function proveAgents(options: ProofOptions): Promise<readonly Verdict[]> {
  const verdicts: Verdict[] = [];
  const isChosen = (name: string) => options.only?.includes(name) ?? true;
  for (const proof of AGENT_PROOFS.filter(({ name }) => isChosen(name)))
    verdicts.push(...writePart(options, PAGE, proof.name, await proveAgent(proof, options)));
  if (isChosen(SAME.name)) verdicts.push(...writePart(options, PAGE, SAME.name, await proveSame(options)));
  return verdicts;
}

async function proveAgent(proof: AgentProof, options: ProofOptions): Promise<ProofPart> {
  const { quick, seeds } = options;
  process.stdout.write(`\n== ${proof.name}\n`);
  const runs: AgentRun[] = [];
  for (const seed of seeds) runs.push(await play(proof, { label: `seed ${seed}`, seed }, options));
  const seed = seeds[0]!;
  const repeated =
    proof.repeats === true
      ? [judgeSame(`seed ${seed} and its repeat`, runs[0]!, await play(proof, { label: `seed ${seed} again`, seed }, options))]
      : [];
  if (!quick) {
    runs.push(await play(proof, { label: 'negated advantages', seed, isControl: true, settings: NEGATED }, options));
    for (const { label, settings } of proof.variants ?? []) runs.push(await play(proof, { label, seed, isVariant: true, settings }, options));
  }
  return {
    title: proof.name,
    lines: agentLines(proof, runs),
    chart: { title: `${proof.name}: mean reward, held-out rows (faint: training batches)`, goals: rewardGoals(proof) },
    runs,
    records: runs.map((run) => ({ ...runRecord(run, [metricOf(proof)]), starting_seconds: Number(run.starting.toFixed(1)) })),
    verdicts: [...runs.flatMap((run) => judge(run, options)), ...repeated],
  };
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
  const steps = options.quick ? [`steps=${proof.quickSteps}`, 'evaluation.examples=60'] : [];
  const run = await train(proof.environment, { label, seed, isControl, settings: [...(proof.settings ?? []), ...steps, ...settings] }, options);
  const starting = proof.process === undefined ? 0 : rolloutsOf(run) * (await startSeconds(proof.process(options)));
  return { ...run, proof, isVariant, starting };
}

function rolloutsOf({ rows }: ProvenRun): number {
  return rows.reduce((sum, { values }) => sum + (values['rollouts'] ?? 0) + (values['rollouts_failed'] ?? 0), 0);
}

async function train(
  environment: AgentProof['environment'],
  { label, seed, isControl = false, settings = [] }: Played,
  options: ProofOptions,
): Promise<ProvenRun> {
  const world = mkdtempSync(join(tmpdir(), 'vf-strange-'));
  writeStrangeWorld(world, { seed, hops: 1 });
  const named = [...environment(world, options), '--preset', PRESET, '--seed', String(seed)];
  const args = [...named, '-o', options.runs, ...setFlags([...settings, ...options.settings])];
  return trainOnce({ label, isControl, args, nodeFlags: [] });
}

function judge(run: AgentRun, { quick, isStrict }: ProofOptions): Verdict[] {
  const { label, proof, isControl, isVariant, seconds, starting } = run;
  const [before, after] = beforeAndAfter(run, metricOf(proof));
  const moved = `${label}: right answers on held-out questions ${before.toFixed(3)} → ${after.toFixed(3)}`;
  if (isVariant) return [{ ok: true, text: `${moved}; shown for comparison` }, judgeEqual(run)];
  if (isControl) return [{ ok: after <= before, text: `${moved}; must not rise` }, judgeEqual(run)];
  const end = quick ? proof.quickEnd : proof.end;
  const learned = (least: number) => ({
    ok: before <= proof.start && after >= least,
    text: `${moved}; from at most ${proof.start} to at least ${least}`,
  });
  const apart = starting === 0 ? '' : `, without ${starting.toFixed(1)} s in which its processes started`;
  const own = seconds - starting;
  const time = { ok: own <= proof.seconds, text: `${label}: ${own.toFixed(1)} s from command to result${apart}; at most ${proof.seconds} s` };
  return [...(end === undefined ? [] : [learned(end)]), judgeBranches(run), ...(isStrict ? [time] : []), judgeEqual(run)];
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

async function proveSame(options: ProofOptions): Promise<ProofPart> {
  process.stdout.write(`\n== ${SAME.name}\n`);
  const steps = options.quick ? SAME.quickSteps : SAME.steps;
  const verdicts: Verdict[] = [];
  for (const seed of options.seeds) {
    const runs: ProvenRun[] = [];
    for (const form of ['tools', 'agent']) {
      const settings = [`environment.args.as="${form}"`, `steps=${steps}`, 'evaluation.every=0'];
      runs.push(await train(SAME.environment, { label: `as ${form}, seed ${seed}`, seed, settings }, options));
    }
    verdicts.push(judgeSame(`a ToolEnv and the same loop as an agent over HTTP, seed ${seed}, ${steps} steps`, runs[0]!, runs[1]!));
  }
  return {
    title: SAME.name,
    lines: ['A loop of tools as a `ToolEnv`, and the same loop as an agent that asks the policy over HTTP with the package `openai`.'],
    chart: null,
    runs: [],
    records: [],
    verdicts,
  };
}

function agentLines({ about, process: started, metric = METRIC }: AgentProof, runs: readonly AgentRun[]): string[] {
  const heads = ['run', 'right answers', 'branches', 'steps', 'seconds', 'CPU seconds'];
  const cells = (run: AgentRun) => [
    run.label,
    beforeAndAfter(run, metric)
      .map((value) => value.toFixed(3))
      .join(' → '),
    branchesOf(run).toFixed(2),
    stepsOf(run),
    run.seconds.toFixed(0),
    run.cpuSeconds?.toFixed(0) ?? 'not measured',
    ...(started === undefined ? [] : [run.starting.toFixed(0)]),
  ];
  return [
    `${about.charAt(0).toUpperCase()}${about.slice(1)}.`,
    '',
    ...tableLines([...heads, ...(started === undefined ? [] : ['of them to start processes'])], runs.map(cells)),
  ];
}
